"""Solvers: minimise a function known only through sums."""

from superteach.optim.block import Block
from superteach.optim.lbfgs import LBFGS
from superteach.optim.newton import Newton

__all__ = ["LBFGS", "Block", "Newton"]
