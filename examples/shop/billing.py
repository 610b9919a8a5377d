"""A consumer that bills orders. An event whose handler raises is delivered again later."""

from pgqpy import Event
from pgqpy.consumers import Consumer, Retry


class Billing(Consumer):
    """Run it: pgqpy consumer run billing:Billing."""

    queue = "orders"
    name = "billing"

    def process_event(self, event: Event) -> None:
        """Bill one order."""
        order = event.json()
        if order["customer"] == "bob" and not event.retry:
            raise Retry(after=0.5, reason="bob's bank does not answer")
        print(f"{order['customer']} pays {order['total']} for order {order['order']}", flush=True)
