"""Teach one lesson after the other for `benchmarks.core`, with whichever superteach PYTHONPATH names.

Reads paths of pickled tasks from its input, writes one line of JSON for each. It takes nothing from `benchmarks`, which may
be of another age than the superteach it runs.
"""

import json
import pickle
import sys
import time
import warnings
from pathlib import Path

from superteach import SuperTeacher

warnings.simplefilter("ignore")
for line in sys.stdin:
    X, y, owner, estimator, goal, settings = pickle.loads(Path(line.strip()).read_bytes())
    try:
        started, busy = time.perf_counter(), time.process_time()
        lesson = SuperTeacher(estimator, goal, **settings).fit(X, y, groups=owner).lesson_
        answer = {
            "seconds": time.perf_counter() - started,
            "processor": time.process_time() - busy,
            "risk": None if lesson.risk is None else float(lesson.risk),
            "predictions": None if lesson.prediction_distance is None else float(lesson.prediction_distance),
            "rounds": int(lesson.rounds),
            "proved": lesson.certificate is not None,
        }
    except Exception as error:  # whatever one code cannot do is a row of the table
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
