"""Lessons that were broken off, as the coordinator's disk remembers them: one journal for each set of settings."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from superteach.engines.journal import ANEW, Journal
from superteach.errors import SettingError
from superteach.processes.disk import write_bytes
from superteach.types import Json
from superteach.versions import VERSION, misfit


class Unfinished:
    """The place of one lesson's journal; settings alone name it, so the same command finds it again."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self.settings: Json = json.loads(json.dumps(settings))
        name = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()
        self.path = folder / f"{name[:32]}.jsonl"

    def find(self) -> Json:
        """Return what the journal says at its top, or say in an error how the settings differ from the latest one's."""
        if (head := _head(self.path)) is not None:
            return head
        others = sorted(self.path.parent.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        latest = _head(others[-1]) if others else None
        if latest is None:
            raise SettingError("there is no unfinished lesson to resume; repeat the command without --resume")
        differ = [
            f"{name} was {latest['order'].get(name)!r} and is {value!r}"
            for name, value in self.settings.items()
            if latest["order"].get(name) != value
        ]
        raise SettingError(
            f"no unfinished lesson has these settings; the latest one differs: {'; '.join(differ)[:600]}. "
            "Give its settings, or repeat the command without --resume"
        )

    def roster(self, head: Json, teachers: list[str]) -> list[str]:
        """Say with whom to go on: the same teachers, or the ones who were left when others were dropped."""
        dropped = [facts["teacher"] for facts in head["dropped"]]
        if head["teachers"] in (teachers, [name for name in teachers if name not in dropped]):
            return list(head["teachers"])
        raise SettingError(
            f"the unfinished lesson is with {', '.join(head['teachers'])}, this command with {', '.join(teachers)}; "
            f"add --teachers {','.join(head['teachers'])}, or {ANEW}"
        )

    def begin(self, agreed: Json, dropped: list[Json]) -> Journal:
        """Begin a journal, in place of an older one with the same settings."""
        self.path.unlink(missing_ok=True)
        head = {"version": VERSION, "order": self.settings, **agreed, "dropped": dropped, "owner": secrets.token_hex(8)}
        return Journal(self.path, head)

    def go_on(self, head: Json, agreed: Json) -> Journal:
        """Take over the journal that is there, if teachers still hold what they held."""
        agreed = json.loads(json.dumps(agreed))
        if odd := misfit("this program", VERSION, "the unfinished lesson was begun by", str(head.get("version"))):
            raise SettingError(f"{odd}, or {ANEW}")
        seals = agreed.pop("seals", {})
        for name, value in agreed.items():
            if head[name] != value:
                raise SettingError(f"the unfinished lesson had {name} {head[name]!r}, now it is {value!r}; {ANEW}")
        for teacher, seal in seals.items():
            if head["seals"].get(teacher) != seal:
                raise SettingError(
                    f"teacher {teacher}'s rows are not those of the unfinished lesson: rows, targets, costs or columns have "
                    f"changed since, or their order (or the secret in its kit is another one); {ANEW}"
                )
        mine = {**head, "owner": secrets.token_hex(8)}  # a name that no other run has: no two share a journal
        try:
            self._take_over(head, mine)
        except OSError as error:
            raise SettingError(f"{self.path}: cannot go on with this journal: {error.strerror or error}") from None
        return Journal(self.path, mine)

    def _take_over(self, head: Json, mine: Json) -> None:
        """Put another first line in place, at once, so that whoever wrote it before sees that it is not his any more."""
        if not self.path.exists():
            return  # finished by another run meanwhile: this one asks for every sum again
        first, _, rest = self.path.read_bytes().partition(b"\n")
        if json.loads(first) != {"settings": head}:
            raise SettingError("another command has taken this unfinished lesson up meanwhile; one is enough")
        head_line = json.dumps({"settings": mine}).encode() + b"\n"
        write_bytes(self.path, head_line + rest, private=True)


def _head(path: Path) -> Json | None:
    """Read the first line of a journal; nothing where there is none, or it was cut off."""
    try:
        with path.open(encoding="utf-8") as file:
            head = json.loads(file.readline())["settings"]
        return head if {"order", "teachers", "dropped"} <= set(head) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
