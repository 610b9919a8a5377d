"""The consumer framework that applications subclass."""
