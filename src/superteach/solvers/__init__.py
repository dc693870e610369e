"""Solvers: minimise a function known only through sums."""

from superteach.solvers.block import Block
from superteach.solvers.lbfgs import LBFGS
from superteach.solvers.newton import Newton

__all__ = ["LBFGS", "Block", "Newton"]
