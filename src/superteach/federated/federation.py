"""A coordinator's home: its key, the sites that it works with, its lessons.

FOLDER/federation.toml    name, box, and the key of every site; edited by hand to replace or revoke one
FOLDER/key                the private key, for its owner alone
FOLDER/invitations/       one for every site, to be sent where nobody else reads it
FOLDER/lessons/ID/        every document of a lesson, and what was asked for
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from superteach.exceptions import DataError, QueryRefused, SettingError, listed
from superteach.federated.box import MEMBER, Box, open_box
from superteach.federated.documents import (
    KEY,
    MOST_BYTES,
    NAME,
    Document,
    check_private,
    own_key,
    public_of,
    read,
    sign,
)
from superteach.federated.site import keep
from superteach.io.atomic import write_text
from superteach.io.labels import PositiveLabel
from superteach.learner import Learner
from superteach.packages import VERSION, version_mismatch
from superteach.types import Json, Raw

YEARS = 3650.0
"""Days for which an invitation holds."""


def create_federation(folder: Path, sites: Sequence[str], box: str | None = None) -> Home:
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
            f"box = {json.dumps(box)}",
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
    home = Home(folder)
    for site in sites:
        home.invite(site)
    return home


@dataclass(frozen=True)
class Member:
    """A site that accepted its invitation: what it says of its rows."""

    document: Document

    @property
    def name(self) -> str:
        """The site."""
        return str(self.document.body["site"])

    @property
    def seat(self) -> Json:
        """Its place in a roster."""
        body = self.document.body
        return {"name": self.name, "key": self.document.author, "rows": body["rows"], "share": body["share"]}


class Home:
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
        check_private(self.folder / "key")
        self.key = own_key(self.folder)
        self.public = public_of(self.key)

    def invite(self, site: str) -> Path:
        """Write the invitation of one site, or return the one that is there."""
        path = self.folder / "invitations" / f"{site}.json"
        if not path.exists():
            body = {"federation": self.name, "site": site, "box": self.url, "secret": secrets.token_hex(32)}
            keep(path, sign(self.key, "invitation", body, days=YEARS).data)
        return path

    def members(self, box: Box) -> tuple[dict[str, Member], list[str]]:
        """Return the sites that have joined, by name, and what is to be said of those that have not.

        The first key that proves to know a site's invitation is entered in federation.toml; from then on it is the site's.
        """
        found: dict[str, Member] = {}
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
            if site not in found or found[site].document.issued <= document.issued:
                found[site] = Member(document)
        order = {name: found[name] for name in sorted(found)}  # the order in which sites joined changes no lesson
        return order, [text for site, text in strange.items() if site not in found]

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
    members: Sequence[Member], learner: Learner, features: Sequence[str] | None, privacy: str, positive: PositiveLabel
) -> Terms:
    """Find what all sites have in common, from what they declare; or say who differs in what, before anybody is asked."""
    said = {member.name: member.document.body for member in members}
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
    return Terms(columns, target, classes, tuple(member.seat for member in members))


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
    values = np.unique(np.array([label for theirs in said.values() for label in theirs["labels"] or ()]))
    if len(values) != 2:
        held = "; ".join(f"{name} has {theirs['labels']}" for name, theirs in said.items())
        raise DataError(f"all sites together declare {len(values)} label values, two are needed: {held}")
    return values
