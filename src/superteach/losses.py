"""Losses that can be taught, for users; `superteach.mathematics.losses` and `.several` have them."""

from superteach.mathematics.losses import LOSSES, Huber, Logistic, Loss, Poisson, Squared, SquaredHinge, Terms
from superteach.mathematics.several import Softmax, SquaredHinges, SquaredLabel, SquaredLabels, SquaredTargets

__all__ = [
    "LOSSES", "Huber", "Logistic", "Loss", "Poisson", "Softmax", "Squared", "SquaredHinge", "SquaredHinges", "SquaredLabel",
    "SquaredLabels", "SquaredTargets", "Terms",
]  # fmt: skip
