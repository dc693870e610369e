"""What `import superteach` promises: its names, its version, and that it starts without heavy packages."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

import pytest
from sklearn.base import BaseEstimator

import superteach

NAMES = [
    "Federation",
    "Learner",
    "Lesson",
    "SuperTeacher",
    "SuperteachError",
    "Teacher",
    "Threads",
    "Torch",
    "compare_with_random",
    "datasets",
    "drop",
    "exceptions",
    "goals",
    "last_layer",
    "losses",
    "optim",
    "teach",
]
ERRORS = {
    "SuperteachError": (Exception,),
    "InputError": (ValueError,),
    "DataError": (ValueError,),
    "DataTypeError": (ValueError, TypeError),
    "GoalError": (ValueError,),
    "BudgetError": (ValueError,),
    "LearnerError": (ValueError,),
    "SettingError": (ValueError,),
    "QueryRefused": (Exception,),
    "BudgetSpent": (superteach.exceptions.QueryRefused,),
    "TeachingError": (RuntimeError,),
    "NotConverged": (superteach.exceptions.TeachingError,),
    "TeacherLost": (superteach.exceptions.TeachingError,),
    "BadReply": (superteach.exceptions.TeacherLost,),
    "MissingExtra": (ImportError,),
}
HEAVY = ("sklearn", "scipy", "pandas", "polars", "pyarrow", "matplotlib", "typer", "rich")


def test_public_names_are_pinned():
    """A name that comes or goes is a decision, not an accident."""
    assert sorted(superteach.__all__) == NAMES
    assert set(NAMES) <= set(dir(superteach))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_imported(name):
    """Attribute access and `from superteach import name` give the same thing, of the kind its case says."""
    value = getattr(superteach, name)
    assert value is getattr(__import__("superteach", fromlist=[name]), name)
    if name in ("compare_with_random", "drop", "last_layer", "teach"):
        assert callable(value)
    elif name[0].isupper():
        assert isinstance(value, type)
        assert value.__name__ == name
    else:
        assert isinstance(value, ModuleType)
        assert value is import_module(f"superteach.{name}")


def test_star_import_brings_every_name():
    """`from superteach import *` works although names come in when first used."""
    space: dict[str, object] = {}
    exec("from superteach import *", space)
    assert set(NAMES) <= set(space)


def test_unknown_names_are_refused():
    """A typo is an AttributeError, as for any module."""
    with pytest.raises(AttributeError, match="SuperTeecher"):
        _ = superteach.SuperTeecher
    assert not hasattr(superteach, "numpy")


def imported(statement: str) -> set[str]:
    """The modules in a fresh interpreter after a statement."""
    script = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_import_stays_light():
    """`import superteach` brings in none of the packages that take time to start."""
    assert not imported("import superteach") & {*HEAVY, "numpy"}


def test_the_estimator_brings_no_files_or_figures():
    """The estimator needs neither data files nor the command line nor figures."""
    parts = {"superteach.io.tables", "superteach.cli", "matplotlib", "typer"}
    assert not imported("from superteach import SuperTeacher") & parts


EXTRAS = (
    "pandas",
    "polars",
    "mlflow",
    "cryptography",
    "dp_accounting",
    "fsspec",
    "nvflare",
    "pyspark",
    "torch",
)
NEEDS_EXTRAS = re.compile(
    r"superteach\.(__main__|federated|teacher\.fused|cli\.(site|federation|federated|lessons))(\.|$)"
)
"""Modules that come with an extra: federations, and Triton's kernels."""


def test_the_product_works_without_extras_and_without_the_laboratory():
    """All other modules, in an interpreter that has none of them."""
    modules = [module.name for module in pkgutil.walk_packages(superteach.__path__, "superteach.")]
    plain = [name for name in modules if not NEEDS_EXTRAS.match(name)]
    script = f"""
import importlib, sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in {(*EXTRAS, "superteach_lab")}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent)
for name in {plain}:
    importlib.import_module(name)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_version_is_the_installed_one():
    """The package and its metadata tell one version."""
    assert superteach.__version__ == version("superteach")


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_also_the_builtin_ones(name):
    """Every error is a SuperteachError, and what scikit-learn's users catch anyway."""
    error = getattr(superteach.exceptions, name)
    assert issubclass(error, superteach.SuperteachError)
    for base in ERRORS[name]:
        assert issubclass(error, base)


def test_errors_listed_are_all_there_are():
    """A new error class must be added to the list above."""
    found = {
        name
        for name, value in vars(superteach.exceptions).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert found == set(ERRORS)


def test_super_teacher_is_a_scikit_learn_estimator():
    """Its parameters keep their names."""
    assert issubclass(superteach.SuperTeacher, BaseEstimator)
    assert set(superteach.SuperTeacher().get_params()) >= {
        "estimator",
        "goal",
        "budget",
        "method",
        "sparsity",
        "goal_weight",
        "solver",
        "standardize",
        "random_state",
    }
