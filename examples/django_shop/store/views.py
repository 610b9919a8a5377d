"""An order is placed, and its event emitted, in one transaction."""

from django.http import JsonResponse

from pgqpy.django import emit
from store.models import Order, Total


def place(request):
    order = Order.objects.create(customer=request.POST["customer"], total=request.POST["total"])
    emit("orders", "placed", {"order": order, "total": order.total}, key=order.customer)
    return JsonResponse({"order": order.pk}, status=201)


def totals(_request):
    return JsonResponse({"totals": list(Total.objects.order_by("customer").values())})
