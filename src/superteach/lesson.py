"""The lesson: everything a run hands back to whoever asked for it. No row, row number or score is in it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np

from superteach.exceptions import DataError, LearnerError, MissingExtra, SettingError, reason_of, shorten
from superteach.io.atomic import write_text
from superteach.packages import versions
from superteach.report import page_of, plots
from superteach.report.page import notebook_html
from superteach.report.words import agreements, coefficients, random_rows, verdict
from superteach.types import Array, Foreign, Json, Label, Labels, Positions, Raw

TAUGHT = 0.01
"""Share of the spread of predictions within which a goal counts as taught."""


@dataclass(frozen=True)
class Words:
    """What a method says of a lesson, in the report and on the screen; stored with the lesson."""

    label: str = "lesson"
    """Name in a legend."""
    chosen: str = ""
    """Sentence: how rows were chosen."""
    objective: str = ""
    """Sentence: what its objective means."""
    unproved: str = "Nothing is proved; the risk is measured."
    """Sentence: what to say where nothing is proved."""
    ended: str = "The search ended because {reason}."
    """Sentence: how it ended."""
    exact: bool = False
    """Whether it aims at the goal exactly: its objective predicts the risk, its verdict says more than a distance."""
    unused: tuple[str, ...] = ()
    """Settings that only other methods look at."""


@dataclass(frozen=True)
class Entry:
    """One round in the ledger; bytes are those of the numbers, over all teachers."""

    number: int
    stage: str
    query: str
    bytes_out: int
    bytes_in: int
    seconds: float
    """NaN in a private lesson, where time would tell of rows."""
    risk: float | None = None
    """What is left of the way to the goal after this round, where the coordinator knows it."""
    teacher: str | None = None
    """Who alone was asked, in an asynchronous round; None: all, and their sum came back."""


@dataclass(frozen=True)
class PathPoint:
    """One lesson size that was looked at, and the risk of the learner taught with it."""

    size: int
    fraction: float
    risk: float
    distance: float = math.nan
    """Distance to the goal in the lesson's measure, by which sizes are compared."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proof that no lesson of this size, not even of fractional rows, teaches the goal exactly."""

    direction: Array
    """u of unit length: one number per coefficient of the scaled model, and one for the count of rows."""
    margin: float
    """u'(Λθ*, n) − Σ_j max(0, u'(g_j, 1)), which is positive."""
    within: float | None = None
    """Where the goal is a set: the proof holds too for its models with predictions within this distance of the goal's."""
    whole: bool = False
    """Whether it holds for every model of the set; then no lesson comes nearer to the set than `lower_bound`."""


@dataclass(frozen=True)
class RandomRows:
    """How near the goal the learner comes when it is trained on as many random rows as the lesson has: one entry a draw."""

    agreement: tuple[float, ...]
    prediction_distance: tuple[float, ...]
    risk: tuple[float, ...]
    without_model: int = 0
    """Draws that no model belongs to, such as rows of one class; others were drawn in their place."""


@dataclass(frozen=True, eq=False, repr=False)
class Lesson:
    """A taught model, how good it is, and what it took."""

    model: Array
    """Coefficients in raw units, intercept last where the learner fits one; one row for each of many classes or targets."""
    goal: Array
    """θ* in the same units."""
    intercept: bool
    size: int
    pool_rows: int
    """Rows of all teachers, of which `size` were chosen; in a private lesson what they declare together."""
    risk: float
    """‖θ_S − θ*‖."""
    agreement: float
    pool_risk: float
    """Risk of the learner trained on every row."""
    objective: Array
    """The teaching objective after every step of the solver (empty for methods without one)."""
    gap: Array
    """A certified bound for each entry of `objective`: how far it lies above the optimum at most."""
    path: tuple[PathPoint, ...]
    ledger: tuple[Entry, ...]
    seconds: float
    reason: str
    """Why the solver stopped, in a sentence."""
    converged: bool
    teachers: tuple[str, ...]
    certificate: Certificate | None = None
    """Set where the goal is proved to be out of reach for a lesson of this size (method "match")."""
    lower_bound: float = 0.0
    """A distance, in the lesson's measure, that no lesson can go below, where one is proved."""
    prediction_distance: float = math.nan
    """Root mean square of x'(θ_S − θ*) over the pool: risk in units that do not depend on those of columns."""
    prediction_spread: float = math.nan
    """Root mean square of the goal's predictions around their mean, to set the distance beside."""
    classifies: bool = False
    """Whether the learner predicts labels: agreement is then a share of rows, else r²."""
    pool_agreement: float = math.nan
    """Agreement with the goal's predictions of the learner trained on every row."""
    pool_distance: float = math.nan
    """Distance of its predictions from the goal's."""
    random_rows: RandomRows | None = None
    """What `compare_with_random` found; None: nobody has compared, or a privacy mode forbids it."""
    unseen_directions: int = 0
    """Directions v with x'v = 0 for every row, along which the goal was moved; 0: it was not."""
    goal_shift: float = 0.0
    """How far it was moved, in raw coefficients."""
    cost: float | None = None
    """What the chosen rows cost their owners in all, where owners gave costs."""
    interruptions: tuple[Json, ...] = ()
    """Who was lost on the way, when and why, and what was done about it (lessons of a federation)."""
    privacy: str = "none"
    """The privacy mode: "isolated", "dp" or "none"."""
    guarantee: Json | None = None
    """What "dp" keeps: ε and δ, μ, ρ, the unit and the relation, and a sentence; None: nothing is stated in numbers."""
    stated_risk: float | None = None
    """A risk that is exceeded rarely, known without a fit. None: only each owner knows how well its rows carry its share."""
    delivered: bool = True
    """Whether the learner was fitted on the chosen rows here; outside of "none" that would be a release of its own."""
    words: Words = field(default_factory=Words)
    settings: Json = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    """Versions of what computed the lesson."""
    columns: tuple[str, ...] = ()
    """Names of the coefficients, the intercept's not among them; empty where columns have none."""
    goal_in_words: str = ""
    """What was asked for: without sex, fit on other.csv, coefficients given."""
    classes: tuple[Label, ...] = ()
    """Labels of a classifier, in the order of its outputs; of two, the positive one is last. Empty: not known."""
    pool_model: Array | None = None
    """The learner's model on every row, in the same units; None where nobody has fitted it."""
    column_spread: Array | None = None
    """Standard deviations of the columns over all rows (root mean squares where the learner has no intercept)."""
    model_: Foreign = None
    """The taught model as a fitted estimator of the learner's own class, or a fitted Pipeline; not in files."""

    def __repr__(self) -> str:
        """One line."""
        near = f"{agreements(self)}, risk {self.risk:.2g}" if self.delivered else "not refitted"
        count = len(self.teachers)
        near += "" if self.random_rows is None else ", random rows: {} ({})".format(*random_rows(self))
        near += "" if self.positive is None else f", positive {self.positive!r}"
        by = f"{self.settings.get('method', '?')!r}, {count} teacher{'s' * (count != 1)}"
        goal = f"goal {shorten(self.goal_in_words, 60)!r}, " if self.goal_in_words else ""
        return f"Lesson({self.size} of {self.pool_rows} rows, {goal}{near}, {by})"

    def _repr_html_(self) -> str:
        """Show the verdict in a notebook, and the model beside that of all rows."""
        return notebook_html(self)

    def plot(self) -> Foreign:
        """Draw the distance to the goal by size, and coefficients beside the goal's; return matplotlib's figure."""
        if not self.delivered:
            raise SettingError(
                "the model was not refitted in this privacy mode, so there is nothing to draw; see verdict"
            )
        sizes = plots.sizes_plot({self.words.label: self})
        return plots.figure_of([*([sizes] if sizes else []), plots.coefficients_plot(self, self._names)])

    def to_frame(self, what: str = "coefficients") -> Foreign:
        """Return "coefficients" (goal, all rows, taught), "path" (sizes and risks) or "ledger" (rounds) as a data frame.

        It is a pandas one, or a polars one where pandas is not installed.
        """
        if what == "coefficients":
            pool = np.full(self.goal.shape, np.nan) if self.pool_model is None else self.pool_model
            models = {"goal": self.goal, "all_rows": pool, "taught": self.model}
            table = {"column": self._names} | {name: model.ravel() for name, model in models.items()}
        elif what in ("path", "ledger"):
            entries = [asdict(entry) for entry in (self.path if what == "path" else self.ledger)]
            table = {name: [entry[name] for entry in entries] for name in (entries[0] if entries else ())}
        else:
            raise SettingError(f"what={what!r} is not known; there are 'coefficients', 'path' and 'ledger'")
        for package in ("pandas", "polars"):
            try:
                return import_module(package).DataFrame(table)
            except ImportError:
                continue
        raise MissingExtra("pandas or polars", "frame", "a data frame of a lesson")

    @property
    def _names(self) -> list[str]:
        return coefficients(self, self.columns or [f"x{place}" for place in range(self.coef.shape[-1])])

    def named(self, columns: Sequence[object], classes: Labels | None = None) -> Lesson:
        """Return the same lesson, with names for its coefficients where columns have names, and with its labels."""
        names = tuple(map(str, columns)) if all(isinstance(one, str) for one in columns) else ()
        return replace(self, columns=names, classes=() if classes is None else tuple(np.asarray(classes).tolist()))

    def with_model(self, estimator: Foreign, classes: Labels | None) -> Lesson:
        """Return the same lesson, with the taught model as a fitted estimator like the one given (a Learner: without)."""
        if not hasattr(estimator, "fit"):
            return self
        from sklearn.base import clone, is_classifier

        if classes is None and is_classifier(estimator):
            return self  # nobody has said what the labels are
        model = clone(estimator)
        # A fit on rows of zeros sets whatever the class needs to predict; then the taught numbers take its place.
        labels = np.ones(2 if self.coef.ndim == 1 else (2, len(self.coef))) if classes is None else np.asarray(classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.fit(np.zeros((len(labels), self.coef.shape[-1])), labels)
            except (ValueError, TypeError, OverflowError) as error:
                fault = f"{type(model).__name__} cannot be fitted on labels such as {shorten(repr(classes), 60)}"
                raise LearnerError(f"{fault}: {reason_of(error)}") from None
        # scikit-learn's coefficients speak for the larger label, these for the positive one.
        sign = -1.0 if self.positive is not None and labels[0] == model.classes_[1] else 1.0
        model.coef_ = sign * np.reshape(self.coef, np.shape(model.coef_))
        if self.intercept:
            offset = sign * np.reshape(self.offset, np.shape(model.intercept_))
            model.intercept_ = offset.copy() if offset.ndim else float(offset)
        if self.columns:
            model.feature_names_in_ = np.array(self.columns, dtype=object)
        return replace(self, model_=model)

    @property
    def abandoned(self) -> dict[str, int]:
        """Queries and bytes of one teacher in beginnings that were given up because another teacher was lost."""
        lost = [facts for facts in self.interruptions if facts.get("rounds")]
        return {
            "rounds": sum(facts["rounds"] for facts in lost),
            "bytes_in": sum(facts["bytes_in"] // facts["teachers"] for facts in lost),
            "bytes_out": sum(facts["bytes_out"] // facts["teachers"] for facts in lost),
        }

    @property
    def coef(self) -> Array:
        """Coefficients without the intercept; one row for each output where there are several."""
        return self.model[..., :-1] if self.intercept else self.model

    @property
    def spread_of_coefficients(self) -> Array:
        """For every coefficient the spread of its column, NaN for intercepts and where it is not known.

        Coefficients times it are standardised.
        """
        columns = np.full(self.coef.shape[-1], np.nan) if self.column_spread is None else self.column_spread
        own = np.append(columns, [np.nan] * self.intercept)
        return np.tile(own, self.goal.size // len(own))

    @property
    def offset(self) -> float | Array:
        """The intercept, 0 where there is none; one number for each output where there are several."""
        if self.model.ndim == 2:
            return self.model[:, -1] if self.intercept else np.zeros(len(self.model))
        return float(self.model[-1]) if self.intercept else 0.0

    @property
    def positive(self) -> Label | None:
        """The label that scores above 0 predict; None: no labels, more than two, or not known."""
        return self.classes[1] if len(self.classes) == 2 else None

    @property
    def fraction(self) -> float:
        """|S|/N."""
        return self.size / self.pool_rows

    @property
    def ratio(self) -> float:
        """The super-teaching ratio: risk of the lesson over risk of the pool; below 1 the lesson wins."""
        if self.pool_risk == 0.0:
            return float("inf") if self.risk else 1.0
        return self.risk / self.pool_risk

    @property
    def taught(self) -> bool:
        """Whether predictions are within TAUGHT of the goal's own spread (or risk within risk_target, where one is set)."""
        wanted = self.settings.get("risk_target")
        if wanted is not None:
            return bool(self.risk <= wanted)
        return bool(self.prediction_distance <= TAUGHT * self.prediction_spread)

    @property
    def measure(self) -> str:
        """What distance to the goal the lesson made small: of "predictions" over the pool, or of "coefficients"."""
        return str(self.settings.get("measure", "coefficients"))

    @property
    def distance(self) -> float:
        """Distance to the goal in the lesson's measure."""
        return self.prediction_distance if self.measure == "predictions" else self.risk

    @property
    def verdict(self) -> str:
        """In one sentence: whether the goal was taught, what is proved, and how near predictions and coefficients come."""
        return verdict(self)

    @property
    def rounds(self) -> int:
        """How many sums were asked for, from the first count to the last metric."""
        return len(self.ledger)

    @property
    def bytes(self) -> int:
        """Bytes of numbers sent and received, over all teachers."""
        return sum(entry.bytes_out + entry.bytes_in for entry in self.ledger)

    def as_dict(self) -> Json:
        """Return everything as plain values for JSON."""
        own = {
            one.name: _plain(getattr(self, one.name)) for one in fields(self) if one.name not in ("intercept", "model_")
        }
        derived = {name: getattr(self, name) for name in ("fraction", "ratio", "rounds", "bytes", "positive")}
        return own | {"model": {"coef": self.coef.tolist(), "intercept": _plain(self.offset)}} | derived

    def save(self, path: str | Path) -> None:
        """Write the lesson as JSON, in a folder as lesson.json; the file appears whole or not at all."""
        with _writing(path):
            write_text(_file(path, "lesson.json"), to_json(self.as_dict()))

    def report(
        self,
        path: str | Path,
        *,
        against: Foreign = None,
        columns: Sequence[str] | None = None,
        contributions: Mapping[str, int] | None = None,
        title: str = "Lesson report",
    ) -> None:
        """Write the lesson as one HTML page to read or send, in a folder as report.html.

        `against` sets lessons beside it: one, a list, or a dict by name. `columns` names the coefficients.
        `contributions`, chosen rows by teacher, is for whoever has them: the lesson has only their sum.
        """
        columns = self.columns or None if columns is None else columns
        page = page_of(self, title=title, against=against, columns=columns, contributions=contributions)
        with _writing(path):
            page.write(_file(path, "report.html"))

    @classmethod
    def load(cls, path: str | Path) -> Lesson:
        """Read a lesson that `save` wrote, lesson.json of a folder."""
        try:
            return cls._read(json.loads(_file(path, "lesson.json").read_text(encoding="utf-8")))
        except OSError as error:
            raise DataError(f"the lesson {str(path)!r} cannot be read: {reason_of(error)}; check the path") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            fault = f"it has no {error}" if isinstance(error, KeyError) else reason_of(error)
            raise DataError(f"{str(path)!r} is no lesson that Lesson.save wrote: {fault}") from None

    @classmethod
    def _read(cls, stored: Json) -> Lesson:
        coef, goal = (np.array(one, dtype=np.float64) for one in (stored["model"]["coef"], stored["goal"]))
        intercept = goal.shape[-1] > coef.shape[-1]
        offset = np.array(stored["model"]["intercept"], dtype=np.float64)
        whole = np.concatenate([coef, offset[..., None]], axis=-1) if intercept else coef
        values = {one.name: stored[one.name] for one in fields(cls) if one.name in stored}
        stored_words = stored.get("words", {})
        words = Words(**stored_words | {"unused": tuple(stored_words.get("unused", ()))})
        values |= {"model": whole, "intercept": intercept, "words": words}
        values |= {name: np.array(values[name], dtype=np.float64) for name in ("model", "goal", "objective", "gap")}
        for point in stored["path"]:
            point["distance"] = math.nan if point.get("distance") is None else point["distance"]
        values["path"] = tuple(PathPoint(**point) for point in stored["path"])
        entries = [entry | {"seconds": math.nan} if entry["seconds"] is None else entry for entry in stored["ledger"]]
        values["ledger"] = tuple(Entry(**entry) for entry in entries)
        if (proof := stored["certificate"]) is not None:
            values["certificate"] = Certificate(**proof | {"direction": np.array(proof["direction"])})
        if (drawn := values.get("random_rows")) is not None:
            drawn = {name: tuple(one) if isinstance(one, list) else one for name, one in drawn.items()}
            values["random_rows"] = RandomRows(**drawn)
        for name in ("pool_model", "column_spread"):
            if values.get(name) is not None:
                values[name] = np.array(values[name], dtype=np.float64)
        for name in ("teachers", "interruptions", "columns", "classes"):
            values[name] = tuple(values.get(name, ()))
        # Numbers are null where they are not finite, or not known.
        for name in (one.name for one in fields(cls) if one.type == "float"):
            values[name] = math.nan if values.get(name) is None else values[name]
        return cls(**values)


def _file(path: str | Path, name: str) -> Path:
    """Return the file that a path means: itself, or the one of that name in a folder."""
    return Path(path) / name if Path(path).is_dir() else Path(path)


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Say which file could not be written, and why."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise SettingError(f"{str(path)!r} cannot be written: {reason_of(error)}; its folder must be there") from None


def _plain(value: object) -> object:
    """Write arrays, tuples and dataclasses as JSON has them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return value


def to_json(value: object) -> str:
    """Write `value` as JSON that any reader accepts: what is not finite becomes null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class Taught:
    """A lesson, the labels' values, and which rows of each part were chosen."""

    lesson: Lesson
    classes: Raw | None
    chosen: tuple[Positions, ...]
    measured: Lesson | None = None
    """The same lesson as whoever owns all rows measures it: no privacy mode covers that. None: nobody asked for it."""
    notes: tuple[str, ...] = ()
    """What each owner's choice came to, for that owner alone; empty texts where a mode says nothing of it."""


def write_lesson(folder: Path, taught: Taught, columns: Sequence[str], target: str, learner: Json, more: Json) -> Json:
    """Write lesson.json, with `more` in it, and return it; write model.json too where the learner was fitted.

    model.json is enough to predict, and a goal file in its own right.
    """
    lesson = taught.lesson
    if lesson.delivered:
        model = {
            "columns": list(columns),
            "coef": lesson.coef.tolist(),
            "intercept": _plain(lesson.offset),
            "classes": None if taught.classes is None else taught.classes.tolist(),
            "positive": lesson.positive,
            "learner": learner,
        }
        write_json(folder / "model.json", model)
    stored = lesson.as_dict() | {"columns": list(columns), "target": target, **more}
    write_json(folder / "lesson.json", stored)
    return stored | {"verdict": lesson.verdict}


def write_measured(folder: Path, lesson: Lesson, columns: Sequence[str]) -> None:
    """Write measured.json: model and measurements of a lesson taught in a private mode, for whoever owns all rows."""
    what = (
        "For whoever owns all rows: computed from every row, and covered by no privacy mode. From the fit on all rows in "
        "it a missing row can be worked out. Keep it where the rows are."
    )
    stored = {"what": what, **lesson.as_dict(), "verdict": lesson.verdict, "columns": list(columns)}
    write_json(folder / "measured.json", stored)


def write_json(path: Path, stored: Json) -> None:
    """Write JSON that any reader accepts: what is not finite becomes null."""
    path.write_text(to_json(stored), encoding="utf-8", newline="\n")
