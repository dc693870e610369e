"""Solvers, for users; `superteach.mathematics.solvers` has them."""

from superteach.mathematics.solvers import LBFGS, Block, Newton

__all__ = ["LBFGS", "Block", "Newton"]
