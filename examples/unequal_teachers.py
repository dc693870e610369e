"""Many teachers with unequal data: alone they cannot, together they can.

Twelve owners hold from 40 to 2,000 rows. Each has measured three of six features and has zeros in the others, so no
owner alone can teach the goal, however many rows it has. Together they teach it, with some rows of each.

python examples/unequal_teachers.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher
from superteach.report.plots import COLOURS

rng = np.random.default_rng(1)
sizes = np.geomspace(2000, 40, 12).astype(int)
owner = np.repeat(np.arange(12), sizes)
measured = np.array([rng.permutation(6) < 3 for _ in sizes])
X = rng.standard_normal((len(owner), 6)) * measured[owner]
y = (X @ rng.standard_normal(6) + rng.standard_normal(len(owner)) > 0).astype(int)
learner = LogisticRegression(fit_intercept=False)
goal = rng.standard_normal(6)

together = SuperTeacher(learner, goal, method="match", budget=200).fit(X, y, groups=owner)
alone = {}
for number in range(12):
    own = owner == number
    budget = min(200, int(0.5 * own.sum()))
    lesson = SuperTeacher(learner, goal, method="match", budget=budget).fit(X[own], y[own]).lesson_
    alone[number] = np.linalg.norm(lesson.coef - goal)  # lesson.risk leaves columns out that no row has measured
given = np.bincount(owner[together.sample_indices_], minlength=12)
print(f"together: {together.lesson_.verdict}; the best owner alone: {min(alone.values()):.3g}")

figure = Figure(figsize=(9, 5), layout="constrained")
above, below = figure.subplots(2, 1, sharex=True)
place = np.arange(12)
above.bar(place, sizes, color="#D0D0D0", label="rows it holds")
above.bar(place, given, color=COLOURS[0], label="rows it gives to the common lesson")
above.set(yscale="log", ylabel="rows")
above.set_title(f"{len(owner):,} rows of 12 owners, {given.sum()} in the lesson", loc="left")
above.legend(frameon=False)
below.semilogy(place, list(alone.values()), "o", color=COLOURS[1], label="this owner alone")
below.axhline(together.lesson_.pool_risk, color="#555555", ls="--", lw=1, label="all rows of all owners")
below.axhline(together.lesson_.risk, color=COLOURS[0], lw=2, label="all owners together")
below.set(xlabel="owner", ylabel="distance from the goal")
below.set_xticks(place, place + 1)
below.legend(frameon=False, ncols=3, loc="center right")
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "unequal_teachers.png", dpi=110)
