"""What travels between coordinator and teachers: a JSON header and raw numbers of 64 bits. No code, no pickle.

A message is  b"STW1" · header length (4 bytes) · header (JSON) · the arrays' bytes, one after the other.
A question names one query of the closed list and fills in its fields; whatever is not declared there (a
name, a field, a type, a shape) is refused before anything is computed.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from superteach.exceptions import BadReply, QueryRefused, TeacherLost, TeachingError
from superteach.protocol.messages import Sealed
from superteach.protocol.queries import QUERIES, Announced, Query
from superteach.types import Array, Json, Positions, Raw

MAGIC = b"STW1"
MOST_BYTES = 1 << 28
"""No message is longer than this."""
MOST_HEADER = 1 << 20
KINDS: dict[str, dict[str, object]] = {
    "ask": {"lesson": str, "number": int, "query": str, "fields": dict},
    "reply": {"status": Literal["ok", "refused", "failed"], "facts": dict, "reason": str},
}  # fmt: skip
"""Kinds of messages, and what the header of each holds: these entries, all of them, of these types."""
_DOUBLES = {"ask": 64, "reply": 1}
_WORDS = {"reply": 1}
"""Most arrays of a message by its kind; any other kind has none."""
_NAMED = {query.__name__: query for query in QUERIES}
_DTYPES = {False: np.dtype("<f8"), True: np.dtype("<u8")}
Numbers = Array | npt.NDArray[np.uint64]
"""Doubles, or words of 64 bits in a message whose header says "words"."""


@dataclass(frozen=True, eq=False)
class Message:
    """A decoded header and the arrays behind it."""

    kind: str
    header: Json
    arrays: tuple[Array, ...] = ()
    words: tuple[npt.NDArray[np.uint64], ...] = ()
    """Arrays of a message that holds words."""


@dataclass(frozen=True)
class LossByName:
    """A loss as it came over the line: its name and its parameters, which are numbers. Teachers build it or refuse."""

    parameters: Mapping[str, object]

    def settings(self) -> Mapping[str, object]:
        """Name and parameters."""
        return self.parameters


@dataclass(frozen=True, eq=False)
class Question:
    """One query of one lesson, and its round. All teachers get the same bytes; each knows its own place."""

    lesson: str
    number: int
    query: Query[object]


@dataclass(frozen=True, eq=False)
class Reply:
    """What a teacher answers: numbers, facts (of an agreement), or why there are none.

    "refused" is the teacher's own decision and stays so; "failed" is an accident at the teacher.
    """

    status: Literal["ok", "refused", "failed"]
    values: Array | None = None
    facts: Json = field(default_factory=dict)
    reason: str = ""
    words: npt.NDArray[np.uint64] | None = None


def pack(kind: str, header: Mapping[str, object], arrays: Sequence[Numbers] = ()) -> bytes:
    """Write a message as bytes; its arrays are all doubles or all words."""
    words = any(array.dtype == np.uint64 for array in arrays)
    stored = {
        "kind": kind,
        **header,
        "arrays": [list(array.shape) for array in arrays],
        **({"words": True} if words else {}),
    }
    try:
        text = json.dumps(stored, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()
    except ValueError as error:
        raise TeachingError(f"a message of kind {kind!r} cannot travel: {error}") from None
    numbers = [np.ascontiguousarray(array, dtype=_DTYPES[words]).tobytes() for array in arrays]
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *numbers])


def unpack(data: object) -> Message:
    """Read a message, or refuse it with what is wrong with it."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise QueryRefused(f"a message is bytes, got {type(data).__name__}")
    data = bytes(data)
    if len(data) > MOST_BYTES:
        raise QueryRefused(f"a message of {len(data)} bytes is too big; {MOST_BYTES} are the most")
    if data[:4] != MAGIC or len(data) < 8:
        raise QueryRefused("these bytes are no message of superteach")
    (length,) = struct.unpack_from("<I", data, 4)
    if length > MOST_HEADER or 8 + length > len(data):
        raise QueryRefused(f"a header of {length} bytes does not fit a message of {len(data)}")
    try:
        text = data[8 : 8 + length].decode()
        header = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if "\\u" in text:  # JSON may spell half a character, which no text can hold
            json.dumps(header, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise QueryRefused("the header of a message is not the JSON it should be") from None
    if not isinstance(header, dict) or header.get("kind") not in tuple(KINDS):
        raise QueryRefused("a message says of which kind it is; this one does not")
    kind, words = header.pop("kind"), header.pop("words", False) is True
    arrays = _arrays(header.pop("arrays", None), data, 8 + length, words)
    if len(arrays) > (_WORDS if words else _DOUBLES).get(kind, 0):
        raise QueryRefused(f"a message of kind {kind!r} has no such arrays")
    _check_header(kind, header)
    return Message(kind, header, (), arrays) if words else Message(kind, header, arrays)


def _check_header(kind: str, header: Json) -> None:
    wanted = KINDS[kind]
    if odd := sorted(set(header) - set(wanted)) or sorted(set(wanted) - set(header)):
        fault = "does not fit" if odd[0] in header else "is missing"
        raise QueryRefused(f"a message of kind {kind!r} has {', '.join(wanted)}; {odd[0][:60]!r} {fault}")
    for name, hint in wanted.items():
        try:
            _read(hint, header[name], {})
        except ValueError:
            shown = getattr(hint, "__name__", hint)
            raise QueryRefused(f"a message of kind {kind!r} has a {shown} as its {name}") from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _arrays(shapes: object, data: bytes, start: int, words: bool) -> tuple[Raw, ...]:
    if not isinstance(shapes, list) or len(shapes) > 64:
        raise QueryRefused("a message lists the shapes of at most 64 arrays")
    arrays = []
    for shape in shapes:
        sizes = shape if isinstance(shape, list) and 1 <= len(shape) <= 2 else [None]
        if not all(type(size) is int and 0 <= size <= MOST_BYTES for size in sizes):
            raise QueryRefused(f"an array of shape {shape!r} cannot travel")
        count = math.prod(shape)
        if start + 8 * count > len(data):
            raise QueryRefused("a message ends before its numbers do")
        arrays.append(
            np.frombuffer(data, _DTYPES[words], count, start).astype(np.uint64 if words else float).reshape(shape)
        )
        start += 8 * count
    if start != len(data):
        raise QueryRefused(f"a message has {len(data) - start} bytes more than its arrays need")
    return tuple(arrays)


def pack_question(lesson: str, number: int, query: Query[object]) -> bytes:
    """Write a query and its round as bytes."""
    content, arrays = encode_fields(query)
    header = {"lesson": lesson, "number": number, "query": type(query).__name__, "fields": content}
    return pack("ask", header, arrays)


def encode_fields(query: Query[object]) -> tuple[Json, list[Array]]:
    """Write the fields of a query for JSON, and the arrays that they name."""
    arrays: list[Array] = []
    content = {
        entry.name: _encode(getattr(query, entry.name), arrays)
        for entry in fields(query)  # type: ignore[arg-type]
    }
    return content, arrays


def _encode(value: object, arrays: list[Array]) -> object:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, tuple):
        return {"list": [_encode(item, arrays) for item in value]}
    if hasattr(value, "settings"):
        return {"loss": value.settings()}
    return value


def read_question(message: Message) -> Question:
    """Read the query that a message asks, checked field by field against what the closed list declares."""
    header = message.header
    if header["number"] < 1:
        raise QueryRefused(f"there is no round {header['number']}")
    kind = _NAMED.get(header["query"])
    if kind is None:
        raise QueryRefused(f"there is no query named {header['query'][:60]!r}")
    hints, values = _HINTS[kind.__name__], header["fields"]
    if set(values) != set(hints):
        odd = sorted(set(values) ^ set(hints))
        raise QueryRefused(f"{kind.__name__} has fields {sorted(hints)}; {odd} do not fit")
    unused, decoded = dict(enumerate(message.arrays)), {}
    for name, hint in hints.items():
        try:
            decoded[name] = _read(hint, values[name], unused)
        except (ValueError, OverflowError):
            raise QueryRefused(f"{kind.__name__}.{name} has a value of a wrong type") from None
    if unused:
        raise QueryRefused(f"{kind.__name__} came with {len(unused)} arrays that no field names")
    return Question(header["lesson"], header["number"], kind(**decoded))


def _read(hint: object, value: object, arrays: dict[int, Array]) -> object:
    """Read a value of an annotated type, or raise ValueError; an array is taken out of `arrays`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in inner:
            with contextlib.suppress(ValueError):
                return _read(option, value, arrays)
    elif origin is Literal:
        if any(type(value) is type(choice) and value == choice for choice in inner):
            return value
    elif origin is typing.get_origin(Array):  # an alias of its own from NumPy 2.5 on
        place = _tagged("array", value, int)
        if place in arrays:
            return arrays.pop(place)
    elif origin is list:
        if type(value) is list:
            return [_read(inner[0], item, arrays) for item in value]
    elif origin is tuple:
        return tuple(_read(inner[0], item, arrays) for item in _tagged("list", value, list))
    elif origin is dict:
        if type(value) is dict:
            return value
    elif hint is bytes:
        return bytes.fromhex(_tagged("bytes", value, str))
    elif hint is Announced:
        loss = _tagged("loss", value, dict)
        if all(type(loss[key]) is str if key == "name" else type(loss[key]) in (int, float) for key in loss):
            return LossByName(loss)
    elif hint is float:  # JSON writes 1.0 as it is, and keeps all digits
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif type(value) is hint or value is hint is None:
        return value
    raise ValueError


def _tagged(tag: str, value: object, kind: type[Tagged]) -> Tagged:
    if isinstance(value, dict) and set(value) == {tag} and type(value[tag]) is kind:
        return typing.cast(Tagged, value[tag])
    raise ValueError


Tagged = typing.TypeVar("Tagged")
_HINTS = {
    name: {entry.name: typing.get_type_hints(kind)[entry.name] for entry in fields(kind)}  # type: ignore[arg-type]
    for name, kind in _NAMED.items()
}


def _pack_answer(facts: Mapping[str, object], *arrays: Numbers) -> bytes:
    return pack("reply", {"status": "ok", "facts": dict(facts), "reason": ""}, arrays)


def pack_reply(sealed: Sealed) -> bytes:
    """Write a sealed reply as bytes: nothing else that holds numbers of rows can be packed."""
    return _pack_answer({}, sealed.values)


def pack_positions(rows: Positions, mark: int) -> bytes:
    """Write which rows were chosen, for whoever owns them, and a mark by which they are known again."""
    return _pack_answer({"mark": mark}, rows.astype(np.uint64))


def pack_facts(facts: Mapping[str, object]) -> bytes:
    """Write the answer to a hello, an agreement or an end: names and counts."""
    return _pack_answer(facts)


def pack_no(status: Literal["refused", "failed"], reason: str) -> bytes:
    """Write why there is no answer."""
    text = reason[:2000].encode(errors="backslashreplace").decode()
    return pack("reply", {"status": status, "facts": {}, "reason": text})


def read_reply(data: object) -> Reply:
    """Read a teacher's reply, as the coordinator sees it."""
    message = unpack(data)
    if message.kind != "reply":
        raise QueryRefused(f"a reply was expected, a message of kind {message.kind!r} came")
    values, words = next(iter(message.arrays), None), next(iter(message.words), None)
    return Reply(values=values, words=words, **message.header)


def query_as_json(query: Query[object]) -> Json:
    """Write a query as names and plain numbers, which a person can read."""
    content, arrays = encode_fields(query)
    return {
        "name": type(query).__name__,
        "fields": content,
        "arrays": [numbers_as_json(array.tolist()) for array in arrays],
    }


def query_from_json(written: Json) -> Query[object]:
    """Read a query of the closed list from names and numbers, checked field by field, or refuse it."""
    kinds = {"name": str, "fields": dict, "arrays": list}
    if written.keys() != kinds.keys() or any(type(written[name]) is not kind for name, kind in kinds.items()):
        raise QueryRefused("a question has the name of a query, its fields and its arrays, and nothing else")
    try:
        arrays = [np.array(numbers_from_json(one), dtype=np.float64) for one in written["arrays"]]
    except (ValueError, OverflowError, RecursionError):
        raise QueryRefused("a question has arrays that are not made of numbers") from None
    if any(array.ndim > 2 for array in arrays):
        raise QueryRefused("a question has an array of more than two dimensions")
    header = {"lesson": "", "number": 1, "query": written["name"], "fields": written["fields"]}
    return read_question(Message("ask", header, tuple(arrays))).query


def reply_from_json(query: Query[object], numbers: object) -> Array:
    """Read the numbers of a reply to a query, or raise ValueError with what is wrong."""
    try:
        values = np.array(numbers_from_json(numbers), dtype=np.float64).reshape(-1)
    except (ValueError, OverflowError, RecursionError):
        raise ValueError("something that is no list of numbers") from None
    if not query.fits(values):
        raise ValueError(f"{len(values)} numbers, not as many as declared")
    if (odd := query.wrong(values)).any():
        raise ValueError(f"{values[odd][0]} among its numbers")
    return values


def numbers_as_json(values: Sequence[Any]) -> list[Any]:
    """Write numbers, or lists of them, as JSON has them; infinities and NaN as texts."""
    if values and isinstance(values[0], list):
        return [numbers_as_json(one) for one in values]
    return [one if math.isfinite(one) else repr(one) for one in values]


def numbers_from_json(values: object) -> list[Any]:
    """Read such numbers, or lists of them, or raise ValueError."""
    if type(values) is not list:
        raise ValueError(values)
    if any(type(one) is list for one in values):
        return [numbers_from_json(one) for one in values]
    if not all(type(one) in (int, float) or one in ("inf", "-inf", "nan") for one in values):
        raise ValueError(values)
    return [float(one) for one in values]


def reply_of(name: str, what: str, replies: Mapping[str, bytes]) -> Reply:
    """Return a teacher's reply; raise an error where it is lost, refuses or failed."""
    if name not in replies:
        raise TeacherLost(name, f"it gave no answer to {what}")
    try:
        reply = read_reply(replies[name])
    except QueryRefused as error:
        raise BadReply(name, f"answered {what} with something else: {error}") from None
    if reply.status == "refused":
        raise QueryRefused(f"teacher {name} refuses {what}: {reply.reason}")
    if reply.status == "failed":
        raise BadReply(name, f"failed over {what}: {reply.reason}")
    return reply


def values_of(query: Query[object], name: str, reply: Reply) -> Array:
    """Return the numbers of a reply; raise an error where they are not as many as declared, or not finite."""
    if reply.values is None or not query.fits(reply.values):
        seen = "no numbers" if reply.values is None else f"numbers of shape {reply.values.shape}"
        raise BadReply(name, f"answered {query.name} with {seen}, not as many as declared")
    odd = query.wrong(reply.values)
    if odd.any():
        raise BadReply(name, f"answered {query.name} with {reply.values[odd][0]} among its numbers")
    return reply.values
