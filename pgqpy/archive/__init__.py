"""The archive: finished tick ranges in Parquet files. `pip install "pgqpy[archive]"`."""

from pgqpy.archive.errors import ArchiveDamaged, ArchiveMismatch, ReplayRefused
from pgqpy.archive.packages import check_packages

__all__ = ["ArchiveDamaged", "ArchiveMismatch", "ReplayRefused", "check_packages"]
