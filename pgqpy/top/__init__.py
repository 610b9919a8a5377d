"""The overview in a terminal: ``pgqpy top``. `pip install "pgqpy[top]"`."""
