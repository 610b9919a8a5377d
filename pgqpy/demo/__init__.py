"""The demonstration that `pgqpy demo` runs."""
