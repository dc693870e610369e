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
    from superteach.engines.inprocess import InProcess
    from superteach.errors import SuperteachError
    from superteach.estimators import SuperTeacher
    from superteach.federation import Federation
    from superteach.learner import Learner
    from superteach.lesson import Lesson
    from superteach.teacher import Teacher
    from superteach.teaching import teach

__version__ = "0.1.0"

__all__ = [
    "Federation",
    "InProcess",
    "Learner",
    "Lesson",
    "SuperTeacher",
    "SuperteachError",
    "Teacher",
    "datasets",
    "errors",
    "goals",
    "losses",
    "solvers",
    "teach",
]

_HOMES = {
    "Federation": "federation",
    "InProcess": "engines.inprocess",
    "Learner": "learner",
    "Lesson": "lesson",
    "SuperTeacher": "estimators",
    "SuperteachError": "errors",
    "Teacher": "teacher",
    "teach": "teaching",
}


def __getattr__(name: str) -> Any:
    """Bring a public name in when it is first used, so that the command line starts at once."""
    if name not in __all__:
        raise AttributeError(f"module 'superteach' has no attribute {name!r}")
    if name in _HOMES:
        return getattr(import_module(f"superteach.{_HOMES[name]}"), name)
    return import_module(f"superteach.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
