"""The dashboard: a database's queues in a browser. Needs the extra `dashboard`."""

from pgqpy.dashboard.access import Login
from pgqpy.dashboard.mount import dashboard
from pgqpy.dashboard.packages import check_packages

__all__ = ["Login", "check_packages", "dashboard"]
