"""Settings of a lesson: declared and checked here, once, for Python and the command line."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, SupportsFloat, TypedDict, TypeGuard, cast

import numpy as np

from superteach.coordinator import methods
from superteach.exceptions import BudgetError, Setting, SettingError
from superteach.optim.block import Block
from superteach.optim.lbfgs import LBFGS
from superteach.optim.newton import Newton
from superteach.optim.problem import MOST
from superteach.privacy import PRIVACY

if TYPE_CHECKING:
    from superteach.learner import Learner

Budget = int | float | str | tuple[Any, Any]
MEASURES = ("predictions", "coefficients")
ROUNDINGS = ("together", "alone")
SOLVERS: dict[str, type[Newton | LBFGS | Block]] = {"newton": Newton, "lbfgs": LBFGS, "block": Block}
BUDGETS = "give a count, a fraction in (0, 1], a range (low, high) of either, 'best', or 'smallest' with risk_target"


@dataclass(frozen=True)
class Settings:
    """How a lesson is taught; `SuperTeacher` says what each setting means."""

    budget: Budget = "best"
    method: str = "match"
    measure: str = "predictions"
    privacy: str = "none"
    epsilon: float = 1.0
    delta: float = 1e-6
    standardize: bool = False
    risk_target: float | None = None
    rounding: str = "together"
    restarts: int = 1
    seconds: float | None = None
    solver: Newton | LBFGS | Block | None = None
    sparsity: float | None = None
    goal_weight: float | None = None
    solver_seconds: float = 120.0
    random_state: Any = 0

    def __post_init__(self) -> None:
        self._check("budget", check_budget)
        self._check("method", _one_of(methods.names()))
        methods.find(self.method)  # here rather than after the first query, where a package is missing
        self._check("measure", _one_of(MEASURES))
        self._check("privacy", _one_of(tuple(PRIVACY)))
        self._check("epsilon", _number(above=0.0, below=50.0))
        self._check("delta", _number(above=0.0, below=1.0))
        self._check("standardize", _check_truth)
        self._check("rounding", _one_of(ROUNDINGS))
        self._check("restarts", check_whole)
        self._check("solver_seconds", _number(least=0.1))
        self._check("random_state", _check_seed)
        for name in ("risk_target", "seconds", "sparsity", "goal_weight"):
            if getattr(self, name) is not None:
                self._check(name, _number(least=0.0))
        if self.solver is not None:
            self._check("solver", _check_solver)
        if self.budget == "smallest" and self.risk_target is None:
            raise SettingError(
                Setting("budget", "smallest"), " needs ", Setting("risk_target"), ", the risk that is small enough"
            )
        if self.privacy != "none" and isinstance(self.budget, str | tuple):
            raise BudgetError(
                Setting("budget", self.budget),
                " compares risks that are measured, and ",
                Setting("privacy", self.privacy),
                " measures none: give a count or a fraction",
            )

    def _check(self, name: str, check: Callable[[str, Any], object]) -> None:
        """Put the checked value, in its plain form, in the place of what was given."""
        object.__setattr__(self, name, check(name, getattr(self, name)))

    @property
    def staleness(self) -> int:
        """How many answers teachers may be ahead of each other; above 0 rounds are asynchronous."""
        return getattr(self.solver, "staleness", 0)

    def for_learner(self, learner: Learner) -> Settings:
        """Fill in the defaults that depend on the learner."""
        sparsity, weight = (0.1, 1000.0) if learner.loss.classifies else (1.0, 2000.0)
        sparsity = sparsity if self.sparsity is None else self.sparsity
        return replace(self, sparsity=sparsity, goal_weight=weight if self.goal_weight is None else self.goal_weight)

    def as_dict(self) -> dict[str, Any]:
        """Return values for JSON, the solver as Python would write it."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return values | {"solver": None if self.solver is None else repr(self.solver)}


class SettingsDict(TypedDict, total=False):
    """Settings as keywords, for type checkers; a test compares it with `Settings`."""

    budget: Budget
    method: str
    measure: str
    privacy: str
    epsilon: float
    delta: float
    standardize: bool
    risk_target: float | None
    rounding: str
    restarts: int
    seconds: float | None
    solver: Newton | LBFGS | Block | None
    sparsity: float | None
    goal_weight: float | None
    solver_seconds: float
    random_state: Any


def check_budget(name: str, budget: Any) -> Budget:
    """Refuse what no number of rows could make a budget."""
    if isinstance(budget, str) and budget in ("best", "smallest"):
        return budget
    if isinstance(budget, tuple | list):
        if len(budget) != 2 or any(isinstance(end, str | tuple | list) for end in budget):
            raise BudgetError(Setting(name, budget), f" is not a range (low, high): {BUDGETS}")
        low, high = (check_budget(name, end) for end in budget)
        if is_count(low) != is_count(high) or low > high:  # type: ignore[operator]
            raise BudgetError(Setting(name, budget), ": a range has two counts or two fractions, the smaller first")
        return low, high
    if is_count(budget):
        if budget < 1:
            raise BudgetError(Setting(name, budget), " rows is too few: a lesson has at least one row")
        return int(budget)
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        raise BudgetError(Setting(name, budget), f" is not known: {BUDGETS}")
    if not 0.0 < float(budget) <= 1.0:
        raise BudgetError(
            Setting(name, budget), " is not a fraction in (0, 1]; write a whole number for a count of rows"
        )
    return float(budget)


def is_count(value: object) -> TypeGuard[int]:
    """Tell whole numbers from fractions, truth values and anything else."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_whole(name: str, value: object, least: int = 1) -> int:
    """Refuse anything but a whole number from `least` on."""
    if not is_count(value) or value < least:
        raise SettingError(Setting(name, value), f" must be a whole number of at least {least}")
    return int(value)


def _number(
    least: float | None = None, above: float | None = None, below: float | None = None
) -> Callable[[str, object], float]:
    """Make a check for finite numbers from `least` on, or for numbers above one value and below another."""

    def check(name: str, value: object) -> float:
        try:
            number = float(cast("SupportsFloat", value))
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if least is not None and not least <= number <= MOST:
            raise SettingError(Setting(name, value), f" must be a number from {least:g} to {MOST:g}")
        if above is not None and below is not None and not above < number < below:
            raise SettingError(Setting(name, value), f" must be a number above {above:g} and below {below:g}")
        return number

    return check


def _one_of(words: Sequence[str]) -> Callable[[str, object], str]:
    """Make a check for one of some words."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in words:
            *others, last = map(repr, words)
            raise SettingError(Setting(name, value), f" is not known; there are {', '.join(others)} and {last}")
        return str(value)

    return check


def _check_truth(name: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise SettingError(Setting(name, value), " must be True or False")
    return bool(value)


def _check_seed(name: str, value: object) -> int:
    """Make one number of scikit-learn's three kinds of random_state."""
    if value is None:
        return 0
    if isinstance(value, np.random.RandomState):
        return int(value.randint(2**31))
    if not is_count(value):
        raise SettingError(Setting(name, value), " must be a whole number, a RandomState or None")
    if not 0 <= value < 2**64:
        raise SettingError(Setting(name, value), f" must be a whole number from 0 to {2**64 - 1}")
    return int(value)


def _check_solver(name: str, value: object) -> Newton | LBFGS | Block:
    if isinstance(value, str) and value in SOLVERS:
        return SOLVERS[value]()
    if isinstance(value, Newton | LBFGS | Block):
        return value
    raise SettingError(Setting(name, value), " must be one of superteach.optim: Newton(), LBFGS() or Block()")
