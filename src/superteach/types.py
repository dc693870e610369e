"""Array types that the rooms share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
"""Numbers."""
Positions = npt.NDArray[np.int64]
"""Row numbers within one teacher, or owners of rows."""
Mask = npt.NDArray[np.bool_]
"""One truth value per row."""
