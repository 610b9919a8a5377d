"""Keeps the read model: each order is counted exactly once."""

from decimal import Decimal

from django.db.models import F

from pgqpy.django import Consumer
from store.models import Total


class Totals(Consumer):
    queue = "orders"
    name = "totals"

    def process_event(self, event):
        total, _ = Total.objects.get_or_create(customer=event.extra1)
        total.orders, total.spent = F("orders") + 1, F("spent") + Decimal(event.json()["total"])
        total.save()
