"""The command line ``pgqpy``."""

from pgqpy.cli.app import main

__all__ = ["main"]
