"""How a duty that takes long hears that the daemon stops."""


def never() -> bool:
    """Say that nobody wants the duty to stop early."""
    return False
