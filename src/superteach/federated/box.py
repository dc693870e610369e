"""Boxes: folders that documents travel through, on this machine or wherever fsspec reaches.

Files in a box never change: a name holds the first half of its document's id. So carrying documents is copying names that
are missing, however often, in whatever order. Nobody deletes anything here; an administrator may, once a lesson is over.

    members/NAME-ID.json                   memberships
    lessons/ORDER/0001-order-ID.json       questions, one number after the other
    lessons/ORDER/0001-reply-NAME-ID.json  replies
    lessons/ORDER/9999-receipt-ID.json     the end
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from superteach.exceptions import MissingExtra, SettingError, reason_of
from superteach.federated.documents import Document

FILE = re.compile(r"(\d{4,6})-(order|question|receipt|reply-([A-Za-z0-9][A-Za-z0-9_-]{0,62}))-[0-9a-f]{32}\.json")
MEMBER = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,62})-[0-9a-f]{32}\.json")
LAST = 9999
FIRST_TRY, MOST_TRIES = 0.25, 12
"""Seconds until a file that is no document is looked at again, and how often that is done."""


class Box(Protocol):
    """A folder of documents."""

    patience: tuple[float, float]
    """Seconds between two looks: right after something came, and once nothing has come for long."""

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none where there is no such folder."""

    def get(self, name: str, most: int) -> bytes:
        """Return at most `most` + 1 bytes of a file; nothing where there is none."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all."""


def file_name(document: Document) -> str:
    """Name the file of a document of a lesson."""
    number = LAST if document.kind == "receipt" else document.body["number"]
    author = f"-{document.body['site']}" if document.kind == "reply" else ""
    return f"{number:04d}-{document.kind}{author}-{document.id[:32]}.json"


def open_box(url: str) -> Box:
    """Open a box by its path or by a URL: sftp://…, s3://…, webdav://… (https; webdav+http:// is http), and others."""
    if "://" not in url or url.startswith("file://"):
        return LocalBox(Path(url.removeprefix("file://")).expanduser())
    return RemoteBox(url)


class LocalBox:
    """A folder on this machine, or on a disk that several machines share."""

    patience = (0.002, 0.25)

    def __init__(self, place: Path) -> None:
        self.place = place
        if not place.is_dir():
            raise SettingError(f"box {str(place)!r} is no folder: make it, or mount the disk that it lies on")

    def list(self, folder: str) -> list[str]:
        try:
            self._check(f"{folder}/any")
            return sorted(os.listdir(self.place / folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def get(self, name: str, most: int) -> bytes:
        with suppress(OSError):
            self._check(name)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(self.place / name, "rb", opener=lambda path, _: os.open(path, flags)) as file:
                return file.read(most + 1)
        return b""

    def put(self, name: str, data: bytes) -> None:
        self._check(name)
        path, rights = self.place / name, self.place.stat().st_mode & 0o7777
        for part in reversed(path.parents[: len(Path(name).parents) - 1]):
            with suppress(FileExistsError):
                part.mkdir()
                part.chmod(rights)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        try:
            temporary.write_bytes(data)
            temporary.chmod(rights & 0o666)  # whoever the box is for can read it, whatever the umask of this process
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    def _check(self, name: str) -> None:
        """Refuse a folder that somebody has replaced by a link."""
        for part in list(Path(name).parents)[:-1]:
            if (self.place / part).is_symlink():
                raise NotADirectoryError(f"{str(part)!r} in the box is a symbolic link")


class RemoteBox:
    """A folder that fsspec reaches; a connection that broke is made anew with the next look."""

    patience = (0.2, 5.0)

    def __init__(self, url: str) -> None:
        self._url = url
        self._files: Any = None
        try:
            with self._reach() as files:
                files.makedirs(self._root, exist_ok=True)
                files.ls(self._root.partition("/")[0] or self._root)  # of S3 the bucket: folders are not there yet
        except OSError as error:
            raise SettingError(f"box {url!r} cannot be reached: {reason_of(error)}") from None

    @contextmanager
    def _reach(self) -> Iterator[Any]:
        """Give the files; whatever a service raises becomes an OSError, but for a file that is not there."""
        try:
            if self._files is None:
                self._files, self._root = _connect(self._url)
            yield self._files
        except MissingExtra:
            raise
        except Exception as error:  # every service has errors of its own
            if isinstance(error, FileNotFoundError):
                raise
            self._files = None
            raise OSError(reason_of(error)) from None

    def list(self, folder: str) -> list[str]:
        try:
            with self._reach() as files:
                files.invalidate_cache()
                names: Any = files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(one).rstrip("/").rsplit("/", 1)[-1] for one in names)

    def get(self, name: str, most: int) -> bytes:
        try:
            with self._reach() as files, files.open(f"{self._root}/{name}", "rb") as file:
                return bytes(file.read(most + 1))
        except FileNotFoundError:
            return b""

    def put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        folder, _, last = path.rpartition("/")
        temporary = f"{folder}/.{secrets.token_hex(8)}-{last}"
        with self._reach() as files:
            files.makedirs(folder, exist_ok=True)
            with files.open(temporary, "wb") as file:
                file.write(data)
            files.mv(temporary, path)


def _connect(url: str) -> tuple[Any, str]:
    """Return fsspec's files for a URL, and the folder's path among them."""
    try:
        import fsspec
    except ImportError:
        raise MissingExtra("fsspec", "federated", f"the box {url}") from None
    if not url.startswith("webdav"):
        files, root = fsspec.core.url_to_fs(url, skip_instance_cache=True)
        return files, str(root)
    address = urlsplit(url)  # the one scheme whose address is no part of fsspec's own URLs
    base = f"http{'' if address.scheme == 'webdav+http' else 's'}://{address.netloc.rpartition('@')[2]}"
    login = (address.username, address.password) if address.username else None
    return fsspec.filesystem("webdav", base_url=base, auth=login, skip_instance_cache=True), address.path.strip("/")


class Retries:
    """Looks at files that are no documents, since a carrier may still be writing them: each later than the one before."""

    def __init__(self) -> None:
        self._tries: dict[str, tuple[int, float]] = {}

    def due(self, path: str) -> bool:
        """Tell whether to look at a file now, and count the look."""
        tries, when = self._tries.get(path, (0, 0.0))
        if time.monotonic() < when or tries > MOST_TRIES:
            return False
        self._tries[path] = tries + 1, time.monotonic() + FIRST_TRY * 2.0**tries
        return True

    def again(self, path: str) -> bool:
        """Tell whether the look under way is not the first."""
        return self._tries[path][0] > 1

    def forget(self, path: str | None = None) -> None:
        """Look at a file (None: at all of them) as if for the first time."""
        if path is None:
            self._tries.clear()
        else:
            self._tries.pop(path, None)


class Pause:
    """Waits a little after news, and longer the longer there is none."""

    def __init__(self, patience: tuple[float, float]) -> None:
        self._least, self._most = patience
        self._next = self._least

    def __call__(self, news: bool) -> None:
        self._next = self._least if news else min(1.15 * self._next, self._most)
        time.sleep(self._next)
