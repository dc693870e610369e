"""Draw match.png: the three stages of method "match" on one synthetic pool.

From the root of the repository: python docs/images/draw_match.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import Federation, InProcess, Learner
from superteach.classroom import enter
from superteach.datasets import make_classification_pool
from superteach.goals import PerturbedFit
from superteach.inputs import Part, make_teachers
from superteach.methods import match
from superteach.plots import COLOURS
from superteach.problem import ridge_penalty

ROWS, TEACHERS, SIZE = 5000, 5, 200
GREY = "#999999"


def main() -> None:
    """Run the stages one by one, with a look into every teacher that no coordinator has."""
    X, y, owner = make_classification_pool(ROWS, 10, TEACHERS, 0)
    members = [np.flatnonzero(owner == teacher) for teacher in range(TEACHERS)]
    parts = [Part(str(number), X[own], y[own], own) for number, own in enumerate(members)]
    learner = Learner.of(LogisticRegression(fit_intercept=False))
    teachers, _ = make_teachers(parts, list(range(X.shape[1])), learner.loss)
    engine = InProcess(teachers)
    federation = Federation(engine)
    room = enter(federation, learner, None, standardize=False)
    goal = room.scaling.inside(PerturbedFit(0).vector(room))
    penalty = ridge_penalty(learner.penalty(SIZE), len(goal), learner.free_intercept)
    target = np.append(penalty.gradient(goal), SIZE)

    point, _ = match.relax(federation, goal, target, room.rows, seed=0)
    shares = []
    for own, state in zip(members, engine.states(), strict=True):
        pulls = state.balance.pull[:, None] * X[own]
        shares.append(
            state.balance.terms(np.column_stack([pulls, np.ones(len(own))]) @ point, slice(None)).slope
        )
    share = np.sort(np.concatenate(shares))[::-1]

    chooser = match.Matcher(room, goal, seed=0, least=1, tolerance=1e-6)
    chooser.choose(SIZE)
    risks = chooser.outcome.risks
    engine.close()

    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    shown = np.arange(1, 2 * SIZE + 1)
    between = int(np.count_nonzero((share > 0.01) & (share < 0.99)))
    left.plot(shown, share[: len(shown)], color=COLOURS[0], lw=2)
    left.set_title(f"1 relax: {between} of {ROWS:,} rows stay fractional")
    left.set_ylabel("fractional choice $b_j$")
    middle.plot(shown, share[: len(shown)], color=GREY, lw=1, ls=":", label="$b_j$")
    middle.step(shown, (shown <= SIZE).astype(float), where="mid", color=COLOURS[1], lw=2, label="chosen")
    middle.set_title(f"2 round: the {SIZE} largest are chosen")
    middle.legend(frameon=False)
    for panel in (left, middle):
        panel.set_xlabel("rows of all teachers, by $b_j$")
    right.semilogy(np.arange(len(risks)), risks, color=COLOURS[2], marker="o", ms=4, lw=2)
    right.set_title(f"3 refine: {risks[0]:.2g} becomes {risks[-1]:.2g}")
    last = len(risks) - 1
    right.annotate("all together", (last, risks[-1]), (last - 0.4, risks[-1]), ha="right", va="center")
    right.set_xlabel("turn of one teacher (0: after rounding)")
    right.set_ylabel(r"residual $\Vert e\Vert$, the predicted risk")
    for panel in (left, middle, right):
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#E6E6E6", lw=0.7)
    figure.savefig(Path(__file__).with_name("match.png"), dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
