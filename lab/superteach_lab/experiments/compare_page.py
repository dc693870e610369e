"""docs/how-we-compare.md: run the bench on the paper's smallest pools, and write the page from its stored cells.

python -m superteach_lab.experiments.compare_page                         # write the page again from what is stored
python -m superteach_lab.experiments.compare_page --run                   # run what is missing, all but the slow contestants
python -m superteach_lab.experiments.compare_page --run MINLP --seeds 1   # run one contestant, on fewer seeds
python -m superteach_lab.experiments.compare_page --again match           # forget a contestant's cells and run them anew
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from superteach.processes.records import Record, Records
from superteach_lab.compare import bench, figure
from superteach_lab.compare.bench import Line
from superteach_lab.compare.sources import Synthetic
from superteach_lab.compare.task import Contestant
from superteach_lab.rivals import ALL, by_name

DOCS = Path(__file__).parents[3] / "docs"
SOURCES = tuple(Synthetic(learner, 5000, 10, teachers=(5, 10)) for learner in ("logistic", "ridge"))
SIZES = (0.01, 0.02, 0.04, 0.1, 0.3)
SEEDS = 3
SECONDS = 120.0


def stored(source: Synthetic, folder: Path) -> Path:
    """Where the cells of a pool are kept."""
    return folder / "compare" / f"{source.learner}.jsonl"


def run(source: Synthetic, contestants: Sequence[Contestant], seeds: int, folder: Path) -> None:
    """Run the cells that are missing."""
    records = Records(stored(source, folder), {**source.settings(), "time_limit": SECONDS})
    cells = bench.plan(source, contestants, bench.counts(SIZES, source.rows), seeds)
    bench.run(source, cells, records, SECONDS)


def forget(source: Synthetic, name: str, folder: Path) -> None:
    """Take a contestant's cells out of the file."""
    place = stored(source, folder)
    head, *lines = place.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["cell"]["contestant"] != name]
    place.write_text(head + "".join(kept), encoding="utf-8")


def read(folder: Path) -> dict[str, list[Record]]:
    """The stored cells of every pool."""
    found = {}
    for source in SOURCES:
        lines = stored(source, folder).read_text(encoding="utf-8").splitlines()[1:]
        found[source.name] = [json.loads(line) for line in lines]
    return found


def lines_of(cells: dict[str, list[Record]]) -> list[Line]:
    """Medians and quartiles, in the bench's order."""
    order = {contestant.name: number for number, contestant in enumerate(ALL)}
    lines = []
    for source in SOURCES:
        own = bench.summary(cells[source.name], source.rows, source.teachers)
        lines += sorted(own, key=lambda line: (line.teachers, order.get(line.contestant, 99), line.size))
    return lines


_TOP = """# How we compare

This page is written by `python -m superteach_lab.experiments.compare_page` from the cells in `docs/compare/`;
the same command with
`--run` makes those cells. Pools: N = 5,000 rows, d = 10, four Gaussian clusters, Λ = 1, no intercept; ridge targets have
noise of standard deviation 20. Goal: the fit on all rows plus noise of the same length, drawn from another seed than the
rows. Your own pools: `superteach compare` ([command line](command-line.md)).

Every contestant works in a process of its own on copies of the rows and hands back row numbers, nothing else. One
referee checks them, refits the learner on those rows alone, and measures. The goal is shown only to those who say that
they need it. CPU is the processor time of the choice, one thread for linear algebra; the clock of a busy machine says less.
A choice may take {seconds:g} seconds by the clock.

## Who is here

| contestant | what it does | needs |
| --- | --- | --- |
"""

_READING = """
## Risk by lesson size

Distance ‖θ_S − θ*‖, medians over seeds (number of seeds in brackets where it is not {seeds}); the lowest of a column is
bold. Read `–` as: no lesson, for the reason below the table.
"""


def render(cells: dict[str, list[Record]]) -> str:
    """The whole page."""
    lines = lines_of(cells)
    present = {line.contestant for line in lines}
    parts = [_TOP.format(seconds=SECONDS)]
    for contestant in ALL:
        if contestant.name in present:
            needs = ", ".join(contestant.needs) or "nothing"
            parts.append(f"| {contestant.name} | {contestant.about} | {needs} |\n")
    absent = [contestant.name for contestant in ALL if contestant.name not in present]
    if absent:
        parts.append(
            f"\nNot run for this page, because they take minutes for each lesson: {', '.join(absent)}.\n"
        )
    parts.append(_losses(lines))
    parts.append(_READING.format(seeds=SEEDS))
    parts.append(
        "\n![Risk by lesson size and by processor time, for every contestant.](images/compare.png)\n"
    )
    for pool, teachers in dict.fromkeys((line.pool, line.teachers) for line in lines):
        own = [line for line in lines if (line.pool, line.teachers) == (pool, teachers)]
        parts.append(_table(own, f"{pool}, K = {teachers}"))
    return "".join(parts)


def _losses(lines: Sequence[Line]) -> str:
    """Where somebody's median risk is below match's."""
    text = "\n## Where we lose\n\n"
    for ours in bench.OURS:
        columns = {
            (line.pool, line.teachers, line.size) for line in lines if line.contestant == ours and line.risk
        }
        lost = {(one.line.pool, one.line.teachers, one.line.size) for one in bench.beaten(lines, ours)}
        text += (
            f"`{ours}` has the lowest median risk in {len(columns - lost)} of {len(columns)} columns below. "
        )
    found = list(bench.beaten(lines))
    if not found:
        return text + "No contestant beats `match` anywhere.\n"
    text += (
        "It is beaten here (medians over the seeds that both have; ratio: their risk over that of `match`):\n\n"
        "| pool | K | rows | by | risk | match | ratio | match long | seeds | CPU | match's CPU |\n"
    )
    text += "| --- " * 11 + "|\n"
    long = {
        (line.pool, line.teachers, line.size): line.risk[1]
        for line in lines
        if line.contestant == "match long" and line.risk
    }
    for line, own, risk, our_risk, seeds in sorted(
        found, key=lambda one: (one.line.pool, one.line.teachers, one.line.size)
    ):
        longer = long.get((line.pool, line.teachers, line.size))
        text += (
            f"| {line.pool} | {line.teachers} | {line.size:,} | {line.contestant} | {risk:.2g} | {our_risk:.2g} | "
            f"{risk / our_risk:.2f} | {'–' if longer is None else f'{longer:.2g}'} | {seeds} | {line.cpu:.2g} s | "
            f"{own.cpu:.2g} s |\n"
        )
    return text


def _table(lines: Sequence[Line], title: str) -> str:
    sizes = [round(size * SOURCES[0].rows) for size in SIZES]
    least = {
        size: min(line.risk[1] for line in lines if line.risk and line.size == size)
        for size in sizes
        if any(line.risk and line.size == size for line in lines)
    }
    heads = " | ".join(f"{100 * size:g} %" for size in SIZES)
    text = f"\n### {title}\n\n| contestant | {heads} | consistency at 4 % | seconds at 4 % | CPU at 4 % |\n"
    text += "| --- " * (len(SIZES) + 4) + "|\n"
    reasons: dict[str, None] = {}
    for name in dict.fromkeys(line.contestant for line in lines):
        own = {line.size: line for line in lines if line.contestant == name}
        shown = [
            own.get(size) or (own.get(SOURCES[0].rows) if name == "full pool" else None) for size in sizes
        ]
        middle = shown[SIZES.index(0.04)]
        cells = [_risk(line, least) for line in shown]
        if middle is not None and middle.risk is not None:
            cells += [f"{middle.consistency:.4f}", f"{middle.seconds:.2g}", f"{middle.cpu:.2g}"]
        else:
            cells += ["–"] * 3
        text += f"| {name} | {' | '.join(cells)} |\n"
        reasons.update({f"{name}: {reason}": None for line in own.values() for reason in line.reasons})
    return text + "".join(f"\n- {reason}" for reason in reasons) + ("\n" if reasons else "")


def _risk(line: Line | None, least: dict[int, float]) -> str:
    if line is None or line.risk is None:
        return "–"
    text = f"{line.risk[1]:.2g}"
    if line.risk[1] == least.get(line.size):
        text = f"**{text}**"
    return text if line.seeds == SEEDS else f"{text} ({line.seeds})"


def main() -> None:
    """Run what is asked for, then write page and figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--run", nargs="*", metavar="NAME", help="run missing cells (default: all but the slow)"
    )
    parser.add_argument(
        "--again", nargs="+", metavar="NAME", default=[], help="forget these contestants' cells, rerun"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--learner", choices=[source.learner for source in SOURCES], help="only this pool")
    parser.add_argument("--folder", type=Path, default=DOCS)
    asked = parser.parse_args()
    names = asked.again or asked.run
    chosen = by_name(names) if names else tuple(one for one in ALL if not one.slow)
    for source in SOURCES:
        if asked.learner not in (None, source.learner):
            continue
        for name in asked.again:
            forget(source, name, asked.folder)
        if asked.again or asked.run is not None:
            run(source, chosen, asked.seeds, asked.folder)
    if not all(stored(source, asked.folder).exists() for source in SOURCES):
        return
    cells = read(asked.folder)
    (asked.folder / "how-we-compare.md").write_text(render(cells), encoding="utf-8")
    (asked.folder / "images").mkdir(exist_ok=True)
    svg = figure.draw(lines_of(cells), asked.folder / "images", "compare")[1]
    svg.unlink()


if __name__ == "__main__":
    main()
