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
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from superteach.exceptions import MissingExtra, SettingError, reason_of
from superteach.federated.documents import Document

FILE = re.compile(r"(\d{4,6})-(order|question|receipt|reply-([A-Za-z0-9][A-Za-z0-9_-]{0,62}))-[0-9a-f]{32}\.json")
MEMBER = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,62})-[0-9a-f]{32}\.json")
LAST = 9999


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
            handle = os.open(self.place / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                return file.read(most + 1)
        return b""

    def put(self, name: str, data: bytes) -> None:
        self._check(name)
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    def _check(self, name: str) -> None:
        """Refuse a folder that somebody has replaced by a link."""
        for part in list(Path(name).parents)[:-1]:
            if (self.place / part).is_symlink():
                raise NotADirectoryError(f"{str(part)!r} in the box is a symbolic link")


class RemoteBox:
    """A folder that fsspec reaches."""

    patience = (0.2, 5.0)

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MissingExtra("fsspec", "federated", f"the box {url}") from None
        self._files: Any
        try:
            if url.startswith("webdav"):  # the one scheme whose address is no part of fsspec's own URLs
                address = urlsplit(url)
                base = f"http{'' if address.scheme == 'webdav+http' else 's'}://{address.netloc.rpartition('@')[2]}"
                login = (address.username, address.password) if address.username else None
                self._files, self._root = (
                    fsspec.filesystem("webdav", base_url=base, auth=login),
                    address.path.strip("/"),
                )
            else:
                self._files, self._root = fsspec.core.url_to_fs(url, skip_instance_cache=True)
            self._files.makedirs(self._root, exist_ok=True)
            self._files.ls(self._root.partition("/")[0] or self._root)  # of S3 the bucket, for folders are not there
        except Exception as error:  # every service has errors of its own
            raise SettingError(f"box {url!r} cannot be reached: {reason_of(error)}") from None

    def list(self, folder: str) -> list[str]:
        try:
            self._files.invalidate_cache()
            names: Any = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(one).rstrip("/").rsplit("/", 1)[-1] for one in names)

    def get(self, name: str, most: int) -> bytes:
        try:
            with self._files.open(f"{self._root}/{name}", "rb") as file:
                return bytes(file.read(most + 1))
        except FileNotFoundError:
            return b""

    def put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        folder, _, last = path.rpartition("/")
        temporary = f"{folder}/.{secrets.token_hex(8)}-{last}"
        self._files.makedirs(folder, exist_ok=True)
        with self._files.open(temporary, "wb") as file:
            file.write(data)
        self._files.mv(temporary, path)


class Pause:
    """Waits a little after news, and longer the longer there is none."""

    def __init__(self, patience: tuple[float, float]) -> None:
        self._least, self._most = patience
        self._next = self._least

    def __call__(self, news: bool) -> None:
        self._next = self._least if news else min(1.15 * self._next, self._most)
        time.sleep(self._next)
