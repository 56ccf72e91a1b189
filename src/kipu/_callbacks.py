"""Exceptions that a user's callback raised: they reach the caller as they are, also from functions that answer failures with None."""


def mark(error):
    """Remembers that `error` came out of a callback; returns it."""
    error.from_callback = True
    return error


def is_marked(error):
    return getattr(error, "from_callback", False)
