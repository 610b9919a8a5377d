"""The archive: finished tick ranges in Parquet files. `pip install "pgqpy[archive]"`."""

from pgqpy.archive.errors import ArchiveDamaged, ArchiveMismatch, ReplayRefused, check_packages

__all__ = ["ArchiveDamaged", "ArchiveMismatch", "ReplayRefused", "check_packages"]
