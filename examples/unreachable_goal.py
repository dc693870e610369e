"""A goal that cannot be taught, and the proof.

The goal points one way and grows longer and longer. Sixty rows can move a learner only so far. Left: how near the
lesson comes. Right: the certificate. Along its direction u all helpful rows contribute Σ max(0, u'(g_j, 1)); the
goal needs u'(Λθ*, n). Where the need is more than everything there is, no sixty rows will do, chosen by whatever means.

python examples/unreachable_goal.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.report.plots import COLOURS

ROWS, PENALTY = 60, 1.0
X, y, owner = make_classification_pool(rows=1000, features=5, teachers=4)
learner = LogisticRegression(C=1.0 / PENALTY, fit_intercept=False)
way = np.ones(5) / np.sqrt(5)

lessons = {}
for length in np.arange(1.0, 7.1, 0.75):
    teacher = SuperTeacher(learner, length * way, method="match", budget=ROWS).fit(X, y, groups=owner)
    lessons[length] = teacher.lesson_
    print(f"length {length:.1f}: {teacher.lesson_.verdict}")

proved = {length: lesson for length, lesson in lessons.items() if lesson.certificate is not None}
needed = {
    length: float(lesson.certificate.direction @ np.append(PENALTY * lesson.goal, ROWS))
    for length, lesson in proved.items()
}
there = {length: needed[length] - lesson.certificate.margin for length, lesson in proved.items()}

figure = Figure(figsize=(10, 4), layout="constrained")
left, right = figure.subplots(1, 2)
risks = [max(lesson.risk, 1e-6) for lesson in lessons.values()]
left.semilogy(list(lessons), risks, "o-", color=COLOURS[0])
left.axvspan(min(proved), max(lessons) + 0.25, color="#FBE3D6", zorder=0)
left.text(min(proved) + 0.15, min(risks), "proved out of reach", color=COLOURS[1], va="bottom")
left.set(xlabel=r"length of the goal, $\|\theta^*\|$", ylabel=r"distance reached, $\|\theta_S - \theta^*\|$")
left.set_title(f"How near {ROWS} rows come", loc="left")
right.plot(list(proved), list(needed.values()), "s-", color=COLOURS[1], label="what the goal needs along u")
right.plot(list(proved), list(there.values()), "o-", color=COLOURS[2], label="what all rows have along u")
right.fill_between(
    list(proved), list(there.values()), list(needed.values()), color="#FBE3D6", label="lacking: the proof"
)
right.set(xlabel=r"length of the goal, $\|\theta^*\|$", ylabel="pull")
right.set_title("The certificate", loc="left")
right.legend(frameon=False)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "unreachable_goal.png", dpi=110)
