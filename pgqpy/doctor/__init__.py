"""The checks of ``pgqpy doctor``: problems of a database's queues, with their remedies."""

from pgqpy.doctor.examine import examine, examine_roles
from pgqpy.doctor.finding import Finding

__all__ = ["Finding", "examine", "examine_roles"]
