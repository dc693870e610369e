"""Who may import whom: what a source names, and what a fresh interpreter loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import superteach
import superteach_lab

ROOTS = {
    "superteach": Path(superteach.__file__).parent,
    "superteach_lab": Path(superteach_lab.__file__).parent,
}


def module_name(path: Path, root: Path) -> str:
    """superteach.teacher.rows for teacher/rows.py, superteach.teacher for teacher/__init__.py."""
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path, root): path for root in ROOTS.values() for path in sorted(root.rglob("*.py"))}
PRODUCT = [name for name in MODULES if name.split(".")[0] == "superteach"]
ROOMS = (
    "mathematics", "selection", "line", "coordinator", "teacher", "promises", "engines", "organisations", "faces", "report",
    "processes", "privacy",
)  # fmt: skip
USERS = ("datasets", "goals", "losses", "mlflow", "queries", "solvers", "spark")
"""Modules that users import; the rooms import from each other."""
OUTSIDE = {"superteach", "superteach.__main__", "superteach.errors", "superteach.extensions", "superteach.labels",
           "superteach.lesson", "superteach.settings", "superteach.types", "superteach.versions",
           "superteach.words"}  # fmt: skip
"""What belongs to no room."""


def within(module: str, layer: str) -> bool:
    return module == layer or module.startswith(layer + ".")


def inside(module: str, layers: tuple[str, ...]) -> bool:
    return any(within(module, f"superteach.{layer}") for layer in layers)


def modules_of(*layers: str) -> list[str]:
    """All modules of these layers."""
    return [name for name in PRODUCT if inside(name, layers)]


# What a source names ---------------------------------------------------------------------------------


def imported(source: str, name: str, package: bool) -> set[str]:
    """Every module of ours that a source imports anywhere in it, also inside functions and relatively."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = name.split(".")[: len(name.split(".")) - node.level + package]
                base = ".".join([*parents, base]).rstrip(".")
            # `from a import b` may mean the module a.b.
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {module for module in found if module.split(".")[0] in ROOTS}


def imports_of(name: str) -> set[str]:
    path = MODULES[name]
    return imported(path.read_text(encoding="utf-8"), name, path.name == "__init__.py")


NAMED = {
    "processes": ("mathematics", "line", "coordinator", "teacher", "promises", "engines", "organisations", "faces",
                  "report"),
    "mathematics": ("coordinator", "teacher", "promises", "engines", "organisations", "faces", "report", "processes"),
    "line": ("coordinator", "teacher", "promises", "engines", "organisations", "faces", "report", "processes"),
    "engines": ("mathematics", "coordinator", "teacher", "organisations", "faces", "report"),
    "coordinator": ("teacher", "engines", "promises", "organisations", "faces", "report"),
    "teacher": ("coordinator", "engines", "organisations", "faces", "report"),
    "promises": ("mathematics", "coordinator", "engines", "teacher", "organisations", "faces", "report"),
    "selection": ("coordinator", "teacher", "promises", "privacy", "engines", "organisations", "faces", "report",
                  "processes"),
    "privacy": ("mathematics", "line", "selection", "coordinator", "engines", "teacher", "organisations", "faces", "report"),
    "report": ("teacher", "engines", "promises", "organisations", "faces"),
    "organisations.site": ("coordinator", "engines", "faces", "report", "organisations.conductor", "organisations.agreement",
                           "organisations.nvflare"),
    "organisations.agreement": ("teacher", "organisations.site", "organisations.nvflare", "faces", "report"),
    "organisations.conductor": ("teacher", "organisations.site", "organisations.nvflare", "faces", "report"),
    "organisations.unfinished": ("teacher", "organisations.site", "organisations.nvflare", "faces", "report"),
    "organisations.nvflare": ("faces", "report"),
}  # fmt: skip
"""What no source of a room may name."""
ALLOWED = {
    "superteach.coordinator.federation": {"superteach.engines.base", "superteach.promises.terms"},
    "superteach.coordinator.promised": {"superteach.engines.base", "superteach.promises.terms"},
}
"""The protocol of an engine and the terms of a promise are the coordinator's to know."""


@pytest.mark.parametrize(("room", "name"), [(room, name) for room in NAMED for name in modules_of(room)])
def test_no_source_names_what_its_room_must_not_know(room, name):
    wrong = {module for module in imports_of(name) if inside(module, NAMED[room])}
    assert not {module for module in wrong if not any(within(module, good) for good in ALLOWED.get(name, ()))}


@pytest.mark.parametrize("name", PRODUCT)
def test_the_product_knows_no_laboratory(name):
    assert not {module for module in imports_of(name) if within(module, "superteach_lab")}


@pytest.mark.parametrize("name", modules_of(*(room for room in ROOMS if room != "faces")))
def test_rooms_import_from_rooms(name):
    """Modules for users would tie every room to the one behind them; faces are users too."""
    assert not {module for module in imports_of(name) if inside(module, USERS)}


def test_every_module_has_a_room():
    """A renamed module would pass the rules above by not being there."""
    for layer in (*ROOMS, *NAMED, *USERS):
        assert modules_of(layer), layer
    assert {name for name in PRODUCT if not inside(name, (*ROOMS, *USERS))} == OUTSIDE


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import superteach.teacher", "superteach.teacher"),
        ("from superteach.teacher.rows import Rows", "superteach.teacher.rows"),
        ("from superteach import teacher", "superteach.teacher"),
        ("def f():\n    from superteach.engines import inprocess", "superteach.engines.inprocess"),
        ("from . import teacher", "superteach.teacher"),
        ("from .teacher import rows", "superteach.teacher.rows"),
        ("import superteach_lab.minlp", "superteach_lab.minlp"),
    ],
)
def test_the_reader_finds_imports(source, module):
    """The rules are only as good as the reader of imports."""
    assert module in imported(source, "superteach.lesson", package=False)


# What a fresh interpreter loads ----------------------------------------------------------------------

LOADED = {
    "processes": ("mathematics", "line", "coordinator", "teacher", "promises", "engines", "organisations", "faces", "report",
                  "lesson"),
    "mathematics": ("coordinator", "teacher", "promises", "engines", "organisations", "faces", "report", "processes",
                    "lesson"),
    "line": ("mathematics", "coordinator", "teacher", "promises", "engines", "organisations", "faces", "report", "processes",
             "lesson"),
    "engines": ("mathematics", "coordinator", "teacher", "organisations", "faces", "report", "lesson"),
    "promises": ("mathematics", "coordinator", "teacher", "engines", "organisations", "faces", "report", "lesson"),
    "coordinator": ("teacher", "engines", "organisations", "faces", "report"),
    "teacher": ("coordinator", "engines", "organisations", "faces", "report", "lesson"),
    "report": ("teacher", "engines", "coordinator", "promises", "organisations", "faces"),
    "organisations.site": ("coordinator", "engines", "faces", "report", "lesson", "organisations.conductor",
                           "organisations.agreement", "organisations.nvflare"),
    "organisations.conductor": ("teacher", "organisations.site", "organisations.nvflare", "faces", "report"),
}  # fmt: skip
"""What no module of a room may bring in, directly or through others."""
KNOWN = {
    # The coordinator's federation knows the protocol of an engine.
    "coordinator": {"engines.base"},
}
"""Exceptions that are still needed; this list must only shrink."""
FOREIGN = ("teacher.fused",)
"""Modules that import Triton at once, which only `make test-torch` installs."""
PACKAGES = {f"superteach.{room}" for room in ROOMS}
"""A room's own `__init__` comes with any module of it; those of teacher and report are more than a docstring."""
BARE = PACKAGES - {"superteach.teacher", "superteach.report"}


@cache
def loaded_by(names: tuple[str, ...]) -> frozenset[str]:
    """All modules in an interpreter that has imported these and nothing else of ours."""
    script = (
        f"import importlib, json, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return frozenset(json.loads(run.stdout.splitlines()[-1]))


def brought(room: str) -> set[str]:
    """Forbidden modules that importing a room brings in."""
    found = loaded_by(tuple(name for name in modules_of(room) if not inside(name, FOREIGN)))
    own = set(modules_of(room))
    return {name for name in found if inside(name, LOADED[room]) and name not in BARE | own}


@pytest.mark.parametrize("room", LOADED)
def test_a_room_loads_only_what_it_may(room):
    known = {f"superteach.{name}" for name in KNOWN.get(room, ())}
    assert brought(room) - known == set()


@pytest.mark.parametrize(("room", "name"), [(room, name) for room in KNOWN for name in sorted(KNOWN[room])])
def test_every_exception_is_still_needed(room, name):
    """Take it off the list once nothing brings it in any more."""
    assert f"superteach.{name}" in brought(room)


FEDERATED = ("nvflare", "cryptography", "grpc")
KEYS = ("promises.masks", "promises.rosters")
"""Modules that load cryptography too, and are loaded by whoever asks for masks."""


def test_one_room_loads_nvflare_and_nothing_loads_the_laboratory():
    """All of the product but organisations.nvflare and keys of masks, in one interpreter."""
    names = [name for name in PRODUCT if not inside(name, ("organisations.nvflare", "__main__", *KEYS, *FOREIGN))]
    found = loaded_by(tuple(names))
    ours = {*FEDERATED, "superteach_lab"} - {"psutil"}  # scikit-learn's joblib loads psutil where it is installed
    assert not {name for name in found if name.split(".")[0] in ours}


@pytest.mark.parametrize("name", MODULES)
def test_one_room_names_nvflare(name):
    """Everything else works without that extra installed."""
    outside = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            outside.add((node.module or "").split(".")[0])
    outside -= {"cryptography"} if inside(name, KEYS) else set()
    assert within(name, "superteach.organisations.nvflare") or not outside & set(FEDERATED)


# Types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ["Array", "Positions", "Mask"])
def test_array_types_are_defined_once(alias):
    defined = [
        name
        for name, path in MODULES.items()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == alias for target in node.targets)
    ]
    assert defined == ["superteach.types"]
