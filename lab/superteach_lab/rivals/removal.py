"""Published ways to find few rows whose removal turns the sign of a coefficient, by NumPy alone.

AMIP (Broderick, Giordano and Meager): rows in the order of their influence on all rows, and how many influences
add up to the coefficient, without a refit. AMIP with refit: the first set in that order whose refit turns the sign.
Greedy (Kuschnig, Zens and Crespo Cuaresma): the largest influence, a refit, and again. Recursive greedy (Huang, Burt,
Shen, Nguyen and Broderick): the same by the exact effect of one row on a least-squares fit (1 − leverage), by a
Newton step for logistic ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.types import Array, Mask


@dataclass(frozen=True, eq=False)
class Fit:
    """Least squares, or logistic regression with labels of 0 and 1, with a penalty for each coefficient."""

    rows: Array
    target: Array
    penalty: Array
    logistic: bool

    def model(self, kept: Mask, start: Array) -> Array:
        """Fit the rows kept, by Newton."""
        rows, target, model = self.rows[kept], self.target[kept], start.copy()
        for _ in range(50 if self.logistic else 1):
            mean = self._mean(rows @ model)
            bent = mean * (1.0 - mean) if self.logistic else np.ones(len(rows))
            step = np.linalg.solve(
                (rows * bent[:, None]).T @ rows + np.diag(self.penalty), rows.T @ (mean - target) + self.penalty * model
            )
            model = model - step
            if float(np.abs(step).max()) < 1e-12 * (1.0 + float(np.abs(model).max())):
                break
        return model

    def influences(self, place: int, kept: Mask, model: Array, exact: bool) -> Array:
        """Say how far the coefficient falls when a row leaves."""
        mean = self._mean(self.rows @ model)
        bent = mean * (1.0 - mean) if self.logistic else np.ones(len(self.rows))
        inverse = np.linalg.inv((self.rows * (bent * kept)[:, None]).T @ self.rows + np.diag(self.penalty))
        fall = (self.target - mean) * (self.rows @ inverse[place])
        if exact:
            fall = fall / np.maximum(1.0 - bent * np.einsum("jd,de,je->j", self.rows, inverse, self.rows), 1e-6)
        return np.asarray(fall)

    def _mean(self, eta: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-eta))) if self.logistic else eta


def counts(fit: Fit, place: int, most: int) -> dict[str, int | None]:
    """Count the rows each way needs; None where it needs more than `most`."""
    everybody = np.ones(len(fit.rows), dtype=bool)
    model = fit.model(everybody, np.zeros(fit.rows.shape[1]))
    sign = float(np.sign(model[place]))
    scores = sign * fit.influences(place, everybody, model, exact=False)
    sums = np.cumsum(np.sort(np.maximum(scores, 0.0))[::-1])
    enough = np.flatnonzero(sums >= abs(model[place]))
    found: dict[str, int | None] = {"AMIP": int(enough[0]) + 1 if len(enough) and enough[0] < most else None}
    for name, exact, again in (
        ("AMIP with refit", False, False),
        ("greedy", False, True),
        ("recursive greedy", True, True),
    ):
        found[name] = _removed(fit, place, sign, most, exact, again)
    return found


def _removed(fit: Fit, place: int, sign: float, most: int, exact: bool, again: bool) -> int | None:
    kept = np.ones(len(fit.rows), dtype=bool)
    model = fit.model(kept, np.zeros(fit.rows.shape[1]))
    scores = sign * fit.influences(place, kept, model, exact)
    for count in range(1, most + 1):
        if again and count > 1:
            scores = sign * fit.influences(place, kept, model, exact)
        kept[int(np.argmax(np.where(kept, scores, -np.inf)))] = False
        try:
            model = fit.model(kept, model)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(model).all():
            return None
        if sign * model[place] <= 0.0:
            return count
    return None
