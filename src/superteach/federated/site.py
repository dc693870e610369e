"""A site: documents in, documents out, over one folder.

What a site says is a function of its policy, its rows and the documents it was sent, and all of these are files. It is asked
a question twice and gives the same bytes twice; it is killed anywhere and goes on from its files. Nothing here needs NumPy,
so that a site that waits stays small; `runner` has what looks at rows.

    FOLDER/site.toml     name, file of rows, target, box; written once by `superteach site new`
    FOLDER/policy.toml   what the owner allows; read anew whenever it changes
    FOLDER/key           the private key, for its owner alone
    FOLDER/invitation.json, audit.jsonl, ledger/, status.json, notices.log
    FOLDER/lessons/ID/   every document of a lesson, and `done` once it is over
    FOLDER/outbox/       replies that wait for a person (review = true)
    FOLDER/chosen/       which rows lessons chose
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from superteach.exceptions import QueryRefused, SettingError
from superteach.federated.box import FILE, LAST, Box, Retries, file_name
from superteach.federated.documents import (
    ID,
    MOST_BYTES,
    MOST_BYTES_NONE,
    Document,
    own_key,
    public_of,
    read,
    read_own,
    shown,
    sign,
)
from superteach.io.atomic import stamp, write_bytes, write_durably
from superteach.packages import VERSION

if TYPE_CHECKING:
    from superteach.types import Json

PARTS = ("lessons", "outbox", "ledger", "chosen")
MOST_NOTICES = 20
LEAST_FREE = 1 << 20
"""Bytes on a disk below which it counts as full."""


@dataclass
class SiteLesson:
    """A lesson as a site knows it: its documents."""

    folder: Path
    order: Document
    questions: dict[int, Document] = field(default_factory=dict)
    """The order among them."""
    replies: dict[int, Document] = field(default_factory=dict)
    receipt: Document | None = None

    @property
    def name(self) -> str:
        """Short name, for people."""
        return self.order.id[:12]


class Site:
    """One owner's site."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "site.toml").is_file():
            raise SettingError(
                f"{str(folder)!r} is no site: make one with  superteach site new {folder} --invitation FILE …"
            )
        for place in (self.folder, *(self.folder / name for name in (*PARTS, "policy.toml", "site.toml"))):
            if place.is_symlink():
                raise SettingError(
                    f"{str(place)!r} is a symbolic link, which could lead anywhere: put the real thing there"
                )
        for name in PARTS[:2]:
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        try:
            self.settings = tomllib.loads((self.folder / "site.toml").read_text("utf-8"))
            self.name = str(self.settings["name"])
        except (OSError, ValueError, KeyError) as error:
            raise SettingError(f"{str(self.folder / 'site.toml')!r} cannot be read: {error}") from None
        self.key = own_key(self.folder)
        self.public = public_of(self.key)
        self.invitation = read_own(self.folder / "invitation.json")
        self.lessons: dict[str, SiteLesson] = {}
        self.over: set[str] = set()
        """Lessons that are over, or not this site's."""
        self.notices: list[str] = []
        with suppress(OSError):
            self.notices = (self.folder / "notices.log").read_text("utf-8").splitlines()[-MOST_NOTICES:]
        self.on_notice: Callable[[str], None] = lambda text: None
        """Called with every new notice."""
        self._seen: set[str] = set()
        self._retries = Retries()
        self._policy: tuple[object, Json] = (None, {})
        for lesson in sorted((self.folder / "lessons").iterdir()):
            if (lesson / "done").exists():
                self.over.add(lesson.name)
            elif ID.fullmatch(lesson.name):
                self._load(lesson)

    def _load(self, place: Path) -> None:
        documents = [read_own(path) for path in sorted(place.glob("*.json"))]
        order = next((one for one in documents if one.kind == "order"), None)
        if order is None:  # killed before the order was kept: it is in the box still
            return
        lesson = self.lessons[order.id] = SiteLesson(place, order)
        for one in documents:
            if one.kind == "receipt":
                lesson.receipt = one
            elif one.kind == "reply":  # a kill may leave a refusal beside the answer that came after it
                if one.body["status"] == "ok" or one.body["number"] not in lesson.replies:
                    lesson.replies[one.body["number"]] = one
            else:
                lesson.questions[one.body["number"]] = one

    def rules(self) -> Json:
        """Return the policy's plain entries, read anew when the file has changed; `runner` checks all of it."""
        path = self.folder / "policy.toml"
        now = stamp(path)
        if self._policy[0] != now:
            self._retries.forget()
            try:
                self._policy = now, tomllib.loads(path.read_text("utf-8"))
            except (OSError, ValueError) as error:
                self.notice(f"the policy cannot be read, so nothing is answered: {error}")
                self._policy = now, {}
        return self._policy[1]

    def listed(self, author: str) -> bool:
        """Tell whether the policy lists a coordinator by its key."""
        return author in self.rules().get("coordinators", ())

    def _conditions(self, question: Document) -> str:
        """Digest of what a refusal may depend on: policy, file of rows, ledger, clock, and room on the disk."""
        places = (self.folder / "policy.toml", Path(str(self.settings["data"])), self.folder / "ledger" / "ledger")
        facts: list[object] = [stamp(place) for place in places]
        facts.append(shutil.disk_usage(self.folder).free > LEAST_FREE)
        with suppress(QueryRefused):
            question.check_dates()
            facts.append("in time")
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def most_bytes(self) -> int:
        """Length of the longest document that this site reads."""
        return MOST_BYTES_NONE if "none" in self.rules().get("privacy", ()) else MOST_BYTES

    def notice(self, text: str) -> None:
        """Keep a sentence for the owner, once."""
        text = shown(text, 2000)
        if text in [line.partition(" ")[2] for line in self.notices]:
            return
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}"
        self.notices = [*self.notices, line][-MOST_NOTICES:]
        self.on_notice(text)
        with suppress(OSError), (self.folder / "notices.log").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def take(self, document: Document) -> bool:
        """Take a document in; False: it belongs to an order that has not come yet. Refuse what this site does not take."""
        if document.kind not in ("order", "question", "receipt"):
            raise QueryRefused(f"a site takes no document of kind {document.kind}")
        if not self.listed(document.author):
            raise QueryRefused(
                f"the policy does not list the coordinator {document.author} that signed this {document.kind}: if you know "
                "it, add its key to `coordinators`"
            )
        if document.kind == "order":
            self._take_order(document)
            return True
        lesson = self.lessons.get(document.answers)
        if lesson is None:
            return document.answers in self.over
        if document.author != lesson.order.author:
            raise QueryRefused(f"lesson {lesson.name} was ordered by another coordinator than {document.author}")
        if document.kind == "receipt":
            lesson.receipt = lesson.receipt or document
        elif self.name not in document.body["to"]:
            return True
        else:
            self._check_number(document)
            first = lesson.questions.setdefault(document.body["number"], document)
            if first.id != document.id:
                raise QueryRefused(f"lesson {lesson.name} has another question {document.body['number']} already")
        write_durably(lesson.folder / file_name(document), document.data)
        return True

    def _take_order(self, document: Document) -> None:
        if document.id in self.lessons or document.id in self.over:
            return
        if self.name not in [seat["name"] for seat in document.body["roster"]]:
            self.over.add(document.id)
            return
        self._check_number(document)
        folder = self.folder / "lessons" / document.id
        folder.mkdir(mode=0o700, exist_ok=True)
        write_durably(folder / file_name(document), document.data)
        asked = {document.body["number"]: document} if self.name in document.body["to"] else {}
        self.lessons[document.id] = SiteLesson(folder, document, asked)

    @staticmethod
    def _check_number(document: Document) -> None:
        if not 0 < document.body["number"] < LAST:
            raise QueryRefused(f"there is no question number {document.body['number']}")

    def pending(self) -> list[tuple[SiteLesson, int]]:
        """List questions that wait for a reply, in order; refusals wait again once what they may depend on has changed."""
        return [
            (lesson, number)
            for lesson in self.lessons.values()
            for number in sorted(lesson.questions)
            if lesson.receipt is None and (number not in lesson.replies or self._mended(lesson, number))
        ]

    def _mended(self, lesson: SiteLesson, number: int) -> bool:
        """Tell whether a refusal may no longer hold."""
        if lesson.replies[number].body["status"] == "ok":
            return False
        with suppress(OSError):
            return (lesson.folder / "refused").read_text() != self._conditions(lesson.questions[number])
        return True

    def unfinished(self) -> list[SiteLesson]:
        """List lessons whose rows are to be chosen or written, or which are to be closed."""
        return [one for one in self.lessons.values() if one.receipt is not None or (one.folder / "choose").exists()]

    def reply(
        self,
        lesson: SiteLesson,
        number: int,
        status: str,
        numbers: Sequence[object] = (),
        reason: str = "",
        paid: Json | None = None,
        review: bool = False,
    ) -> None:
        """Sign a reply and keep it, before anybody sees it; for review it goes to the outbox."""
        body: Json = {"site": self.name, "number": number, "status": status, "numbers": list(numbers)}
        body |= {"reason": reason, "paid": paid}
        old, question = lesson.replies.get(number), lesson.questions[number]
        if status != "ok":
            (lesson.folder / "refused").write_text(self._conditions(question))
            if old is not None and old.body == body:
                return  # a second one would tell when rows, policy or ledger have changed
        document = sign(self.key, "reply", body, question.id, days=3650)
        if review and status == "ok":
            write_durably(self.folder / "outbox" / file_name(document), document.data)
        write_durably(lesson.folder / file_name(document), document.data)
        lesson.replies[number] = document
        if old is not None:  # a refusal that no longer holds
            (lesson.folder / file_name(old)).unlink(missing_ok=True)

    def adopt(self, document: Document) -> bool:
        """Take back a reply of this site's own that its folder does not know: an older copy of the folder was put back."""
        if document.author != self.public or document.kind != "reply":
            raise QueryRefused(f"somebody else has put a reply in the name of {self.name} into the box")
        number = document.body["number"]
        lesson = next(
            (one for one in self.lessons.values() if one.questions.get(number, one.order).id == document.answers), None
        )
        if lesson is None:
            return False
        kept = lesson.replies.get(number)
        if document.body["status"] == "ok" and (kept is None or kept.id != document.id):
            self.notice(
                f"the box holds a reply of this site to lesson {lesson.name} that its folder does not know, so an older "
                "copy of the folder was put back; the reply was taken over, and what it cost is charged"
            )
            # Two replies to one question are two releases: the second has an entry of its own in the ledger.
            again = kept is not None and kept.body["status"] == "ok"
            if again or not (lesson.folder / "charge").exists():
                write_durably(lesson.folder / "charge", b"again" if again else b"")
            write_durably(lesson.folder / file_name(document), document.data)
            lesson.replies[number] = document
        return True

    def close(self, lesson: SiteLesson) -> None:
        """Note that a lesson is over."""
        write_durably(lesson.folder / "done", b"")
        self.over.add(lesson.order.id)
        del self.lessons[lesson.order.id]

    def membership(self) -> Document:
        """Say what this site offers, in answer to its invitation; the same document as long as that does not change."""
        rules, path = self.rules(), self.folder / "membership.json"
        declared = rules.get("declared", {})
        proof = hmac.new(
            bytes.fromhex(self.invitation.body["secret"]), self.public.encode(), hashlib.sha256
        ).hexdigest()
        body: Json = {
            "site": self.name,
            "proof": proof,
            "version": VERSION,
            "rows": declared.get("rows", 0),
            "columns": declared.get("columns", []),
            "target": declared.get("target", ""),
            "labels": declared.get("labels"),
            "privacy": rules.get("privacy", ["isolated"]),
            "share": rules.get("share", 1.0),
        }
        with suppress(OSError, QueryRefused):
            last = read(path.read_bytes())
            if last.body == body and last.author == self.public:
                return last
        document = sign(self.key, "membership", body, self.invitation.id, days=3650)
        write_durably(path, document.data)
        return document

    def sync(self, box: Box) -> bool:
        """Take in what the box has, put there what it lacks; tell whether there was anything."""
        news, failure = False, None
        if self.rules().get("coordinators") and "declared" in self.rules():
            self._join(box)
        for identity in box.list("lessons"):
            if ID.fullmatch(identity) and identity not in self.over:
                try:
                    news |= self._sync_lesson(box, identity)
                except OSError as error:  # anybody can put a folder there that cannot be read: the others go on
                    failure = error
        if failure is not None and not news:
            raise failure
        return news

    def _join(self, box: Box) -> None:
        """Have this site's membership in the box: a carrier may lose it, and a box may be emptied."""
        try:
            own = self.membership()
        except (QueryRefused, SettingError) as error:
            self.notice(f"the policy says what no membership can say: {error}")
            return
        name = f"{self.name}-{own.id[:32]}.json"
        if name not in box.list("members"):
            box.put(f"members/{name}", own.data)

    def _sync_lesson(self, box: Box, identity: str) -> bool:
        folder, news = f"lessons/{identity}", False
        there = box.list(folder)
        for file in there:
            match = FILE.fullmatch(file)
            if not match or f"{identity}/{file}" in self._seen or (match[3] or self.name) != self.name:
                continue
            path = f"{folder}/{file}"
            if not self._retries.due(path):
                continue
            try:
                document = read(box.get(path, self.most_bytes), self.most_bytes)
            except QueryRefused as error:
                if self._retries.again(path):
                    self.notice(f"{path}: {error}")
                continue
            try:
                taken = self.adopt(document) if match[3] else self.take(document)
            except QueryRefused as error:
                self.notice(f"{path}: {error}")
                continue
            self._retries.forget(path)
            if taken:
                news = True
                self._seen.add(f"{identity}/{file}")
        lesson = self.lessons.get(identity)
        for reply in lesson.replies.values() if lesson else ():
            name = file_name(reply)
            if name not in there and not (self.folder / "outbox" / name).exists():
                box.put(f"{folder}/{name}", reply.data)
                self._seen.add(f"{identity}/{name}")
                news = True
        return news

    def approve(self, name: str) -> int:
        """Let replies in the outbox go whose lesson or file begins with `name` ("all": every one); return how many."""
        waiting = self.waiting()
        chosen = [
            one
            for one in waiting
            if name and (name == "all" or one.answers.startswith(name) or file_name(one).startswith(name))
        ]
        if not chosen:
            listed = ", ".join(file_name(one) for one in waiting) or "none"
            raise SettingError(f"no reply that waits for approval is named {name!r}; there are {listed}")
        for one in chosen:
            (self.folder / "outbox" / file_name(one)).unlink()
        return len(chosen)

    def waiting(self) -> list[Document]:
        """List replies that wait for a person."""
        return [read_own(path) for path in sorted((self.folder / "outbox").glob("*.json"))]

    def status(self) -> Json:
        """Say how this site stands, for its owner."""
        lessons = [
            {
                "lesson": one.name,
                "privacy": one.order.body["privacy"],
                "ordered": one.order.content["issued"],
                "replies": {str(number): reply.body["status"] for number, reply in sorted(one.replies.items())},
                "refused": [shown(reply.body["reason"]) for reply in one.replies.values() if reply.body["reason"]],
                "paid": next((reply.body["paid"] for reply in one.replies.values() if reply.body["paid"]), None),
                "outcome": one.receipt.body["outcome"] if one.receipt else "under way",
            }
            for one in self.lessons.values()
        ]
        return {
            "site": self.name,
            "key": self.public,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "lessons": lessons,
            "over": len(list((self.folder / "lessons").glob("*/done"))),
            "review": [file_name(one) for one in self.waiting()],
            "notices": self.notices,
        }

    def write_status(self) -> None:
        """Write status.json, for a monitor."""
        path = self.folder / "status.json"
        text = json.dumps(self.status(), indent=1, ensure_ascii=False)
        write_bytes(path, text.encode(), private=True)
