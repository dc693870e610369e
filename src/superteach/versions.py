"""Which versions of superteach work together: versions with the same first two numbers."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

SOURCE = "0.1.0.dev0"
"""The version of sources that nobody has installed: that of a build which finds no tag (pyproject.toml)."""


def version_of(package: str, otherwise: str = "unknown") -> str:
    """Return the version that is installed of a package; `otherwise` where nothing says which it is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return otherwise


VERSION = version_of("superteach", SOURCE)


def misfit(who: str, one: str, other: str, two: str) -> str | None:
    """Say that two versions do not work together, or nothing where they do."""
    if one.split(".")[:2] == two.split(".")[:2]:
        return None
    return (
        f"{who} has superteach {one}, {other} {two}: versions work together whose first two numbers are the same "
        f"({'.'.join(one.split('.')[:2])}.x with {'.'.join(one.split('.')[:2])}.y); install one of them on both sides"
    )
