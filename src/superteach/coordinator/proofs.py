"""Proofs from sums over owners: how near a lesson of some size can come to a goal (see `selection.certificate`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from superteach.coordinator.problem import NEWTON_WIDTH, FederatedProblem
from superteach.optim.problem import ridge_penalty
from superteach.protocol.queries import Envelope as AskEnvelope
from superteach.selection import certificate
from superteach.selection.certificate import Ball, Envelope, Envelopes
from superteach.types import Array

FARTHEST = 2.0
"""Lengths of the goal up to which a radius is looked for."""


class Proof(NamedTuple):
    """A unit direction (v, c), by how much it proves the goal out of reach, and the radius around it that it proves."""

    direction: Array
    margin: float
    radius: float


def ball_of(problem: FederatedProblem, goal: Array, size: int, measure: Array | None = None) -> Ball | None:
    """Return the ball of lessons of `size` rows around a goal; None where the measure is not known by matrices."""
    learner, stiffness = problem.learner, _stiffness(problem, goal, size)
    own = len(goal) // learner.outputs
    if measure is None:
        if not problem.wide or (learner.outputs > 1 and own <= NEWTON_WIDTH):
            measure = problem.from_measure.T
        elif (
            problem.measure == "coefficients"
            and problem.scaling.scale is None
            and problem.scaling.constant in (0.0, 1.0)
        ):
            measure = np.ones(own)
        else:
            return None
    return Ball(goal, stiffness, measure, size)


def envelopes_of(problem: FederatedProblem, ball: Ball) -> Envelopes:
    """Ask all owners for the sums behind a proof."""
    width = len(ball.centre)

    def ask(direction: Array, radii: Array) -> list[Envelope]:
        sums = problem.federation.sum(AskEnvelope(direction, ball.centre, ball.measure, radii))
        return [Envelope(float(one[0]), one[2 : 2 + width], one[2 + width :], float(one[1])) for one in sums]

    return ask


def prove(
    problem: FederatedProblem, goal: Array, size: int, points: list[Array], basis: Array, search: bool
) -> Proof | None:
    """Prove as large a ball around the goal out of reach as one of these directions, or better ones, can.

    None where no direction proves the goal itself out of reach. `basis` spans the directions that a search tries.
    """
    federation = problem.federation
    measured = ball_of(problem, goal, size)
    ball = measured or Ball(goal, _stiffness(problem, goal, size), np.zeros(len(goal) // problem.learner.outputs), size)
    ask = envelopes_of(problem, ball)
    federation.stage = "proof"
    best: Proof | None = None
    most = FARTHEST * problem.distance(0.0 * goal, goal) if measured is not None else 0.0
    for point in points:
        length = float(np.abs(point).max(initial=0.0))
        if not 0.0 < length < np.inf:
            continue
        direction = point / length
        direction = direction / float(np.linalg.norm(direction))
        own = certificate.margin(ball, direction, ask)
        if own <= 0.0:
            continue
        reached = certificate.radius(ball, direction, ask, 0.0, most) if most else 0.0
        if best is None or reached > best.radius:
            best = Proof(direction, own, reached)
    if best is None or not most:
        return best
    if search:
        basis = basis if basis.ndim == 1 else np.stack([problem.without_unseen(row) for row in basis])
        direction, reached = certificate.strengthen(
            ball, best.direction, ask, basis, best.radius, most, lambda: problem.late
        )
        own = certificate.margin(ball, direction, ask)
        if reached > best.radius and own > 0.0:
            best = Proof(direction, own, reached)
    return best._replace(radius=best.radius * (1.0 - certificate.SAFETY))


def again(problem: FederatedProblem, goal: Array, size: int, proof: Proof) -> Proof | None:
    """Say what a proof is worth for a lesson of another size; None: nothing."""
    return prove(problem, goal, size, [proof.direction], np.zeros(0), search=False)


def _stiffness(problem: FederatedProblem, goal: Array, size: int) -> Array:
    learner = problem.learner
    return ridge_penalty(learner.penalty(size), len(goal), learner.free_intercept, learner.outputs).diagonal
