"""`superteach audit`: attack what leaves owners of rows under each promise, and write a page about it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from superteach.cli.lines import say
from superteach.exceptions import SettingError, reason_of
from superteach.privacy import PRIVACY

if TYPE_CHECKING:
    from superteach_lab.audit.run import Audit
    from superteach_lab.audit.subject import Finding, Subject

ABOUT = (
    "Audit the privacy modes: teach in this process in each of them, attack what left the owners of rows, measure ε, and "
    "write one page for whoever answers for the data.\n\n"
    "Without files a small synthetic pool is used. Nothing leaves this machine, and no ledger is charged."
)
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_POOL, _PRIVACY, _RESULT = "Pool", "Privacy", "Result"


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
    goal: Annotated[
        str | None, typer.Option(help="A .json or .npy file, or 'from-data:FILE' (files).", rich_help_panel=_POOL)
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Scale columns to mean 0 and deviation 1 first, as owners do by public numbers (files).",
            rich_help_panel=_POOL,
        ),
    ] = False,
    positive: Annotated[
        str | None,
        typer.Option(
            help="Label that scores above 0 predict (files; default: the goal file's, else the last in sorted order).",
            rich_help_panel=_POOL,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Rows of a lesson: a count, or a share (default: a tenth of them, or more where a lesson needs more).",
            rich_help_panel=_POOL,
        ),
    ] = None,
    privacy: Annotated[
        list[str] | None,
        typer.Option(help="isolated, dp or none; again for more (default: all).", rich_help_panel=_PRIVACY),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="ε of a lesson under dp.", rich_help_panel=_PRIVACY)] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of a lesson under dp.", rich_help_panel=_PRIVACY)] = 1e-6,
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of an owner's ledger, to be shown.", rich_help_panel=_PRIVACY)
    ] = None,
    runs: Annotated[
        int, typer.Option(min=100, help="Runs with a row, and without it, behind ε.", rich_help_panel=_PRIVACY)
    ] = 3_000,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes side by side (default: one per core).", rich_help_panel=_PRIVACY),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a page that is there.", rich_help_panel=_RESULT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found as JSON and nothing else.", rich_help_panel=_RESULT)
    ] = False,
) -> None:
    """Read the options, run the audit, write the page and show a table."""
    from superteach.cli import screen
    from superteach.cli.goal import positive_unsaid
    from superteach.cli.request import read_budget
    from superteach.coordinator.methods.base import check_least, lesson_sizes
    from superteach.learner import Learner
    from superteach.privacy.accounting import Mode
    from superteach.settings import check_budget
    from superteach_lab.audit.page import page_of
    from superteach_lab.audit.run import audit as run
    from superteach_lab.paper.workers import cores

    place = _check_out(out, overwrite)
    wanted = tuple(dict.fromkeys(privacy or PRIVACY))
    if odd := [name for name in wanted if name not in PRIVACY]:
        raise SettingError(f"--privacy {odd[0]!r} is not known; there are {', '.join(PRIVACY)}")
    size = None if budget is None else check_budget("budget", read_budget(budget))
    if isinstance(size, str | tuple):
        raise SettingError(f"--budget {budget} is several sizes, and an audit is of one: give a count or a fraction")
    account = None if ledger is None else _ledger(ledger, epsilon, delta)
    with screen.activity("read files") as watch:
        subject = _subject(files, target, owner, features, learner, (C, alpha, intercept), goal, standardize, positive)
        if "dp" in wanted:
            Mode("dp", epsilon, delta).check(subject.count)  # raises where there are no such ε and δ
        if size is not None:
            counts = lesson_sizes(size, subject.count, len(subject.goal))
            check_least(counts, size, subject.count, len(subject.goal), Learner.of(subject.learner))
            subject = replace(subject, budget=counts[0])
        result = run(subject, wanted, epsilon, delta, runs, watch, workers or cores())
    result.ledger = account
    place.parent.mkdir(parents=True, exist_ok=True)
    page_of(result).write(place)
    if as_json:
        _print_json(result)
    else:
        _show(result)
        if unsaid := "" if goal is None else positive_unsaid(goal, positive, subject.positive):
            say(unsaid)
        say(f"The page is in {out}")
    if result.incomplete or not result.kept:
        raise typer.Exit(1)


def _check_out(out: Path, overwrite: bool) -> Path:
    """Return the place of the page, or say before any work why it cannot be written."""
    import tempfile

    named = f"--out {str(out)!r}"
    try:
        place = out.resolve()
        if place.is_dir():
            raise SettingError(f"{named} is a folder; name a file for the page, such as audit.html")
        if place.exists() and not overwrite:
            raise SettingError(f"{named} exists; name another file or add --overwrite")
        if place.exists() and b'name="generator" content="superteach"' not in place.read_bytes()[:4096]:
            raise SettingError(f"{named} is no page of superteach, and --overwrite leaves it alone; name another file")
        nearest = next(parent for parent in place.parents if parent.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except SettingError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise SettingError(f"{named} cannot be written: {reason_of(error)}; name another file") from None
    return place


def _subject(
    files: list[str] | None,
    target: str | None,
    owner: str | None,
    features: str | None,
    kind: str,
    penalty: tuple[float | None, float | None, bool],
    goal: str | None,
    standardize: bool,
    positive: str | None,
) -> Subject:
    """Rows, learner and goal, from files or drawn."""
    import numpy as np
    from scipy import sparse

    from superteach.cli.goal import FROM_DATA, check_goal_name, find_positive, is_file, make_goal
    from superteach.coordinator.named import build_learner
    from superteach.coordinator.shares import public_goal
    from superteach.goals import CheckedGoal, check_goal
    from superteach.io.tables import read_pool
    from superteach.io.validation import find_classes, make_teachers
    from superteach.learner import Learner
    from superteach_lab.audit.subject import Subject

    C, alpha, intercept = penalty
    student = Learner.of(build_learner(kind, C, alpha, intercept))
    if not files:
        if target or owner or features or goal or standardize or positive:
            raise SettingError(
                "--target, --owner, --features, --goal, --standardize and --positive go with files; name some"
            )
        if not student.loss.classifies:
            raise SettingError(f"--learner {kind} needs files of your own; the synthetic pool has two labels")
        draw = np.random.default_rng(0)
        X = draw.standard_normal((1_000, 5))
        y = np.where(X @ np.linspace(1.0, 0.2, 5) + draw.standard_normal(1_000) > 0.0, 1.0, -1.0)
        wanted = np.append(np.linspace(0.8, 0.1, 5), [0.1] * intercept)
        return Subject.dealt(X, y, 5, student, wanted, 100, "synthetic pool")
    if target is None or goal is None:
        missing = "--target" if target is None else "--goal"
        raise SettingError(f"{missing} is missing: files need the column to be predicted and a goal that is public")
    if not is_file(goal) and not goal.startswith(FROM_DATA):
        raise SettingError(
            f"--goal {goal} is found from the rows themselves, and an audit needs a goal that is public: name a .json or "
            ".npy file, or from-data:FILE with rows that are nobody's secret"
        )
    check_goal_name(goal)
    label = find_positive(goal, positive)
    names = None if features is None else [name.strip() for name in features.split(",")]
    numeric = not student.loss.classifies
    pool = read_pool(files, target, owner, names, numeric)
    classes = label.last(None if numeric else find_classes(pool.parts, most=2))
    teachers, _ = make_teachers(pool.parts, pool.columns, student.loss, label)
    parts = tuple(
        (_dense(part.take_features(), sparse), np.asarray(teacher.target, dtype=np.float64))
        for part, teacher in zip(pool.parts, teachers, strict=True)
    )
    width = len(pool.columns)
    named = make_goal(goal, 0, pool.columns, target, numeric, intercept, classes)
    named = check_goal(named, width, student, classes, pool.columns)
    if isinstance(named, CheckedGoal):
        named.check(student, pool.columns, classes)
    vector = public_goal(named, student, width, "dp", classes)
    rows = sum(len(y) for _, y in parts)
    size = min(max(round(0.1 * rows), 2 * len(vector)), int(0.9 * rows))
    subject = Subject(parts, student, vector, size, ", ".join(Path(one).name for one in files))
    subject = replace(subject, positive=None if classes is None else classes.tolist()[1])
    return subject.standardised() if standardize else subject


def _dense(features: Any, sparse: Any) -> Any:
    import numpy as np

    return np.asarray(features.toarray() if sparse.issparse(features) else features, dtype=np.float64)


def _ledger(folder: Path, epsilon: float, delta: float) -> dict[str, float]:
    """Read what an owner's table has spent."""
    from superteach.privacy.accounting import epsilon_of
    from superteach.privacy.ledger import Ledger

    if not (folder / "ledger").is_file():
        raise SettingError(f"--ledger {str(folder)!r} holds no ledger; name the folder with the file 'ledger' in it")
    entries = Ledger(folder, epsilon, delta).entries()
    life, at = (float(entries[-1]["lifetime"]), float(entries[-1]["delta"])) if entries else (epsilon, delta)
    ledger = Ledger(folder, life, at)
    spent = epsilon_of(ledger.spent**0.5, at)
    return {"lifetime": life, "spent": spent, "left": ledger.left, "lessons": len(entries)}


def _print_json(result: Audit) -> None:
    from dataclasses import asdict

    from superteach.lesson import to_json

    stored: dict[str, Any] = {
        "modes": [
            {
                "privacy": one.mode,
                "refused": one.refused,
                "rows": one.rows,
                "kept": one.kept,
                "attacks": [asdict(finding) for finding in one.findings],
            }
            for one in result.modes
        ],
        "positive": result.subject.positive,
        "kept": result.kept,
        "unmeasured": result.unmeasured,
        "ledger": result.ledger,
    }
    if result.epsilon_report is not None:
        stored["epsilon"] = {
            "claimed": result.epsilon_report.mode.epsilon,
            "measured": [asdict(one) for one in result.epsilon_report.measured],
            "noise": asdict(result.epsilon_report.noise),
            "variants": [asdict(one) for one in result.epsilon_report.variants],
        }
    sys.stdout.write(to_json(stored))


def _show(result: Audit) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from superteach_lab.audit.delivered import MOST_AUC

    terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, padding=(0, 1 if terminal else 2, 0, 0))
    table.add_column("attack")
    for one in result.modes:
        table.add_column(one.mode, justify="right", no_wrap=True)
    for attack in dict.fromkeys(finding.attack for one in result.modes for finding in one.findings):
        cells = [next((each for each in one.findings if each.attack == attack), None) for one in result.modes]
        table.add_row(attack, *map(_cell, cells))
    Console(width=None if terminal else 160).print(table)
    for one in result.modes:
        if one.refused:
            say(f"{one.mode}: no lesson was taught: {one.refused}")
        for finding in one.findings:
            if finding.failed or finding.broken or (finding.auc or 0.0) > MOST_AUC:
                say(f"{one.mode}: {finding.attack}: {finding.said}")
    if result.unmeasured:
        say(f"ε was not measured: {result.unmeasured}")
    report = result.epsilon_report
    if report is not None:
        least = max(one.epsilon for one in report.measured)
        runs = max(one.runs for one in report.measured)
        missed = [one.variant for one in report.variants if one.caught is False]
        unsure = [one.variant for one in report.variants if one.caught is None]
        outcome = "NOT found out: " + ", ".join(missed) if missed else "all found out"
        say(
            f"ε claimed {report.mode.epsilon:g}, measured at least {least:.3g} (95% confidence, {runs:,} runs), "
            f"{'nothing speaks' if report.honest else 'the measurements SPEAK'} against the claim; "
            f"modes broken on purpose {outcome}"
            + (f" but for those that could not be run: {', '.join(unsure)}" if unsure else "")
        )


def _cell(one: Finding | None) -> str:
    if one is None:
        return "–"
    if one.failed:
        return "not run"
    if one.auc is not None:
        return f"AUC {one.auc:.2f}"
    if one.broken or one.rows:
        return f"{one.rows:,} rows" if one.rows else "BROKEN"
    return "held"
