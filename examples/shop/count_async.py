"""A consumer for asyncio, which takes whole batches and counts what is in them."""

import asyncio
from collections import Counter
from typing import Any

from pgqpy.consumers import AsyncConsumer


class Count(AsyncConsumer):
    """Run it: pgqpy consumer run count_async:Count, or in a program of your own, as below."""

    queue = "orders"
    name = "count"
    min_count = 1000  # few events wait for more: larger batches, fewer commits
    min_interval = 1.0  # but a second at most

    async def process_batch(self, batch: Any) -> None:
        """Count one batch. Its events are read as they are asked for, whatever its size."""
        types: Counter[str] = Counter()
        async for event in batch:
            types[event.type] += 1
        for kind, count in types.items():
            print(f"a batch with {count:,} {kind}", flush=True)


if __name__ == "__main__":
    asyncio.run(Count().run())
