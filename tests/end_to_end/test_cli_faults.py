"""The command line when something goes wrong: full disks, closed folders, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from superteach.cli.folder import claim
from superteach.datasets import make_classification_pool
from tests.end_to_end.orders import (
    USUAL,
    assert_refused,
    command,
    contents,
    files_of,
    run,
)


def test_places_that_cannot_be_written_are_found_before_any_work(pool: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    missing = ["nowhere.csv", *USUAL]
    for out, words in [
        ("file", "is a file"),
        ("file/out", "cannot be written"),
        ("/proc/superteach/out", "cannot be written"),
    ]:
        assert_refused(run("teach", *missing, "--out", tmp_path / out), words)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("kept")
    assert_refused(run("teach", *missing, "--out", tmp_path / "full"), "not empty", "--overwrite")
    assert_refused(run("teach", *missing, "--out", tmp_path / "full", "--overwrite"), "thesis.txt")
    assert contents(tmp_path) == {"file": "kept", "full/thesis.txt": "kept"}


HELD = """
import sys
from pathlib import Path
from superteach.cli.folder import claim
with claim(Path(sys.argv[1]), Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""


def test_two_commands_do_not_write_one_folder(pool: Path, tmp_path: Path) -> None:
    """While another process holds it; the lock lies beside the folder, and goes with the command."""
    out = tmp_path / "new" / "out"
    asked = ["teach", *files_of(pool), *USUAL, "--out", out, "--budget", "40"]
    other = subprocess.Popen([sys.executable, "-c", HELD, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        other.stdout.readline()
        assert [path.suffix for path in out.parent.iterdir()] == [".lock"]
        assert_refused(run(*asked), f"being written by another command (process {other.pid})")
    assert not out.parent.exists()
    assert run(*asked).exit_code == 0
    assert os.listdir(out.parent) == ["out"]


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_a_lock_that_is_a_link_is_refused(plant: Any, tmp_path: Path) -> None:
    """What it points to keeps its bytes."""
    out, thesis = tmp_path / "out", tmp_path / "thesis.txt"
    thesis.write_text("years of work")
    with claim(out, out):
        (lock,) = tmp_path.glob("*.lock")
    plant(thesis, lock)
    assert_refused(run("teach", "nowhere.csv", *USUAL, "--out", out), "link", "remove it")
    assert thesis.read_text() == "years of work"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_found_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert_refused(run("teach", "nowhere.csv", *USUAL, "--out", tmp_path / "closed" / "out"), "cannot be written")


@pytest.mark.long(every=4)
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["write_lesson", "write_chosen", "page_of_stored"])
def test_a_fault_while_writing_keeps_the_old_folder(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, step: str
) -> None:
    order = ["teach", *files_of(pool), *USUAL, "--budget", "40", "--overwrite", "--out"]
    assert run(*order, tmp_path / "out").exit_code == 0
    before = contents(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(import_module("superteach.cli.teach"), step, fail)
    for out in ("out", "new/deep"):
        result = run(*order, tmp_path / out)
        assert result.exit_code == (130 if isinstance(fault, KeyboardInterrupt) else 1)
        assert re.fullmatch(r"error: [^\n]+\n", result.stderr)
        assert contents(tmp_path) == before
        assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("call", [0, 1])
def test_a_fault_while_swapping_keeps_the_old_folder(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    order = ["teach", *files_of(pool), *USUAL, "--budget", "40", "--overwrite", "--out", tmp_path / "out"]
    assert run(*order).exit_code == 0
    before, calls, rename = contents(tmp_path), [0], os.rename

    def fail_once(source: Any, goal: Any) -> None:
        calls[0] += 1
        if calls[0] == call + 1:
            raise KeyboardInterrupt
        rename(source, goal)

    monkeypatch.setattr(os, "rename", fail_once)
    assert run(*order).exit_code == 130
    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == ["out"]


def test_overwrite_replaces_the_whole_folder_or_keeps_it_when_input_is_bad(pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("teach", *files_of(pool), *USUAL, "--budget", "40", "--out", out).exit_code == 0
    before = contents(out)
    assert_refused(run("teach", "nowhere.csv", *USUAL, "--overwrite", "--out", out), "nowhere.csv")
    assert contents(out) == before
    result = run("teach", *files_of(pool)[:2], *USUAL, "--budget", "40", "--overwrite", "--out", out)
    assert result.exit_code == 0
    assert sorted(os.listdir(out / "chosen")) == ["east.csv", "north.csv"]
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.slow
def test_a_real_process_prints_version_help_errors_and_json(pool: Path, tmp_path: Path) -> None:
    def call(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, **options)

    assert re.fullmatch(r"superteach \d+\.\d+\.\d+(\.\w+)*\n", call("--version").stdout)
    bad = call("teach", "nowhere.csv", *USUAL, "--out", tmp_path / "out")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: file 'nowhere.csv' does not exist; check the path\n"
    good = call("teach", *files_of(pool), *USUAL, "--out", "out", "--json", cwd=tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["out"] == "out"


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(pool: Path, tmp_path: Path) -> None:
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
    limit += "from superteach.cli import main; main()"
    order = [sys.executable, "-c", limit, "teach", *files_of(pool), *USUAL]
    order += ["--out", str(tmp_path / "new" / "out")]
    result = subprocess.run(order, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert re.fullmatch(r"error: [^\n]*File too large[^\n]*\n", result.stderr), result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_interrupting_a_real_process_leaves_nothing(tmp_path: Path) -> None:
    X, y, owner = make_classification_pool(200_000, 10, 2, random_state=0)
    table = pa.table({**{f"x{column}": values for column, values in enumerate(X.T)}, "label": y, "site": owner})
    pyarrow.parquet.write_table(table, tmp_path / "pool.parquet")
    order = command(
        "teach",
        "pool.parquet",
        "--owner",
        "site",
        *USUAL,
        "--method",
        "dual",
        "--solver",
        "block",
        "--out",
        "new/out",
    )
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        order, cwd=tmp_path, stdout=subprocess.PIPE, stderr=terminal, env=os.environ | {"TERM": "xterm"}
    )
    os.close(terminal)
    seen, ended = b"", time.monotonic() + 60
    while b"solving the paper's problem" not in seen and time.monotonic() < ended:
        if select.select([screen], [], [], 1.0)[0]:
            seen += os.read(screen, 65536)
    assert b"solving the paper's problem" in seen
    process.send_signal(signal.SIGINT)
    tail = b""
    while process.poll() is None and time.monotonic() < ended:
        if select.select([screen], [], [], 0.1)[0]:
            try:
                tail += os.read(screen, 65536)
            except OSError:  # the terminal's other end has gone
                break
    output = process.communicate(timeout=30)[0]
    os.close(screen)
    assert process.returncode == 130
    assert output == b""
    assert b"Traceback" not in tail
    assert os.listdir(tmp_path) == ["pool.parquet"]
