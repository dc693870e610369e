"""Signed documents: all that travels between a coordinator and the sites of a federation.

A document is one line of canonical JSON: keys sorted, no spaces, UTF-8, texts in Unicode's form NFC, numbers as Python's
repr writes them, which reads back to the last bit. Its id is the SHA-256 of its content, its signature Ed25519. Bytes that
are not exactly what would be written for their own content are no document.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from superteach.exceptions import MissingExtra, QueryRefused, SettingError, shorten
from superteach.io.atomic import write_bytes

if TYPE_CHECKING:
    from superteach.types import Json

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError:
    raise MissingExtra("cryptography", "federated", "teaching across organisations") from None

VERSION = 1
"""Of this format; documents of another one are refused."""
MOST_BYTES = 1 << 20
"""The longest document under "isolated" and "dp": the shares of 50 owners of 500 columns, or the moments of 200 columns."""
MOST_BYTES_NONE = 1 << 28
"""The longest document where a policy accepts "none", whose replies hold rows."""
MOST_ROWS = 1 << 40
"""The largest number of rows that anybody can declare."""
SKEW = timedelta(hours=1)
"""How far a clock may be ahead of ours."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
ID = re.compile(r"[0-9a-f]{64}")
KEY = re.compile(r"ed25519:[A-Za-z0-9+/]{43}=")
RELEASE = re.compile(r"[0-9A-Za-z.+!-]{1,60}")
"""A version of superteach: it is shown on terminals."""
Check = Callable[[Any], bool]


def _is(*kinds: type) -> Check:
    return lambda value: type(value) in kinds


def _fits(pattern: re.Pattern[str]) -> Check:
    return lambda value: type(value) is str and pattern.fullmatch(value) is not None


def _texts(value: Any) -> bool:
    return type(value) is list and all(type(one) is str for one in value)


def _names(value: Any) -> bool:
    return _texts(value) and 0 < len(value) == len(set(value))


def _rows(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST_ROWS


def _printable(value: Any) -> bool:
    return type(value) is str and value.isprintable()


def _labels(value: Any) -> bool:
    return value is None or (type(value) is list and all(type(one) in (str, int, float, bool) for one in value))


def _seats(value: Any) -> bool:
    seat = {"name": _fits(NAME), "key": _fits(KEY), "rows": _rows, "share": _part}
    return type(value) is list and all(type(one) is dict and _agrees(one, seat) for one in value)


def _agrees(value: Json, checks: Mapping[str, Check]) -> bool:
    return value.keys() == checks.keys() and all(check(value[name]) for name, check in checks.items())


def _part(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _price(value: Any) -> bool:
    return value is None or (type(value) is dict and _agrees(value, {"epsilon": _is(float), "delta": _is(float)}))


_QUESTION = {"number": _is(int), "to": _texts, "query": _is(dict)}
KINDS: dict[str, dict[str, Check]] = {
    "invitation": {"federation": _fits(NAME), "site": _fits(NAME), "box": _printable, "secret": _fits(ID)},
    "membership": {"site": _fits(NAME), "proof": _fits(ID), "version": _fits(RELEASE), "rows": _rows, "columns": _names,
                   "target": _is(str), "labels": _labels, "privacy": _texts, "share": _part},
    "order": {"nonce": _fits(ID), "version": _fits(RELEASE), "learner": _is(dict), "columns": _names, "target": _is(str),
              "classes": _labels, "roster": _seats, "privacy": _is(str), "size": _is(int), "price": _price, **_QUESTION},
    "question": _QUESTION,
    "reply": {"site": _fits(NAME), "number": _is(int), "status": lambda value: value in ("ok", "refused", "failed"),
              "numbers": _is(list), "reason": _is(str), "paid": _price},
    "receipt": {"outcome": lambda value: value in ("taught", "aborted"), "reason": _is(str)},
}  # fmt: skip
"""Kinds of documents and what each says: these entries, all of them, each as its check wants it."""
_OUTER: dict[str, Check] = {
    "format": _is(int), "kind": lambda value: type(value) is str and value in KINDS, "from": _fits(KEY),
    "answers": lambda value: value is None or _fits(ID)(value), "issued": _is(str), "expires": _is(str), "body": _is(dict),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Document:
    """A document whose form and signature were checked; whether its author may say this is for its reader to decide."""

    content: Json
    data: bytes

    @cached_property
    def id(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(canonical(self.content)).hexdigest()

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return str(self.content["kind"])

    @property
    def author(self) -> str:
        """The public key that signed it."""
        return str(self.content["from"])

    @property
    def answers(self) -> str:
        """Id of the document that it belongs to: an order, a question or an invitation."""
        return self.content["answers"] or ""

    @property
    def body(self) -> Json:
        """What it says."""
        body: Json = self.content["body"]
        return body

    @property
    def issued(self) -> datetime:
        """When it was signed, by its author's clock."""
        return _moment(self.content["issued"])

    def check_dates(self, now: datetime | None = None) -> None:
        """Refuse a document that has expired, or one from the future."""
        now = now or datetime.now(UTC)
        if self.issued > now + SKEW:
            raise QueryRefused(
                f"the {self.kind} was issued at {self.content['issued']}, and here it is {_written(now)}: set the clocks"
            )
        if _moment(self.content["expires"]) < now:
            raise QueryRefused(f"the {self.kind} expired at {self.content['expires']}: ask for a new one")


def canonical(value: object) -> bytes:
    """Write JSON in the one form that documents have."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        data = text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise SettingError(f"this cannot stand in a document: {shorten(str(error), 100)}") from None
    if not unicodedata.is_normalized("NFC", text):
        raise SettingError(
            "a document holds texts in Unicode's form NFC alone: write names of columns and labels in it"
        )
    return data


def sign(key: Ed25519PrivateKey, kind: str, body: Json, answers: str | None = None, days: float = 7.0) -> Document:
    """Write and sign a document."""
    now = datetime.now(UTC)
    content: Json = {
        "format": VERSION,
        "kind": kind,
        "from": public_of(key),
        "answers": answers,
        "issued": _written(now),
        "expires": _written(now + timedelta(days=days)),
        "body": body,
    }
    signature = base64.b64encode(key.sign(canonical(content))).decode()
    document = Document(content, canonical({**content, "signature": signature}))
    return read(document.data, MOST_BYTES_NONE)


def read(data: bytes, most: int = MOST_BYTES) -> Document:
    """Read bytes from anywhere, or refuse them with one sentence; nothing else is ever raised."""
    if len(data) > most:
        raise QueryRefused(f"a document of {len(data):,} bytes is too long; {most:,} are the most here")
    try:
        content = json.loads(data.decode(), parse_constant=_refuse_constant)
        if type(content) is not dict or canonical(content) != data:
            raise ValueError
    except (ValueError, RecursionError, SettingError):  # UnicodeDecodeError is a ValueError
        raise QueryRefused("these bytes are no document of superteach: they are not canonical JSON") from None
    signature = content.pop("signature", None)
    if content.get("format") != VERSION:
        raise QueryRefused(f"a document of format {content.get('format')!r:.20} cannot be read; {VERSION} can")
    for name in sorted(content.keys() ^ _OUTER.keys()) or sorted(_OUTER):
        if name not in content or name not in _OUTER or not _OUTER[name](content[name]):
            raise QueryRefused(f"a document has {', '.join(_OUTER)} and a signature; {name[:40]!r} does not fit")
    body, wanted = content["body"], KINDS[content["kind"]]
    for name in sorted(body.keys() ^ wanted.keys()) or sorted(wanted):
        if name not in body or name not in wanted or not wanted[name](body[name]):
            raise QueryRefused(
                f"a document of kind {content['kind']} has {', '.join(wanted)}; {name[:40]!r} does not fit"
            )
    document = Document(content, data)
    try:
        _moment(content["issued"]), _moment(content["expires"])
        key = Ed25519PublicKey.from_public_bytes(_bytes_of(document.author[8:]))
        key.verify(_bytes_of(signature), canonical(content))
    except (ValueError, TypeError, InvalidSignature):
        raise QueryRefused(f"a document of kind {document.kind} has dates or a signature that do not hold") from None
    return document


def _bytes_of(text: str) -> bytes:
    """Read base64 in its one spelling: the last letter may write the same bytes in several ways."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError(text)
    return raw


def _refuse_constant(text: str) -> float:
    raise ValueError(text)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def public_of(key: Ed25519PrivateKey) -> str:
    """Name the public half of a key, as policies list it."""
    return f"ed25519:{base64.b64encode(key.public_key().public_bytes_raw()).decode()}"


def own_key(folder: Path) -> Ed25519PrivateKey:
    """Read the private key of a folder, made when it is first asked for; it never leaves its folder."""
    path = folder / "key"
    if os.stat(folder).st_mode & 0o002:
        raise SettingError(f"{str(folder)!r} can be changed by everybody on this machine: run  chmod o-w {folder}")
    if path.is_symlink():
        raise SettingError(f"{str(path)!r} is a symbolic link, which could lead anywhere: put the real thing there")
    if path.exists() and os.stat(path).st_mode & 0o077:
        raise SettingError(f"{str(path)!r} can be read by others than its owner: run  chmod 600 {path}")
    if not path.exists():
        write_bytes(path, base64.b64encode(secrets.token_bytes(32)) + b"\n", private=True)
    try:
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode(path.read_bytes(), validate=False))
    except ValueError:
        raise SettingError(f"{str(path)!r} holds no key: put back a copy, or remove it and a new one is made") from None


def read_own(path: Path) -> Document:
    """Read a document from a folder of one's own, where a file that is none is damage."""
    try:
        return read(path.read_bytes(), MOST_BYTES_NONE)
    except (OSError, QueryRefused) as error:
        raise SettingError(f"{str(path)!r} is damaged, put back a copy: {error}") from None


def shown(text: object, most: int = 500) -> str:
    """Write somebody else's text for a terminal: no escape sequences, no end of line, not too long."""
    return shorten("".join(one if one.isprintable() else "\ufffd" for one in str(text)), most)
