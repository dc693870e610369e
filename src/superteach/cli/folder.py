"""The folder a command writes: it appears whole, or not at all, and replaces only what a command wrote."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import SettingError, reason_of
from superteach.io.atomic import hold, unmasked
from superteach.lesson import Taught
from superteach.report.markup import unlike
from superteach.types import Json

if TYPE_CHECKING:
    from superteach.io.tables import Pool

WRITTEN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("lesson.json", "model.json", "chosen.parquet", "report.html", "check.html", "figure.png", "figure.svg"), ()
    ),
    **dict.fromkeys(("drop.json", "rows.csv"), ()),
    "chosen": (".csv", ".parquet"),
    "mask": (".parquet",),
    "figures": (".svg", ".png"),
}
"""Everything a command ever puts into its folder, and how the names of files in a folder of it end."""


def check_folder(out: Path, overwrite: bool) -> Path:
    """Return the real place of the folder, or say before any work why it cannot be written."""
    try:
        place = out.resolve()
        if place.exists() and not place.is_dir():
            raise SettingError(f"--out {str(out)!r} is a file; name a folder")
        if place.is_dir():
            _check_contents(out, place, overwrite)
        nearest = next(parent for parent in place.parents if parent.exists())
        with tempfile.TemporaryDirectory(dir=nearest, prefix=".superteach-"):
            pass
    except SettingError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise SettingError(f"--out {str(out)!r} cannot be written: {reason_of(error)}; name another folder") from None
    return place


def _check_contents(out: Path, place: Path, overwrite: bool) -> None:
    if os.path.ismount(place):
        raise SettingError(f"--out {str(out)!r} is a mount point, which cannot be swapped; name a folder in it")
    present = sorted(os.listdir(place))
    if not present:
        return
    if not overwrite:
        raise SettingError(f"--out {str(out)!r} exists and is not empty; name another folder or add --overwrite")
    foreign = [name for name in present if name not in WRITTEN]
    for inner, endings in WRITTEN.items():
        if not foreign and endings and (place / inner).is_dir():
            foreign = [f"{inner}/{name}" for name in os.listdir(place / inner) if not name.endswith(endings)]
    if foreign or not {"lesson.json", "drop.json"} & set(present):
        holds = f"holds {foreign[0]!r}" if foreign else "has no lesson.json"
        raise SettingError(
            f"--out {str(out)!r} {holds}, so superteach did not write it and --overwrite leaves it alone; "
            "name another folder"
        )


@contextmanager
def claim(out: Path, place: Path) -> Iterator[None]:
    """Keep a folder for one command at a time: of two that write it, one result would be lost."""
    locks = Path(tempfile.gettempdir()) / f"superteach-{os.getuid() if hasattr(os, 'getuid') else ''}"
    locks.mkdir(mode=0o700, exist_ok=True)
    handle, other = hold(locks / hashlib.sha256(str(place).encode(errors="surrogateescape")).hexdigest()[:32])
    if handle < 0:
        raise SettingError(
            f"--out {str(out)!r} is being written by another command (process {other}); name another folder"
        )
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """Yield a hidden folder beside the place; move it there when all is written, remove it when not."""
    made = [parent for parent in place.parents if not parent.exists()]
    hidden = old = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name[:50]}-"))
        yield hidden
        hidden.chmod(unmasked(0o777))  # a temporary one is closed to everybody else
        if place.exists():
            old = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name[:50]}-old-")) / "folder"
            os.rename(place, old)
        os.rename(hidden, place)
        for path in [] if old is None else sorted(old.iterdir()):
            if path.name not in WRITTEN:  # somebody put it there since the folder was checked
                os.rename(path, place / path.name)
    except BaseException:
        if old is not None and old.exists() and not place.exists():
            os.rename(old, place)
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise
    finally:
        if old is not None and place.exists():
            shutil.rmtree(old.parent, ignore_errors=True)


def file_names(teachers: Sequence[str]) -> list[str]:
    """Make a file name for every teacher: safe on every system, and distinct even where case is ignored."""
    names: dict[str, str] = {}
    for teacher in teachers:
        stem = re.sub(r"[^\w.-]+", "_", teacher).strip("._") or "teacher"
        while len(stem.encode()) > 150:
            stem = stem[:-1]
        folded = unlike(stem.casefold(), names)
        names[folded] = f"{stem}{folded.removeprefix(stem.casefold())}.csv"
    return list(names.values())


def write_chosen(folder: Path, taught: Taught, pool: Pool) -> Json:
    """Write chosen/<teacher>.csv, row numbers in the teacher's own file; return what lesson.json says of them."""
    (folder / "chosen").mkdir()
    stored = []
    teachers = taught.lesson.teachers
    parts = zip(teachers, file_names(teachers), pool.files, pool.row_numbers, taught.chosen, strict=True)
    for teacher, name, source, numbers, chosen in parts:
        rows = np.sort(numbers[chosen])
        lines = "".join(f"{row}\n" for row in rows.tolist())
        (folder / "chosen" / name).write_text("row\n" + lines, encoding="utf-8", newline="\n")
        entry = {"teacher": teacher, "file": str(source), "chosen": f"chosen/{name}"}
        stored.append({**entry, "rows": len(rows), "held": len(numbers)})
    return {"files": stored}
