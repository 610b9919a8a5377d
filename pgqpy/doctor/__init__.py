"""Say what is wrong with the queues of a database, and what to do about it."""

from pgqpy.doctor.examine import examine
from pgqpy.doctor.finding import Finding

__all__ = ["Finding", "examine"]
