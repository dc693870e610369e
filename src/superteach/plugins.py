"""Find parts that installed packages bring: commands, methods, ways to choose alone, loaders of data.

A package names its parts in entry points, in the groups below. A part is imported when it is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
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


@cache
def parts(group: str) -> dict[str, EntryPoint]:
    """Parts of a group by name."""
    return {entry.name: entry for entry in entry_points(group=group)}


def load(group: str, name: str) -> Any:
    """Import a part, or name the command that installs it."""
    found = parts(group).get(name)
    if found is None:
        raise MissingExtra("superteach-lab", _EXTRAS.get(group, ""), name, "superteach-lab")
    return found.load()
