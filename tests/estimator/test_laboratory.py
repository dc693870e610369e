"""What the product says where the laboratory is not installed, and what it finds where it is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from superteach import SuperTeacher, datasets, packages
from superteach.cli import app
from superteach.exceptions import MissingExtra

BARE = "pip install superteach-lab"


@pytest.fixture
def no_laboratory(monkeypatch):
    """Hide every entry point of the laboratory."""
    found = packages.parts

    def own(group):
        return {name: entry for name, entry in found(group).items() if not entry.value.startswith("superteach_lab")}

    monkeypatch.setattr(packages, "parts", own)


@pytest.mark.parametrize("command", packages.LABORATORY[packages.COMMANDS])
def test_a_command_names_what_to_install(no_laboratory, capsys, command):
    """One line, and the status of bad usage."""
    with pytest.raises(SystemExit) as end:
        app([command, "--help"], prog_name="superteach")
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert BARE in said
    assert f"superteach {command} " in said


def test_help_lists_only_what_is_there(no_laboratory, capsys):
    with pytest.raises(SystemExit):
        app(["--help"], prog_name="superteach")
    shown = capsys.readouterr().out
    assert " teach " in shown
    assert " reproduce " not in shown


def test_help_lists_commands_of_the_laboratory(capsys):
    with pytest.raises(SystemExit):
        app(["--help"], prog_name="superteach")
    shown = capsys.readouterr().out
    assert " compare " in shown
    assert " reproduce " in shown


def test_other_names_are_usage_errors_as_before(capsys):
    with pytest.raises(SystemExit) as end:
        app(["compere"], prog_name="superteach")
    assert end.value.code == 2
    assert "No such command 'compere'" in capsys.readouterr().err


def test_the_method_names_what_to_install(no_laboratory):
    X = np.random.default_rng(0).standard_normal((12, 2))
    teacher = SuperTeacher(Ridge(fit_intercept=False), np.ones(2), budget=4, method="oblivious-minlp")
    with pytest.raises(MissingExtra, match=r"pip install 'superteach-lab\[minlp\]'"):
        teacher.fit(X, X[:, 0])


def test_loaders_name_what_to_install(no_laboratory):
    with pytest.raises(MissingExtra, match=BARE):
        _ = datasets.load_higgs
    with pytest.raises(AttributeError, match="load_nothing"):
        _ = datasets.load_nothing


@pytest.mark.parametrize("group", packages.LABORATORY)
def test_the_laboratory_brings_what_the_product_says_of_it(group):
    """Names in the product and entry points of the laboratory are the same, and each can be loaded."""
    from_there = {name for name, entry in packages.parts(group).items() if entry.value.startswith("superteach_lab")}
    assert from_there == set(packages.LABORATORY[group])
    for name in packages.parts(group):
        assert callable(packages.load(group, name))


def test_help_loads_nothing_heavy():
    """Commands of the laboratory stand in the help without their modules' own imports."""
    heavy = ("numpy", "scipy", "sklearn", "pyarrow", "matplotlib")
    script = (
        "import sys\nfrom superteach.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
