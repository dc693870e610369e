"""`superteach compare`: any set of methods on one bench, scored by one referee."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from superteach.cli.lines import say, warn
from superteach.exceptions import MissingExtra, SettingError
from superteach_lab.commands.progress import progress

if TYPE_CHECKING:
    from rich.table import Table

    from superteach_lab.compare.bench import Line
    from superteach_lab.compare.sources import Files, Synthetic

ABOUT = (
    "Compare methods: each chooses rows of the same pools, one referee refits the learner and scores.\n\n"
    "Without files the paper's synthetic pools are used. The folder receives cells.jsonl (every finished choice; the "
    "same command goes on where it was stopped), compare.json, figure.png and figure.svg."
)
SIZES = (0.01, 0.02, 0.04, 0.1, 0.3)
WRITTEN = ("cells.jsonl", "compare.json", "figure.png", "figure.svg")
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_POOL, _BENCH, _RESULT = "Pool", "Bench", "Result"


@app.command(help=ABOUT)
def compare(
    files: Annotated[
        list[str] | None, typer.Argument(help="CSV or Parquet files of your own, as in teach.", show_default=False)
    ] = None,
    learner: Annotated[
        str, typer.Option(help="logistic, ridge, svc, poisson or huber.", rich_help_panel=_POOL)
    ] = "logistic",
    rows: Annotated[int, typer.Option(min=10, help="Rows of a synthetic pool.", rich_help_panel=_POOL)] = 5000,
    features: Annotated[
        str | None,
        typer.Option(help="Columns of a synthetic pool (10); feature columns of files.", rich_help_panel=_POOL),
    ] = None,
    noise: Annotated[
        float, typer.Option(min=0.0, help="Target noise of synthetic ridge pools.", rich_help_panel=_POOL)
    ] = 20.0,
    teachers: Annotated[
        str, typer.Option(help="How many teachers share a synthetic pool: 5 or 5,10.", rich_help_panel=_POOL)
    ] = "5",
    target: Annotated[str | None, typer.Option(help="Column to be predicted (files).", rich_help_panel=_POOL)] = None,
    owner: Annotated[
        str | None, typer.Option(help="Column that names each row's teacher (files).", rich_help_panel=_POOL)
    ] = None,
    C: Annotated[
        float | None, typer.Option("--C", help="Inverse penalty of logistic and svc (files).", rich_help_panel=_POOL)
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Penalty of ridge, poisson and huber (files).", rich_help_panel=_POOL)
    ] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept (files).", rich_help_panel=_POOL)
    ] = True,
    goal: Annotated[
        str,
        typer.Option(
            help="A .json or .npy file, 'perturbed', 'max-auc' or 'from-data:FILE' (files).", rich_help_panel=_POOL
        ),
    ] = "perturbed",
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Choose on standardised columns; risk stays in raw units (files).",
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
    methods: Annotated[
        str | None,
        typer.Option(
            help="Contestants, separated by commas; 'all' adds the slow ones, 'list' shows them.",
            rich_help_panel=_BENCH,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Lesson sizes: fractions or counts (default: 0.01,0.02,0.04,0.1,0.3, as far as they are two rows or more).",
            rich_help_panel=_BENCH,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, … of pools and goals.", rich_help_panel=_BENCH)] = 3,
    time_limit: Annotated[float, typer.Option(help="Seconds one choice may take.", rich_help_panel=_BENCH)] = 120.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the result, and to go on from.", rich_help_panel=_RESULT)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON and nothing else.", rich_help_panel=_RESULT)
    ] = False,
) -> None:
    """Read the options, run the bench, show it."""
    from superteach.cli import screen
    from superteach.cli.goal import positive_unsaid
    from superteach.packages import versions
    from superteach_lab.compare import bench
    from superteach_lab.compare.child import check_seconds
    from superteach_lab.compare.sources import Files
    from superteach_lab.digest import digest_of
    from superteach_lab.records import Records
    from superteach_lab.rivals import ALL, by_name

    if methods == "list":
        _list(ALL)
        return
    check_seconds(time_limit)
    if methods is None or methods == "all":
        chosen = tuple(contestant for contestant in ALL if methods == "all" or not contestant.slow)
    else:
        chosen = by_name([name.strip() for name in methods.split(",")])
    if out is not None:
        _check(out)
    source: Files | Synthetic
    unsaid = ""
    if files:
        with screen.activity("read files"):
            source = _files(files, learner, target, owner, features, (C, alpha, intercept), goal, standardize, positive)
        unsaid = positive_unsaid(goal, positive, source.positive)
    else:
        if target or owner or C is not None or alpha is not None or goal != "perturbed" or standardize or positive:
            raise SettingError(
                "--target, --owner, --C, --alpha, --goal, --standardize and --positive go with files; name some"
            )
        source = _synthetic(learner, rows, features, noise, teachers)
    shares = [share for share in SIZES if share * source.rows >= 2.0] if sizes is None else _numbers("--sizes", sizes)
    counts = bench.counts(shares, source.rows)
    # One folder keeps the cells of several pools, goals and settings: each is known by what was in them.
    contents = digest_of([source.contents(), time_limit, versions()])
    cells = bench.plan(source, chosen, counts, seeds, contents)
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        records = Records(folder / "cells.jsonl", {"command": "compare"})
        try:
            with progress() as watch:
                bench.run(source, cells, records, time_limit, watch)
        except KeyboardInterrupt:
            if out is not None:
                kept = sum(cell.key(source.name) in records for cell in cells)
                warn(f"{kept} finished cells are in {out}; the same command goes on from there")
            raise
        done = [record for cell in cells if (record := records.find(cell.key(source.name))) is not None]
        lines = bench.summary(done, source.rows, source.teachers)
        _report(lines, source, time_limit, out, as_json)
        if not as_json and isinstance(source, Files) and source.positive is not None:
            say(unsaid or f"The positive label is {source.positive!r}: scores above 0 predict it.")


def _check(out: Path) -> None:
    """Go on only in a folder that this command wrote."""
    if out.exists() and not out.is_dir():
        raise SettingError(f"--out {str(out)!r} is a file; name a folder")
    foreign = [path.name for path in out.iterdir() if path.name not in WRITTEN] if out.is_dir() else []
    if foreign:
        raise SettingError(f"--out {str(out)!r} holds {foreign[0]!r}, which is not ours; name another folder")


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"{option} {text!r} is not a list of numbers such as 0.01,0.04") from None


def _synthetic(learner: str, rows: int, features: str | None, noise: float, teachers: str) -> Synthetic:
    from superteach_lab.compare.sources import Synthetic

    width = _numbers("--features", features or "10")
    counts = _numbers("--teachers", teachers)
    if len(width) != 1 or width[0] != int(width[0]) or any(count != int(count) for count in counts):
        raise SettingError(f"--features {features!r} and --teachers {teachers!r} must be whole numbers")
    return Synthetic(learner, rows, int(width[0]), noise, tuple(sorted({int(count) for count in counts})))


def _files(
    files: list[str],
    learner: str,
    target: str | None,
    owner: str | None,
    features: str | None,
    penalty: tuple[float | None, float | None, bool],
    goal: str,
    standardize: bool,
    positive: str | None,
) -> Files:
    from superteach.cli.goal import check_goal_name, find_positive, make_goal
    from superteach.coordinator.named import build_learner
    from superteach.goals import CheckedGoal, FromData, Without
    from superteach.io.tables import read_pool
    from superteach.io.validation import find_classes
    from superteach.learner import Learner
    from superteach_lab.compare.sources import Files

    if target is None:
        raise SettingError("--target is missing: name the column to be predicted")
    check_goal_name(goal)
    label = find_positive(goal, positive)
    C, alpha, intercept = penalty
    student = Learner.of(build_learner(learner, C, alpha, intercept))
    names = None if features is None else [name.strip() for name in features.split(",")]
    pool = read_pool(files, target, owner, names, not student.loss.classifies)
    classes = label.last(find_classes(pool.parts, most=2) if student.loss.classifies else None)
    numeric = classes is None
    wanted = None if goal == "perturbed" else make_goal(goal, 0, pool.columns, target, numeric, intercept, classes)
    if isinstance(wanted, CheckedGoal):
        wanted.check(student, pool.columns, classes)
    if isinstance(wanted, FromData):  # a referee's labels are −1 and +1
        wanted = wanted.without_rows(student, classes)
    if isinstance(wanted, Without):  # a referee's columns have no names
        wanted = Without(*(pool.columns.index(str(name)) for name in wanted.columns))
    described = {
        "learner": learner,
        "files": [str(path) for path in files],
        "target": target,
        "owner": owner,
        "features": features,
        "ridge": student.ridge,
        "intercept": intercept,
        "goal": goal,
        **({"standardize": True} if standardize else {}),
        **({} if classes is None else {"positive": classes.tolist()[1]}),
    }
    return Files(pool.parts, pool.columns, student, wanted, described, label)


def _list(contestants: Sequence[Any]) -> None:
    for contestant in contestants:
        needs = ", ".join(contestant.needs) or "nothing"
        slow = " (slow: only by name or with 'all')" if contestant.slow else ""
        say(f"{contestant.name:18} {contestant.about}; needs {needs}{slow}", indent=19)


def _report(lines: list[Line], source: Files | Synthetic, seconds: float, out: Path | None, as_json: bool) -> None:
    from superteach.io.atomic import write_text
    from superteach.lesson import to_json
    from superteach_lab.compare.figure import draw

    stored = {"settings": {**source.settings(), "time_limit": seconds}, "lines": [line._asdict() for line in lines]}
    missing = None
    if out is not None:
        write_text(out / "compare.json", to_json(stored))
        try:
            draw(lines, out)
        except MissingExtra as error:
            missing = error
    if as_json:
        sys.stdout.write(to_json(stored))
        return
    _show(lines)
    if missing is not None:
        warn(str(missing))


def _show(lines: list[Line]) -> None:
    from rich.console import Console

    # A pipe has no width to fit into; a terminal is shown fewer columns where all of them would be cut.
    console = Console(width=None if sys.stdout.isatty() else 160)
    fewer = ((True, ()), (True, ("seconds",)), (False, ("seconds",)), (False, ("seconds", "CPU", "|S|/N")))
    for pool, teachers in dict.fromkeys((line.pool, line.teachers) for line in lines):
        own = [line for line in lines if (line.pool, line.teachers) == (pool, teachers)]
        for quartiles, left_out in fewer:
            table = _table(own, quartiles, left_out)
            needed = console.measure(table, options=console.options.update(width=1000)).maximum
            if needed <= console.width:
                break
        brackets = "quartiles of risk in brackets" if quartiles else "a wider window shows quartiles"
        say(f"{pool}, K = {teachers}: medians over seeds, {brackets}")
        Console(width=max(console.width, needed)).print(table)
        for reason in dict.fromkeys(reason for line in own if line.risk is None for reason in line.reasons):
            who = dict.fromkeys(line.contestant for line in own if line.risk is None and reason in line.reasons)
            say(f"{', '.join(who)}: {reason}")


def _table(lines: list[Line], quartiles: bool, left_out: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    least: dict[int, float] = {}
    for line in lines:
        if line.risk:
            least[line.size] = min(least.get(line.size, float("inf")), line.risk[1])
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, padding=(0, 1 if terminal else 2, 0, 0))
    table.add_column("method", no_wrap=True)
    headings = [
        one for one in ("rows", "|S|/N", "risk", "consistency", "seconds", "CPU", "seeds") if one not in left_out
    ]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        cells = {"rows": f"{line.size:,}", "|S|/N": f"{100 * line.share:.3g} %", "risk": "–"}
        if line.risk is not None:
            low, middle, high = line.risk
            cells |= {
                "risk": f"{middle:.3g} [{low:.2g}, {high:.2g}]" if quartiles else f"{middle:.3g}",
                "consistency": f"{line.consistency:.4f}",
                "seconds": f"{line.seconds:.2f}",
                "CPU": f"{line.cpu:.2f}",
                "seeds": str(line.seeds),
            }
        style = "bold" if line.risk and line.risk[1] == least[line.size] else ""
        shown = [Text(cells.get(one, ""), style=style if one == "risk" else "") for one in headings]
        table.add_row(line.contestant, *shown)
    return table
