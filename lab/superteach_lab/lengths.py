"""How far vectors are from cancelling each other, many pairs at once, roughly and fast, in float32.

|s + t|² = |s|² + (2s, 1)'(t, |t|²): one product of matrices tells for each s which t is nearest to −s.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from superteach.types import Array

Rough = npt.NDArray[np.floating]


def power(*vectors: Array) -> int:
    """The power of two that the longest entry has: divided by it, all have squares that float32 can hold."""
    most = max((float(np.max(np.abs(some))) for some in vectors if some.size), default=0.0)
    return int(np.frexp(most)[1]) if np.isfinite(most) else 0


def factors(ones: Array, others: Array, exact: bool = False) -> tuple[Rough, Rough]:
    """Two matrices, a row for each vector, the product of which is what t adds to |s + t|² beside |s|²."""
    kind = np.float64 if exact else np.float32
    left = np.column_stack([2.0 * ones, np.ones(len(ones))])
    right = np.column_stack([others, np.einsum("ij,ij->i", others, others)])
    return left.astype(kind), right.astype(kind)


def added(left: Rough, right: Rough) -> Rough:
    """|t|² + 2s't for every s of the one and t of the other."""
    # Kernels for small float32 matrices read beyond them, and may raise a flag for what they find there.
    with np.errstate(invalid="ignore"):
        return np.asarray(left @ right.T)
