"""A lesson from the census: other states teach a learner what one state's rows would have taught it.

The goal is the income model fitted on one state's own rows (New York). Its rows then stay at home: the teachers are
the other states, and they find rows of theirs from which the learner comes to New York's model.

python examples/census_by_state.py [folder] [states …]      (the first state is the one whose model is the goal)
Needs the ACS income data: see superteach_lab.data.load_acs_income.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from superteach import SuperTeacher
from superteach.report.plots import COLOURS
from superteach_lab.data import load_acs_income

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
states = sys.argv[2:] or None
data = load_acs_income(states=states, categories="one-hot")
columns = slice(0, 6)  # age, schooling, hours a week; married, female, white alone
X = StandardScaler().fit_transform(data.data[:, columns])
home = states[0] if states else "NY"
away = data.groups != home
learner = LogisticRegression(C=0.1)
goal = clone(learner).fit(X[~away], data.target[~away])

teacher = SuperTeacher(learner, goal, method="match", budget=0.01)
lesson = teacher.fit(X[away], data.target[away], groups=data.groups[away]).lesson_
print(f"{lesson.size:,} of {lesson.pool_rows:,} rows of {len(lesson.teachers)} states: {lesson.verdict}")
print(f"all their rows: {lesson.pool_risk:.3g}")

names, owner = np.unique(data.groups[away], return_inverse=True)
held = np.bincount(owner)
given = np.bincount(owner[teacher.sample_indices_], minlength=len(names)) / held
order = np.argsort(-given)
figure = Figure(figsize=(10, 5), layout="constrained")
above, below = figure.subplots(2, 1)
above.bar(names[order], 100.0 * given[order], color=COLOURS[0])
above.axhline(100.0 * lesson.fraction, color="#555555", ls="--", lw=1)
above.tick_params("x", labelsize=7)
above.set_ylabel("share chosen, %")
above.set_title(f"Which states teach {home}'s model: share of each state's rows in the lesson", loc="left")
place, everything = np.arange(X.shape[1]), learner.fit(X[away], data.target[away]).coef_[0]
below.bar(place, everything - lesson.goal[:-1], color="#D0D0D0", label="all rows of the other states")
below.plot(place, lesson.coef - lesson.goal[:-1], "D", color=COLOURS[0], label=f"the lesson, {lesson.size:,} rows")
below.axhline(0.0, color="black", lw=0.8)
below.set_xticks(place, ["age", "schooling", "hours a week", "married", "female", "white alone"])
below.set_ylabel(f"coefficient − {home}'s")
below.legend(frameon=False)
figure.savefig(folder / "census_by_state.png", dpi=110)
