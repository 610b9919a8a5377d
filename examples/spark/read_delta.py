"""Read a table of Delta Lake without Spark."""

import duckdb
from deltalake import DeltaTable

orders = DeltaTable("orders_delta").to_pyarrow_dataset()
for row in duckdb.execute("select customer, total from orders order by customer").fetchall():
    print(*row)
