"""Ways to consume a backlog with a handler that does nothing."""
