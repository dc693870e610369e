"""Losses, the two objectives, prices, rounding and solvers: what is computed, from sums or from numbers alone."""
