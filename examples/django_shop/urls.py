"""Routes."""

from django.urls import path
from store import views

urlpatterns = [path("orders", views.place), path("totals", views.totals)]
