"""`superteach audit`: attack what leaves owners of rows under each promise, and write a page about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from superteach.errors import SettingError
from superteach.words import PROMISES

if TYPE_CHECKING:
    from superteach_lab.audit.run import Audit
    from superteach_lab.audit.transcript import Subject

ABOUT = (
    "Audit the promises: teach in this process under each of them, attack what left the teachers, measure ε, and write one "
    "page for whoever answers for the data.\n\n"
    "Without files a small synthetic pool is used. Nothing leaves this machine, and no ledger is charged."
)
app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
_POOL, _PROMISE, _RESULT = "Pool", "Promise", "Result"


@app.command(help=ABOUT)
def audit(
    out: Annotated[Path, typer.Option(help="File for the page.", rich_help_panel=_RESULT)],
    files: Annotated[
        list[str] | None, typer.Argument(help="CSV or Parquet files, one per teacher, as in teach.", show_default=False)
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column to be predicted (files).", rich_help_panel=_POOL)] = None,
    owner: Annotated[
        str | None, typer.Option(help="Column that names each row's teacher (files).", rich_help_panel=_POOL)
    ] = None,
    features: Annotated[str | None, typer.Option(help="Feature columns (files).", rich_help_panel=_POOL)] = None,
    learner: Annotated[
        str, typer.Option(help="logistic, ridge, svc, poisson or huber.", rich_help_panel=_POOL)
    ] = "logistic",
    C: Annotated[float | None, typer.Option("--C", help="Inverse penalty.", rich_help_panel=_POOL)] = None,
    alpha: Annotated[float | None, typer.Option(help="Penalty.", rich_help_panel=_POOL)] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept.", rich_help_panel=_POOL)
    ] = True,
    goal: Annotated[str | None, typer.Option(help="A .json or .npy file (files).", rich_help_panel=_POOL)] = None,
    budget: Annotated[float, typer.Option(help="Rows of a lesson: a count, or a share.", rich_help_panel=_POOL)] = 0.1,
    promise: Annotated[
        list[str] | None,
        typer.Option(help="closed, epsilon, masked or open; again for more (default: all).", rich_help_panel=_PROMISE),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="ε of a lesson.", rich_help_panel=_PROMISE)] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of a lesson.", rich_help_panel=_PROMISE)] = 1e-6,
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of a teacher's ledger, to be shown.", rich_help_panel=_PROMISE)
    ] = None,
    runs: Annotated[
        int, typer.Option(min=200, help="Lessons with a row, and without it, behind ε.", rich_help_panel=_PROMISE)
    ] = 4_000,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found as JSON and nothing else.", rich_help_panel=_RESULT)
    ] = False,
) -> None:
    """Read the options, run the audit, write the page and show a table."""
    from superteach.faces.cli import screen
    from superteach_lab.audit.page import page_of
    from superteach_lab.audit.run import audit as run

    if out.is_dir():
        raise SettingError(f"--out {str(out)!r} is a folder; name a file for the page, such as audit.html")
    wanted = tuple(promise or PROMISES)
    if odd := [name for name in wanted if name not in PROMISES]:
        raise SettingError(f"--promise {odd[0]!r} is not known; there are {', '.join(PROMISES)}")
    account = None if ledger is None else _ledger(ledger, epsilon, delta)
    subject = _subject(files, target, owner, features, learner, (C, alpha, intercept), goal, budget)
    found = run(subject, wanted, epsilon, delta, runs, _watch)
    found.ledger = account
    page_of(found).write(out)
    if as_json:
        _print_json(found)
    else:
        _show(found)
        screen.say(f"The page is in {out}")
    if any(one.rows for one in found.promises if one.promise in ("closed", "epsilon")) or not _kept(found):
        raise typer.Exit(1)


def _watch(words: str) -> None:
    """Say what is being done, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{words} …\n")


def _kept(found: Audit) -> bool:
    return found.accounted is None or found.accounted.kept


def _subject(
    files: list[str] | None,
    target: str | None,
    owner: str | None,
    features: str | None,
    kind: str,
    penalty: tuple[float | None, float | None, bool],
    goal: str | None,
    budget: float,
) -> Subject:
    """Rows, learner and goal, from files or drawn."""
    import numpy as np
    from scipy import sparse

    from superteach.coordinator.named import build_learner
    from superteach.coordinator.selection import counts_of
    from superteach.faces.cli.goal import read_goal
    from superteach.mathematics.learner import Learner
    from superteach.settings import check_budget
    from superteach.teacher.files import read_pool
    from superteach.teacher.inputs import make_teachers
    from superteach_lab.audit.transcript import Subject

    C, alpha, intercept = penalty
    student = Learner.of(build_learner(kind, C, alpha, intercept))
    size = check_budget(int(budget) if budget >= 1 and budget == int(budget) else budget)
    if not files:
        if target or owner or features or goal:
            raise SettingError("--target, --owner, --features and --goal go with files; name some")
        if not student.loss.classifies:
            raise SettingError(f"--learner {kind} needs files of your own; the synthetic pool has two labels")
        draw = np.random.default_rng(0)
        X = draw.standard_normal((1_000, 5))
        y = np.where(X @ np.linspace(1.0, 0.2, 5) + draw.standard_normal(1_000) > 0.0, 1.0, -1.0)
        wanted = np.append(np.linspace(0.8, 0.1, 5), [0.1] * intercept)
        count = counts_of(size, 1_000, len(wanted))[0]
        return Subject.dealt(X, y, 5, student, wanted, count, "synthetic pool")
    if target is None or goal is None:
        missing = "--target" if target is None else "--goal"
        raise SettingError(f"{missing} is missing: files need the column to be predicted and a goal that is public")
    names = None if features is None else [name.strip() for name in features.split(",")]
    pool = read_pool(files, target, owner, names, not student.loss.classifies)
    teachers, classes = make_teachers(pool.parts, pool.columns, student.loss)
    parts = tuple(
        (_dense(part.take_features(), sparse), np.asarray(teacher.target, dtype=np.float64))
        for part, teacher in zip(pool.parts, teachers, strict=True)
    )
    vector = read_goal(goal, pool.columns, intercept, classes)
    rows = sum(len(y) for _, y in parts)
    return Subject(
        parts, student, vector, counts_of(size, rows, len(vector))[0], ", ".join(Path(one).name for one in files)
    )


def _dense(features: Any, sparse: Any) -> Any:
    import numpy as np

    return np.asarray(features.toarray() if sparse.issparse(features) else features, dtype=np.float64)


def _ledger(folder: Path, epsilon: float, delta: float) -> dict[str, float]:
    """What a teacher's ledger says: at most so much was spent by any one row, for all its lessons had all rows."""
    import math

    from superteach.promises.accounting import epsilon_of
    from superteach.promises.ledger import Ledger

    if not (folder / "ledger").is_file():
        raise SettingError(f"--ledger {str(folder)!r} holds no ledger; name the folder with the file 'ledger' in it")
    entries = Ledger(folder, epsilon, delta).entries()
    lessons = [entry for entry in entries if "lesson" in entry]
    life = float(lessons[-1]["lifetime"]) if lessons else epsilon
    at = float(lessons[-1]["delta"]) if lessons else delta
    square = sum(float(entry["mu"]) ** 2 for entry in lessons)
    total = Ledger(folder, life, at).total
    left = epsilon_of(math.sqrt(max(total - square, 0.0)), at)
    spent = epsilon_of(math.sqrt(square), at)
    return {
        "lifetime": life,
        "spent": spent,
        "left": left,
        "lessons": len(lessons),
        "notes": len(entries) - len(lessons),
    }


def _print_json(found: Audit) -> None:
    from dataclasses import asdict

    from superteach.lesson import to_json

    stored: dict[str, Any] = {
        "promises": [
            {
                "promise": one.promise,
                "refused": one.refused,
                "rows": one.rows,
                "attacks": [asdict(f) for f in one.found],
            }
            for one in found.promises
        ],
        "ledger": found.ledger,
    }
    if found.accounted is not None:
        stored["epsilon"] = {
            "claimed": found.accounted.terms.epsilon,
            "measured": asdict(found.accounted.measured),
            "noise": asdict(found.accounted.noise),
            "variants": [asdict(one) for one in found.accounted.variants],
        }
    sys.stdout.write(to_json(stored))


def _show(found: Audit) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from superteach.faces.cli import screen
    from superteach_lab.audit.page import NAMES

    terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, title_justify="left")
    table.add_column("rows recovered")
    attacks = list(dict.fromkeys(one.attack for told in found.promises for one in told.found))
    for told in found.promises:
        table.add_column(told.promise, justify="right")
    for attack in attacks:
        cells = []
        for told in found.promises:
            one = next((one for one in told.found if one.attack == attack), None)
            auc = f" AUC {one.auc:.2f}" if one is not None and one.auc is not None else ""
            cells.append("–" if one is None else auc.strip() or str(one.rows))
        table.add_row(NAMES.get(attack, attack), *cells)
    Console(width=None if terminal else 160).print(table)
    if found.accounted is not None:
        measured, terms = found.accounted.measured, found.accounted.terms
        missed = [one.variant for one in found.accounted.variants if not one.caught]
        screen.say(
            f"ε promised {terms.epsilon:g}, measured at least {measured.epsilon:.3g} ({measured.level:.0%} confidence, "
            f"{measured.runs:,} lessons); broken promises "
            f"{'all found out' if not missed else 'NOT found out: ' + ', '.join(missed)}"
        )
