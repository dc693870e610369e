"""The coordinator's own hands: submit a lesson, follow it, fetch its result, ask who is there."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from superteach import errors
from superteach.errors import TeacherLost, TeachingError
from superteach.organisations.nvflare import CLIENT, ORDER, SERVER, STATUS, require
from superteach.organisations.nvflare.kits import Project, read_project, write_json
from superteach.types import Json

if TYPE_CHECKING:
    from superteach.organisations.conductor import Order

CONNECT = 20.0
POLL = 0.5
LOOK = 3.0
"""Seconds within which a teacher's process must answer to count as there; one that is there takes milliseconds."""
TOLD = 5.0
"""Seconds after which a command says for whom it waits; it says so again after ten and a hundred times as long."""
PATIENCE = 60.0
"""Seconds without a word from the server after which a lesson is not followed any longer."""
ENDED = "FINISHED"
BROKEN_OFF = f"{ENDED}:BROKEN_OFF"
"""A lesson whose server was killed; NVFlare goes on calling it running."""


@dataclass(frozen=True)
class Standing:
    """Who is connected, and what runs."""

    project: Project
    connected: tuple[str, ...]
    silent: tuple[str, ...]
    """Teachers that have joined and do not answer now."""
    lessons: tuple[Json, ...]


class Desk:
    """A signed-in coordinator."""

    def __init__(self, session: Any, project: Project) -> None:
        self._session = session
        self.project = project

    def standing(self, most: int = 5) -> Standing:
        """Return who has joined, and the latest lessons with what each was asked."""
        info = self._session.get_system_info()
        joined = [name for name in self.project.teachers if name in {entry.name for entry in info.client_info}]
        there = self._answering(joined)
        lessons = []
        for job in self._session.list_jobs(limit=most, reverse=True) or []:
            told = {"lesson": job["job_id"], "status": job["status"], "when": job.get("submit_time", "")}
            if job["status"] == "RUNNING" and _is_older(told["when"], info.server_info.start_time):
                told["status"] = BROKEN_OFF
            elif job["status"] == "RUNNING":
                told |= self.progress(job["job_id"])
            lessons.append(told)
        connected = tuple(name for name in joined if name in there)
        silent = tuple(name for name in joined if name not in there)
        return Standing(self.project, connected, silent, tuple(lessons))

    def _answering(self, names: Sequence[str]) -> set[str]:
        """Ask teachers' own processes whether they are there: NVFlare's list keeps a dead one for minutes."""
        if not names:
            return set()
        self._session.set_timeout(LOOK)
        try:
            told = self._session.get_client_job_status(list(names)) or []
        except Exception:  # one of them has left in this moment: NVFlare asks nobody then
            return set().union(*(self._answering([name]) for name in names)) if len(names) > 1 else set()
        finally:
            self._session.unset_timeout()
        return {str(entry["client_name"]) for entry in told if entry.get("status") != "no_reply"}

    def progress(self, lesson: str) -> Json:
        """Ask a running lesson for its stage, rounds and queries; nothing where it cannot say."""
        try:
            told = self._session.do_app_command(lesson, STATUS, {})
        except Exception:  # the lesson's process may not be up yet, or just gone
            return {}
        return told if isinstance(told, dict) else {}

    def submit(self, order: Order) -> str:
        """Hand a lesson in; return its name."""
        with tempfile.TemporaryDirectory(prefix="superteach-") as folder:
            write_job(Path(folder) / "lesson", order)
            return self.submit_folder(Path(folder) / "lesson")

    def submit_folder(self, job: Path) -> str:
        """Hand in a job that is written already."""
        try:
            return str(self._session.submit_job(str(job)))
        except Exception as error:
            raise TeachingError(f"the server refuses the lesson: {error}") from None

    def follow(
        self, lesson: str, watch: Callable[[Json], None] | None = None, say: Callable[[str], None] | None = None
    ) -> Json:
        """Wait for the end of a lesson; return what the server says of it, and `say` for whom it waits where it is long."""
        heard, began, next_word, waited = time.monotonic(), time.monotonic(), TOLD, ""
        while True:
            try:
                meta: Json = self._session.get_job_meta(lesson)
                start = self._session.get_system_info().server_info.start_time
                heard = time.monotonic()
            except Exception as error:  # a server may be busy, or gone
                if time.monotonic() - heard > PATIENCE:
                    raise TeachingError(
                        f"the server does not answer any more ({error}); lesson {lesson} may still go on there. If it was "
                        "ended, start it again and repeat the command with --resume"
                    ) from None
                time.sleep(POLL)
                continue
            if str(meta["status"]).startswith(ENDED):
                return meta
            if _is_older(meta.get("submit_time"), start):
                raise TeachingError(
                    f"the server was ended in the middle of lesson {lesson} and started again; wait until the teachers "
                    "have joined (superteach status) and repeat the command with --resume"
                )
            told = self.progress(lesson) if meta["status"] == "RUNNING" else {}
            if watch is not None and told:
                watch(told)
            waiting = _waiting(meta, told)
            if waiting != waited:
                began, next_word, waited = time.monotonic(), TOLD, waiting
            if say is not None and waiting and time.monotonic() - began > next_word:
                say(f"{waiting}, for {time.monotonic() - began:.0f} seconds now")
                next_word *= 10
            time.sleep(POLL)

    def fetch(self, lesson: str, meta: Json, folder: Path) -> Path:
        """Bring a lesson's result here, or raise what ended it."""
        refused = [
            re.sub(r": .*No space left on device.*", ": its disk is full", detail.replace("NVFLARE_ERROR: ", ""))
            for detail in meta.get("job_deploy_detail", [])
            if not detail.endswith(": OK") and ": " in detail
        ]
        not_taken = TeachingError(f"the lesson was not taken on: {'; '.join(refused)}") if refused else None
        if "SCHEDULE" in str(meta["status"]):  # nothing was begun
            tries = [line for line in meta.get("schedule_history", []) if "exceeded" not in line]
            raise TeachingError(
                f"the lesson could not begin: {tries[-1] if tries else meta['status']}; see who is there (superteach "
                "status) and repeat the command"
            )
        try:
            place = Path(self._session.download_job_result(lesson, str(folder)))
        except Exception as error:  # a lesson that never began may have left nothing to fetch
            raise not_taken or TeachingError(
                f"lesson {lesson} ended as {meta['status']}, and its result could not be fetched: {error}"
            ) from None
        result = place / "workspace" / "superteach"
        # The lesson's own words come first: who did not take it on may have been left out, and others gone on.
        if (result / "error.json").exists():
            stored = json.loads((result / "error.json").read_text(encoding="utf-8"))
            raise _raised(stored)
        if not_taken and not str(meta["status"]).endswith("COMPLETED"):
            raise not_taken
        if not (result / "lesson.json").exists():
            raise TeachingError(
                f"lesson {lesson} ended as {meta['status']} and left no result; the server's log says more"
            )
        return result

    def comes_back(self, lost: TeacherLost, seconds: float) -> bool:
        """Wait until the server hears of a lost teacher again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # A server that is busy, or gone for a moment, is asked again as long as there is time.
            with contextlib.suppress(Exception):
                there = self._session.get_system_info().client_info
                heard = {entry.name: entry.last_connect_time for entry in there}
                if (heard.get(lost.teacher) or 0.0) > lost.when:
                    return True
            time.sleep(POLL)
        return False


def _is_older(submitted: str | float | None, start: float) -> bool:
    """Tell whether a lesson was handed in before its server started, by the server's clock (seconds or text)."""
    try:
        seconds = datetime.fromisoformat(submitted).timestamp() if isinstance(submitted, str) else submitted
        return seconds is not None and float(seconds) < float(start)
    except (TypeError, ValueError):
        return False


def _raised(stored: Json) -> Exception:
    """Make an error of the same kind as the one that ended a lesson beside the server."""
    kind: Any = getattr(errors, str(stored["kind"]), TeachingError)
    if issubclass(kind, TeacherLost):
        lost: TeacherLost = kind(stored["teacher"], stored["reason"], bool(stored["resumable"]), float(stored["when"]))
        return lost
    raised: Exception = TeachingError(stored["error"])
    with contextlib.suppress(TypeError):  # an error of the same kind, where a text makes one
        raised = kind(stored["error"])
    return raised


@contextmanager
def sign_in(folder: Path) -> Iterator[Desk]:
    """Sign in with the coordinator's kit of a federation's folder."""
    require()
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    project = read_project(folder)
    logging.disable(logging.CRITICAL)  # NVFlare would write to the terminal; what matters is raised
    kit = folder / "coordinator"
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            session = new_secure_session(project.coordinator, str(kit.resolve()), timeout=CONNECT)
        except Exception as error:
            raise TeachingError(
                f"no server answers at {project.host}:{project.port} ({error}); start it with  superteach serve {folder}"
            ) from None
    try:
        yield Desk(session, project)
    finally:
        session.close()


def write_job(job: Path, order: Order) -> None:
    """Write a lesson as an NVFlare job: settings for the server, a class name for the teachers, no code."""
    parts: dict[str, Json] = {
        "server": {"workflows": [{"id": "lesson", "path": SERVER, "args": {}}]},
        "teacher": {"executors": [{"tasks": ["none"], "executor": {"path": CLIENT, "args": {}}}]},
    }
    for part, settings in parts.items():
        config = job / part / "config"
        config.mkdir(parents=True)
        name = "config_fed_server.json" if part == "server" else "config_fed_client.json"
        write_json(config / name, {"format_version": 2, **settings, "components": []})
    write_json(job / "server" / "config" / ORDER, order.as_dict())
    meta = {
        "name": "lesson",
        "resource_spec": {},
        "deploy_map": {"server": ["server"], "teacher": order.teachers},
        "min_clients": len(order.teachers),
        "mandatory_clients": order.teachers,
    }
    if order.on_loss == "drop":  # the lesson itself decides with how many it goes on
        meta |= {"min_clients": 1, "mandatory_clients": []}
    write_json(job / "meta.json", meta)


def roster(
    desk: Desk, wanted: Sequence[str] | None, on_loss: str, least: int, wait: float, say: Callable[[str], None]
) -> list[str]:
    """Return the teachers of a lesson: the `wanted` ones or all who have joined, who must answer now.

    For one that does not the command ends, or goes on without it, or waits, as `on_loss` says.
    """
    end, names, next_word = math.inf, wanted, 0.0
    while True:
        standing = desk.standing(most=0)
        names = list(names if names is not None else (*standing.connected, *standing.silent))
        for name in names:
            if name not in standing.project.teachers:
                raise errors.SettingError(
                    f"there is no teacher {name!r} in this federation; there are {', '.join(standing.project.teachers)}"
                )
        if not names:
            raise TeachingError(
                "no teacher has joined; start one with  superteach join KIT --data FILE --target COLUMN"
            )
        missing = [name for name in names if name not in standing.connected]
        if not missing:
            return sorted(names, key=standing.project.teachers.index) if wanted is None else names
        end = min(end, time.monotonic() + wait)  # from the first look on, which itself takes seconds
        reason = "has joined and does not answer now" if missing[0] in standing.silent else "has not joined"
        rest = [name for name in names if name not in missing]
        if on_loss == "drop" and len(rest) >= least:
            say(f"Without {', '.join(missing)}: teacher {missing[0]} {reason}.")
            return rest
        if on_loss != "wait" or time.monotonic() > end:
            others = f", or teach the others with --teachers {','.join(rest)}" if rest else ""
            raise TeacherLost(missing[0], f"it {reason}; see that its process runs and repeat the command{others}")
        if time.monotonic() > next_word:
            left = errors.counted(round(max(end - time.monotonic(), 0.0)), "seconds")
            say(f"Waiting for {', '.join(missing)}, {left} more: teacher {missing[0]} {reason}.")
            next_word = time.monotonic() + 10.0
        time.sleep(POLL)


def _waiting(meta: Json, told: Json) -> str:
    """Say for whom a lesson waits; nothing where it goes on."""
    if told.get("waiting"):
        return f"Waiting for {', '.join(told['waiting'])} (round {told['rounds'] + 1})"
    if meta["status"] == "RUNNING":
        return ""
    tried = (meta.get("schedule_history") or ["the server has not begun it yet"])[-1]
    return f"Waiting for the lesson to begin: {tried}"
