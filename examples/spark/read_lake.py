"""Read what the pipeline wrote, without Spark: any reader of parquet will do."""

import pyarrow.dataset as ds

lake = ds.dataset("lake", partitioning="hive")
for row in lake.to_table(["ev_date", "customer", "total"]).sort_by("total").to_pylist():
    print(row["ev_date"], row["customer"], row["total"])
