"""The closed list of what a coordinator may ask of the teachers.

Each query is a frozen fact. It states how long the reply is (never dependent on how many rows a
teacher has), how to read the summed reply, and in one sentence what the reply shows of a teacher's
rows. A teacher refuses anything that is not on the list.
"""

from __future__ import annotations

from superteach.queries.common import (
    HISTOGRAM_BINS,
    AskMoments,
    AskValues,
    Census,
    ColumnSums,
    Compare,
    Comparison,
    CountRanks,
    Keep,
    Moments,
    Prepare,
    Query,
    RankRows,
    Recall,
    RowFunction,
    RowSet,
    Size,
    Sized,
    upper_triangle,
)
from superteach.queries.dual import BlockOffer, BlockRound, BlockSums, Offers, Weigh
from superteach.queries.match import (
    Accept,
    Alone,
    Approach,
    Balance,
    ChosenCost,
    Propose,
    Refine,
    Solo,
)

QUERIES: tuple[type[Query], ...] = (
    Census,
    ColumnSums,
    Prepare,
    AskMoments,
    AskValues,
    Weigh,
    BlockRound,
    BlockOffer,
    RankRows,
    CountRanks,
    Keep,
    Recall,
    Compare,
    Balance,
    Refine,
    Propose,
    Accept,
    Approach,
    ChosenCost,
    Alone,
)

__all__ = [
    "HISTOGRAM_BINS",
    "QUERIES",
    "Accept",
    "Alone",
    "Approach",
    "AskMoments",
    "AskValues",
    "Balance",
    "BlockOffer",
    "BlockRound",
    "BlockSums",
    "Census",
    "ChosenCost",
    "ColumnSums",
    "Compare",
    "Comparison",
    "CountRanks",
    "Keep",
    "Moments",
    "Offers",
    "Prepare",
    "Propose",
    "Query",
    "RankRows",
    "Recall",
    "Refine",
    "RowFunction",
    "RowSet",
    "Size",
    "Sized",
    "Solo",
    "Weigh",
    "upper_triangle",
]
