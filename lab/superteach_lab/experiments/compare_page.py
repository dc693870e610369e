"""docs/generated/how-we-compare.md: run the bench on real tables and synthetic pools, write the page from its stored cells.

python -m superteach_lab.experiments.compare_page                         # write the page again from what is stored
python -m superteach_lab.experiments.compare_page --run                   # run what is missing, all but the slow contestants
python -m superteach_lab.experiments.compare_page --run --real            # the same for real tables and wide pools
python -m superteach_lab.experiments.compare_page --run MINLP --seeds 1   # run one contestant, on fewer seeds
python -m superteach_lab.experiments.compare_page --again match           # forget a contestant's cells and run them anew
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from superteach_lab import markdown
from superteach_lab.compare import bench, figure
from superteach_lab.compare.bench import Line
from superteach_lab.compare.sources import Synthetic
from superteach_lab.compare.task import Contestant
from superteach_lab.experiments import real_tables
from superteach_lab.experiments.real_tables import Real, Wide
from superteach_lab.records import Record, Records
from superteach_lab.rivals import ALL, by_name

DOCS = Path(__file__).parents[3] / "docs" / "generated"
SOURCES = tuple(Synthetic(learner, 5000, 10, teachers=(5, 10)) for learner in ("logistic", "ridge"))
SIZES = (0.01, 0.02, 0.04, 0.1, 0.3)
SEEDS = 3
SECONDS = 120.0
MINUTES = 30
"""What the real tables and wide pools took, rounded up."""

Source = Synthetic | Real | Wide
EVERY: tuple[Source, ...] = (*SOURCES, *real_tables.SOURCES)


def stored(source: Source, folder: Path) -> Path:
    """Where the cells of a pool are kept."""
    if not isinstance(source, Synthetic):
        return real_tables.stored(source, folder)
    return folder / "compare" / f"{source.learner}.jsonl"


def settings(source: Source) -> Record:
    """The head of that file."""
    if not isinstance(source, Synthetic):
        return real_tables.settings(source)
    return {**source.settings(), "time_limit": SECONDS}


def run(source: Source, contestants: Sequence[Contestant], seeds: int | None, folder: Path) -> None:
    """Run the cells that are missing."""
    if not isinstance(source, Synthetic):
        real_tables.run(source, contestants, seeds, folder)
        return
    records = Records(stored(source, folder), settings(source))
    cells = bench.plan(source, contestants, bench.counts(SIZES, source.rows), seeds or SEEDS)

    def watch(text: str, done: int, count: int, part: float) -> None:
        print(f"{source.name} {done + 1}/{count}: {text}", file=sys.stderr)

    bench.run(source, cells, records, SECONDS, watch)


def forget(source: Source, name: str, folder: Path) -> None:
    """Take a contestant's cells out of the file."""
    place = stored(source, folder)
    if not place.exists():
        return
    head, *lines = place.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["cell"]["contestant"] != name]
    place.write_text(head + "".join(kept), encoding="utf-8")


def read(folder: Path) -> dict[str, list[Record]]:
    """The stored cells of every pool."""
    found = {}
    for source in EVERY:
        lines = stored(source, folder).read_text(encoding="utf-8").splitlines()[1:]
        found[source.name] = [json.loads(line) for line in lines]
    return found


def lines_of(cells: dict[str, list[Record]], sources: Iterable[Source] = SOURCES) -> list[Line]:
    """Medians and quartiles, in the bench's order."""
    order = {contestant.name: number for number, contestant in enumerate(ALL)}
    lines = []
    for source in sources:
        own = bench.summary(cells[source.name], source.rows, source.teachers)
        lines += sorted(own, key=lambda line: (line.teachers, order.get(line.contestant, 99), line.size))
    return lines


def by_predictions(cells: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """The real tables' cells with the distance of predictions in the place of the risk."""
    return {source.name: [{**record, "risk": record["distance"]} for record in cells[source.name]] for source in REAL}


REAL = tuple(source for source in real_tables.SOURCES if isinstance(source, Real))
WIDE = tuple(source for source in real_tables.SOURCES if isinstance(source, Wide))


_TOP = """# How we compare

This page is written by `python -m superteach_lab.experiments.compare_page` from the cells in
`docs/generated/compare/`; the same command with `--run` makes the cells. Your own pools: `superteach compare`
([command line](../reference/command-line.md)). There are three
kinds of pools here:

- [Real tables](#real-tables): {tables}.
- [Wide pools](#wide-pools): synthetic, {widths} columns.
- [Synthetic pools of 10 columns](#synthetic-pools-of-10-columns): the paper's smallest pools.

Every contestant works in a process of its own on copies of the rows and hands back row numbers. One referee checks them,
refits the learner on these rows alone, and measures. The goal is shown only to contestants that say that they need it.
`match` may add a proof that no lesson of this size teaches the goal; the referee checks it by one sum over the rows. CPU
is the processor time of the choice, one thread for linear algebra; the clock of a busy machine says less. A choice may take
{seconds:g} seconds by the clock, and {less:g} s of processor time on real tables and wide pools.

## Who is here

"""

_REAL = """
## Real tables

Published tables, not made by us. They are not in this repository: `SUPERTEACH_DATA` names the folder that holds them
([data sets](../reference/datasets.md)). Adult is not among them, because no copy was at hand. Make the cells,
about {minutes} minutes on
one core together with the wide pools, and stop and go on as you like:

    SUPERTEACH_DATA=folder python -m superteach_lab.experiments.compare_page --run --real

Risk is ‖θ_S − θ*‖. Where columns have raw units the intercept and the columns of small spread decide it, so the distance
in predictions stands below it: the root mean square of x'(θ_S − θ*) over the pool. The pool is the same for every goal.
Contestants that do not see the goal choose once for each size, and are scored on all goals. Limits keep the run short:

- Read `> {less:g} s` as: stopped after {less:g} s of processor time, and not tried with other goals or with more rows.
- `bit-flip` watches its time: it hands in what it has after {watched:g} s, unless a single step takes too long.
- A contestant that uses more than {long:g} s of processor time is tried on {few} goals only, one of each kind. Its number of
  goals is in brackets. The lowest median over all goals is bold.
- `proved out of reach` counts the goals for which `match` proves that no lesson of this size teaches them exactly.

![Risk by lesson size and by processor time, on real tables.](images/compare-real.png)
"""

_WIDE = """
## Wide pools

Synthetic, with many columns; the pools of `benchmarks/oracle/pools.py`, from the command above.
"""

_READING = """
## Synthetic pools of 10 columns

Pools: N = 5,000 rows, d = 10, four Gaussian clusters, Λ = 1, no intercept; ridge targets have noise of standard deviation
20. Goal: the fit on all rows plus noise of the same length, drawn from another seed than the rows.

Distance ‖θ_S − θ*‖, medians over seeds (number of seeds in brackets where it is not {seeds}); the lowest of a column
over all seeds is bold. Read `–` as: no lesson, for the reason below the table.
"""


def render(cells: dict[str, list[Record]]) -> str:
    """The whole page."""
    lines, more = lines_of(cells), lines_of(cells, real_tables.SOURCES)
    present = {line.contestant for line in lines}
    less = real_tables.SECONDS
    tables = ", ".join(source.name for source in REAL)
    widths = ", ".join(str(source.features) for source in WIDE)
    here = [(one.name, one.about, ", ".join(one.needs) or "nothing") for one in ALL if one.name in present]
    parts = [_TOP.format(seconds=SECONDS, less=less, tables=tables, widths=widths)]
    parts.append("\n".join(markdown.table(["contestant", "what it does", "needs"], here)) + "\n")
    for slow, why in (
        (True, "Not run for this page, because they take minutes for each lesson"),
        (False, "Not yet run on the synthetic pools of 10 columns"),
    ):
        absent = [one.name for one in ALL if one.name not in present and one.slow == slow]
        if absent:
            parts.append(f"\n{why}: {', '.join(absent)}.\n")
    only = [
        name
        for name in dict.fromkeys(line.contestant for line in lines)
        if name not in {line.contestant for line in more}
    ]
    if only:
        parts.append(
            f"Run on the synthetic pools of 10 columns only, because they take all time they get: {', '.join(only)}.\n"
        )
    predictions = lines_of(by_predictions(cells), REAL)
    parts.append("\n## Where we lose\n\n### On real tables and wide pools\n\n")
    parts.append(_losses(more, "risk"))
    parts.append("\n### On real tables, by predictions\n\n")
    parts.append(_losses(predictions, "distance in predictions"))
    parts.append("\n### On synthetic pools of 10 columns\n\n")
    parts.append(_losses(lines, "risk"))
    parts.append(
        _REAL.format(less=less, watched=0.9 * less, minutes=MINUTES, long=real_tables.LONG, few=real_tables.FEW)
    )
    for source in REAL:
        own = [line for line in more if line.pool == source.name]
        apart = [line for line in predictions if line.pool == source.name]
        parts.append(_chapter(source, own))
        parts.append(_spread(cells[source.name]) + _columns(source, apart, "predictions", cpu=False))
    parts.append(_WIDE)
    parts += [_chapter(wide, [line for line in more if line.pool == wide.name]) for wide in WIDE]
    parts.append(_READING.format(seeds=SEEDS))
    parts.append("\n![Risk by lesson size and by processor time, for every contestant.](images/compare.png)\n")
    for pool, teachers in dict.fromkeys((line.pool, line.teachers) for line in lines):
        own = [line for line in lines if (line.pool, line.teachers) == (pool, teachers)]
        synthetic = next(one for one in SOURCES if one.name == pool)
        parts.append(f"\n### {pool}, K = {teachers}\n" + _columns(synthetic, own, "risk", cpu=True))
    return "".join(parts)


def _losses(lines: Sequence[Line], what: str) -> str:
    """Where somebody's median is below match's."""
    text = ""
    for ours in bench.OURS:
        columns = {(line.pool, line.teachers, line.size) for line in lines if line.contestant == ours and line.risk}
        lost = {(one.line.pool, one.line.teachers, one.line.size) for one in bench.beaten(lines, ours)}
        text += f"`{ours}` has the lowest median {what} in {len(columns - lost)} of {len(columns)} columns. "
    found = list(bench.beaten(lines))
    if not found:
        return text + "No contestant beats `match` anywhere.\n"
    text += (
        "`match` is beaten here (medians over the seeds or goals that both have; ratio: their figure over that of "
        "`match`):\n\n"
    )
    heads = ["pool", "K", "rows", "by", what, "match", "ratio", "match long", "seeds or goals", "CPU", "match's CPU"]
    long = {
        (line.pool, line.teachers, line.size): f"{line.risk[1]:.2g}"
        for line in lines
        if line.contestant == "match long" and line.risk
    }
    rows = []
    for line, own, risk, our_risk, seeds in sorted(
        found, key=lambda one: (one.line.pool, one.line.teachers, one.line.size)
    ):
        place = line.pool, line.teachers, line.size
        risks = f"{risk:.2g}", f"{our_risk:.2g}", f"{risk / our_risk:.2f}", long.get(place, "–")
        times = f"{line.cpu:.2g} s", f"{own.cpu:.2g} s"
        rows.append([line.pool, line.teachers, f"{line.size:,}", line.contestant, *risks, seeds, *times])
    return text + "\n".join(markdown.table(heads, rows)) + "\n"


def _chapter(source: Real | Wide, lines: Sequence[Line]) -> str:
    """One table or pool: what it is, risk and time."""
    about = textwrap.fill(source.about, 125, break_long_words=False, break_on_hyphens=False)
    return f"\n### {source.name}\n\n{about}\n" + _columns(source, lines, "risk", cpu=True)


def _spread(records: Sequence[Record]) -> str:
    """What to set distances in predictions beside."""
    found = float(np.median([record["spread"] for record in records if record["cell"]["contestant"] == "full pool"]))
    return f"\nDistance in predictions; the goals' own predictions spread by {found:.2g} around their mean:\n"


def _columns(source: Source, lines: Sequence[Line], what: str, cpu: bool) -> str:
    """Contestants by lesson sizes, and their processor time."""
    sizes, seeds = _sizes(source), SEEDS if isinstance(source, Synthetic) else source.seeds
    least = {
        size: min(
            (line.risk[1] for line in lines if line.risk and line.size == size and line.seeds >= seeds), default=0.0
        )
        for size in sizes
    }
    heads = [f"{what}, {size:,} rows" for size in sizes] + [f"CPU, {size:,} rows" for size in sizes if cpu]
    rows: list[list[str]] = []
    reasons: dict[str, None] = {}
    for name in dict.fromkeys(line.contestant for line in lines):
        own = {line.size: line for line in lines if line.contestant == name}
        slow = min((line.size for line in own.values() if _was_stopped(line)), default=sys.maxsize)
        shown = [own.get(source.rows) if name == "full pool" else own.get(size) for size in sizes]
        cells, times = [], []
        for size, line in zip(sizes, shown, strict=True):
            stopped = size >= slow and (line is None or line.risk is None)
            limit = f"> {real_tables.SECONDS:g} s"
            cells.append(limit if stopped else _risk(line, least, seeds))
            times.append(limit if stopped else "–" if line is None or not line.risk else f"{line.cpu:.2g} s")
        rows.append([name, *cells, *times * cpu])
        said = [reason for line in own.values() for reason in line.reasons if line.risk or not _was_stopped(line)]
        reasons.update({f"{name}: {reason}": None for reason in said})
    if cpu and not isinstance(source, Synthetic):
        proofs = [
            sum(line.proved for line in lines if (line.contestant, line.size) == ("match", size)) for size in sizes
        ]
        rows.append(["proved out of reach", *(f"{count} of {seeds}" for count in proofs), *("" for _ in sizes)])
    text = "\n" + "\n".join(markdown.table(["contestant", *heads], rows)) + "\n"
    return text + "".join(f"\n- {reason}" for reason in reasons if cpu) + ("\n" if reasons and cpu else "")


def _sizes(source: Source) -> Sequence[int]:
    return bench.counts(SIZES, source.rows) if isinstance(source, Synthetic) else source.sizes


def _was_stopped(line: Line) -> bool:
    return any(real_tables.STOPPED in reason for reason in line.reasons)


def _risk(line: Line | None, least: dict[int, float], seeds: int) -> str:
    if line is None or line.risk is None:
        return "–"
    text = f"{line.risk[1]:.2g}"
    if line.risk[1] == least.get(line.size):
        text = f"**{text}**"
    return text if line.seeds == seeds else f"{text} ({line.seeds})"


def main() -> None:
    """Run what is asked for, then write page and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs="*", metavar="NAME", help="run missing cells (default: all but the slow)")
    parser.add_argument("--again", nargs="+", metavar="NAME", default=[], help="forget these contestants' cells, rerun")
    parser.add_argument("--seeds", type=int, help="fewer seeds or goals than the page has")
    parser.add_argument("--real", action="store_true", help="real tables and wide pools, not the pools of 10 columns")
    parser.add_argument("--pool", choices=[source.name for source in EVERY], help="only this one")
    parser.add_argument("--folder", type=Path, default=DOCS)
    asked = parser.parse_args()
    names = asked.again or asked.run
    chosen = by_name(names) if names else tuple(one for one in ALL if not one.slow)
    for source in EVERY:
        wanted = source.name == asked.pool if asked.pool else asked.real != isinstance(source, Synthetic)
        if not wanted:
            continue
        for name in asked.again:
            forget(source, name, asked.folder)
        if asked.again or asked.run is not None:
            run(source, chosen, asked.seeds, asked.folder)
    if not all(stored(source, asked.folder).exists() for source in EVERY):
        return
    cells = read(asked.folder)
    (asked.folder / "how-we-compare.md").write_text(render(cells), encoding="utf-8")
    (asked.folder / "images").mkdir(exist_ok=True)
    for sources, stem in ((SOURCES, "compare"), (REAL, "compare-real")):
        svg = figure.draw(lines_of(cells, sources), asked.folder / "images", stem)[1]
        svg.unlink()


if __name__ == "__main__":
    main()
