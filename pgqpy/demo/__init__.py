"""`pgqpy demo`: pgbench inserts events, their consumer is killed, then balances are compared."""

from pgqpy.demo.main import run

__all__ = ["run"]
