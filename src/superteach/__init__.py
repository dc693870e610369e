"""superteach: several owners of private rows teach one model together.

from sklearn.linear_model import LogisticRegression
from superteach import SuperTeacher

teacher = SuperTeacher(LogisticRegression(fit_intercept=False), goal=theta_star, budget=0.04)
teacher.fit(X, y, groups=owner).lesson_.risk
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from superteach import datasets, errors, goals, losses, solvers
    from superteach.coordinator.federation import Federation
    from superteach.coordinator.teaching import teach
    from superteach.engines.inprocess import InProcess
    from superteach.errors import SuperteachError
    from superteach.faces.devices import Torch
    from superteach.faces.estimators import SuperTeacher
    from superteach.lesson import Lesson
    from superteach.mathematics.learner import Learner
    from superteach.teacher import Teacher

__version__: str

__all__ = [
    "Federation",
    "InProcess",
    "Learner",
    "Lesson",
    "SuperTeacher",
    "SuperteachError",
    "Teacher",
    "Torch",
    "datasets",
    "drop",
    "errors",
    "goals",
    "last_layer",
    "losses",
    "solvers",
    "teach",
]

_HOMES = {
    "Federation": "coordinator.federation",
    "InProcess": "engines.inprocess",
    "Learner": "mathematics.learner",
    "Lesson": "lesson",
    "SuperTeacher": "faces.estimators",
    "SuperteachError": "errors",
    "Teacher": "teacher",
    "Torch": "faces.devices",
    "drop": "robustness.drop",
    "last_layer": "faces.devices",
    "teach": "coordinator.teaching",
}


def __getattr__(name: str) -> Any:
    """Bring a public name in when it is first used, so that the command line starts at once."""
    if name == "__version__":
        return import_module("superteach.versions").VERSION
    if name not in __all__:
        raise AttributeError(f"module 'superteach' has no attribute {name!r}")
    if name in _HOMES:
        return getattr(import_module(f"superteach.{_HOMES[name]}"), name)
    return import_module(f"superteach.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
