"""A whole federation on one machine: real processes, real certificates, free ports, and nothing left afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from superteach.organisations.nvflare.kits import Project, found
from superteach.organisations.nvflare.session import Desk, sign_in

CLI = [sys.executable, "-m", "superteach"]


class Town:
    """Server and teachers as process groups of their own, started and stopped one by one."""

    def __init__(
        self, home: Path, teachers: Sequence[str], host: str = "localhost", within: Sequence[str] = ()
    ) -> None:
        """`within` is put before every command, such as ip netns exec NAME."""
        self.home = home
        self.folder = home / "federation"
        self.project: Project = found(self.folder, teachers, host, free_port())
        self._within = list(within)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def kit(self, name: str) -> Path:
        """A teacher's kit, or the server's."""
        return self.folder / "server" if name == "server" else self.folder / "teachers" / name

    def said(self, name: str) -> str:
        """What a process has written to its terminal."""
        return (self.home / f"{name}.out").read_text(encoding="utf-8")

    def serve(self, environment: Mapping[str, str] | None = None, seconds: float = 90.0) -> None:
        """Start the server and wait until it listens."""
        self._start("server", ["serve", str(self.folder)], environment)
        log = self.kit("server") / "log.txt"
        self.wait(
            lambda: log.exists() and "Server started" in log.read_text(encoding="utf-8"),
            seconds,
            "the server",
        )

    def join(
        self,
        name: str,
        *options: str,
        kit: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a teacher."""
        self._start(name, ["join", str(kit or self.kit(name)), *options], environment)

    def open_policies(self) -> None:
        """What owners write into their policies if the coordinator may read their rows."""
        for name in self.project.teachers:
            self.rewrite(name, 'promise = "epsilon"', 'promise = "open"')

    def rewrite(self, name: str, before: str, after: str) -> None:
        """Change a teacher's policy as its owner would."""
        policy = self.kit(name) / "policy.toml"
        text = policy.read_text(encoding="utf-8")
        assert before in text
        policy.write_text(text.replace(before, after), encoding="utf-8")

    def declare(self, name: str, file: Path, target: str) -> None:
        """Declare a teacher's rows in its policy, with its labels, as the command drafts it."""
        drafted = self.run("federation", "declare", str(file), "--target", target, "--labels")
        assert drafted.returncode == 0, drafted.stderr
        with (self.kit(name) / "policy.toml").open("a", encoding="utf-8") as policy:
            policy.write(f"\n{drafted.stdout}")

    def wait_joined(self, names: Sequence[str], seconds: float = 90.0) -> None:
        """Wait until these teachers have joined."""
        for name in names:
            self.wait(partial(self._joined, name), seconds, f"teacher {name}")

    def _joined(self, name: str) -> bool:
        return "joined" in self.said(name)

    def wait(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until something is so, or fail with what the processes have said."""
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                said = {name: self.said(name)[-2000:] for name in self._running}
                raise TimeoutError(f"{what} is not there after {seconds:g} seconds: {json.dumps(said, indent=1)}")
            time.sleep(0.2)

    def _start(self, name: str, arguments: list[str], environment: Mapping[str, str] | None) -> None:
        with (self.home / f"{name}.out").open("wb") as out:
            self._running[name] = subprocess.Popen(
                [*self._within, *CLI, *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    def processes(self, name: str) -> list[psutil.Process]:
        """A participant's process and all its children."""
        try:
            root = psutil.Process(self._running[name].pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def alive(self, name: str) -> bool:
        """Whether a participant's own process still runs."""
        return self._running[name].poll() is None

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to all processes of a participant (lessons run in children of their own) and see them end."""
        everybody = self.processes(name)
        process = self._running.pop(name)
        for member in everybody:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(how)
        process.wait(30)
        psutil.wait_procs(everybody, timeout=10)

    def run(self, *arguments: str, seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [*self._within, *CLI, *arguments], capture_output=True, text=True, timeout=seconds, check=False
        )

    @contextlib.contextmanager
    def desk(self) -> Iterator[Desk]:
        """Sign in as the coordinator."""
        with sign_in(self.folder) as desk:
            yield desk

    def audit(self, name: str) -> list[dict[str, Any]]:
        """A teacher's audit log."""
        path = self.kit(name) / "superteach-audit.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        for name in list(self._running):
            self.stop(name)


def free_port() -> int:
    """A port nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def left_running(home: Path) -> list[str]:
    """Commands of processes that still mention a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(home) in line and process.pid != os.getpid():
            found.append(line)
    return found
