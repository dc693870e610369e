"""What each number of the core is worth: lessons with it halved, doubled, and without it.

    python -m benchmarks ablation --out docs/generated/ablation.md  # a quarter of an hour of one core; --jobs N: on N
    python -m benchmarks ablation --only rounding --seeds 8

Numbers are found in the code: fields of options classes, and constants of the modules below. Every variant teaches the same
pools as the code as it is, in a process with one thread; of a case whose first lesson stays the same to the last bit the
others are not taught. Ratios are geometric means over the pools that a number touches. What counts as noise is measured too:
the same pools taught with other random numbers.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import math
import os
import pkgutil
import queue
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.oracle.judge import Server, write
from benchmarks.oracle.pools import POOLS as CASES

PACKAGES = ("superteach.selection", "superteach.optim")
MODULES = (
    "superteach.coordinator.methods.match", "superteach.coordinator.problem", "superteach.coordinator.proofs",
    "superteach.coordinator.teach", "superteach.teacher.sums", "superteach.teacher.selection",
)  # fmt: skip
POOLS = {
    "5k10": 4, "r5k10": 3, "20k30": 3, "exact-n100": 2, "four-classes": 3, "400x5": 4, "alone5k10": 3, "rare": 2,
    "100x4-restarts": 3, "100x8": 2, "ma64x2": 2, "r28x6": 3, "unbalanced": 3, "digits": 1, "isolated-rare": 1,
    "isolated5k10": 3, "isolated5k10-50": 2,
}  # fmt: skip
"""Pools of the oracle, and seeds of each; --seeds multiplies them."""
_SMALL = ("400x5", "100x4-restarts", "100x8", "ma64x2", "r28x6", "unbalanced", "isolated5k10-50")
_PROVED = ("exact-n100", "digits", "rare")
_ISOLATED = ("isolated-rare", "isolated5k10", "isolated5k10-50")
_MOST = (*tuple(POOLS)[:8], "isolated5k10")
CASES_OF = {
    "selection.certificate": _PROVED, "selection.majorant": _PROVED, "coordinator.proofs": _PROVED,
    "selection.nearest": (*_SMALL, "exact-n100"), "selection.subsets": _SMALL,
    "selection.share": _ISOLATED, "optim.lbfgs": ("digits",), "teacher.sums": ("digits", "rare"),
    "coordinator.problem": (*_MOST, "digits"), "coordinator.methods.match": (*_MOST, *_SMALL),
}  # fmt: skip
"""Cases that the numbers of a module are tried on; numbers of all others on most of them."""
FLOATING = {
    "UNIT", "SAFETY", "STILL", "REGULAR", "FLAT", "EDGE", "DIGITS", "MOST", "DEPENDENT", "_ROUNDING", "_GOLDEN",
    "SHIFTED", "SHORTER", "CANCELLED", "ROUNDINGS", "_ARMIJO",
}  # fmt: skip
"""What floating-point numbers can tell apart, or constants of mathematics: not chosen by trying."""
MEMORY = {
    "AT_ONCE", "_VALUES_AT_ONCE", "BINS", "SHORTEST", "CANDIDATES", "GRAM", "WORK", "RADII",
    "TILTS", "EVALUATIONS", "STEPS", "HALVINGS", "MOVES",
}  # fmt: skip
"""How much is worked on at once, or how much work or memory there may be: most pools end before."""
OFF: dict[str, Any] = {
    "path": [1e-8], "freedom": 0.0, "slow": 0.0, "roundings": 1, "absorbed": 1e9, "relaxation:DEFAULT.thin": 0.0,
    "ladder": 0.0, "one_by_one": 0, "cost": 1.0, "scarce": 1e-9, "tries": 1, "last": 0, "swap_above": 1e9, "starts":
    1, "small": 0, "whole": 0, "approaches": 1, "gain": 0.0, "close": 0.0, "unlucky": 0, "many": 10**9, "long": 1e9,
    "far": 1e9, "seen": 0.0, "few": 0, "tried": 1, "rounding:DEFAULT.thin": 1e-12, "ample": 1, "shown": 0.0,
    "ROUGH": 1, "COST": 0.0,
}  # fmt: skip
"""The value with which a number does nothing, where there is one."""


INSTEAD: dict[str, dict[str, Any]] = {
    "GROWTH": {"½ ×": 1.1, "2 ×": 1.4},
    "_STEPS": {"½ ×": list(2.0 ** -np.arange(0.0, 7.0)), "2 ×": list(2.0 ** -np.arange(-3.0, 12.0))},
}
"""Variants of numbers that cannot be halved or doubled."""


@dataclass(frozen=True, eq=False)
class Number:
    """A number of the code."""

    name: str
    """module:NAME or module:OPTIONS.field, as the process that teaches is told."""
    value: Any
    effect: str

    @property
    def last(self) -> str:
        """Its own name."""
        return self.name.replace(":", ".").split(".")[-1]

    def variants(self) -> dict[str, Any]:
        """Values to try, by what was done to the number."""
        found = {"½ ×": _times(self.value, 0.5), "2 ×": _times(self.value, 2.0)}
        off = [value for end, value in OFF.items() if end == self.last or (":" in end and self.name.endswith(end))]
        found.update({"off": off[0]} if off else {})
        found.update(next((values for end, values in INSTEAD.items() if self.name.endswith(end)), {}))
        return {how: value for how, value in found.items() if value != _times(self.value, 1.0)}


def _times(value: Any, factor: float) -> Any:
    """A number, or all numbers of a tuple, times a factor; whole numbers stay whole, parts of one stay below."""
    if isinstance(value, tuple | list | np.ndarray):
        return [_times(one, factor) if isinstance(one, tuple) else float(one) * factor for one in value]
    if isinstance(value, int | np.integer):
        return max(1, round(value * factor))
    return min(float(value) * factor, 1.0) if 0.1 < value <= 1.0 else float(value) * factor


def numbers() -> tuple[list[Number], list[Number]]:
    """Numbers that were chosen by trying, and the others."""
    found: list[Number] = []
    for package in PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            found += _of_module(module.name)
    found += [number for name in MODULES for number in _of_module(name)]
    other = [number for number in found if number.last in FLOATING | MEMORY]
    return [number for number in found if number not in other], other


def _of_module(name: str) -> Iterator[Number]:
    module = importlib.import_module(name)
    tree = ast.parse(inspect.getsource(module))
    notes = _notes(tree.body)
    for key, value in vars(module).items():
        if key in notes and is_dataclass(value) and type(value).__module__ == name and not isinstance(value, type):
            declared = next(node for node in tree.body if getattr(node, "name", "") == type(value).__name__)
            effects = _notes(declared.body)  # type: ignore[attr-defined]
            for one in fields(value):
                yield Number(f"{name}:{key}.{one.name}", getattr(value, one.name), effects.get(one.name, ""))
        elif key in notes and key.isupper() and _is_numbers(value):
            yield Number(f"{name}:{key}", value, notes[key])


def _notes(body: Sequence[ast.stmt]) -> dict[str, str]:
    """Names that are assigned, and the string that follows each."""
    found: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = " ".join(str(after.value.value).split())
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Name):
                    found[one.id] = text
    return found


def _is_numbers(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fi"
    if isinstance(value, tuple | list):
        return bool(value) and all(_is_numbers(one) for one in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Pool:
    """A task in a file, the lesson that the code as it is teaches, and others by chance."""

    case: str
    path: Path
    lesson: dict[str, Any]
    by_chance: tuple[dict[str, Any], ...]


class Bench:
    """Processes that teach, and the pools they teach."""

    def __init__(self, jobs: int, folder: Path, seeds: float) -> None:
        self._servers: queue.SimpleQueue[Server] = queue.SimpleQueue()
        self._all = [Server() for _ in range(jobs)]
        for server in self._all:
            self._servers.put(server)
        self.workers = ThreadPoolExecutor(jobs)
        wanted = [(case, seed) for case, count in POOLS.items() for seed in range(max(1, round(count * seeds)))]
        self.pools: dict[str, list[Pool]] = {}
        for pool in self.workers.map(lambda one: self._pool(folder, *one), wanted):
            self.pools.setdefault(pool.case, []).append(pool)

    def _pool(self, folder: Path, case: str, seed: int) -> Pool:
        task, paths = CASES[case].task(2_000 + seed), []
        for chance in range(3):
            changed = dict(task.settings, random_state=task.settings["random_state"] + 7919 * chance)
            paths.append(write(task._replace(settings=changed), folder / f"{case}-{seed}-{chance}.pickle"))
        lessons = [self.teach(path, {}) for path in paths]
        return Pool(case, paths[0], lessons[0], tuple(lessons[1:]))

    def teach(self, path: Path, changed: dict[str, Any]) -> dict[str, Any]:
        """Teach in whichever process is free."""
        server = self._servers.get()
        try:
            return server.lesson(path, changed)
        finally:
            self._servers.put(server)

    def close(self) -> None:
        """End the processes."""
        self.workers.shutdown()
        for server in self._all:
            server.close()


@dataclass(frozen=True)
class Mean:
    """A geometric mean of ratios, and the factor within which chance alone moves it in 19 of 20 cases."""

    ratio: float
    noise: float

    @classmethod
    def of(cls, logs: Sequence[float], spread: float) -> Mean:
        """From logarithms, and the standard deviation of their mean by chance."""
        return cls(math.exp(float(np.mean(logs))), math.exp(2.0 * spread))

    def above(self, least: float) -> bool:
        """Whether it is more than chance and more than `least`."""
        return self.ratio > max(self.noise, least)

    def below(self, least: float) -> bool:
        """Whether it is less than chance and than one part in `least`."""
        return self.ratio < 1.0 / max(self.noise, least)

    def __str__(self) -> str:
        return f"{self.ratio:.2f}" if self.above(1.0) or self.below(1.0) else f"({self.ratio:.2f})"


@dataclass(frozen=True)
class Change:
    """What became of lessons when a number was changed: ratios of changed to unchanged."""

    pools: int = 0
    """Pools whose lessons are others than before."""
    distance: Mean = Mean(1.0, 1.0)
    time: Mean = Mean(1.0, 1.0)
    rounds: Mean = Mean(1.0, 1.0)
    most: str = ""
    """The case that it changed most, beyond chance."""
    failed: str = ""

    @property
    def worse(self) -> bool:
        """Whether lessons are clearly farther away, fail, or take longer."""
        return bool(self.failed) or self.distance.above(1.1) or self.time.above(1.15) or self.rounds.above(1.15)

    @property
    def better(self) -> bool:
        """Whether lessons are clearly nearer, or quicker and no farther away."""
        return not self.worse and (self.distance.below(1.1) or self.time.below(1.15) or self.rounds.below(1.15))

    def __str__(self) -> str:
        if self.failed:
            return f"fails: {self.failed}"
        return f"{self.distance} / {self.time} / {self.rounds}" if self.pools else "same"


def measure(bench: Bench, number: Number, value: Any) -> Change:
    """Teach all pools that a number touches, each beside the unchanged code."""
    logs, spreads, times, rounds = [], [], [], []
    by_case: dict[str, list[float]] = {}
    wanted = CASES_OF.get(number.name.partition(":")[0].removeprefix("superteach."), _MOST)
    for case, pools in [one for one in bench.pools.items() if one[0] in wanted]:
        for place, pool in enumerate(pools):
            lesson, unchanged = bench.teach(pool.path, {number.name: value}), pool.lesson
            if "error" in lesson and "error" not in unchanged:
                return Change(1, failed=f"{case}, {lesson['error'][:60]}")
            if "error" in unchanged or (place == 0 and _same(lesson, unchanged)):
                break
            logs.append(_ratio(lesson, unchanged))
            spreads.append(_spread(pools))
            by_case.setdefault(case, []).append(logs[-1])
            unchanged = bench.teach(pool.path, {})  # times are compared on a machine as busy as a moment ago
            times.append(math.log(lesson["seconds"] / unchanged["seconds"]))
            rounds.append(math.log(lesson["rounds"] / unchanged["rounds"]))
    if not logs:
        return Change()
    means = {case: float(np.mean(some)) for case, some in by_case.items()}
    most = max(means, key=lambda case: abs(means[case]))
    beyond = abs(means[most]) > 2.0 * _spread(bench.pools[most]) / math.sqrt(len(by_case[most]))
    felt = f"{most} {math.exp(means[most]):.2g}" if beyond and abs(means[most]) > math.log(1.1) else ""
    chance = math.sqrt(float(np.sum(np.square(spreads)))) / len(logs)
    own = [float(np.std(some)) / math.sqrt(len(some)) + 0.02 for some in (times, rounds)]
    return Change(len(logs), Mean.of(logs, chance), Mean.of(times, own[0]), Mean.of(rounds, own[1]), felt)


def _same(lesson: dict[str, Any], before: dict[str, Any]) -> bool:
    return all(lesson[key] == before[key] for key in ("risk", "predictions", "rounds", "proved"))


def _ratio(lesson: dict[str, Any], before: dict[str, Any]) -> float:
    """Log of the ratio of distances in predictions."""
    return math.log(max(lesson["predictions"], 1e-14) / max(before["predictions"], 1e-14))


def _spread(pools: Sequence[Pool]) -> float:
    """By how much chance moves the log of that ratio."""
    pairs = [(one, pool.lesson) for pool in pools for one in pool.by_chance]
    logs = [_ratio(one, before) for one, before in pairs if "error" not in one and "error" not in before]
    return float(np.sqrt(np.mean(np.square(logs)))) if logs else 0.0


UNFELT = "no pool here feels it"


def verdict(changes: dict[str, Change]) -> str:
    """Whether a number earns its place."""
    if not any(change.pools for change in changes.values()):
        return UNFELT
    if any(change.worse for change in changes.values()):
        better = [how for how, change in changes.items() if change.better]
        return f"keep; {better[0]} is better" if better else "keep"
    better = [how for how, change in changes.items() if change.better]
    return f"{better[0]} is better" if better else "free: within noise"


def page(table: dict[Number, dict[str, Change]], other: Sequence[Number], command: str, bench: Bench) -> str:
    """The table as a page of the documentation."""
    verdicts = [verdict(changes) for changes in table.values()]
    kept, unfelt = sum(one.startswith("keep") for one in verdicts), verdicts.count(UNFELT)
    text = [
        "# What each number of the core is worth",
        "",
        f"Generated by `{command}`. Every number was halved, doubled and, where that has a meaning, switched off.",
        "Cells hold distance in predictions / processor time / rounds, as ratios to the code as it is: geometric means over",
        'the pools on which the change alters any lesson ("same": it alters none). Ratios in brackets are within what',
        "chance does: other random numbers for the distance, the scatter over pools for time and rounds.",
        "",
        "A number is kept where some cell is clearly worse: a tenth farther, 15 % slower, or 15 % more rounds.",
        f"Of {len(table)} numbers that were chosen by trying, {kept} are kept by that rule. ",
        f"{len(table) - kept - unfelt} change lessons within noise or for the better, and {unfelt} change nothing here.",
        "The pools are synthetic: what heavy tails and dummies of real tables feel is not in this table, so a number that",
        "looks free here may be kept for them. Dropping `absorbed`'s predecessor on its word cost a factor of 10⁵ there.",
        "",
        "| number | value | what it decides | ½ × | 2 × | off | felt most | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for number, changes in table.items():
        felt = "; ".join(f"{how}: {change.most}" for how, change in changes.items() if change.most)
        cells = [str(changes.get(how, "–")) for how in ("½ ×", "2 ×", "off")]
        text.append(
            "| "
            + " | ".join([_short(number), _shown(number.value), number.effect, *cells, felt, verdict(changes)])
            + " |"
        )
    text += ["", "Pools, and by which factor chance alone moves a lesson's distance (one standard deviation):", ""]
    for case, pools in bench.pools.items():
        text.append(f"- {case}: {len(pools)} seeds, {math.exp(_spread(pools)):.2f}")
    text += [
        "",
        "Not chosen by trying: what floating-point numbers can tell apart, and how much is worked on at once.",
        "",
    ]
    text += [f"- {_short(number)} = {_shown(number.value)}: {number.effect}" for number in other]
    return "\n".join(text) + "\n"


def _short(number: Number) -> str:
    module, _, path = number.name.partition(":")
    return f"`{module.removeprefix('superteach.')}` {path.replace('DEFAULT.', '')}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list | np.ndarray):
        return ", ".join(_shown(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def main(arguments: Sequence[str]) -> None:
    """Measure every number, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ablation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="the page to write (default: print it)")
    parser.add_argument("--only", default="", help="numbers whose names hold this word")
    parser.add_argument("--seeds", type=float, default=1.0, help="how many times as many pools")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--list", action="store_true", help="list the numbers")
    options = parser.parse_args(arguments)
    tuned, other = numbers()
    tuned = [number for number in tuned if options.only in number.name]
    if options.list:
        for number in tuned:
            print(number.name, number.value, number.variants())
        return
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.jobs, Path(folder), options.seeds)
        tried = [(number, how, value) for number in tuned for how, value in number.variants().items()]

        def change(one: tuple[Number, str, Any]) -> Change:
            number, how, value = one
            found = measure(bench, number, value)
            print(f"{_short(number)} {how} = {value}: {found} {found.most}", file=sys.stderr)
            return found

        table: dict[Number, dict[str, Change]] = {}
        for (number, how, _), found in zip(tried, bench.workers.map(change, tried), strict=True):
            table.setdefault(number, {})[how] = found
        bench.close()
    command = " ".join(["python -m benchmarks ablation", *arguments])
    written = page(table, other, command, bench)
    if options.out:
        options.out.write_text(written, encoding="utf-8")
    else:
        print(written)
