"""Documents: written in one form, read strictly, and whatever the bytes are, refused with a sentence or read."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from superteach.exceptions import QueryRefused, SettingError
from superteach.federated import documents
from superteach.federated.documents import MOST_BYTES, canonical, read, shown, sign
from superteach.protocol.wire import numbers_as_json, numbers_from_json

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
QUESTION = {"number": 2, "to": ["north"], "query": {"name": "Census", "fields": {}, "arrays": [[0.1, -0.0, 5e-324]]}}
REPLY = {"site": "north", "number": 1, "status": "ok", "numbers": [1.5, "inf"], "reason": "", "paid": None}
FUZZED = 3_000


def written(content: dict, key: Ed25519PrivateKey = KEY) -> bytes:
    """Sign any content, well-formed or not."""
    import base64

    return canonical({**content, "signature": base64.b64encode(key.sign(canonical(content))).decode()})


def content(**more) -> dict:
    return {**sign(KEY, "question", QUESTION, "a" * 64).content, **more}


def respelled(inside: dict) -> dict:
    """The same key in another spelling: two bits of its last letter say nothing."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    key = inside["from"]
    return {**inside, "from": f"{key[:-2]}{letters[letters.index(key[-2]) ^ 1]}="}


def test_a_document_reads_back_as_it_was_written():
    document = sign(KEY, "question", QUESTION, "a" * 64)
    again = read(document.data)
    assert (again.content, again.id, again.data) == (document.content, document.id, document.data)
    assert document.data == canonical(json.loads(document.data))
    assert again.author == documents.public_of(KEY)


@pytest.mark.parametrize(
    "values", [[0.1 + 0.2, 1e-310, -0.0, 1.7976931348623157e308], [float("inf"), float("-inf")], [[1.0], [2.0]]]
)
def test_numbers_travel_to_the_last_bit(values):
    assert numbers_from_json(json.loads(canonical(numbers_as_json(values)))) == values
    assert str(numbers_from_json(json.loads(canonical(numbers_as_json(values))))) == str(values)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "canonical"),
        (b"{}", "format"),
        (b"[1]", "canonical"),
        (b"\xff\xfe", "canonical"),
        (b"[" * 100_000, "canonical"),
        (json.dumps(json.loads(sign(KEY, "question", QUESTION).data)).encode(), "canonical"),  # spaces
        (sign(KEY, "question", QUESTION).data + b"\n", "canonical"),
        (sign(KEY, "question", QUESTION).data.replace(b'"number":2', b'"number":2,"number":2'), "canonical"),
        (sign(KEY, "question", QUESTION).data.replace(b"north", b"south"), "do not hold"),
        (written(content(format=2)), "format 2"),
        (written(content(kind="command")), "'kind'"),
        (written(content(more=1)), "'more'"),
        (written({name: one for name, one in content().items() if name != "issued"}), "'issued'"),
        (written(content(issued="yesterday")), "do not hold"),
        (written(content(body={**QUESTION, "path": "../../etc"})), "'path'"),
        (written(content(body={**QUESTION, "number": True})), "'number'"),
        (written(content(body={**QUESTION, "number": "2"})), "'number'"),
        (written(content(answers="../../" + "a" * 58)), "'answers'"),
        (written({**content(), "from": "ed25519:" + "A" * 43 + "="}), "do not hold"),
        (written(respelled(content())), "do not hold"),
        (sign(KEY, "question", QUESTION).data.replace(b'"number":2', b'"number":1e400'), "canonical"),
        (sign(KEY, "question", QUESTION).data.replace(b'"number":2', b'"number":' + b"9" * 5000), "canonical"),
        (sign(KEY, "question", QUESTION).data.replace(b'"number":2', b'"number":NaN'), "canonical"),
        (sign(KEY, "question", QUESTION).data.replace(b'"number":2', b'"number":2.0'), "'number'"),
        (sign(KEY, "question", QUESTION).data.replace(b'"number":2', b'"number":02'), "canonical"),
        (b"\xef\xbb\xbf" + sign(KEY, "question", QUESTION).data, "canonical"),
        (written(content(), Ed25519PrivateKey.generate()), "do not hold"),
        (b"x" * 10_000_000, "too long"),
        (sign(KEY, "reply", {**REPLY, "numbers": [0.1] * 300_000}).data, "too long"),
        (written(content(body={**QUESTION, "to": ["é"]})).replace("é".encode(), "e\u0301".encode()), "canonical"),
    ],
)
def test_anything_else_is_refused_with_one_sentence(data, said):
    with pytest.raises(QueryRefused, match=said) as caught:
        read(data)
    assert len(str(caught.value)) < 500


def test_what_cannot_stand_in_a_document_is_not_written():
    for odd in (float("nan"), "e\u0301", "\ud800", {1, 2}):
        with pytest.raises(SettingError):
            canonical({"x": odd})


def test_dates_are_held_against_the_clock():
    document = sign(KEY, "question", QUESTION, days=7)
    now = datetime.now(UTC)
    document.check_dates(now)
    document.check_dates(now - timedelta(minutes=50))  # a clock that is behind
    with pytest.raises(QueryRefused, match="set the clocks"):
        document.check_dates(now - timedelta(hours=2))
    with pytest.raises(QueryRefused, match="expired"):
        document.check_dates(now + timedelta(days=8))


def test_texts_of_others_are_shown_without_escape_sequences():
    assert "\x1b" not in shown("\x1b]0;owned\x07\x1b[2Jhello\r\nworld")
    assert len(shown("x" * 10_000)) < 600


def fuzzed(seed: int) -> bytes:
    """A document with bytes changed, cut, doubled or put elsewhere; or, signed anew, with values of other types."""
    rng = random.Random(seed)
    kind, body = rng.choice([("question", QUESTION), ("reply", REPLY)])
    document = sign(KEY, kind, body, "a" * 64)
    if rng.random() < 0.5:
        inside = json.loads(json.dumps(document.content))
        place = rng.choice([inside, inside["body"]])
        odd = [None, True, -1, 1 << 70, 1e308, "", "x" * 999, [], [[[]]], {"a": {}}, "\x1b[2J", "../..", [{}] * 9]
        name = rng.choice([*place, "new"])
        value = rng.choice(odd)
        place[name] = value
        if type(value) is type(document.content.get(name, body.get(name))) or (name, value) == ("answers", None):
            return document.data[:-1]  # it may fit
        return written(inside)
    data = bytearray(document.data)
    for _ in range(rng.randint(1, 4)):
        at, how = rng.randrange(len(data)), rng.randrange(4)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del data[at : at + rng.randint(1, 40)]
        elif how == 2:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
        else:
            data[at:at] = data[at : at + rng.randint(1, 60)]
        if not data:
            break
    return bytes(data) if bytes(data) != document.data else b""


@pytest.mark.parametrize("count", [FUZZED, pytest.param(100_000, marks=pytest.mark.slow)])
def test_fuzzed_documents_are_refused_and_nothing_else_happens(count):
    for seed in range(count):
        with pytest.raises(QueryRefused):
            read(fuzzed(seed))
    assert MOST_BYTES == 1 << 20
