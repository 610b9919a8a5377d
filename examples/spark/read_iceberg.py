"""Read a table of Iceberg without Spark, by the catalog that the pipeline made."""

from pathlib import Path

from pyiceberg.catalog import load_catalog

place = f"sqlite:///{Path('orders_iceberg').absolute()}/catalog.db"
orders = load_catalog("default", type="sql", uri=place).load_table("queues.orders")
for row in orders.scan().to_arrow().sort_by("customer").to_pylist():
    print(row["ev_date"], row["customer"], row["total"])
