"""The folder of a lesson: it appears whole, or not at all, replaces only what a command wrote, and is read again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from superteach.exceptions import InputError, SettingError, TeachingError, reason_of
from superteach.io.atomic import hold, unmasked
from superteach.lesson import Lesson, Taught
from superteach.report import Page, page_of
from superteach.report.words import unlike
from superteach.types import Json, Positions

if TYPE_CHECKING:
    from superteach.io.tables import Pool
    from superteach.teacher.large import LargePool, ParquetTable

WRITTEN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lesson.json", "model.json", "measured.json", "report.html", "check.html", "chosen.parquet"), ()),
    **dict.fromkeys(("drop.json", "rows.csv", "figure.png", "figure.svg"), ()),
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
    made = [parent for parent in place.parents if not parent.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = place.with_name(f".superteach-{hashlib.sha256(os.fsencode(place.name)).hexdigest()[:16]}.lock")
    handle, other = hold(lock)
    if handle < 0:
        raise SettingError(
            f"--out {str(out)!r} is being written by another command (process {other}); name another folder"
        )
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)
        for parent in made:
            with suppress(OSError):  # it holds the result
                parent.rmdir()


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


def write_chosen(folder: Path, taught: Taught, pool: Pool, encoding: str = "utf-8") -> Json:
    """Write chosen/<teacher>.csv, row numbers in the teacher's own file; return what lesson.json says of the files."""
    (folder / "chosen").mkdir()
    stored = []
    teachers = taught.lesson.teachers
    parts = zip(teachers, file_names(teachers), pool.files, pool.row_numbers, taught.chosen, strict=True)
    for teacher, name, source, numbers, chosen in parts:
        rows = np.sort(numbers[chosen])
        lines = "".join(f"{row}\n" for row in rows.tolist())
        (folder / "chosen" / name).write_text("row\n" + lines, encoding="utf-8", newline="\n")
        entry = {"teacher": teacher, "file": str(source), "chosen": f"chosen/{name}"}
        # A private lesson counts no rows: one more or less would show.
        stored.append(entry | ({"rows": len(rows), "held": len(numbers)} if taught.lesson.delivered else {}))
    return {"files": stored, "encoding": encoding}


def write_large(folder: Path, taught: Taught, pool: LargePool) -> Json:
    """Write the chosen rows; return what lesson.json says of parts and of files."""
    chosen_by_part = zip(taught.lesson.teachers, taught.chosen, pool.counts, strict=True)
    parts = [{"teacher": name, "rows": len(chosen), "held": held} for name, chosen, held in chosen_by_part]
    return {"files": parts, "tables": _write_rows(folder, pool, pool.numbers(taught.chosen))}


def _write_rows(folder: Path, pool: LargePool, chosen: Positions) -> list[Json]:
    """Write chosen.parquet, the rows with their file and their number in it, and mask/: a truth value for each row."""
    table = pool.table
    assert table is not None
    (folder / "mask").mkdir()
    names = [f"{Path(name).stem}.parquet" for name in file_names([source.path.stem for source in table.sources])]
    firsts = np.cumsum([0, *table.counts])
    stored: list[Json] = []
    writer: parquet.ParquetWriter | None = None
    try:
        for file, source in enumerate(table.sources):
            own = _within(chosen, firsts[file], table.counts[file])
            for taken in _taken(table, file, own):
                writer = writer or parquet.ParquetWriter(folder / "chosen.parquet", taken.schema)
                writer.write_table(taken.cast(writer.schema))
            _write_mask(folder / "mask" / names[file], own, table.groups[file])
            entry = {"file": str(source.path), "rows": len(own), "held": table.counts[file]}
            stored.append({**entry, "mask": f"mask/{names[file]}"})
        if writer is not None:
            writer.close()
    except (OSError, pa.ArrowException) as error:
        raise TeachingError(
            f"the chosen rows cannot be written to {str(folder.parent)!r}: {reason_of(error)}; make room there and repeat "
            "the command with --resume"
        ) from None
    return stored


def _taken(table: ParquetTable, file: int, own: Positions) -> Iterator[pa.Table]:
    """Yield the chosen rows of one file, from the row groups that hold some."""
    ends = np.array(table.sources[file].ends)
    for group in np.unique(np.searchsorted(ends, own, side="right")).tolist():
        start = int(ends[group]) - table.groups[file][group]
        for part in table.tables(file, [group], table.asked):
            rows = _within(own, start, part.num_rows)
            if len(rows):
                name = pa.array([str(table.sources[file].path)] * len(rows)).dictionary_encode()
                some = part.take(pa.array(rows))
                yield some.add_column(0, "row", pa.array(rows + start)).add_column(0, "file", name)
            start += part.num_rows


def _within(rows: Positions, start: int, count: int) -> Positions:
    """Return the entries of ascending `rows` from `start` to `start + count`, counted from `start`."""
    first, end = np.searchsorted(rows, (start, start + count))
    return rows[first:end] - start


def _write_mask(path: Path, own: Positions, groups: list[int]) -> None:
    schema = pa.schema([("chosen", pa.bool_())])
    with parquet.ParquetWriter(path, schema) as writer:
        start = 0
        for rows in groups:
            mask = np.zeros(rows, dtype=bool)
            mask[_within(own, start, rows)] = True
            writer.write_table(pa.table([mask], schema=schema))
            start += rows


def read_lesson(folder: Path) -> tuple[Json, Lesson]:
    """Read lesson.json of a folder: as it is stored, and as a lesson."""
    place = folder / "lesson.json"
    if not place.is_file():
        seen = "there is no such folder" if not folder.exists() else "it has no lesson.json"
        seen = "it is a file" if folder.is_file() else seen
        raise SettingError(f"{str(folder)!r} holds no lesson: {seen}; name a folder that superteach teach wrote")
    try:
        return json.loads(place.read_text(encoding="utf-8")), Lesson.load(place)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"cannot be read as a lesson ({type(error).__name__}: {error})"
        raise SettingError(f"{str(place)!r} {why}; teach it again with this version") from None


def page_of_stored(
    stored: Json, lesson: Lesson, title: str = "Lesson report", against: Sequence[Lesson] | None = None
) -> Page:
    """Make the page of a lesson with what the command line knows beside it: names of columns, counts by teacher."""
    files = stored.get("files") or []
    try:
        return page_of(
            lesson,
            title=title,
            against=against,
            columns=stored.get("columns"),
            target=stored.get("target"),
            contributions={entry["teacher"]: entry["rows"] for entry in files if "rows" in entry} or None,
            held={entry["teacher"]: entry["held"] for entry in files if "held" in entry} or None,
        )
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise SettingError(f"lesson.json has entries that fit no lesson ({why}); teach it again") from None
