"""The selector that needs no file descriptor of its own, where the system has one."""

from __future__ import annotations

import selectors

Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
