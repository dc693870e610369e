"""Losses that can be taught: `scalar` of one prediction, `multioutput` of several."""

from superteach.losses.multioutput import Softmax, SquaredHinges, SquaredLabel, SquaredLabels, SquaredTargets
from superteach.losses.scalar import LOSSES, Huber, Logistic, Loss, Poisson, Squared, SquaredHinge, Terms

__all__ = [
    "LOSSES", "Huber", "Logistic", "Loss", "Poisson", "Softmax", "Squared", "SquaredHinge", "SquaredHinges", "SquaredLabel",
    "SquaredLabels", "SquaredTargets", "Terms",
]  # fmt: skip
