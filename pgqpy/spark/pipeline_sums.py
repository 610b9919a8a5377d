"""Read what a pipeline wrote as any reader of parquet does: without Spark."""

from __future__ import annotations

import pyarrow.dataset as ds


def branch_sums(folder: str) -> dict[int, tuple[int, int]]:
    """Return how many transfers of the demo a lake holds by branch, and the sum of their deltas."""
    lake = ds.dataset(folder, format="parquet", partitioning="hive")
    transfers = lake.to_table(columns=["branch", "delta"])
    sums = transfers.group_by("branch").aggregate([("delta", "count"), ("delta", "sum")])
    return {row["branch"]: (row["delta_count"], row["delta_sum"]) for row in sums.to_pylist()}
