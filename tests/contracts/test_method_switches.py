"""A method owns what is its own: nothing else asks which method it has before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import superteach
from superteach import settings
from superteach.coordinator import methods
from superteach.coordinator.methods.base import Method

ROOT = Path(superteach.__file__).parent
SOURCES = [path for path in ROOT.rglob("*.py") if ROOT / "coordinator" / "methods" not in path.parents]
NAMES = set(methods.names())
CLASSES = {
    "Method",
    "Match",
    "Dual",
    "Oblivious",
    "Random",
    "Search",
    "Matcher",
    "EachAlone",
    "Ranked",
    "Chooser",
}


def switches(source: str) -> list[str]:
    """Comparisons of a method with a name, tables of names, and isinstance on methods or their choosers."""
    found = []
    for node in ast.walk(ast.parse(source)):
        words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        text = ast.unparse(node) if isinstance(node, ast.Compare | ast.Call | ast.Match | ast.Dict) else ""
        if isinstance(node, ast.Compare | ast.Match) and NAMES & words and "method" in text.lower():
            found.append(text)
        elif isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            found += [text] if len(NAMES & keys) > 1 else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            kinds = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            kinds |= {one.attr for one in ast.walk(node.args[1]) if isinstance(one, ast.Attribute)}
            found += [text] if CLASSES & kinds else []
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_switches_on_methods(path):
    assert switches(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        'if settings.method == "match": pass',
        'x = 1 if lesson.settings.get("method") != "dual" else 2',
        'if method in ("dual", "random"): pass',
        'how = {"match": 1, "random": 2}[method]',
        "if isinstance(chooser, match.Search): pass",
        'match method:\n    case "dual": pass',
    ],
)
def test_switches_are_found(source):
    """The rule is only as good as its reader."""
    assert switches(source)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_method_states_what_it_is(name):
    method = methods.find(name)
    assert isinstance(method, Method)
    assert method.name == name
    assert method.words.label != "lesson"
    assert method.words.chosen.endswith(".")
    assert set(method.uses) <= {field for field in vars(settings.Settings()) if field}


def test_one_class_has_one_name():
    """No second Outcome, Certificate, Words or Settings in the product."""
    defined = [
        node.name
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    for name in ("Outcome", "Certificate", "Settings", "Words", "Method", "Request", *CLASSES):
        assert defined.count(name) == 1, name
