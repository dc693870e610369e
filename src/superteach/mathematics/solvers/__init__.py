"""Solvers: minimise a function known only through sums."""

from superteach.mathematics.solvers.block import Block
from superteach.mathematics.solvers.lbfgs import LBFGS
from superteach.mathematics.solvers.newton import Newton

__all__ = ["LBFGS", "Block", "Newton"]
