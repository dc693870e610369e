"""What a row changes in a transcript, for an attacker who knows all other rows: sums with and without it, as asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from superteach.line.messages import Turn
from superteach.line.queries import (
    AskMoments,
    Balance,
    Begin,
    Bend,
    Census,
    ColumnSums,
    Prepare,
    Pull,
    PullChange,
    Query,
    Sketch,
    Widths,
)
from superteach.privacy.guard import Guard
from superteach.types import Array
from superteach_lab.audit.transcript import Round, Subject, Transcript

KNOWN = (Widths, Sketch, Pull, PullChange, Bend, Census, ColumnSums, Prepare, Balance)
"""Questions whose answers depend on rows and the question alone, not on lots."""


def is_known(query: Query[object]) -> bool:
    """Whether whoever has the rows can compute the answer."""
    return isinstance(query, KNOWN) or (
        isinstance(query, AskMoments) and query.rows == "all" and query.function != "dual"
    )


def sums_at(subject: Subject, asked: Sequence[Query[object]], transcript: Transcript) -> list[Array]:
    """Exact totals over a subject's rows at recorded questions; those before that set something up are asked too."""
    wanted = set(map(id, asked))
    setting = [
        one.query
        for one in transcript.rounds
        if id(one.query) in wanted or isinstance(one.query, Begin | Prepare | Sketch | Balance)
    ]
    found: dict[int, Array] = {}
    teachers = [teacher.under(Guard()) for teacher in subject.teachers()]
    states = [teacher.start() for teacher in teachers]
    for query in setting:
        total = np.zeros(query.reply_length)
        for place, teacher in enumerate(teachers):
            states[place], sealed = teacher.answer(query, states[place], Turn(0, place, len(teachers)))
            total += sealed.numbers
        found[id(query)] = total
    return [found[id(query)] for query in asked]


def known_rounds(transcript: Transcript) -> list[Round]:
    """Rounds whose exact totals whoever has the rows can compute."""
    return [one for one in transcript.rounds if one.query.reply_length and is_known(one.query)]
