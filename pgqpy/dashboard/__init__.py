"""The dashboard: a database's queues in a browser. Needs the extra `dashboard`."""

from pgqpy.dashboard.packages import check_packages

__all__ = ["check_packages"]
