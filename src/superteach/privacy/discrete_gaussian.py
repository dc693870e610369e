"""Noise in whole numbers on a grid, from the system's randomness: doubles would show through their last bits.

The noise is the discrete Gaussian: e^(−y²/2σ²) on the integers. Its tails are those that Gaussian accounting counts
with (a Skellam's are heavier and need an account of their own), and it is drawn exactly. One of σ is, but for a factor
e^(±2.2·10⁻³⁴), what becomes of a continuous Gaussian of variance σ² − 4 when its value y is replaced by a discrete Gaussian
of variance 4 around y: Σ_n e^(−(n−y)²/8) is the same for all y but for a part 2e^(−8π²), by Poisson's sum. Working on a
release costs no privacy, so the account of σ² − 4 holds for it.

A lesson of 50,000 numbers so has the (ε, δ) of continuous noise, with ε raised by less than 10⁻²⁸ and δ by less than
that part of itself. How long a draw takes depends on what is drawn: draw before the question comes.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np

from superteach.exceptions import SettingError
from superteach.types import Array, Mask, Positions

BITS = 18
"""Bits of one teacher's noise in steps. Rounding 5,050 numbers then costs 0.9 % of noise; with 14 bits it cost 14 %."""
MOST_SIGMA = 1 << 20
"""Largest noise in steps: the products that decide a draw stay below 2^63 up to here, but for k > 2,000 (e^−1000)."""
MOST_STEPS = 1 << 45
"""Largest number on the grid, in steps: doubles tell 1/128 step up to here."""
ROUNDED = 1.01
"""Most steps by which rounding moves what a row changes in one number: 1, and a hundredth for sums of doubles."""


@dataclass(frozen=True)
class Grid:
    """Multiples of `step` (a power of two, in the unit of the numbers), and the noise `sigma` in steps."""

    step: float
    sigma: int

    def to_integers(self, values: Array) -> Positions:
        """Round numbers to whole steps; what lies beyond the grid becomes its end.

        An error would tell of rows. Cutting moves no two replies farther apart, so the sensitivity holds.
        """
        end = MOST_STEPS * self.step
        cut = np.clip(np.nan_to_num(np.asarray(values, dtype=np.float64), posinf=end, neginf=-end), -end, end)
        return np.rint(cut / self.step).astype(np.int64)

    def noise(self, size: int) -> Positions:
        """Draw the noise of so many numbers, in steps."""
        return discrete_gaussian(self.sigma, size)


def grid_step(sd: float, numbers: int, sensitivity: float = 1.0, bits: int = BITS) -> Grid:
    """Find the grid on which `numbers` numbers are released as if with Gaussian noise of `sd`.

    A row changes the numbers by at most `sensitivity` in length. Rounding moves that change by √numbers steps at most. σ is
    the least whole number that covers all of it: (sensitivity + 1.01 √numbers step) / (step √(σ² − 4)) ≤ sensitivity / sd.
    """
    for name, value in (("sd", sd), ("sensitivity", sensitivity)):
        if not 0 < value < math.inf:
            raise SettingError(f"{name}={value!r} must be a finite number above 0")
    if numbers < 1:
        raise SettingError(f"numbers={numbers!r} must be at least 1")
    step = 2.0 ** (math.floor(math.log2(sd)) - bits)
    needed = sd * (1 / step + ROUNDED * math.sqrt(numbers) / sensitivity)
    sigma = math.ceil(math.sqrt(needed**2 + 4) * (1 + 1e-12))
    if sigma > MOST_SIGMA:
        raise SettingError(
            f"{numbers} numbers with a noise of {sd:g} at sensitivity {sensitivity:g} need {sigma} steps of noise, "
            f"{MOST_SIGMA} are the most: release fewer numbers or lower bits={bits}"
        )
    return Grid(step, sigma)


def discrete_gaussian(sigma: int, size: int) -> Positions:
    """Draw `size` whole numbers y with chances ∝ e^(−y²/2σ²), exactly, all at once.

    |y| = kσ + j with a geometric k (e^(−k/2)) and a j below σ, each as likely, is kept with the chance e^(−p/2σ²),
    p = k(k−1)σ² + 2kσj + j²: together e^(−(kσ+j)²/2σ²). This is Karney's way (2016); a whole σ leaves one decision
    between whole numbers, where a discrete Laplace to reject from takes more. About half of all candidates stay.
    """
    if not 1 <= sigma <= MOST_SIGMA or sigma != int(sigma):
        raise SettingError(f"sigma={sigma!r} must be a whole number from 1 to {MOST_SIGMA}")
    sigma = int(sigma)
    draws = [np.empty(0, np.int64)]
    missing = size
    while missing > 0:
        tried = 2 * missing + missing // 8 + 32
        k = np.zeros(tried, np.int64)
        alive = np.arange(tried)
        while len(alive := alive[_keep(np.ones(len(alive), np.int64), 2)]):
            k[alive] += 1
        j = _below(sigma, tried)
        length = k * sigma + j
        negative = _below(2, tried) == 1
        kept = _keep(k * (k - 1) * sigma**2 + 2 * k * sigma * j + j**2, 2 * sigma**2) & ~(negative & (length == 0))
        draws.append(np.where(negative, -length, length)[kept][:missing])
        missing -= len(draws[-1])
    return np.concatenate(draws)


def _keep(p: Positions, q: int) -> Mask:
    """Say yes with the chance e^(−p/q) each: as many decisions for e^(−1) as p/q has ones, and one for what is left."""
    kept = np.ones(len(p), np.bool_)
    undecided = np.arange(len(p))
    while len(undecided):
        kept[undecided] = _keep_below_one(np.minimum(p, q), q)
        p = p - q
        going = kept[undecided] & (p > 0)
        undecided, p = undecided[going], p[going]
    return kept


def _keep_below_one(p: Positions, q: int) -> Mask:
    """Say yes with the chance e^(−p/q) each, 0 ≤ p ≤ q: coins of chances p/q, p/2q, p/3q … first fail at an odd one."""
    odd = np.ones(len(p), np.bool_)
    alive = np.arange(len(p))
    turn = 1
    while len(alive := alive[_below(q * turn, len(alive)) < p[alive]]):
        turn += 1
        odd[alive] = turn % 2 == 1
    return odd


def _below(bound: int, size: int) -> Positions:
    """Draw whole numbers below `bound`, each as likely, from the system's randomness alone."""
    shift = np.uint64(64 - max((bound - 1).bit_length(), 1))
    drawn = np.empty(0, np.uint64)
    while len(drawn) < size:
        words = np.frombuffer(os.urandom(8 * (size - len(drawn) + 8)), np.uint64) >> shift
        drawn = np.concatenate([drawn, words[words < bound]])
    return drawn[:size].astype(np.int64)
