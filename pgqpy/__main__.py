"""``python -m pgqpy`` is ``pgqpy``."""

from pgqpy.cli import main

main()
