"""What an engine is."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from superteach.queries import Query


class Engine(Protocol):
    """Broadcasts a query to every teacher of its roster and adds up what comes back."""

    @property
    def names(self) -> tuple[str, ...]:
        """The roster, in the order the replies are added in."""

    @property
    def features(self) -> int:
        """How many columns every teacher has."""

    def sum(self, query: Query, number: int) -> npt.NDArray[np.float64]:
        """The sum of all replies, added in the order of the roster."""
