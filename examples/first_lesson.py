"""A first lesson: three owners, two features, and a learner that ends where it should.

Left: all rows in grey, the chosen ones in colour, and three boundaries: of the model all rows teach, of the goal, and
of the model the chosen rows teach. Right: how near lessons of other sizes come, by method.

python examples/first_lesson.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.report.plots import COLOURS

X, y, owner = make_classification_pool(rows=1500, features=2, teachers=3, random_state=4)
learner = LogisticRegression()
goal = np.array([1.5, 1.0, -0.5])  # two coefficients, then the intercept
taught = SuperTeacher(learner, goal, method="match", budget=60).fit(X, y, groups=owner)
lesson, chosen = taught.lesson_, taught.sample_indices_
pool = learner.fit(X, y)
print(f"{lesson.size} of {len(y)} rows: {lesson.verdict} (all rows: {lesson.pool_risk:.2f})")

figure = Figure(figsize=(10, 4.2), layout="constrained")
left, right = figure.subplots(1, 2)
left.scatter(*X.T, s=5, color="#DDDDDD", label="all rows")
for label, marker in ((0, "o"), (1, "^")):
    own = chosen[y[chosen] == label]
    left.scatter(*X[own].T, s=26, marker=marker, color=COLOURS[label], label=f"chosen, y = {label}")
across = np.array([-4.0, 4.0])
everything = np.append(pool.coef_, pool.intercept_)
styles = {"taught by all rows": (":", 1.6), "goal": ("-", 5.0), "taught by the chosen": ("--", 1.6)}
for (name, (style, width)), model in zip(styles.items(), (everything, goal, lesson.model), strict=True):
    line, colour = -(model[2] + model[0] * across) / model[1], "#F0C75E" if name == "goal" else "black"
    left.plot(across, line, style, color=colour, lw=width, label=name, zorder=1.5)
left.set(xlim=(-3.6, 3.6), ylim=(-3.6, 5.4), xlabel="$x_1$", ylabel="$x_2$")
left.legend(fontsize=7.5, ncols=2, loc="upper center", framealpha=1.0)
left.set_title("Where the classes part", loc="left")

methods = {"random rows": "random", "dual (the paper's)": "dual", "match": "match"}
for (name, method), number in zip(methods.items(), (4, 0, 2), strict=True):
    walk = SuperTeacher(learner, goal, method=method, budget=(20, 200)).fit(X, y, groups=owner).lesson_.path
    sizes, risks = [point.size for point in walk], [point.risk for point in walk]
    right.loglog(sizes, risks, marker="osDsv"[number], ms=5, color=COLOURS[number], label=name)
right.axhline(lesson.pool_risk, color="#555555", ls="--", lw=1, label="all rows")
right.set(xlabel="rows in the lesson", ylabel=r"distance from the goal, $\|\theta_S - \theta^*\|$")
right.set_xticks([20, 50, 100, 200], ["20", "50", "100", "200"])
right.set_xticks([], minor=True)
right.set_title("How near it comes", loc="left")
right.legend(frameon=False)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "first_lesson.png", dpi=110)
