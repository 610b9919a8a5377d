"""Version 1 of the schema pgq. A release that raises the version adds a migration like this one."""

from django.db import migrations

from pgqpy.django.operations import InstallSchema


class Migration(migrations.Migration):
    """It is not atomic: the script of the schema has a transaction of its own."""

    atomic = False
    operations = (InstallSchema(),)
