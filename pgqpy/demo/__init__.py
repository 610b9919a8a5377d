"""`pgqpy demo`: pgbench inserts events, a worker is killed, then balances are compared."""

from pgqpy.demo.main import Options, run

__all__ = ["Options", "run"]
