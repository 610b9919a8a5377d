"""The tables, the queue and its consumer."""

from django.db import migrations, models

from pgqpy.django import InstallQueue


class Migration(migrations.Migration):
    dependencies = (("pgqpy", "0001_schema_1"),)
    operations = (
        migrations.CreateModel(
            "Order",
            [
                (
                    "id",
                    models.BigAutoField("ID", auto_created=True, primary_key=True, serialize=False),
                ),
                ("customer", models.TextField()),
                ("total", models.DecimalField(max_digits=12, decimal_places=2)),
            ],
        ),
        migrations.CreateModel(
            "Total",
            [
                ("customer", models.TextField(primary_key=True, serialize=False)),
                ("orders", models.IntegerField(default=0)),
                ("spent", models.DecimalField(max_digits=12, decimal_places=2, default=0)),
            ],
        ),
        InstallQueue("orders", consumers=["totals"]),
    )
