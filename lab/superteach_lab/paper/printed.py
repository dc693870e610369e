"""What the paper prints: its Tables II and III (labels tab:lr and tab:rr) and its figures on real data, as facts."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """|S|/N, risk, consistency and seconds of one cell; None where the paper has N/A."""

    fraction: float
    risk: float
    consistency: float
    seconds: float


Table = dict[tuple[int, int], dict[str, Printed | None]]


def _cell(collaborative: str, oblivious: str = "", minlp: str = "") -> dict[str, Printed | None]:
    texts = {"dual": collaborative, "oblivious": oblivious, "minlp": minlp}
    return {name: Printed(*map(float, text.split())) if text else None for name, text in texts.items()}


LOGISTIC: Table = {
    (5_000, 5): _cell("3.7e-2 0.43 0.95 7.15", "6.0e-2 0.54 0.90 200.53", "4.0e-2 0.30 0.97 175.91"),
    (5_000, 10): _cell("4.5e-2 0.37 0.92 8.13", "5.8e-2 0.62 0.87 197.33", "4.0e-2 0.30 0.97 175.91"),
    (10_000, 5): _cell("1.5e-2 0.23 0.94 16.90", "2.0e-2 0.63 0.87 320.69"),
    (10_000, 10): _cell("1.0e-2 0.26 0.97 18.85", "2.0e-2 0.54 0.89 327.16"),
    (50_000, 5): _cell("2.5e-2 0.35 0.93 67.20"),
    (50_000, 10): _cell("2.4e-2 0.36 0.96 72.52", "1.3e-2 0.22 0.94 2100"),
    (100_000, 5): _cell("2.9e-2 0.33 0.95 180.24"),
    (100_000, 10): _cell("3.0e-2 0.41 0.93 179.12"),
    (500_000, 5): _cell("6.4e-2 0.15 0.98 1064.15"),
    (500_000, 10): _cell("7.2e-2 0.12 0.98 1100.75"),
}
"""Table tab:lr, binary classification."""

RIDGE: Table = {
    (5_000, 5): _cell("1.20e-1 81.53 0.82 2.04", "2.00e-1 112.93 0.71 230.53", "1.20e-1 98.09 0.76 195.84"),
    (5_000, 10): _cell("1.12e-1 80.43 0.83 2.38", "1.80e-1 120.54 0.70 262.65", "1.20e-1 98.09 0.76 195.84"),
    (10_000, 5): _cell("9.00e-2 69.52 0.86 4.25", "2.00e-1 93.20 0.75 320.28", "2.00e-1 87.96 0.76 506.01"),
    (10_000, 10): _cell("7.00e-2 67.46 0.87 5.15", "2.50e-1 94.20 0.76 570.32", "2.00e-1 87.96 0.76 506.01"),
    (50_000, 5): _cell("1.00e-1 110.62 0.84 35.16"),
    (50_000, 10): _cell("1.12e-1 118.36 0.82 32.53"),
    (100_000, 5): _cell("3.00e-1 99.85 0.88 81.80"),
    (100_000, 10): _cell("3.00e-1 101.36 0.88 101.03"),
    (500_000, 5): _cell("3.60e-1 51.72 0.94 310.42"),
    (500_000, 10): _cell("3.60e-1 49.67 0.95 395.91"),
}
"""Table tab:rr, regression."""

REAL = {"higgs": (Printed(0.15, 3.28, 0.99, 2095.48), 80), "superconduct": (Printed(0.25, 2.23, 0.97, 35.12), 125)}
"""Section IV.C: the best lesson on each data set, and its rounds (HIGGS: 1,000,000 rows, ten samples)."""
