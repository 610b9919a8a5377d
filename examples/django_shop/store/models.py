"""Orders, and what each customer spent: the read model."""

from django.db import models


class Order(models.Model):
    """What was ordered."""

    customer = models.TextField()
    total = models.DecimalField(max_digits=12, decimal_places=2)


class Total(models.Model):
    """How much a customer ordered, counted by the consumer `totals`."""

    customer = models.TextField(primary_key=True)
    orders = models.IntegerField(default=0)
    spent = models.DecimalField(max_digits=12, decimal_places=2, default=0)
