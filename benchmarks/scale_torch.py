"""Lessons on a GPU: python benchmarks/scale_torch.py [--device cuda] [--rows 1e9] [--only check,pass,lesson,cpu,stream].

Makes its rows on the device, needs no file and no package but superteach's own, NumPy, SciPy and torch, and prints as it
goes. Sizes that do not fit are halved. `--seconds` ends it between two cases.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch

from superteach import Federation, Learner, Lesson, Teacher, Threads, Torch, teach
from superteach.coordinator.problem import FederatedProblem
from superteach.exceptions import TeachingError
from superteach.losses import LOSSES, Logistic
from superteach.protocol.messages import Turn
from superteach.protocol.queries import AskMoments, Prepare
from superteach.teacher import device as device_module

WIDTH = 28
STARTED = time.perf_counter()
Array = np.ndarray[Any, np.dtype[np.float64]]


class Near:
    """A goal 0.3 of its length away from the pool's own model."""

    def vector(self, room: FederatedProblem) -> Array:
        """Fit on all rows from sums, then add noise."""
        truth = room.fit_pool()
        noise = np.random.default_rng(0).standard_normal(len(truth))
        return np.asarray(room.scaling.raw(truth + 0.3 * np.linalg.norm(truth) / np.linalg.norm(noise) * noise))


def say(*words: object) -> None:
    """Print with the time since the start."""
    print(f"[{time.perf_counter() - STARTED:6.1f} s]", *words, flush=True)


def pool(rows: int, device: str, width: int = WIDTH, seed: int = 0) -> tuple[Any, Any]:
    """Four Gaussian clusters of unit variance, centres ~ N(0, 0.5²), labels in turn: float32, made where they stay."""
    draw = torch.Generator(device=device).manual_seed(seed)
    centres = 0.5 * torch.randn((4, width), generator=draw, device=device)
    X = torch.empty((rows, width), dtype=torch.float32, device=device)
    y = torch.empty(rows, dtype=torch.float32, device=device)
    for start in range(0, rows, 1 << 22):
        part = X[start : start + (1 << 22)]
        cluster = torch.randint(4, (len(part),), generator=draw, device=device)
        part.normal_(generator=draw)
        part += centres[cluster]
        y[start : start + len(part)] = 2.0 * (cluster % 2) - 1.0
    return X, y


def wait(device: str) -> None:
    """Wait for a device's work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], object], device: str, most: float = 4.0) -> list[float]:
    """Seconds of one call, several times after one that warms up, within a limit in all."""
    work()
    wait(device)
    found: list[float] = []
    begun = time.perf_counter()
    while len(found) < 7 and (not found or time.perf_counter() - begun < most):
        started = time.perf_counter()
        work()
        wait(device)
        found.append(time.perf_counter() - started)
    return found


def told(seconds: list[float]) -> str:
    """Median and range."""
    return f"{np.median(seconds):.4f} s ({min(seconds):.4f} to {max(seconds):.4f}, {len(seconds)} runs)"


def free_up() -> None:
    """Give memory back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def fitting(rows: int, device: str) -> int:
    """Rows that fit: 4 bytes a number and 40 a row for what is computed of it, 6 GB for chunks."""
    if not device.startswith("cuda"):
        return rows
    free, whole = torch.cuda.mem_get_info()
    fits = int((free - 6e9) / (4 * WIDTH + 17))
    say(f"{free / 1e9:.1f} of {whole / 1e9:.1f} GB are free: {fits:,} rows fit")
    return min(rows, fits)


def check(device: str) -> None:
    """Compare every function's sums on the device with float64 on this machine, and one lesson."""
    draw = np.random.default_rng(1)
    for width in (3, 14, WIDTH, 40, 90):
        X = draw.standard_normal((20_011, width)).astype(np.float32)
        label = np.where(draw.random(len(X)) < 0.5, 1.0, -1.0)
        point = 0.3 * draw.standard_normal(width) / np.sqrt(width)
        worst: dict[str, float] = {}
        for name, kind in LOSSES.items():
            y = np.round(np.exp(draw.standard_normal(len(X)))) if name == "poisson" else label
            ours, turn = Torch(device).teacher("device", X, y), Turn(1, 0, 1)
            theirs = Teacher("cpu", X, y)
            state: Any = ours.start()
            other = theirs.start()
            for query in (
                Prepare(kind(), 0.0),
                AskMoments("loss", "all", point, 2),
                AskMoments("loss", "all", point, 1),
            ):
                state, one = ours.answer(query, state, turn)
                other, two = theirs.answer(query, other, turn)
                error = np.abs(one.values - two.values).max() / np.abs(two.values).max()
                worst[name] = max(worst.get(name, 0.0), float(error))
        say(f"check, 20,011 × {width}: largest relative difference of sums", {k: f"{v:.1e}" for k, v in worst.items()})
    X, y = pool(200_000, device)
    there = lesson([Torch(device).teacher("device", X, y)], device, 2_000)
    host, labels = X.cpu().numpy(), y.cpu().numpy().astype(np.float64)
    here = teach(Federation(Threads([Teacher("cpu", host, labels)])), Learner(Logistic()), Near(), budget=2_000,
                 rounding="alone")  # fmt: skip
    away = np.abs(there.model - here.model).max()
    say(f"check, lesson of 2,000 of 200,000 × {WIDTH}: risk {there.risk:.6e} on the device, {here.risk:.6e} in process;",
        f"models differ by {away:.1e}")  # fmt: skip


def lesson(teachers: list[Any], device: str, size: int) -> Lesson:
    """A whole lesson by exact teaching, each teacher rounding alone."""
    found = teach(Federation(Torch(device)(teachers)), Learner(Logistic()), Near(), budget=size, rounding="alone")
    wait(device)
    return found


def passes(rows: int, device: str) -> None:
    """Time one Newton pass (value, gradient, curvature), fused and by torch's own products."""
    X, y = pool(rows, device)
    wait(device)
    teacher = Torch(device).teacher("device", X, y)
    turn, point = Turn(1, 0, 1), 0.1 * np.random.default_rng(0).standard_normal(WIDTH)
    state, _ = teacher.answer(Prepare(Logistic(), 0.0), teacher.start(), turn)
    say(f"{rows:,} × {WIDTH} float32: reading once (sum)", told(seconds_of(lambda: X.sum(), device)))
    asked = AskMoments("loss", "all", point, 2)

    def one() -> object:
        return teacher.answer(asked, state, turn)

    say(f"{rows:,} × {WIDTH} float32: Newton pass", told(seconds_of(one, device)))
    if device.startswith("cuda") and rows <= 2e8 and "fused" in vars(device_module):
        tune(one, device)
    fused: Any = vars(device_module).get("fused")
    if fused is not None:
        kept, fused.WIDEST = fused.WIDEST, 0
        try:
            say(f"{rows:,} × {WIDTH} float32: the same by torch's products", told(seconds_of(one, device)))
        finally:
            fused.WIDEST = kept


def tune(one: Callable[[], object], device: str) -> None:
    """Time other shapes of the kernel."""
    fused: Any = vars(device_module)["fused"]
    kept = fused.SHAPE, fused.PROGRAMS
    shapes = (
        (32, 4, 3),
        (32, 4, 2),
        (32, 4, 1),
        (64, 8, 2),
        (64, 4, 2),
        (32, 8, 2),
        (16, 4, 3),
        (16, 2, 3),
        (16, 1, 3),
    )
    for shape, programs in itertools.product(shapes, (4, 16)):
        fused.SHAPE, fused.PROGRAMS = shape, programs
        try:
            say("  rows, warps, stages", shape, "programs", programs, told(seconds_of(one, device, 0.5)))
        except Exception as error:
            say("  rows, warps, stages", shape, "failed:", str(error).splitlines()[0][:120])
    fused.SHAPE, fused.PROGRAMS = kept


def whole(rows: int, device: str, shares: list[float]) -> None:
    """Whole lessons, with the seconds of each kind of question."""
    X, y = pool(rows, device)
    wait(device)
    started = time.perf_counter()
    teacher = Torch(device).teacher("device", X, y)
    say(
        f"{rows:,} × {WIDTH}: a teacher of these rows (looked through for NaN) in {time.perf_counter() - started:.2f} s"
    )
    del X, y
    for share in shares:
        size = max(1, round(share * rows))
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        found = lesson([teacher], device, size)
        took = time.perf_counter() - started
        spent: dict[str, list[float]] = {}
        for entry in found.ledger:
            spent.setdefault(f"{entry.stage}: {entry.query}", []).append(entry.seconds)
        say(f"{rows:,} × {WIDTH}, lesson of {found.size:,} rows: {took:.2f} s, risk {found.risk:.2e} (all rows:",
            f"{found.pool_risk:.2e}), {len(found.ledger)} rounds, {found.reason}")  # fmt: skip
        for name, times in spent.items():
            say(f"    {name:32s} {len(times):3d} × {np.mean(times):8.4f} = {sum(times):8.3f} s")
        if device.startswith("cuda"):
            say(f"    most memory on the device: {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")


def against_cpu(rows: int, device: str, share: float) -> None:
    """The same lesson on the device and in this process on all cores, from the same rows."""
    X, y = pool(rows, device)
    size, cores = max(1, round(share * rows)), len(os.sched_getaffinity(0))
    lesson([Torch(device).teacher("device", X[:100_000], y[:100_000])], device, 1000)  # compiles what is compiled once
    started = time.perf_counter()
    there = lesson([Torch(device).teacher("device", X, y)], device, size)
    on_gpu = time.perf_counter() - started
    parts = np.array_split(np.arange(rows), cores)
    teachers = []
    for place, part in enumerate(parts):
        some = slice(int(part[0]), int(part[-1]) + 1)
        labels = y[some].cpu().numpy().astype(np.int8)
        teachers.append(Teacher(f"cpu {place}", X[some].cpu().numpy(), labels, part))
    del X, y
    free_up()
    say(f"{rows:,} × {WIDTH}, lesson of {size:,} rows on {device}: {on_gpu:.2f} s, risk {there.risk:.2e}")
    engine = Threads(teachers)
    started = time.perf_counter()
    here = teach(Federation(engine), Learner(Logistic()), Near(), budget=size, rounding="alone")
    on_cpu = time.perf_counter() - started
    spent = {name: sum(e.seconds for e in here.ledger if e.query == name) for name in {e.query for e in here.ledger}}
    say(f"{rows:,} × {WIDTH}, the same on {cores} cores, {cores} teachers: {on_cpu:.2f} s, risk {here.risk:.2e},",
        {name: round(seconds, 2) for name, seconds in sorted(spent.items(), key=lambda pair: -pair[1])[:5]})  # fmt: skip
    say(f"RATIO {on_cpu / on_gpu:.1f} ({cores} cores to one {device})")


def streamed(rows: int, device: str) -> None:
    """The same lesson with rows in this machine's memory, brought to the device in each pass."""
    X, y = pool(rows, device)
    stay = lesson([Torch(device).teacher("device", X, y)], device, 1000)
    host, labels = X.cpu(), y.cpu()
    del X
    free_up()
    teacher = Torch(device, stream=True).teacher("streamed", host, labels)
    started = time.perf_counter()
    found = lesson([teacher], device, 1000)
    say(f"{rows:,} × {WIDTH} streamed: lesson in {time.perf_counter() - started:.2f} s, resident {stay.seconds:.2f} s;",
        f"models differ by {np.abs(found.model - stay.model).max():.1e}")  # fmt: skip


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", type=float, default=1e9, help="of the largest pool")
    parser.add_argument(
        "--middle", type=float, default=1e8, help="of the pool that is compared with this machine's cores"
    )
    parser.add_argument("--only", default="check,pass,lesson,cpu,stream", help="cases, by commas")
    parser.add_argument("--shares", default="1e-4,1e-3", help="lessons' shares of the rows, by commas")
    parser.add_argument("--seconds", type=float, default=420.0, help="after which no further case begins")
    given = parser.parse_args()
    device, only = given.device, given.only.split(",")
    say(f"torch {torch.__version__}, NumPy {np.__version__}, {device}, Triton", "fused" in vars(device_module))
    if device.startswith("cuda"):
        say(torch.cuda.get_device_name())
    shares = [float(share) for share in given.shares.split(",")]
    cases: dict[str, list[tuple[Callable[..., None], float, tuple[Any, ...]]]] = {
        "check": [(lambda rows, device: check(device), 0.0, ())],
        "pass": [(passes, given.middle, ()), (passes, given.rows, ())],
        "lesson": [(whole, given.rows, (shares,))],
        "cpu": [(against_cpu, given.middle, (shares[0],))],
        "stream": [(streamed, given.middle / 10, ())],
    }
    for name, runs in cases.items():
        for run, rows, rest in runs if name in only else ():
            if time.perf_counter() - STARTED > given.seconds:
                say(f"{name}: left out, {given.seconds:g} s are over")
                continue
            free_up()
            size = fitting(int(rows), device)
            for _ in range(3):
                try:
                    run(size, device, *rest)
                    break
                except (torch.OutOfMemoryError, TeachingError) as error:
                    say(f"{name}, {size:,} rows:", error)
                    size = int(0.8 * size)
                    error.__traceback__ = error.__cause__ = error.__context__ = None
                    free_up()
                except Exception as error:  # the other cases still tell something
                    import traceback

                    traceback.print_exc()
                    say(f"{name} failed: {type(error).__name__}")
                    break
    say("done")


if __name__ == "__main__":
    main()
