"""Who may import whom, read from the source itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import superteach

ROOT = Path(superteach.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    """superteach.teacher.rows for teacher/rows.py, superteach.teacher for teacher/__init__.py."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def imported(source: str, name: str, package: bool) -> set[str]:
    """Every superteach module a source imports anywhere in it, also inside functions and relatively."""
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
    return {module for module in found if module.split(".")[0] == "superteach"}


def imports_of(name: str) -> set[str]:
    path = MODULES[name]
    return imported(path.read_text(encoding="utf-8"), name, path.name == "__init__.py")


def within(module: str, layer: str) -> bool:
    return module == layer or module.startswith(layer + ".")


def modules_of(*layers: str) -> list[str]:
    """All modules of these layers."""
    return [name for name in MODULES if any(within(name, f"superteach.{layer}") for layer in layers)]


COORDINATOR = (
    "losses", "problem", "queries", "messages", "solvers", "federation", "learner", "selection", "metrics",
    "methods", "goals", "lesson", "teaching", "errors", "wire", "report", "alone", "classroom", "path", "prices",
    "rounding",
)  # fmt: skip
RULES = [
    *((name, ("teacher", "engines", "inputs", "estimators", "cli")) for name in modules_of(*COORDINATOR)),
    *((name, ("teacher", "methods", "learner", "losses", "problem")) for name in modules_of("engines")),
    *((name, ("engines", "federation", "methods", "teaching", "learner")) for name in modules_of("teacher")),
    *(
        (
            name,
            (
                "engines",
                "federation",
                "methods",
                "teaching",
                "learner",
                "agreement",
                "conductor",
                "cli",
                "nvflare",
            ),
        )
        for name in modules_of("site", "privacy")
    ),
    *(
        (name, ("teacher", "site", "inputs", "estimators", "cli", "nvflare"))
        for name in modules_of("agreement")
    ),
    *((name, ("teacher", "site", "nvflare")) for name in modules_of("conductor", "unfinished", "patience")),
    *((name, ("teacher", "engines", "methods", "alone", "teaching")) for name in modules_of("minlp")),
]
EXCEPTIONS = {"superteach.federation": {"superteach.engines.base"}}


@pytest.mark.parametrize(("name", "forbidden"), RULES, ids=[name for name, _ in RULES])
def test_layers(name, forbidden):
    """The coordinator's side knows no rows, engines know no mathematics, teachers know no coordinator."""
    allowed = EXCEPTIONS.get(name, set())
    wrong = {
        module
        for module in imports_of(name)
        for layer in forbidden
        if within(module, f"superteach.{layer}") and not any(within(module, good) for good in allowed)
    }
    assert not wrong


def test_every_layer_exists():
    """A renamed module would pass the rules above by not being there."""
    for layer in (*COORDINATOR, "engines", "teacher", "minlp"):
        assert modules_of(layer), layer


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import superteach.teacher", "superteach.teacher"),
        ("from superteach.teacher.rows import Rows", "superteach.teacher.rows"),
        ("from superteach import teacher", "superteach.teacher"),
        ("def f():\n    from superteach.engines import inprocess", "superteach.engines.inprocess"),
        ("from . import teacher", "superteach.teacher"),
        ("from .teacher import rows", "superteach.teacher.rows"),
    ],
)
def test_the_reader_finds_imports(source, module):
    """The rules are only as good as the reader of imports."""
    assert module in imported(source, "superteach.learner", package=False)


@pytest.mark.parametrize("name", MODULES)
def test_one_room_knows_nvflare(name):
    """Everything else works without that extra installed."""
    outside = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            outside.add((node.module or "").split(".")[0])
    assert within(name, "superteach.nvflare") or not outside & {"nvflare", "cryptography", "grpc", "psutil"}


@pytest.mark.parametrize("name", MODULES)
def test_files_are_short(name):
    """No source file has 500 lines or more."""
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) < 500
