"""A line within one process, for tests of sites and engines: every message goes through bytes, none through a network."""

from __future__ import annotations


class Loopback:
    """Hands each teacher its message, and its answer back."""

    def __init__(self, doors) -> None:
        """`doors` are the teachers' `Site.answer`, by name."""
        self._doors = dict(doors)

    def ask(self, requests, seconds):
        """Ask one after the other."""
        return {name: self._doors[name](data) for name, data in requests.items()}
