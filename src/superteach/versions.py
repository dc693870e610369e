"""Which versions of superteach work together: versions with the same first two numbers."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("superteach")


def misfit(who: str, one: str, other: str, two: str) -> str | None:
    """Say that two versions do not work together, or nothing where they do."""
    if one.split(".")[:2] == two.split(".")[:2]:
        return None
    return (
        f"{who} has superteach {one}, {other} {two}: versions work together whose first two numbers are the same "
        f"({'.'.join(one.split('.')[:2])}.x with {'.'.join(one.split('.')[:2])}.y); install one of them on both sides"
    )
