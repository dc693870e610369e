"""Versions that work together, and the sentence for those that do not."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import superteach
from superteach.lesson import versions
from superteach.packages import UNINSTALLED, VERSION, version_mismatch, version_of


@pytest.mark.parametrize(("one", "two"), [("0.1.0", "0.1.9"), ("1.2.3", "1.2"), (VERSION, VERSION)])
def test_the_first_two_numbers_decide(one, two):
    assert version_mismatch("a", one, "b", two) is None


def test_the_sentence_has_both_versions_and_what_is_right():
    assert version_mismatch("the server", "0.2.1", "teacher a", "0.1.9") == (
        "the server has superteach 0.2.1, teacher a 0.1.9: versions work together whose first two numbers are the same "
        "(0.2.x with 0.2.y); install one of them on both sides"
    )


def test_versions_are_read_from_disk_once():
    versions()
    read = version_of.cache_info().misses
    assert versions() == versions()
    assert version_of.cache_info().misses == read


TEACH = """
import json
import superteach as st
from sklearn.linear_model import LogisticRegression
X, y, owner = st.datasets.make_classification_pool(120, 2, 2, random_state=0)
goal = st.goals.PerturbedFit(0)
for method in ("match", "oblivious"):
    lesson = st.SuperTeacher(LogisticRegression(), goal, budget=30, method=method).fit(X, y, groups=owner).lesson_
print(json.dumps([st.__version__, lesson.versions, lesson.size]))
"""


@pytest.fixture
def uninstalled(tmp_path):
    """Folders from which to import: the sources, and everything that is installed but superteach."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for one in Path(place).iterdir():
            if "superteach" not in one.name and not (packages / one.name).exists():
                (packages / one.name).symlink_to(one)
    return [str(Path(superteach.__file__).parents[1]), str(packages)]


def test_sources_that_are_not_installed_teach(uninstalled):
    """Also with a method whose part a teacher finds by name."""
    code = f"import sys; sys.path[:0] = {uninstalled!r}\n{TEACH}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version, versions, size = json.loads(done.stdout)
    assert (version, versions["superteach"], size) == (UNINSTALLED, UNINSTALLED, 30)


def test_sources_have_the_version_of_a_build_without_tags():
    """So that both work with each other."""
    built = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert built["tool"]["hatch"]["version"]["fallback-version"] == UNINSTALLED
    assert version_of("no-such-package") == "unknown"


def test_the_conda_recipe_needs_what_the_wheel_needs():
    """matplotlib is matplotlib-base there."""
    root = Path(__file__).parents[1]
    needed = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    recipe = (root / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    listed = [line.strip(" -").replace("-base", "").replace(" ", "") for line in run.splitlines()]
    assert sorted(listed[1:]) == sorted(needed)
    assert listed[0].startswith("python>=")
