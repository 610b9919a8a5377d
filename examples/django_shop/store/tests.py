from django.test import TestCase

from pgqpy.django.testing import EventTestMixin


class PlaceTest(EventTestMixin, TestCase):
    def test_an_order_emits_an_event(self):
        self.client.post("/orders", {"customer": "ann", "total": "12.50"})
        (event,) = self.assertEmits("orders", "placed")
        self.assertEqual(event.json()["total"], "12.50")
