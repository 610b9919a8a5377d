"""Send webhooks: for each customer in order, by as many processes as you like.

Run it: pgqpy consumer run sender:Sender --workers 4

client.insert(Webhook(…)) inserts one, in your transaction. It is posted until the customer's server
answers with 2xx, ten times at most, and the customer's later ones wait. After a crash it is posted
again: receivers leave out a Webhook-Id that they have seen.
"""

import json
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pydantic import HttpUrl

import pgqpy
from pgqpy.consumers import Consumer, Retry, on


class NoRedirects(HTTPRedirectHandler):
    """Follows none: a POST would go on as a GET."""

    def redirect_request(self, *_: Any) -> None:
        """Make it an HTTPError."""


OPENER = build_opener(NoRedirects)


class Webhook(pgqpy.TypedEvent, queue="webhooks", type="webhook", key="customer"):
    """What a customer is told."""

    customer: str
    url: HttpUrl
    body: dict[str, Any]


class Sender(Consumer, queue="webhooks", name="sender", concurrency=8):
    """Posts webhooks; those that a customer refuses (3xx, 4xx) are dead events."""

    key = "extra1"  # the customer
    on_error = "park"  # the customer's later webhooks wait for a retry
    give_up = (HTTPError,)

    @on(Webhook)
    def send(self, event: pgqpy.Event, webhook: Webhook) -> None:
        """Post one webhook."""
        headers = {"Content-Type": "application/json", "Webhook-Id": str(event.id)}
        request = Request(str(webhook.url), json.dumps(webhook.body).encode(), headers)  # noqa: S310  # HttpUrl
        try:
            OPENER.open(request, timeout=10).close()  # seconds
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
                if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
            raise Retry(2 ** (event.retry or 0), str(error), max_attempts=10) from error
