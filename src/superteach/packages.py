"""What is installed: versions, and parts that other packages bring in entry points.

A package names its parts in the groups below. A part is imported when it is asked for.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from superteach.exceptions import MissingExtra

COMMANDS = "superteach.commands"
"""Commands: a `typer.Typer` with one command each."""
METHODS = "superteach.methods"
"""Methods: a class each, made from `coordinator.methods.base.Method`."""
ALONE = "superteach.alone"
"""Ways to choose within one teacher: (teacher, loss, scaling, size, query) -> (rows or None, whether it ended)."""
DATASETS = "superteach.datasets"
"""Loaders of published data."""

LABORATORY = {
    COMMANDS: ("audit", "compare", "reproduce"),
    METHODS: ("oblivious-minlp",),
    ALONE: ("minlp",),
    DATASETS: (
        "get_data_home",
        "load_acs_income",
        "load_adult",
        "load_beijing_air",
        "load_heart_disease",
        "load_higgs",
        "load_superconduct",
    ),
}
"""Parts of the laboratory, so that an error can name the package that brings them."""
_EXTRAS = {METHODS: "minlp", ALONE: "minlp"}

UNINSTALLED = "0.1.0.dev0"
"""The version of sources that nobody has installed: that of a build which finds no tag (pyproject.toml)."""


@cache
def parts(group: str) -> dict[str, EntryPoint]:
    """Return the parts of a group by name."""
    return {entry.name: entry for entry in entry_points(group=group)}


def load(group: str, name: str) -> Any:
    """Import a part, or name the command that installs it."""
    part = parts(group).get(name)
    if part is None:
        raise MissingExtra("superteach-lab", _EXTRAS.get(group, ""), name, "superteach-lab")
    return part.load()


@cache
def version_of(package: str, otherwise: str = "unknown") -> str:
    """Return the version that is installed of a package; `otherwise` where nothing says which it is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return otherwise


VERSION = version_of("superteach", UNINSTALLED)


def versions() -> dict[str, str]:
    """Name the versions of what computes a lesson."""
    others = {name: version_of(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "superteach": VERSION, **others}


def version_mismatch(who: str, one: str, other: str, two: str) -> str | None:
    """Say that two versions do not work together: their first two numbers differ. None where they do."""
    if one.split(".")[:2] == two.split(".")[:2]:
        return None
    series = ".".join(one.split(".")[:2])
    return (
        f"{who} has superteach {one}, {other} {two}: versions work together whose first two numbers are the same "
        f"({series}.x with {series}.y); install one of them on both sides"
    )
