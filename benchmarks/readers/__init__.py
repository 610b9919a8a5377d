"""Ways to consume what waits, without doing anything with it."""
