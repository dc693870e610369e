"""Teach one lesson after the other for `core` and `ablation`, with whichever superteach PYTHONPATH names.

Reads a line of JSON for each, the path of a pickled task and numbers of the code to change, and writes one line of JSON. It
takes nothing from `benchmarks`, which may be of another age than the superteach it runs.
"""

import json
import pickle
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from superteach import SuperTeacher

warnings.simplefilter("ignore")


def change(name: str, value: Any) -> Any:
    """Set module:NAME, or module:OPTIONS.field of a frozen dataclass; returns what it was before."""
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
        return before
    for other in [one for key, one in sys.modules.items() if key.startswith("superteach")]:
        if vars(other).get(last) is before:  # modules that import a number have it under the same name
            setattr(other, last, value)
    return before


for line in sys.stdin:
    request = json.loads(line)
    X, y, owner, estimator, goal, settings = pickle.loads(Path(request["task"]).read_bytes())
    before = {name: change(name, value) for name, value in request["numbers"].items()}
    try:
        started, busy = time.perf_counter(), time.process_time()
        teacher = SuperTeacher(estimator, goal, **settings).fit(X, y, groups=owner)
        seconds, processor = time.perf_counter() - started, time.process_time() - busy
        fit = None
        if request.get("fit"):
            started = time.perf_counter()
            clone(estimator).fit(X, y)
            fit = time.perf_counter() - started
        lesson = getattr(
            teacher, "measured_", teacher.lesson_
        )  # modes that refit no model leave that to the owner of all
        answer: dict[str, Any] = {
            "seconds": seconds,
            "processor": processor,
            "fits": None if fit is None else seconds / fit,
            "risk": float(lesson.risk),
            "predictions": float(lesson.prediction_distance),
            "rounds": int(teacher.lesson_.rounds),
            "proved": lesson.certificate is not None,
        }
    except Exception as error:  # whatever one code cannot do is a row of the table
        answer = {"error": f"{type(error).__name__}: {error}"}
    for name, value in before.items():
        change(name, value)
    print(json.dumps(answer), flush=True)
