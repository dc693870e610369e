"""Your own goal: a model that must not look at one column.

A goal is any object with a method `vector(problem)`. This one takes the learner's fit on all rows, found
from the teachers' sums, and sets one coefficient to zero. The lesson makes a plain Ridge, trained on the chosen
rows alone, ignore the patients' sex, although nothing in it says so.

python examples/your_own_goal.py [folder]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from superteach import SuperTeacher
from superteach.datasets import split_evenly
from superteach.report.plots import COLOURS


@dataclass(frozen=True)
class Ignore:
    """The pool's own model, but for one coefficient, which is 0."""

    column: int

    def vector(self, problem):
        """The goal in raw units, intercept last."""
        model = problem.scaling.raw(problem.fit_pool()).copy()
        model[self.column] = 0.0
        return model


data = load_diabetes()
X, y = data.data / data.data.std(axis=0), data.target
owner = split_evenly(len(y), 4, np.random.default_rng(0))
learner = Ridge(alpha=1.0)
sex = data.feature_names.index("sex")
teacher = SuperTeacher(learner, Ignore(sex), method="match", budget=0.5).fit(X, y, groups=owner)
rows = teacher.sample_indices_
print(f"{len(rows)} of {len(y)} rows: {teacher.lesson_.verdict}")

everything = learner.fit(X, y).coef_.copy()
learned = learner.fit(X[rows], y[rows]).coef_  # scikit-learn itself, on the chosen rows
figure = Figure(figsize=(8.5, 3.8), layout="constrained")
panel, place = figure.subplots(), np.arange(len(learned))
panel.bar(place - 0.2, everything, 0.4, color="#BBBBBB", label=f"trained on all {len(y)} rows")
panel.bar(place + 0.2, learned, 0.4, color=COLOURS[0], label=f"trained on the {len(rows)} chosen rows")
panel.plot(place + 0.2, teacher.lesson_.goal[:-1], "D", ms=5, color=COLOURS[1], label="goal")
panel.axvspan(sex - 0.5, sex + 0.5, color="#FFF3C4", zorder=0)
panel.set_xticks(place, data.feature_names)
panel.axhline(0.0, color="black", lw=0.8)
panel.set_ylabel("coefficient")
panel.set_title("A learner taught to ignore “sex”, by the choice of its rows alone", loc="left")
panel.legend(frameon=False)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "your_own_goal.png", dpi=110)
