"""Every error superteach raises on purpose.

SuperteachError
├── InputError (ValueError)      something handed in cannot be used
│   ├── DataError                rows: missing values, columns, labels, files
│   │   └── DataTypeError        (also a TypeError) values of a type that holds no numbers
│   ├── GoalError                the goal: its length, its values, its origin
│   ├── BudgetError              the budget: out of range, or too small to be learned from
│   ├── LearnerError             an estimator or one of its options that cannot be taught
│   └── SettingError             any other setting
├── QueryRefused                 a teacher will not answer this query
│   └── BudgetSpent              … because its rows have no ε left for it
├── TeachingError (RuntimeError) the work began and cannot go on
│   ├── NotConverged             a fit of the learner did not converge
│   └── TeacherLost              a teacher does not answer any more
│       └── BadReply             … or answers with something that is no answer
└── MissingExtra (ImportError)   an optional dependency is not installed
"""

import difflib
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


NOT_GIVEN = ...


class Setting(NamedTuple):
    """A setting that an error is about, or that would help: budget=40 in Python, --budget 40 on a command line."""

    name: str
    value: object = NOT_GIVEN

    def __str__(self) -> str:
        """Write it as a keyword of Python."""
        shown = self.value.__name__ if isinstance(self.value, type) else repr(self.value)
        return f"{self.name}=" if self.value is NOT_GIVEN else f"{self.name}={shown}"

    def as_option(self) -> str:
        """Write it as an option of the command line."""
        name = {"random_state": "seed"}.get(self.name, self.name).replace("_", "-")
        if isinstance(self.value, bool):
            return f"--{name}" if self.value else f"--no-{name}"
        if isinstance(self.value, tuple | list):
            return f"--{name} {':'.join(map(str, self.value))}"
        if self.value is NOT_GIVEN:
            return f"--{name}"
        text = self.value if isinstance(self.value, str | int | float) else type(self.value).__name__.lower()
        return f"--{name} {getattr(self.value, 'option', text)}"


class SuperteachError(Exception):
    """Base of every error in this package: a sentence in parts, of which some may be settings."""

    @property
    def settings(self) -> "tuple[Setting, ...]":
        """The settings it names, that at fault first."""
        return tuple(part for part in self.args if isinstance(part, Setting))

    def sentence(self, write: "Callable[[Setting], str]" = str) -> str:
        """Put the parts together, with every setting as `write` writes it."""
        return "".join(write(part) if isinstance(part, Setting) else str(part) for part in self.args)

    def __str__(self) -> str:
        return self.sentence()


class InputError(SuperteachError, ValueError):
    """Something handed in cannot be used."""


class DataError(InputError):
    """Rows that cannot be taught from."""


class DataTypeError(DataError, TypeError):
    """Values of a type that holds no numbers."""


class GoalError(InputError):
    """A goal that does not fit the learner or the data."""


class BudgetError(InputError):
    """A budget out of range, or too small to be learned from."""


class LearnerError(InputError):
    """An estimator, or an option of one, that cannot be taught."""


class SettingError(InputError):
    """A setting out of its range."""


class QueryRefused(SuperteachError):
    """A teacher will not answer this query."""


class BudgetSpent(QueryRefused):
    """A lesson asks for more ε than a teacher's rows have left."""


class TeachingError(SuperteachError, RuntimeError):
    """The work began and cannot go on."""


class NotConverged(TeachingError):
    """A fit of the learner that did not converge."""


class TeacherLost(TeachingError):
    """A teacher does not answer any more."""

    pattern = "teacher {teacher} is lost: {reason}"

    def __init__(self, teacher: str, reason: str, resumable: bool = False, when: float | None = None) -> None:
        """Name the teacher, why it is lost, whether the lesson can go on from its journal, and when that was noticed."""
        super().__init__(self.pattern.format(teacher=teacher, reason=reason))
        self.teacher, self.reason, self.resumable = teacher, reason, resumable
        self.when = time.time() if when is None else when


class BadReply(TeacherLost):
    """A teacher answers with something that is no answer: other numbers than asked for, or none."""

    pattern = "teacher {teacher} {reason}"


class MissingExtra(SuperteachError, ImportError):
    """An optional dependency is not installed; the message holds the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str, distribution: str = "superteach") -> None:
        what = f"'{distribution}[{extra}]'" if extra else distribution
        super().__init__(f"{purpose} needs {package}, which is not installed: run  pip install {what}")


def reason_of(error: Exception) -> str:
    """Say in one line why a file or a parser failed."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
    return shorten("".join(one if one.isprintable() else "\ufffd" for one in text) or type(error).__name__)


def shorten(text: str, most: int = 300) -> str:
    """Cut a text to a length that fits a line."""
    return text if len(text) <= most else text[:most] + "…"


def counted(number: int, *words: str) -> str:
    """Count things by their plural and singular: 1 teacher, 5 teachers, 2 queries."""
    return f"{number:,} {words[0] if number != 1 else words[-1] if len(words) > 1 else words[0][:-1]}"


def suggestion(name: object, known: "Sequence[object]") -> str:
    """Say which of the known names a wrong one may have been meant for; nothing where none is close."""
    by_lower = {str(one).lower(): str(one) for one in reversed(known)}
    close = difflib.get_close_matches(name.lower(), by_lower, 1) if isinstance(name, str) else []
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def listed(columns: "Sequence[object]") -> str:
    """Name columns in an error, the first dozen of them."""
    shown = ", ".join(repr(shorten(str(column), 40)) for column in columns[:12])
    return shown + (f", … ({len(columns)} in all)" if len(columns) > 12 else "")
