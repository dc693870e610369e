"""Messages that somebody has bent, one after the other, over a site that must answer every one."""

from __future__ import annotations

import json
import struct

import numpy as np
import psutil

from superteach.line import wire
from superteach.losses import Logistic
from superteach.organisations.site import Site
from superteach.queries import Alone, Prepare, RoundAlone
from superteach.versions import VERSION
from tests.line.test_queries import TALK

ODD = [
    None, True, -1, 0, 1, 2**63, -(2**63), 10**40, 1e308, 0.5, "", "\ud800", "x" * 200, "\x00", [], [[]], {}, ["\udfff"],
    {"array": 0}, {"array": 99}, {"list": []}, {"bytes": "zz"}, {"loss": {"name": "\ud800"}}, {"kind": "hello"},
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, 5e-324]


def talk(lesson: str, first: int) -> list[bytes]:
    """An honest conversation, from a round on."""
    hello = {"lesson": lesson, "loss": "logistic", "promise": "open", "version": VERSION}
    settled = {"lesson": lesson, "loss": "logistic", "columns": ["x0", "x1", "x2"], "classes": [-1.0, 1.0]}
    place = {"position": 0, "teachers": 2, "first_id": 0}
    queries = [Prepare(Logistic(), 0.0), *(query for query in TALK if not isinstance(query, Alone | RoundAlone))]
    asked = [wire.pack_question(lesson, number, query) for number, query in enumerate(queries, first)]
    begin = {
        "lesson": lesson,
        "columns": ["x0"],
        "classes": None,
        "script": {},
        "names": ["a"],
        "position": 0,
        "hellos": [],
    }
    step = wire.pack("step", {"lesson": lesson, "number": 1}, [np.zeros(3, np.uint64)])
    rest = [wire.pack("begin", begin, [np.zeros(3)]), step, wire.pack("finish", {"lesson": f"no {lesson}"})]
    return [wire.pack("hello", hello), wire.pack("agree", {**settled, **place}), *asked, *rest]


def bent(data: bytes, rng: np.random.Generator) -> bytes:
    """The same message with one thing changed: a byte, its length, a field of its header, or its numbers."""
    how = rng.integers(6)
    if how == 0:
        place = int(rng.integers(len(data)))
        return data[:place] + bytes([rng.integers(256)]) + data[place + 1 :]
    if how == 1:
        return data[: rng.integers(len(data))] + rng.bytes(rng.integers(9))
    (length,) = struct.unpack_from("<I", data, 4)
    header, numbers = json.loads(data[8 : 8 + length]), data[8 + length :]
    if how == 2 and len(numbers) >= 8:
        place = 8 * int(rng.integers(len(numbers) // 8))
        odd = struct.pack("<d", NUMBERS[rng.integers(len(NUMBERS))])
        numbers = numbers[:place] + odd + numbers[place + 8 :]
    elif how == 3 and header["arrays"]:  # an honest message of another length
        more = int(rng.integers(1, 5))
        header["arrays"][-1] = [len(numbers) // 8 + more] if len(header["arrays"]) == 1 else header["arrays"][-1]
        numbers += bytes(8 * more)
    else:
        inner = header["fields"] if header.get("fields") and rng.integers(2) else header
        names = [*inner, "undeclared"]
        inner[names[rng.integers(len(names))]] = ODD[rng.integers(len(ODD))]
    text = json.dumps(header).encode()
    return wire.MAGIC + struct.pack("<I", len(text)) + text + numbers


def pelt(site: Site, messages: int, seed: int) -> dict[str, int]:
    """Send so many messages, honest and bent ones mixed; count replies by status. Whatever is raised is the test's."""
    rng, counts, honest = np.random.default_rng(seed), {"ok": 0, "refused": 0, "failed": 0}, talk("0", 1)
    before, place, talks = 0, 0, 0
    for number in range(messages):
        if number == messages // 5:
            before = psutil.Process().memory_info().rss
        data = honest[place]
        if rng.integers(3):
            data = bent(data, rng)
        else:
            place += 1
        if place == len(honest):
            place, talks = 0, talks + 1
            honest = talk(str(talks // 10), 1 + len(honest) * talks)  # one lesson for ten talks
        counts[wire.read_reply(site.answer(data)).status] += 1
    grown = psutil.Process().memory_info().rss - before
    assert grown < 20e6, f"{grown} bytes more after {messages} messages"
    assert len(site.guard.audit.path.read_bytes().splitlines()) == messages
    return counts
