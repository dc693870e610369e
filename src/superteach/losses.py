"""Losses that can be taught, for users; `superteach.mathematics.losses` has them."""

from superteach.mathematics.losses import LOSSES, Huber, Logistic, Loss, Poisson, Squared, SquaredHinge, Terms

__all__ = ["LOSSES", "Huber", "Logistic", "Loss", "Poisson", "Squared", "SquaredHinge", "Terms"]
