"""The engine of a federation: it puts questions into a box and waits for the replies, saying for whom.

A lesson's journal is its documents. The coordinator is deterministic, so the same replies lead to the same next question: a
lesson that was interrupted is run again from its first question, and whatever was answered is not asked again.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from superteach.engines.base import add_up
from superteach.exceptions import BadReply, QueryRefused, TeacherLost, TeachingError
from superteach.federated.box import FILE, Box, Pause, file_name
from superteach.federated.documents import MOST_BYTES, MOST_BYTES_NONE, Document, canonical, read, shown, sign
from superteach.federated.federation import Home, Terms
from superteach.federated.questions import read_query, read_reply, write_query
from superteach.federated.site import keep
from superteach.privacy.accounting import Mode
from superteach.protocol.queries import Query
from superteach.types import Array, Json

SOON = 1.5
"""Seconds of waiting after which it is said for whom."""
AGAIN = 30.0
"""Seconds after which it is said again."""
GRACE = 1.0
"""Seconds for which other replies are waited for after a refusal, so that it can be said who has paid."""

LOOKS = 20
"""Looks for the last document of a lesson in a box that may lose some."""


class Unanswered(TeacherLost):
    """Replies are missing, and nobody waits for them any longer; the lesson goes on by the same command."""

    told = "no reply yet from {teacher}: {reason}"


class Lesson:
    """A lesson in the coordinator's home."""

    def __init__(self, home: Home, request: Json, folder: Path | None = None) -> None:
        """Open the lesson in `folder`, or prepare a new one, which is there from its first question on."""
        self.home, self.request, self.folder = home, request, folder
        self.order: Document | None = None
        self.questions: dict[int, Document] = {}
        self.replies: dict[tuple[int, str], Document] = {}
        self.receipt: Document | None = None
        for path in sorted(folder.glob("*.json")) if folder else ():
            if path.name != "request.json":
                self._remember(read(path.read_bytes(), MOST_BYTES_NONE))

    def _remember(self, document: Document) -> None:
        if document.kind == "reply":
            self.replies[document.body["number"], document.body["site"]] = document
        elif document.kind == "receipt":
            self.receipt = document
        else:
            self.questions[document.body["number"]] = document
            self.order = document if document.kind == "order" else self.order

    @classmethod
    def all(cls, home: Home) -> list[Lesson]:
        """List all lessons, the oldest first."""
        found = []
        for place in (home.folder / "lessons").glob("[!.]*"):  # hidden ones were killed before they began
            with suppress(FileNotFoundError):
                found.append(cls(home, json.loads((place / "request.json").read_text("utf-8")), place))
        known = [lesson for lesson in found if lesson.order is not None]
        return sorted(known, key=lambda one: (one.order.content["issued"], one.id) if one.order else ("", ""))

    @property
    def id(self) -> str:
        """Id of the order."""
        return "" if self.order is None else self.order.id

    @property
    def name(self) -> str:
        """Short name, for people."""
        return self.id[:12]

    @property
    def fetched(self) -> bool:
        """Whether its result was written."""
        return self.folder is not None and (self.folder / "fetched").exists()

    @property
    def aborted(self) -> bool:
        """Whether it was given up."""
        return self.receipt is not None and self.receipt.body["outcome"] == "aborted"

    @property
    def payments(self) -> dict[str, Json]:
        """What each site has paid for it."""
        return {site: one.body["paid"] for (_, site), one in sorted(self.replies.items()) if one.body["paid"]}

    @property
    def paid(self) -> str:
        """Say who has paid what."""
        each = [f"{site} ε = {one['epsilon']:g}" for site, one in self.payments.items()]
        return f"Paid for this lesson: {', '.join(each) or 'nothing, by nobody'}"

    def asked_rows(self) -> dict[str, int]:
        """Return how many rows each site was asked for, where a question said so."""
        if self.order is None:
            return {}
        last = read_query(self.questions[max(self.questions)].body["query"], 1)
        names = [seat["name"] for seat in self.order.body["roster"]]
        return dict(zip(names, vars(last)["rows"], strict=True)) if last.silent else {}

    def keep(self, document: Document) -> None:
        """Keep a document, on the disk when this returns."""
        assert self.folder is not None
        keep(self.folder / file_name(document), document.data)
        self._remember(document)

    def begin(self, document: Document) -> None:
        """Put a new lesson into the home: its folder is there with its order, or not at all."""
        place = self.home.folder / "lessons" / document.id
        hidden = place.with_name(f".{document.id[:16]}")
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(mode=0o700)
        keep(hidden / "request.json", json.dumps(self.request, indent=1).encode())
        keep(hidden / file_name(document), document.data)
        os.rename(hidden, place)
        self.folder = place
        self._remember(document)

    def end(self, box: Box, outcome: str, reason: str = "") -> None:
        """Tell the sites that the lesson is over; said once, it stays so."""
        if self.receipt is None:
            self.keep(sign(self.home.key, "receipt", {"outcome": outcome, "reason": reason}, self.id, days=3650))
        assert self.receipt is not None
        name = file_name(self.receipt)
        for _ in range(LOOKS):  # nobody looks after it once this command has ended
            if name in box.list(f"lessons/{self.id}"):
                break
            box.put(f"lessons/{self.id}/{name}", self.receipt.data)


class Documents:
    """Asks the sites of a roster by documents in a box, and adds up their replies in its order."""

    def __init__(
        self,
        box: Box,
        lesson: Lesson,
        terms: Terms,
        learner: Json,
        price: tuple[str, int, Json | None],
        version: str,
        wait: float,
        say: Callable[[str], None],
    ) -> None:
        """`price` has the privacy mode, the size asked for and, under "dp", ε and δ; `say` hears whom is waited for."""
        self.names, self.features = terms.names, len(terms.columns)
        self.declared = tuple(int(seat["rows"]) for seat in terms.roster)
        self.most = tuple(float(seat["share"]) for seat in terms.roster)
        self._keys = {seat["name"]: seat["key"] for seat in terms.roster}
        privacy, size, cost = price
        about = {"learner": learner, "version": version, "privacy": privacy, "size": size, "price": cost}
        self._order = {**terms.written, **about}
        self._box, self._lesson, self._wait, self._say = box, lesson, wait, say
        self._most = MOST_BYTES_NONE if privacy == "none" else MOST_BYTES
        self._posted: dict[int, tuple[Document, Query[object]]] = {}
        self._seen: set[str] = set()

    def keep(self, mode: Mode) -> None:
        """Nothing to do: the order names the mode, and sites keep to it."""

    def sum(self, query: Query[object], number: int) -> Array:
        """Add up what all sites reply."""
        return add_up(query, self.gather(query, number))

    def gather(self, query: Query[object], number: int) -> list[Array]:
        """Ask all sites and wait for all."""
        document = self._ask(query, number, self.names)
        self._collect(dict.fromkeys(self.names, document), len(self.names))
        return [self._values(query, number, name) for name in self.names]

    def post(self, position: int, query: Query[object], number: int) -> None:
        """Ask one site and do not wait."""
        self._posted[position] = self._ask(query, number, (self.names[position],)), query

    def arrival(self) -> tuple[int, Array]:
        """Wait for the next reply to a post."""
        asked = {self.names[position]: document for position, (document, _) in self._posted.items()}
        name = self._collect(asked, 1)[0]
        position = self.names.index(name)
        document, query = self._posted.pop(position)
        return position, self._values(query, document.body["number"], name)

    def _ask(self, query: Query[object], number: int, names: Sequence[str]) -> Document:
        """Return the question with this number, which may have been asked before."""
        lesson, written = self._lesson, write_query(query)
        known = lesson.questions.get(number)
        if known is None:
            body = {"number": number, "to": list(names), "query": json.loads(canonical(written))}
            if lesson.order is None:
                known = sign(lesson.home.key, "order", {"nonce": secrets.token_hex(32), **self._order, **body})
                lesson.begin(known)
            else:
                known = sign(lesson.home.key, "question", body, lesson.id)
                lesson.keep(known)
        elif canonical(known.body["query"]) != canonical(written):
            raise TeachingError(
                f"question {number} of lesson {lesson.name} was another one before it was interrupted (another version of a "
                f"library, or a time limit?): give it up with  superteach lessons abort {lesson.home.folder} {lesson.name}"
            )
        return known

    def _values(self, query: Query[object], number: int, name: str) -> Array:
        try:
            return read_reply(query, self._lesson.replies[number, name].body["numbers"])
        except ValueError as error:
            raise BadReply(name, f"answered {query.name} with {shown(error, 200)}") from None

    def _collect(self, asked: Mapping[str, Document], enough: int) -> list[str]:
        """Wait until `enough` sites have replied to what they were asked; return who has."""
        started = heard = time.monotonic()
        refused: dict[str, str] = {}
        pause, said, refused_at = Pause(self._box.patience), started + SOON - AGAIN, 0.0
        while True:
            news = self._look(asked, refused)
            there = [name for name in asked if (asked[name].body["number"], name) in self._lesson.replies]
            if len(there) >= enough:
                return there
            now = time.monotonic()
            heard = now if news else heard
            missing = [name for name in asked if name not in there and name not in refused]
            refused_at = refused_at or (now if refused else 0.0)
            if refused and (not missing or now > refused_at + GRACE):
                raise self._refusal(refused, missing)
            if now - heard > self._wait:
                raise self._unanswered(missing, now - started)
            if now > said + AGAIN:
                said = now
                question = asked[missing[0]].body["number"]
                self._say(f"waiting for {', '.join(missing)} (question {question} of lesson {self._lesson.name})")
            pause(news)

    def _look(self, asked: Mapping[str, Document], refused: dict[str, str]) -> bool:
        """Put into the box what it lacks of ours, and take out what has come."""
        lesson, news = self._lesson, False
        folder = f"lessons/{lesson.id}"
        there = self._box.list(folder)
        for document in dict.fromkeys(asked.values()):
            name = file_name(document)
            if name not in there:
                self._box.put(f"{folder}/{name}", document.data)
        for file in there:
            match = FILE.fullmatch(file)
            if file in self._seen or not match or match[3] not in asked:
                continue
            question = asked[match[3]]
            if int(match[1]) != question.body["number"]:
                continue
            try:
                reply = read(self._box.get(f"{folder}/{file}", self._most), self._most)
            except QueryRefused:  # a carrier may still be writing it
                continue
            self._seen.add(file)
            if reply.kind != "reply" or reply.author != self._keys[match[3]] or reply.body["site"] != match[3]:
                self._say(f"a file in the name of {match[3]} is not signed with its key, and is ignored: {file}")
                continue
            if reply.answers != question.id or reply.body["number"] != question.body["number"]:
                continue
            news = True
            if reply.body["status"] == "ok":
                refused.pop(match[3], None)
                lesson.keep(reply)
            elif (question.body["number"], match[3]) not in lesson.replies:
                refused[match[3]] = shown(reply.body["reason"])
        return news

    def _refusal(self, refused: Mapping[str, str], missing: Sequence[str]) -> QueryRefused:
        each = "; ".join(f"site {name} refuses: {reason}" for name, reason in refused.items())
        rest = f" Not heard from: {', '.join(missing)}." if missing else ""
        return QueryRefused(
            f"{each}. {self._lesson.paid}.{rest} Once that is mended at the site the same command goes on, and nobody pays "
            f"twice; or give the lesson up with  superteach lessons abort {self._lesson.home.folder} {self._lesson.name}"
        )

    def _unanswered(self, missing: Sequence[str], seconds: float) -> Unanswered:
        return Unanswered(
            ", ".join(missing),
            f"waited {seconds:.0f} s for lesson {self._lesson.name}. {self._lesson.paid}. See that `superteach site run` is "
            "running there; the same command goes on",
        )
