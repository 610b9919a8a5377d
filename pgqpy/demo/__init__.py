"""The demonstration that `pgqpy demo` runs: pgbench, a queue, a consumer that is killed."""

from pgqpy.demo.main import run

__all__ = ["run"]
