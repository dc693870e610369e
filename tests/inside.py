"""What tests see of a teacher at home that no message may tell: the one place that looks behind that door."""

from __future__ import annotations

from typing import Any

from superteach.organisations.site import Site


def lesson_at(site: Site, name: str = "lesson") -> Any:
    """What a site remembers of a lesson: its `state` and how many `rounds` it has answered."""
    return site._lessons[name]
