"""Settings of a lesson: declared, described and checked here, once, for every face.

A setting is a field of `Settings`. Its metadata say how it is checked and what the command line calls it; the scikit-learn
class, `teach`, the command line, the order of a federation, its journal and the report derive the rest.
"""

from __future__ import annotations

import ast
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsFloat, TypedDict, TypeGuard, cast, get_type_hints

from superteach.coordinator import methods
from superteach.exceptions import BudgetError, SettingError
from superteach.words import PRIVACY

if TYPE_CHECKING:
    from superteach.learner import Learner
    from superteach.optim import LBFGS, Block, Newton

Budget = int | float | str | tuple[Any, Any]
MEASURES = ("predictions", "coefficients")
ROUNDINGS = ("together", "alone")
SOLVERS = ("newton", "lbfgs", "block")
BUDGETS = "give a count, a fraction in (0, 1], a range (low, high) of either, 'best', or 'smallest' with risk_target="


def option_of(setting: Field[Any]) -> str:
    """Name a setting on the command line and in a journal, without dashes."""
    return str(setting.metadata.get("option", setting.name))


def check_budget(budget: Any) -> Any:
    """Refuse what no number of rows could make a budget."""
    if isinstance(budget, str) and budget in ("best", "smallest"):
        return budget
    if isinstance(budget, tuple | list):
        if len(budget) != 2 or any(isinstance(end, str | tuple | list) for end in budget):
            raise BudgetError(f"budget={budget!r} is not a range (low, high): {BUDGETS}")
        low, high = (check_budget(end) for end in budget)
        if is_count(low) != is_count(high) or low > high:
            raise BudgetError(f"budget={budget!r}: a range has two counts or two fractions, the smaller first")
        return low, high
    if is_count(budget):
        if budget < 1:
            raise BudgetError(f"budget={budget} rows is too few: a lesson has at least one row")
        return int(budget)
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        raise BudgetError(f"budget={budget!r} is not known: {BUDGETS}")
    if not 0.0 < float(budget) <= 1.0:
        raise BudgetError(f"budget={budget} is not a fraction in (0, 1]; write an int for a count of rows")
    return float(budget)


def is_count(value: object) -> TypeGuard[int]:
    """Tell whole numbers from fractions, truth values and anything else."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def read_budget(text: str) -> Any:
    """Read a count ("200"), a fraction ("0.04"), a range of either ("50:200"), "best" or "smallest"."""
    if text in ("best", "smallest"):
        return text
    with suppress(ValueError):
        ends = tuple(int(end) if re.fullmatch(r"[\s\d_+-]+", end) else float(end) for end in text.split(":"))
        if len(ends) < 3:
            return ends if len(ends) == 2 else ends[0]
    raise BudgetError(
        f"--budget {text!r} is not known: give a count (200), a fraction (0.04), a range (50:200 or 0.01:0.05), "
        "best, or smallest with --risk-target"
    )


def _number(low: float, below: float | None = None) -> Callable[[str, object], float]:
    """Make a check of numbers from `low` on, or of numbers between `low` and `below`."""

    def check(name: str, value: object) -> float:
        from superteach.optim.problem import MOST

        try:
            number = float(cast("SupportsFloat", value))
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not (low <= number <= MOST if below is None else low < number < below):
            wanted = f"from {low:g} to {MOST:g}" if below is None else f"above {low:g} and below {below:g}"
            raise SettingError(f"{name}={value!r} must be a number {wanted}")
        return number

    return check


def check_whole(least: int) -> Callable[[str, object], int]:
    """Make a check of whole numbers from `least` on."""

    def check(name: str, value: object) -> int:
        if not is_count(value) or value < least:
            raise SettingError(f"{name}={value!r} must be an int of at least {least}")
        return int(value)

    return check


def _word(choices: Sequence[str]) -> Callable[[str, object], str]:
    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            *others, last = map(repr, choices)
            raise SettingError(f"{name}={value!r} is not known; there are {', '.join(others)} and {last}")
        return str(value)

    return check


def _truth(name: str, value: object) -> bool:
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise SettingError(f"{name}={value!r} must be True or False")
    return bool(value)


def _seed(name: str, value: object) -> int:
    """Make one number of scikit-learn's three kinds of random_state."""
    import numpy as np

    if value is None:
        return 0
    if isinstance(value, np.random.RandomState):
        return int(value.randint(2**31))
    if not is_count(value):
        raise SettingError(f"{name}={value!r} must be an int, a RandomState or None")
    if not 0 <= value < 2**64:
        raise SettingError(f"{name}={value!r} must be an int from 0 to {2**64 - 1}")
    return int(value)


def _method(name: str, value: object) -> str:
    found = _word(methods.names())(name, value)
    methods.find(found)  # here rather than after the first query, where a package is missing
    return found


def _solver(name: str, value: object) -> Any:
    """Make a solver of its name, or of a text such as Block(staleness=2)."""
    from superteach import optim

    kinds = dict(zip(SOLVERS, (optim.Newton, optim.LBFGS, optim.Block), strict=True))
    if isinstance(value, str):
        word, _, rest = value.lower().partition("(")
        if word in kinds:
            call = ast.parse(f"f({rest or ')'}", mode="eval").body
            assert isinstance(call, ast.Call)
            return kinds[word](**{str(one.arg): ast.literal_eval(one.value) for one in call.keywords})
    elif isinstance(value, tuple(kinds.values())):
        return value
    raise SettingError(f"{name}={value!r} must be one of superteach.optim: Newton(), LBFGS() or Block()")


def _setting(default: Any, help: str, check: Callable[[str, object], Any], **more: Any) -> Any:
    """Declare a setting, with the sentence of the command line's help and its check: (name, value) -> value as it is kept.

    The command line reads a number or a truth value where `check` returns one, else a word. More: `option`, its name for
    the setting; `read`, which makes a value of the word; `choices`, the words it accepts; `shown`, the default that its help
    shows. None as default is not checked.
    """
    text = get_type_hints(check).get("return")
    plain = text if text in (bool, int, float) else str
    return field(default=default, metadata={"help": help, "check": check, "text": plain, **more})


@dataclass(frozen=True)
class Settings:
    """How a lesson is taught.

    budget : how many rows: an int (count), a float in (0, 1] (fraction), a range (low, high) of either,
        "best" (lowest risk on a path), or "smallest" (the smallest lesson that reaches risk_target).
    method : "match" (exact teaching), "dual" (the paper's), "random", or every teacher alone: "oblivious" (by exact
        teaching) or "oblivious-minlp" (by a mixed-integer programme, needs superteach-lab[minlp]).
    risk_target : the risk at which a lesson is good enough ("match" stops there; None: 1e-6 of the goal).
    sparsity, goal_weight : the paper's λ_α and λ_θ; None takes 0.1 and 1000 (classification), 1 and 2000 (regression).
    solver : superteach.optim.Newton(), LBFGS() or Block(); None takes Newton, or LBFGS for very wide data.
    measure : what is nearest where a goal cannot be taught exactly, and what "best" compares: "predictions" (root mean
        square difference of predictions over the pool) or "coefficients" (the paper's ‖θ_S − θ*‖).
    standardize : teach on standardised columns; goal and model stay in raw units.
    rounding : how "match" turns fractions into rows: "together" (by sums over teachers; nearest to the goal), or "alone"
        (each teacher by itself once the relaxed problem is solved, as in a federation).
    restarts : searches of "match" with other lots, of which the best is kept; small lessons gain most.
    seconds : time after which "match" tries nothing more and returns the best lesson so far (None: no limit).
    solver_seconds : time after which a teacher's solver is ended ("oblivious-minlp").
    privacy : what leaves the owners of rows: "isolated" (every teacher meets its share of the goal alone, and an
        acknowledgement is all that leaves), "dp" (shares are moved by two noisy releases of each teacher), or "none" (the
        coordinator can read the rows). Noise comes from the system's randomness, never from random_state.
    epsilon, delta : the budget of privacy="dp", for adding or removing one row, of the whole lesson.
    random_state : the same seed gives the same lesson.
    """

    budget: Budget = _setting(
        "best",
        "Rows to choose: a count (200), a fraction (0.04), the best size of a range (50:200 or 0.01:0.05), best, or "
        "smallest (with --risk-target).",
        lambda _, value: check_budget(value),
        read=read_budget,
    )
    method: str = _setting("match", methods.about(), _method, choices=methods.names())
    risk_target: float | None = _setting(
        None, "Distance to the goal that is small enough (default: 1e-6 of the goal's length).", _number(0.0)
    )
    sparsity: float | None = _setting(None, "Weight of the l1 term (0.1; regression 1).", _number(0.0))
    goal_weight: float | None = _setting(None, "Pull towards the goal (1000; regression 2000).", _number(0.0))
    solver: Newton | LBFGS | Block | None = _setting(
        None, "Solver of the dual (default newton; lbfgs for very wide data).", _solver, choices=SOLVERS
    )
    measure: str = _setting(
        "predictions",
        "Distance to the goal that counts where it is out of reach: of predictions over the pool, or of coefficients (the "
        "paper's).",
        _word(MEASURES),
        choices=MEASURES,
    )
    standardize: bool = _setting(False, "Teach on standardised columns; the model stays in raw units.", _truth)
    rounding: str = _setting(
        "together",
        "How match turns fractions into rows: together by sums (with files, which are all on one machine; single rows "
        "can be read from the last of these sums), or each teacher alone.",
        _word(ROUNDINGS),
        choices=ROUNDINGS,
        shown="together; with --box: alone",
    )
    restarts: int = _setting(1, "Searches of match from other starts; the best is kept.", check_whole(1))
    seconds: float | None = _setting(
        None, "Seconds after which match tries nothing more and returns its best lesson.", _number(0.0)
    )
    solver_seconds: float = _setting(120.0, "Seconds that oblivious-minlp gives each teacher's solver.", _number(0.1))
    privacy: str = _setting(
        "none",
        "What leaves the owners of rows: isolated (an acknowledgement, nothing else), dp (two noisy sums of each owner), or "
        "none (the coordinator can read the rows).",
        _word(tuple(PRIVACY)),
        choices=tuple(PRIVACY),
        shown="none; with --box: isolated",
    )
    epsilon: float = _setting(1.0, "ε of --privacy dp, for adding or removing one row.", _number(0.0, 50.0))
    delta: float = _setting(1e-6, "δ of --privacy dp, at most 1 / (10 × rows).", _number(0.0, 1.0))
    random_state: Any = _setting(0, "The same seed gives the same lesson.", _seed, option="seed")

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None or one.default is not None:
                object.__setattr__(self, one.name, one.metadata["check"](one.name, value))
        if self.budget == "smallest" and self.risk_target is None:
            raise SettingError("budget='smallest' needs risk_target=, the risk that is small enough")
        if self.privacy != "none" and isinstance(self.budget, str | tuple):
            raise BudgetError(
                f"budget={self.budget!r} compares risks that are measured, and privacy={self.privacy!r} measures none: "
                "give a count or a fraction"
            )

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
        """Return values for JSON, from which `Settings(**values)` makes the same settings again."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return values | {"solver": None if self.solver is None else repr(self.solver)}

    def as_options(self) -> dict[str, Any]:
        """Return `as_dict` with the names of the command line."""
        values = self.as_dict()
        return {option_of(one): values[one.name] for one in fields(self)}


class Given(TypedDict, total=False):
    """Settings as keywords, for type checkers; a test holds it against `Settings`."""

    budget: Budget
    method: str
    risk_target: float | None
    sparsity: float | None
    goal_weight: float | None
    solver: Newton | LBFGS | Block | None
    measure: str
    standardize: bool
    rounding: str
    restarts: int
    seconds: float | None
    solver_seconds: float
    privacy: str
    epsilon: float
    delta: float
    random_state: Any


def of_options(given: Mapping[str, Any]) -> Settings:
    """Make settings of what a command line gave, by field; an error speaks of options."""
    readers = {one.name: one.metadata.get("read", lambda value: value) for one in fields(Settings)}
    try:
        return Settings(**{name: readers[name](value) for name, value in given.items() if value is not None})
    except (BudgetError, SettingError) as error:
        raise type(error)(in_options(str(error))) from None


WITHOUT = "without:"
"""How a command line begins to name the fit without some columns."""
_GOALS = {"PerturbedFit": "perturbed", "MaxAUC": "max-auc", "FromData": "from-data:FILE", "Without": f"{WITHOUT}COLUMN"}
_VALUE = r"(\([^()]*\)|'[^']*'|[\w.+-]*\w(?:\([^()]*\))?|)"
"""A value as Python writes it: a pair, a text, a number, a word or a call."""


def in_options(text: str) -> str:
    """Turn Python in a message into options of the command line: budget=(0.1, 0.4) is --budget 0.1:0.4."""
    for one in fields(Settings):
        option = f"--{option_of(one).replace('_', '-')}"
        text = re.sub(rf"(?<![\w-]){one.name}={_VALUE}", partial(_spoken, option), text)
    text = re.sub(r"\w+\((C|alpha)=([^()]*)\) cannot be taught: \1 must", r"--\1 \2 cannot be taught: it must", text)
    text = re.sub(
        r"goals?[=.](PerturbedFit|MaxAUC|FromData|Without)(\([^()]*\))?", lambda one: f"--goal {_GOALS[one[1]]}", text
    )
    return re.sub(r"\ban int\b", "a whole number", text)


def _spoken(option: str, found: re.Match[str]) -> str:
    """Write a setting as it is typed."""
    value = found[1]
    if value.startswith("("):
        value = value[1:-1].replace(", ", ":")
    elif value.endswith(")"):
        value = value.partition("(")[0].lower()
    elif value in ("True", "False"):
        value, option = "", option if value == "True" else f"--no-{option[2:]}"
    return f"{option} {value.strip(chr(39))}".strip()
