"""What the shop promises; a ticker runs."""

import time
from collections.abc import Iterator

import pytest
from app import app
from fastapi.testclient import TestClient


@pytest.fixture(scope="module")
def shop() -> Iterator[TestClient]:
    """Return the application, with its consumer."""
    with TestClient(app) as client:
        yield client


def test_an_order_is_counted_once(shop: TestClient) -> None:
    for total in ("12.50", "7.50"):
        assert shop.post("/orders", json={"customer": "ann", "total": total}).status_code == 201
    deadline = time.monotonic() + 30
    while shop.get("/spent/ann").json() != "20.00" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shop.get("/spent/ann").json() == "20.00"


def test_the_dashboard_shows_the_queue(shop: TestClient) -> None:
    assert "orders" in shop.get("/queues/").text
