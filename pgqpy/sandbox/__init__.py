"""What the demo and the simulation share: a database, child processes, signals, a display."""
