"""The engine of a federation: it puts questions into a box and waits for the replies, saying for whom.

A lesson's journal is its documents. The coordinator is deterministic, so the same replies lead to the same next question: a
lesson that was interrupted is run again from its first question, and whatever was answered is not asked again.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence

from superteach.engines.base import add_up
from superteach.exceptions import BadReply, QueryRefused, SettingError, TeacherLost, TeachingError, reason_of
from superteach.federated.box import FILE, Box, Pause, Retries, file_name
from superteach.federated.coordinator import LessonRecord, Terms
from superteach.federated.documents import MOST_BYTES, MOST_BYTES_NONE, Document, canonical, read, shown, sign
from superteach.privacy.accounting import Mode
from superteach.protocol.queries import Query
from superteach.protocol.wire import query_as_json, reply_from_json
from superteach.types import Array, Json

SOON = 1.5
"""Seconds of waiting after which it is said for whom."""
AGAIN = 30.0
"""Seconds after which it is said again."""
ROOM, WRITTEN = 1 << 16, 25
"""Bytes of a document beside its numbers, and of a number at most."""
GRACE = 1.0
"""Seconds for which other replies are waited for after a refusal, so that it can be said who has paid."""


class Unanswered(TeacherLost):
    """Replies are missing, and nobody waits for them any longer; the lesson goes on by the same command."""

    pattern = "no reply yet from {teacher}: {reason}"


class DocumentEngine:
    """Asks the sites of a roster by documents in a box, and adds up their replies in its order."""

    def __init__(
        self,
        box: Box,
        lesson: LessonRecord,
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
        self._retries = Retries()

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
        lesson, written = self._lesson, query_as_json(query)
        document = lesson.questions.get(number)
        if document is None:
            length = max(len(canonical(written)) + ROOM, 0 if query.varies else WRITTEN * query.reply_length)
            if length > self._most:
                raise SettingError(
                    f"a document of {query.name} would have {length:,} bytes, and {self._most:,} are the most: teach with "
                    f"fewer columns than {self.features}, or with fewer sites than {len(self.names)}"
                )
            body = {"number": number, "to": list(names), "query": json.loads(canonical(written))}
            if lesson.order is None:
                document = sign(
                    lesson.coordinator.key, "order", {"nonce": secrets.token_hex(32), **self._order, **body}
                )
                lesson.begin(document)
            else:
                document = sign(lesson.coordinator.key, "question", body, lesson.id)
                lesson.keep(document)
        elif canonical(document.body["query"]) != canonical(written):
            raise TeachingError(
                f"question {number} of lesson {lesson.name} was another one before it was interrupted (another version of a "
                f"library, or a time limit?): give it up with  {self._abort}"
            )
        return document

    def _values(self, query: Query[object], number: int, name: str) -> Array:
        try:
            return reply_from_json(query, self._lesson.replies[number, name].body["numbers"])
        except ValueError as error:
            raise BadReply(name, f"answered {query.name} with {shown(error, 200)}") from None

    def _collect(self, asked: Mapping[str, Document], enough: int) -> list[str]:
        """Wait until `enough` sites have replied to what they were asked; return who has."""
        started = last = time.monotonic()
        refused: dict[str, str] = {}
        pause, said, refused_at, failed = Pause(self._box.patience), started + SOON - AGAIN, 0.0, -AGAIN
        while True:
            try:
                news = self._look(asked, refused)
            except OSError as error:  # a carrier may be away for a while
                news = False
                if (now := time.monotonic()) > failed + AGAIN:
                    failed = now
                    self._say(f"documents cannot be exchanged ({reason_of(error)}); it is tried again")
            there = [name for name in asked if (asked[name].body["number"], name) in self._lesson.replies]
            if len(there) >= enough:
                return there
            now = time.monotonic()
            last = now if news else last
            missing = [name for name in asked if name not in there and name not in refused]
            refused_at = refused_at or (now if refused else 0.0)
            if refused and (not missing or now > refused_at + GRACE):
                raise self._refusal(refused, missing)
            if now - last > self._wait:
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
            if not self._retries.due(file):
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

    @property
    def _abort(self) -> str:
        """The command that gives the lesson up."""
        return f"superteach lessons abort {self._lesson.coordinator.folder} {self._lesson.name}"

    def _refusal(self, refused: Mapping[str, str], missing: Sequence[str]) -> QueryRefused:
        each = "; ".join(f"site {name} refuses: {reason}" for name, reason in refused.items())
        rest = f" Not heard from: {', '.join(missing)}." if missing else ""
        return QueryRefused(
            f"{each}. {self._lesson.paid}.{rest} Once that is mended at the site the same command goes on, and nobody pays "
            f"twice; or give the lesson up with  {self._abort}"
        )

    def _unanswered(self, missing: Sequence[str], seconds: float) -> Unanswered:
        return Unanswered(
            ", ".join(missing),
            f"waited {seconds:.0f} s for lesson {self._lesson.name}. {self._lesson.paid}. See that `superteach site run` is "
            "running there; the same command goes on",
        )
