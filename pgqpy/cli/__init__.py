"""The `pgqpy` command."""
