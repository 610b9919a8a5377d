"""What the demo's producer and consumer share: names and tables; the producer's heartbeat."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

QUEUE = "orders"
CONSUMER = "sales"
PRODUCTS = ("apples", "bread", "cheese")

TABLES = """
    create table if not exists placed (
        id bigint generated always as identity primary key,
        product text not null,
        cents bigint not null
    );
    create table if not exists sale (
        product text primary key,
        orders bigint not null,
        cents bigint not null
    )
"""

# Touched after each order: the producer's health check looks at its age.
ALIVE = Path(os.environ.get("ALIVE_FILE", Path(tempfile.gettempdir()) / "alive"))
