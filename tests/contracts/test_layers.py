"""What a fresh interpreter loads. Who may import whom is in pyproject.toml, checked by import-linter in `make check`."""

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


def within(module: str, layer: str) -> bool:
    return module == layer or module.startswith(layer + ".")


def inside(module: str, layers: tuple[str, ...]) -> bool:
    return any(within(module, f"superteach.{layer}") for layer in layers)


# What a fresh interpreter loads ----------------------------------------------------------------------

FOREIGN = ("teacher.fused",)
"""Modules that import Triton at once, which only `make test-torch` installs."""


@cache
def loaded_by(names: tuple[str, ...]) -> frozenset[str]:
    """All modules in an interpreter that has imported these and nothing else of ours."""
    script = (
        f"import importlib, json, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return frozenset(json.loads(run.stdout.splitlines()[-1]))


FEDERATED = ("nvflare", "cryptography", "grpc", "fsspec")
ALLOWED = {"cryptography": ("federated",), "fsspec": ("federated.box",), "nvflare": ("federated.nvflare",)}
"""Packages of extras, and the modules that may name them."""


def test_nothing_but_the_federation_loads_its_extras_and_nothing_loads_the_laboratory():
    """All of the product but the federation and its commands, in one interpreter."""
    theirs = ("federated", "cli.site", "cli.federation", "cli.federated")
    names = [name for name in PRODUCT if not inside(name, ("__main__", *theirs, *FOREIGN))]
    found = loaded_by(tuple(names))
    assert not {name for name in found if name.split(".")[0] in {*FEDERATED, "superteach_lab"}}


@pytest.mark.parametrize("name", MODULES)
def test_extras_of_the_federation_are_named_where_they_belong(name):
    """Everything else works without them."""
    outside = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            outside.add((node.module or "").split(".")[0])
    assert not {one for one in outside & set(FEDERATED) if not inside(name, ALLOWED.get(one, ()))}
