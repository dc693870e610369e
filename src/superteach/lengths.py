"""How far vectors are from cancelling each other, roughly and fast: many pairs at once, in float32.

|s + t|² = |s|² + (2s, 1)'(t, |t|²): one product of matrices tells for each s which t is nearest to −s.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Rough = npt.NDArray[np.float32]


def factors(ones: Array, others: Array) -> tuple[Rough, Rough]:
    """Two matrices, a row for each vector, the product of which is what t adds to |s + t|² beside |s|²."""
    left = np.column_stack([2.0 * ones, np.ones(len(ones))])
    right = np.column_stack([others, np.einsum("ij,ij->i", others, others)])
    return left.astype(np.float32), right.astype(np.float32)


def added(left: Rough, right: Rough) -> Rough:
    """|t|² + 2s't for every s of the one and t of the other."""
    # Kernels for small float32 matrices read beyond them, and may raise a flag for what they find there.
    with np.errstate(invalid="ignore"):
        return np.asarray(left @ right.T)
