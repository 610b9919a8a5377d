"""Names that all processes of a simulation use."""

QUEUE = "pgqpy_simulate"
CONSUMER = "workers"
AUDIT = "audit"  # registered for the checker: it keeps every event of the simulation
TYPES = ("placed", "paid", "sent")
PRODUCERS = 2  # processes

PART_SIZE = 20  # events: a kill repeats no more
MAX_RETRIES = 3
MAX_ATTEMPTS = 5  # unclean ends after which an event is given up
