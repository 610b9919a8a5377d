"""Names that all processes of a simulation use."""

QUEUE = "pgqpy_simulate"
CONSUMER = "workers"
AUDIT = "audit"  # registered for the checker: it keeps every event of the simulation
TYPES = ("placed", "paid", "sent")
PRODUCERS = 2  # processes
