"""Proofs from sums over owners: how near a lesson of some size can come to a goal (see `selection.certificate`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from superteach.coordinator.problem import NEWTON_WIDTH, FederatedProblem
from superteach.losses.scalar import Squared
from superteach.optim.problem import ridge_penalty
from superteach.protocol.queries import Envelope as AskEnvelope
from superteach.selection import certificate
from superteach.selection.certificate import Ball, Envelope, Envelopes
from superteach.types import Array


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


def prove(problem: FederatedProblem, goal: Array, size: int, point: Array, basis: Array, search: bool) -> Proof | None:
    """Prove as large a ball around the goal out of reach as this direction, or better ones, can.

    None where it does not prove the goal itself out of reach. `basis` spans the directions that a search tries.
    """
    federation = problem.federation
    ball = ball_of(problem, goal, size)
    plain = ball or Ball(goal, _stiffness(problem, goal, size), np.zeros(len(goal) // problem.learner.outputs), size)
    ask = envelopes_of(problem, plain)
    federation.stage = "proof"
    length = float(np.abs(point).max(initial=0.0))
    if not 0.0 < length < np.inf:
        return None
    direction = point / length
    direction = direction / float(np.linalg.norm(direction))
    own = certificate.margin(plain, direction, ask)
    if own <= 0.0:
        return None
    # No radius is looked for beyond the model 0, near which rows that all but fit it end.
    most = problem.distance(0.0 * goal, goal) if ball is not None else 0.0
    if not most:
        return Proof(direction, own, 0.0)
    best = Proof(direction, own, certificate.radius(plain, direction, ask, 0.0, most))
    if search:
        basis = basis if basis.ndim == 1 else np.stack([problem.without_unseen(row) for row in basis])
        direction, reached = certificate.strengthen(
            plain, best.direction, ask, basis, best.radius, most, lambda: problem.late
        )
        own = certificate.margin(plain, direction, ask)
        if reached > best.radius and own > 0.0:
            best = Proof(direction, own, reached)
    proved = best.radius * (1.0 - certificate.SAFETY)
    return best._replace(radius=max(proved, noise_free_radius(problem, goal)))


def noise_free_radius(problem: FederatedProblem, goal: Array) -> float:
    """How far the goal is from all models that ridge learns where y = Xw without noise; 0 where that is not known.

    Without an intercept it then ends at A w with 0 ≤ A ≤ I, so inside the ball with diameter [0, w].
    """
    learner = problem.learner
    plain = problem.measure == "coefficients" and learner.intercept == "none" and problem.scaling.scale is None
    if not plain or problem.wide or not isinstance(learner.loss, Squared) or not learner.ridge:
        return 0.0
    zero = problem.losses.moments(np.zeros_like(goal), 2)
    assert zero.curvature is not None
    truth: Array = np.linalg.pinv(zero.curvature, hermitian=True, rcond=1e-13) @ -zero.gradient
    if problem.losses.moments(truth, 1).value > 1e-20 * zero.value:
        return 0.0
    return max(0.0, float(np.linalg.norm(goal - truth / 2.0) - np.linalg.norm(truth) / 2.0))


def again(problem: FederatedProblem, goal: Array, size: int, proof: Proof) -> Proof | None:
    """Say what a proof is worth for a lesson of another size; None: nothing."""
    return prove(problem, goal, size, proof.direction, np.zeros(0), search=False)


def _stiffness(problem: FederatedProblem, goal: Array, size: int) -> Array:
    learner = problem.learner
    return ridge_penalty(learner.penalty(size), len(goal), learner.free_intercept, learner.outputs).diagonal
