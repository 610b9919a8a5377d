"""The dashboard: a database's queues in a browser. Needs the extra `dashboard`."""

from pgqpy.dashboard.access import Login
from pgqpy.dashboard.mount import check_packages, dashboard

__all__ = ["Login", "check_packages", "dashboard"]
