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
    from superteach import datasets, exceptions, goals, losses, optim
    from superteach.compare import compare_with_random
    from superteach.coordinator.federation import Federation
    from superteach.coordinator.teach import teach
    from superteach.engines.threads import Threads
    from superteach.engines.torch import Torch
    from superteach.estimator import SuperTeacher
    from superteach.exceptions import SuperteachError
    from superteach.learner import Learner
    from superteach.lesson import Lesson
    from superteach.teacher import Teacher

__version__: str

__all__ = [
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

_HOMES = {
    "Federation": "coordinator.federation",
    "Threads": "engines.threads",
    "Learner": "learner",
    "Lesson": "lesson",
    "SuperTeacher": "estimator",
    "SuperteachError": "exceptions",
    "Teacher": "teacher",
    "Torch": "engines.torch",
    "compare_with_random": "compare",
    "drop": "robustness.drop",
    "last_layer": "engines.torch",
    "teach": "coordinator.teach",
}


def __getattr__(name: str) -> Any:
    """Bring a public name in when it is first used, so that the command line starts at once."""
    if name == "__version__":
        return import_module("superteach.packages").VERSION
    if name not in __all__:
        raise AttributeError(f"module 'superteach' has no attribute {name!r}")
    if name in _HOMES:
        return getattr(import_module(f"superteach.{_HOMES[name]}"), name)
    return import_module(f"superteach.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
