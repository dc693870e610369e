"""Teach lessons with whichever superteach PYTHONPATH names, each in a process of its own.

Reads a line of JSON for each, with the path of a pickled task and numbers of the code to change, and writes one line.
It takes nothing from `benchmarks`, which may be of another age than the superteach it runs.
"""

import json
import os
import pickle
import select
import signal
import sys
import time
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from superteach import SuperTeacher

SECONDS = 60
"""Processor time after which a lesson is ended."""
SHORT = 0.3
"""Seconds of processor time within which short lessons and fits are repeated; the quickest counts."""
warnings.simplefilter("ignore")


def change(name: str, value: Any) -> None:
    """Set module:NAME, or module:OPTIONS.field of a frozen dataclass."""
    module, _, path = name.partition(":")
    *objects, last = path.split(".")
    owner = import_module(module)
    for one in objects:
        owner = getattr(owner, one)
    before = getattr(owner, last)
    if isinstance(before, tuple):  # JSON has no tuples
        value = tuple(value)
    if isinstance(before, np.ndarray):
        value = np.array(value)
    if objects:
        object.__setattr__(owner, last, value)
        return
    for other in [one for key, one in sys.modules.items() if key.startswith("superteach")]:
        if vars(other).get(last) is before:  # modules that import a number have it under the same name
            setattr(other, last, value)


def superteacher(estimator: Any, goal: Any, settings: dict[str, Any]) -> Any:
    """A SuperTeacher; where its settings have the names of 8c70b8f, with those (to be removed with 8c70b8f.jsonl).

    That code finds its ways to choose by entry points: its checkout needs a *.dist-info of its own in src/.
    """
    try:
        return SuperTeacher(estimator, goal, **settings)
    except TypeError:
        old: Any = {name: value for name, value in settings.items() if name not in ("measure", "privacy")}
        old["promise"] = {"none": "open", "isolated": "closed", "dp": "epsilon"}[settings.get("privacy", "none")]
        return SuperTeacher(estimator, goal, **old)


def quickest(work: Any) -> tuple[Any, float]:
    """The last result, and the least processor time, of as many runs as fit into SHORT seconds, of at most five."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < SHORT:
        started = time.process_time()
        result = work()
        times.append(time.process_time() - started)
    return result, min(times)


def held(field: str) -> float:
    """Megabytes that this process holds (VmRSS) or has held at most (VmHWM), on Linux."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def taught(request: dict[str, Any]) -> dict[str, Any]:
    """Teach one task."""
    with open(request["task"], "rb") as file:
        X, y, owner, estimator, goal, settings = pickle.load(file)
    for name, value in request.get("numbers", {}).items():
        change(name, value)
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak so far is forgotten
    before = held("VmRSS")
    memory = []

    def lesson() -> Any:
        found = superteacher(estimator, goal, settings).fit(X, y, groups=owner)
        memory.append(held("VmHWM") - before)
        return found

    teacher, seconds = quickest(lesson)
    fit = quickest(lambda: clone(estimator).fit(X, y))[1]
    # Modes that refit no model leave that to the owner of all.
    found = getattr(teacher, "measured_", teacher.lesson_)
    return {
        "rows": teacher.sample_indices_.tolist(),
        "risk": float(found.risk),
        "predictions": float(found.prediction_distance),
        "measure": getattr(found, "measure", "coefficients"),
        "bound": float(found.lower_bound),
        "proved": found.certificate is not None,
        "rounds": int(teacher.lesson_.rounds),
        "seconds": seconds,
        "fit": fit,
        "memory": memory[0],
    }


def answer(request: dict[str, Any]) -> str:
    """Teach in a child of this process, which is ended when it takes too long."""
    end, start = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = json.dumps(taught(request))
        except BaseException as error:  # whatever one code cannot do is a line of the table
            text = json.dumps({"error": f"{type(error).__name__}: {error}"[:200]})
        with os.fdopen(start, "w") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(start)
    begun, long = time.monotonic(), False
    with os.fdopen(end) as pipe:
        # A limit of processor time that the kernel keeps (RLIMIT_CPU) would make its clock as coarse as its ticks.
        while not long and not select.select([pipe], [], [], 0.5)[0]:
            long = used(child) > SECONDS or time.monotonic() - begun > 20 * SECONDS
        if long:
            os.kill(child, signal.SIGKILL)
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text or json.dumps({"error": f"over {SECONDS} s" if long else f"ended by code {code}"})


def used(process: int) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Import what lessons need, then answer every line."""
    draw = np.random.default_rng(0)
    X, owner = draw.standard_normal((400, 2)), np.arange(400) % 2
    y = X @ np.ones(2) + draw.standard_normal(400)
    ways: list[tuple[Any, Any, dict[str, str]]]
    ways = [(LogisticRegression(), y > 0, {"privacy": privacy}) for privacy in ("none", "isolated", "dp")]
    ways += [(Ridge(), y, {"method": method}) for method in ("match", "dual")]
    for learner, target, settings in ways:
        with suppress(ValueError):  # what lessons bring in counts here, not what they come to: noise may leave no row
            superteacher(learner, np.ones(3), {"budget": 60, **settings}).fit(X, target, groups=owner)
    for line in sys.stdin:
        print(answer(json.loads(line)), flush=True)


main()
