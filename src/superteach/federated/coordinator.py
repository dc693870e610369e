"""A coordinator's folder: its key, the sites that it works with, the lessons that it ordered.

FOLDER/federation.toml    name, box, and the key of every site; edited by hand to replace or revoke one
FOLDER/key                the private key, for its owner alone
FOLDER/invitations/       one for every site, to be sent where nobody else reads it
FOLDER/lessons/ID/        every document of a lesson, and what was asked for
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from superteach.exceptions import DataError, QueryRefused, SettingError, listed
from superteach.federated.box import MEMBER, Box, file_name, open_box
from superteach.federated.documents import KEY, MOST_BYTES, NAME, Document, own_key, public_of, read, read_own, sign
from superteach.io.atomic import write_durably, write_text
from superteach.io.frames import PositiveLabel, refuse_mixed
from superteach.learner import Learner
from superteach.packages import VERSION, version_mismatch
from superteach.protocol.wire import query_from_json
from superteach.types import Json, Raw

YEARS = 3650.0
"""Days for which an invitation holds."""
LOOKS = 20
"""Looks for the last document of a lesson in a box that may lose some."""


def create_federation(folder: Path, sites: Sequence[str], box: str | None = None) -> Coordinator:
    """Make a coordinator's key and box, and an invitation for each site; what is there stays."""
    for site in sites:
        if not NAME.fullmatch(site):
            raise SettingError(f"--site {site!r} is no name: use letters, digits, _ and -, at most 63")
    if len({site.casefold() for site in sites}) < len(sites):
        raise SettingError(f"two of the sites {', '.join(sites)} have one name; every site needs a name of its own")
    path = folder / "federation.toml"
    if not path.exists():
        if not NAME.fullmatch(folder.name):
            raise SettingError(f"{folder.name!r} is no name for a federation: use letters, digits, _ and -")
        for part in ("invitations", "lessons"):
            (folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        if box is None:
            (folder / "box").mkdir(exist_ok=True)
            box = str((folder / "box").resolve())
        open_box(box)
        lines = [
            f"name = {json.dumps(folder.name)}",
            f"box = {json.dumps(box, ensure_ascii=False)}",
            "",
            "# Every site's key, entered when it accepts its invitation. To replace a key write the new one here; to send a",
            '# site away write "revoked".',
            "[sites]",
        ]
        write_text(path, "\n".join(lines) + "\n")
    elif box is not None:
        raise SettingError(
            f"{str(folder)!r} is a federation already, and its box is in federation.toml: change it there"
        )
    coordinator = Coordinator(folder)
    for site in sites:
        alike = [one for one in coordinator.invited() if one != site and one.casefold() == site.casefold()]
        if alike:
            raise SettingError(
                f"--site {site!r} and the invited {alike[0]!r} are one name for some disks: take another"
            )
        coordinator.invite(site)
    return coordinator


class Coordinator:
    """A coordinator's folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            stored = tomllib.loads((self.folder / "federation.toml").read_text("utf-8"))
            self.name, self.url, self.sites = str(stored["name"]), str(stored["box"]), dict(stored["sites"])
        except FileNotFoundError:
            raise SettingError(
                f"{str(folder)!r} is no federation: make one with  superteach federation new {folder} --site NAME …"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingError(f"{str(self.folder / 'federation.toml')!r} cannot be read: {error}") from None
        self.key = own_key(self.folder)
        self.public = public_of(self.key)

    def invite(self, site: str) -> Path:
        """Write the invitation of one site, or return the one that is there."""
        path = self.folder / "invitations" / f"{site}.json"
        if not path.exists():
            body = {"federation": self.name, "site": site, "box": self.url, "secret": secrets.token_hex(32)}
            write_durably(path, sign(self.key, "invitation", body, days=YEARS).data)
        return path

    def members(self, box: Box) -> tuple[dict[str, Document], list[str]]:
        """Return the sites that have joined, by name, and what is to be said of those that have not.

        The first key that proves to know a site's invitation is entered in federation.toml; from then on it is the site's.
        """
        members: dict[str, Document] = {}
        strange: dict[str, str] = {}
        for document in _memberships(box):
            site, author = document.body["site"], document.author
            if site not in self.sites and self._proves(document):
                self._enter(site, author)
            pinned = self.sites.get(site)
            if pinned != author:
                if pinned not in (None, "revoked") and KEY.fullmatch(str(pinned)) and self._proves(document):
                    strange[site] = (
                        f"{site} has a new key, {author}: if its owner confirms that, write it into [sites] of "
                        f"{self.folder / 'federation.toml'}"
                    )
                continue
            if site not in members or members[site].issued <= document.issued:
                members[site] = document
        joined = {name: members[name] for name in sorted(members)}  # the order in which sites joined changes no lesson
        return joined, [text for site, text in strange.items() if site not in members]

    def invited(self) -> list[str]:
        """List sites with an invitation."""
        return sorted(path.stem for path in (self.folder / "invitations").glob("*.json"))

    def _proves(self, document: Document) -> bool:
        """Tell whether the author of a membership knows the secret of the invitation that it answers."""
        path = self.folder / "invitations" / f"{document.body['site']}.json"
        with suppress(OSError, QueryRefused):
            invitation = read(path.read_bytes())
            secret = bytes.fromhex(invitation.body["secret"])
            proof = hmac.new(secret, document.author.encode(), hashlib.sha256).hexdigest()
            return document.answers == invitation.id and hmac.compare_digest(proof, document.body["proof"])
        return False

    def _enter(self, site: str, author: str) -> None:
        self.sites[site] = author
        path = self.folder / "federation.toml"
        write_text(path, f"{path.read_text('utf-8').rstrip()}\n{site} = {json.dumps(author)}\n")


def _memberships(box: Box) -> Iterator[Document]:
    for name in box.list("members"):
        if match := MEMBER.fullmatch(name):
            with suppress(QueryRefused):
                document = read(box.get(f"members/{name}", MOST_BYTES))
                if document.kind == "membership" and document.body["site"] == match[1]:
                    yield document


class LessonRecord:
    """A lesson that a coordinator ordered: its documents, each on the disk before anybody sees it."""

    def __init__(self, coordinator: Coordinator, request: Json, folder: Path | None = None) -> None:
        """Open the lesson in `folder`, or prepare a new one, which is there from its first question on."""
        self.coordinator, self.request, self.folder = coordinator, request, folder
        self.order: Document | None = None
        self.questions: dict[int, Document] = {}
        self.replies: dict[tuple[int, str], Document] = {}
        self.receipt: Document | None = None
        for path in sorted(folder.glob("*.json")) if folder else ():
            if path.name != "request.json":
                self._remember(read_own(path))

    def _remember(self, document: Document) -> None:
        if document.kind == "reply":
            self.replies[document.body["number"], document.body["site"]] = document
        elif document.kind == "receipt":
            self.receipt = document
        else:
            self.questions[document.body["number"]] = document
            self.order = document if document.kind == "order" else self.order

    @classmethod
    def all(cls, coordinator: Coordinator) -> list[LessonRecord]:
        """List all lessons, the oldest first."""
        records = []
        for place in (coordinator.folder / "lessons").glob("[!.]*"):  # hidden ones were killed before they began
            with suppress(FileNotFoundError):
                record = cls(coordinator, json.loads((place / "request.json").read_text("utf-8")), place)
                if record.order is not None:
                    records.append((record.order.content["issued"], record.id, record))
        return [record for _, _, record in sorted(records, key=lambda one: one[:2])]

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
        last = query_from_json(self.questions[max(self.questions)].body["query"])
        names = [seat["name"] for seat in self.order.body["roster"]]
        return dict(zip(names, vars(last)["rows"], strict=True)) if last.silent else {}

    def keep(self, document: Document) -> None:
        """Keep a document, on the disk when this returns."""
        assert self.folder is not None
        write_durably(self.folder / file_name(document), document.data)
        self._remember(document)

    def begin(self, document: Document) -> None:
        """Begin a lesson: its folder is there with its order, or not at all."""
        place = self.coordinator.folder / "lessons" / document.id
        hidden = place.with_name(f".{document.id[:16]}")
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(mode=0o700)
        write_durably(hidden / "request.json", json.dumps(self.request, indent=1).encode())
        write_durably(hidden / file_name(document), document.data)
        os.rename(hidden, place)
        self.folder = place
        self._remember(document)

    def end(self, box: Box, outcome: str, reason: str = "") -> None:
        """Tell the sites that the lesson is over; said once, it stays so."""
        if self.receipt is None:
            self.keep(sign(self.coordinator.key, "receipt", {"outcome": outcome, "reason": reason}, self.id, days=3650))
        assert self.receipt is not None
        name = file_name(self.receipt)
        for _ in range(LOOKS):  # nobody looks after it once this command has ended
            if name in box.list(f"lessons/{self.id}"):
                break
            box.put(f"lessons/{self.id}/{name}", self.receipt.data)


@dataclass(frozen=True, eq=False)
class Terms:
    """What all sites of a lesson have in common."""

    columns: tuple[str, ...]
    target: str
    classes: Raw | None
    roster: tuple[Json, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The sites, in the order their replies are added in."""
        return tuple(seat["name"] for seat in self.roster)

    @property
    def written(self) -> Json:
        """The part of an order that says it."""
        classes = None if self.classes is None else self.classes.tolist()
        return {"columns": list(self.columns), "target": self.target, "classes": classes, "roster": list(self.roster)}

    @classmethod
    def of_order(cls, body: Json) -> Terms:
        """Read them from an order."""
        classes = None if body["classes"] is None else np.array(body["classes"])
        return cls(tuple(body["columns"]), body["target"], classes, tuple(body["roster"]))


def agree(
    members: Sequence[Document], learner: Learner, features: Sequence[str] | None, privacy: str, positive: PositiveLabel
) -> Terms:
    """Find what all sites have in common, from what they declare; or say who differs in what, before anybody is asked."""
    said = {member.body["site"]: member.body for member in members}
    for name, theirs in said.items():
        if odd := version_mismatch("the coordinator", VERSION, f"site {name}", theirs["version"]):
            raise QueryRefused(odd)
        if privacy not in theirs["privacy"]:
            accepted = " and ".join(map(repr, theirs["privacy"]))
            raise QueryRefused(
                f"site {name} accepts privacy {accepted}, not {privacy!r}: teach with that, leave it out (--teachers), or "
                "ask its owner to change `privacy` in its policy; nothing was asked or spent"
            )
    columns, target = _columns(said, features)
    classes = positive.last(_classes(said) if learner.loss.classifies else None)
    roster = [(one.body["site"], one.author, one.body["rows"], one.body["share"]) for one in members]
    seats = tuple(dict(zip(("name", "key", "rows", "share"), seat, strict=True)) for seat in roster)
    return Terms(columns, target, classes, seats)


def _columns(said: dict[str, Json], features: Sequence[str] | None) -> tuple[tuple[str, ...], str]:
    """Return the feature columns, the listed ones or the first site's if all have the same, and the target."""
    first, wanted = next(iter(said.items()))
    for name, theirs in said.items():
        if theirs["target"] != wanted["target"]:
            raise DataError(
                f"site {name} has the target {theirs['target']!r}, site {first} {wanted['target']!r}; all need the same"
            )
        missing = [column for column in features or () if column not in theirs["columns"]]
        if missing:
            raise DataError(f"site {name} has no feature column {missing[0]!r}")
        lacks = [column for column in wanted["columns"] if column not in theirs["columns"]]
        adds = [column for column in theirs["columns"] if column not in wanted["columns"]]
        faults = [f"{verb} {listed(odd)}" for verb, odd in (("lacks", lacks), ("adds", adds)) if odd]
        if features is None and faults:
            raise DataError(
                f"site {name} has other columns than site {first}: it {' and '.join(faults)}; "
                "let all sites declare the same columns, or list those that they share (--features)"
            )
    return tuple(wanted["columns"] if features is None else features), wanted["target"]


def _classes(said: dict[str, Json]) -> Raw:
    """Return the two label values over all sites, sorted as scikit-learn sorts them."""
    refuse_mixed({f"site {name}": theirs["labels"] or () for name, theirs in said.items()})
    values = np.unique(np.array([label for theirs in said.values() for label in theirs["labels"] or ()]))
    if len(values) != 2:
        held = "; ".join(f"{name} has {theirs['labels']}" for name, theirs in said.items())
        raise DataError(f"all sites together declare {len(values)} label values, two are needed: {held}")
    return values
