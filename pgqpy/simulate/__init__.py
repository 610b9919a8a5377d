"""`pgqpy simulate`: producers and workers in real processes, and a checker of what they did."""

from pgqpy.simulate.main import run
from pgqpy.simulate.options import Options, parse_duration, parse_work

__all__ = ["Options", "parse_duration", "parse_work", "run"]
