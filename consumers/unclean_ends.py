"""How long a worker waits for runs that count as dead, before it gives an event up.

A worker whose session was cut reconnects within RECONNECT_MAX of the consumer, and shows by its
next look for a batch that it lives.
"""

GRACE = 15.0  # seconds; longer than RECONNECT_MAX
LOOK = 1.0  # seconds between looks
