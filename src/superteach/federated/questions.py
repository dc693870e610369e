"""Queries as documents hold them: names and plain numbers, which a person can read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from superteach.exceptions import QueryRefused
from superteach.federated.documents import from_numbers, to_numbers
from superteach.protocol import wire
from superteach.protocol.queries import Query
from superteach.types import Array, Json


def write_query(query: Query[object]) -> Json:
    """Write a query for a document."""
    content, arrays = wire.encode_fields(query)
    return {
        "name": type(query).__name__,
        "fields": content,
        "arrays": [from_numbers(array.tolist()) for array in arrays],
    }


def read_query(written: Json, number: int) -> Query[object]:
    """Read a query of the closed list, checked field by field, or refuse it."""
    if written.keys() != {"name", "fields", "arrays"} or type(written["fields"]) is not dict:
        raise QueryRefused("a question has the name of a query, its fields and its arrays, and nothing else")
    if type(written["name"]) is not str or type(written["arrays"]) is not list:
        raise QueryRefused("a question has the name of a query, its fields and its arrays, and nothing else")
    try:
        arrays = [np.array(to_numbers(one), dtype=np.float64) for one in written["arrays"]]
    except (ValueError, OverflowError, RecursionError):
        raise QueryRefused("a question has arrays that are not made of numbers") from None
    if any(array.ndim > 2 for array in arrays):
        raise QueryRefused("a question has an array of more than two dimensions")
    header = {"lesson": "", "number": number, "query": written["name"], "fields": written["fields"]}
    return wire.read_question(wire.Message("ask", header, tuple(arrays))).query


def read_reply(query: Query[object], numbers: Sequence[object]) -> Array:
    """Read the numbers of a reply to a query, or raise ValueError with what is wrong."""
    try:
        values = np.array(to_numbers(numbers), dtype=np.float64).reshape(-1) if numbers else np.zeros(0)
    except (ValueError, OverflowError, RecursionError):
        raise ValueError("something that is no list of numbers") from None
    if not query.fits(values):
        raise ValueError(f"{len(values)} numbers, not as many as declared")
    odd = query.wrong(values)
    if odd.any():
        raise ValueError(f"{values[odd][0]} among its numbers")
    return values
