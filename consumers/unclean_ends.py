"""After how many crashes an event is dead, and how long a worker waits before it says so.

A worker whose session was cut reconnects within RECONNECT_MAX of the consumer, and shows by its
next look for a batch that it lives.
"""

MAX_ATTEMPTS = 5  # crashes, of which three find the event
GRACE = 15.0  # seconds; longer than RECONNECT_MAX
LOOK = 1.0  # seconds between looks
