"""`superteach drop`: how few rows of a table carry a finding."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from superteach.cli import screen
from superteach.cli.folder import check_folder, claim, new_folder
from superteach.coordinator import named
from superteach.exceptions import SettingError
from superteach.io.atomic import write_text
from superteach.io.files import open_file
from superteach.io.tables import read_columns, read_pool
from superteach.learner import Learner
from superteach.lesson import to_json
from superteach.report.robustness import page_of_robustness
from superteach.robustness.drop import PROOFS, Robustness, drop
from superteach.types import Foreign, Raw

LINEAR = "linear"
CLASSIFIERS = ("logistic", "svc")


@dataclass(frozen=True)
class Question:
    """What `superteach drop` is asked."""

    file: Path
    target: str | None
    coefficient: str | None
    learner: str | None
    features: list[str] | None
    C: float | None
    alpha: float | None
    intercept: bool
    past: float | None
    significance: float | None
    standard_errors: str
    groups: str | None
    winner: str | None
    loser: str | None
    most: int | None
    seconds: float
    out: Path | None
    overwrite: bool
    as_json: bool
    encoding: str

    def check(self) -> None:
        """Refuse options that do not go together, before the file is read."""
        if (self.winner is None) != (self.loser is None):
            raise SettingError("--winner and --loser go together; name both columns")
        if self.winner is not None:
            if self.target is not None or self.coefficient is not None or self.significance is not None:
                raise SettingError(
                    "--winner and --loser ask about the first place; leave --target and --coefficient out"
                )
            return
        if self.target is None or self.coefficient is None:
            raise SettingError("name --target and --coefficient (or --winner and --loser, for a leaderboard)")
        if self.past is not None and self.significance is not None:
            raise SettingError("--past and --significance are two questions; give one of them")
        if self.learner == LINEAR and not (self.C is None and self.alpha is None):
            raise SettingError("--learner linear has no penalty; leave --C and --alpha out, or take ridge")
        if self.learner is None and not (self.C is None and self.alpha is None):
            raise SettingError("--C and --alpha go with --learner")


def run(question: Question) -> None:
    """Read the table, search and prove, show the result, write the folder."""
    question.check()
    _learner(question)  # wrong names and penalties are refused before the file is read
    if question.out is None:
        _show(question, _ask(question))
        return
    place = check_folder(question.out, question.overwrite)
    with claim(question.out, place):
        result = _ask(question)
        with new_folder(place) as folder:
            stored = result.as_dict() | {"file": str(question.file), "coefficient": question.coefficient}
            write_text(folder / "drop.json", to_json(stored))
            if result.rows is not None:
                write_text(folder / "rows.csv", "row\n" + "".join(f"{row}\n" for row in result.rows.tolist()))
            page = page_of_robustness(result, question.file.name)
            page.write(folder / "report.html")
            page.write_figures(folder / "figures")
        _show(question, result)
        if not question.as_json:
            screen.say(f"Report, figure and the numbers of the rows (rows.csv) are in {question.out}.")


def _ask(question: Question) -> Robustness:
    with screen.activity("read the table") as say:
        if question.winner is not None:
            names = [_column(question, str(column)) for column in (question.winner, question.loser)]
            return drop(None, winner=names[0], loser=names[1], most=question.most, seconds=question.seconds, report=say)
        numeric = question.learner not in CLASSIFIERS
        if question.learner is None:
            target = _column(question, str(question.target))
            numeric = len(np.unique(target.astype(str))) != 2
        features = question.features
        if features is None and question.groups is not None:  # groups are no feature unless they are named as one
            columns = open_file(question.file.stem, question.file).columns
            features = [name for name in columns if name not in (question.target, question.groups)]
        pool = read_pool([question.file], str(question.target), None, features, numeric, None, question.encoding)
        groups = None
        if question.groups is not None:
            groups = _column(question, question.groups)[pool.row_numbers[0]]
        part = pool.parts[0]
        return drop(
            _with_names(part.features, pool.columns),
            part.target,
            _learner(question),
            coefficient=question.coefficient,
            value=0.0 if question.past is None else question.past,
            significance=question.significance,
            standard_errors=question.standard_errors,  # type: ignore[arg-type]
            groups=groups,
            most=question.most,
            seconds=question.seconds,
            report=say,
        )


def _with_names(features: Foreign, columns: tuple[str, ...]) -> Foreign:
    """Give the rows the names of their columns, without a data frame."""
    import pyarrow as pa

    return pa.table({name: np.asarray(features[:, place]) for place, name in enumerate(columns)})


def _column(question: Question, name: str) -> Raw:
    return read_columns(question.file.stem, question.file, name)[name]


def _learner(question: Question) -> Foreign:
    if question.learner is None:
        return None
    if question.learner == LINEAR:
        from sklearn.linear_model import LinearRegression

        return LinearRegression(fit_intercept=question.intercept)
    built: Learner | Foreign = named.build_learner(question.learner, question.C, question.alpha, question.intercept)
    return built


def _show(question: Question, result: Robustness) -> None:
    if question.as_json:
        sys.stdout.write(to_json(result.as_dict()))
        return
    lacking = "–" if result.rows is None else f"{len(result.rows):,}"
    proved = ("–", "there is no proof for this question")
    if result.proof != "none":
        proved = (f"{result.least:,}", f"at least so many must go: {PROOFS[result.proof]}")
    rows = [
        ("found", lacking, "rows whose removal does it, by a refit"),
        ("proved", *proved),
        ("rows", f"{result.total:,}", "in the table"),
    ]
    screen.facts(rows)
    screen.say(result.sentence())
    if result.rows is not None:
        shown = ", ".join(map(str, result.rows[:20].tolist()))
        screen.say(f"Rows removed (the first is 0): {shown}{', …' if len(result.rows) > 20 else ''}.")
