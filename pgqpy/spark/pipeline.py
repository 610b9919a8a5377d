"""`python -m pgqpy.spark.pipeline` is `pgqpy pipeline run`: what spark-submit can start."""

from __future__ import annotations

import sys

from pgqpy.cli.app import app


def main() -> None:
    """Run the pipeline that the arguments describe, and exit."""
    app.main(["pipeline", "run", *sys.argv[1:]], prog_name="pgqpy")


if __name__ == "__main__":
    main()
