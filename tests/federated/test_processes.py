"""Real processes: sites that wait and work, kills that nothing can catch, NVFlare's own simulator."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from superteach.privacy.ledger import Ledger
from tests.federated.conftest import GOAL, SITES, write_rows

pytestmark = pytest.mark.slow
COMMAND = (sys.executable, "-m", "superteach")
ENV = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def superteach(*arguments, check=True, timeout=120):
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, env=ENV, timeout=timeout)
    assert done.returncode == 0 or not check, done.stderr
    return done


@contextmanager
def site(folder: Path):
    process = subprocess.Popen([*COMMAND, "site", "run", str(folder)], env=ENV, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        with suppress(psutil.NoSuchProcess):
            for one in (*psutil.Process(process.pid).children(), psutil.Process(process.pid)):
                one.terminate()
        process.wait(20)


def found(folder: Path, boxes: dict[str, Path] | None = None) -> Path:
    """A federation of three sites, made by its commands."""
    home, files = folder / "clinic", write_rows(folder)
    superteach("federation", "new", home, *(word for name in SITES for word in ("--site", name)))
    for name in SITES:
        more = ("--box", boxes[name]) if boxes else ()
        invitation = home / "invitations" / f"{name}.json"
        superteach(
            "site", "new", folder / name, "--invitation", invitation, "--data", files[name], "--target", "ill", *more
        )
        policy = folder / name / "policy.toml"
        policy.write_text(policy.read_text().replace('["isolated"]', '["isolated", "dp", "none"]'))
    (folder / "goal.json").write_text(json.dumps(GOAL))
    return home


def teach(folder: Path, out: str, *more, **options):
    asked = ("--learner", "logistic", "--goal", folder / "goal.json", "--budget", 90, "--teachers", ",".join(SITES))
    return superteach("teach", "--box", folder / "clinic", *asked, "--out", folder / out, *more, **options)


def test_resident_sites_answer_in_every_mode_and_stay_small(tmp_path):
    found(tmp_path)
    with site(tmp_path / "north") as north, site(tmp_path / "south"), site(tmp_path / "west"):
        for privacy in ("isolated", "dp", "none"):
            teach(tmp_path, privacy, "--privacy", privacy)
        waiting = psutil.Process(north.pid)
        assert waiting.memory_info().rss < 80e6
        assert len(waiting.children()) == 1
        north.send_signal(signal.SIGTERM)
        assert "Ctrl-C stops" in north.communicate(timeout=20)[0]
        assert json.loads((tmp_path / "north" / "status.json").read_text())["site"] == "north"


@pytest.mark.parametrize("seed", range(2))
def test_processes_that_are_killed_outright_lose_nothing(tmp_path, seed):
    found(tmp_path)
    rng = random.Random(seed)
    for attempt in range(40):
        with site(tmp_path / "north") as north, site(tmp_path / "south"), site(tmp_path / "west") as west:
            asked = ("--learner", "logistic", "--goal", tmp_path / "goal.json", "--budget", 90, "--privacy", "dp")
            every = ("--teachers", ",".join(SITES), "--out", tmp_path / "out", "--overwrite", "--wait", 8)
            command = [*COMMAND, "teach", "--box", tmp_path / "clinic", *asked, *every]
            order = subprocess.Popen([str(one) for one in command], env=ENV, stderr=subprocess.DEVNULL)
            victim = rng.choice([north, west, order])
            time.sleep(rng.uniform(0.5, 4.0))
            if attempt < 3:
                with suppress(psutil.NoSuchProcess):
                    for one in (psutil.Process(victim.pid), *psutil.Process(victim.pid).children()):
                        one.kill()
            if order.wait(90) == 0:
                break
    else:
        raise AssertionError("the lesson did not end")
    lesson = json.loads((tmp_path / "out" / "lesson.json").read_text())["lesson"]
    assert [path.name for path in (tmp_path / "clinic" / "lessons").glob("[!.]*")] == [lesson]
    for name in SITES:
        assert [one["lesson"] for one in Ledger(tmp_path / name / "ledger", 1.0, 1e-6).entries()] == [lesson]


def test_the_page_works_word_by_word_in_a_fresh_folder(tmp_path):
    """The first lesson of docs/federation.md: every command that it shows, as a person would type them."""
    page = (Path(__file__).parents[2] / "docs" / "federation.md").read_text("utf-8")
    part = page.partition("## A first lesson")[2].partition("\n## ")[0]
    lines = re.findall(r"^    (?:\$ )?(.*)$", part, re.MULTILINE)
    shown = [line for line in lines if not line.startswith(("clinic/", "…"))]  # the rest is what a command prints
    (tmp_path / "superteach").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m superteach "$@"\n')
    (tmp_path / "superteach").chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "work").mkdir()
    script = "\n".join(["set -me", *shown, "kill %1 %2 %3", "wait || true"])
    environment = ENV | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path / "work", env=environment, capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "lesson" / "report.html").exists()
    for name in SITES:
        (note,) = (tmp_path / "work" / name / "chosen").glob("*.txt")
        assert "carry the share" in note.read_text()


def test_two_processes_do_not_run_one_site(tmp_path):
    found(tmp_path)
    with site(tmp_path / "north"):
        time.sleep(2.0)
        second = superteach("site", "once", tmp_path / "north", check=False)
    assert second.returncode == 2
    assert "is run by another process" in second.stderr


def test_nvflare_carries_documents_in_its_own_simulator(tmp_path):
    pytest.importorskip("nvflare")
    workspace = tmp_path / "simulated"
    boxes = {
        name: workspace / f"site-{place}" / "superteach-box" / f"site-{place}" for place, name in enumerate(SITES, 1)
    }
    for box in boxes.values():
        box.mkdir(parents=True)
    home = found(tmp_path, boxes)
    (workspace / "local").mkdir()
    allowed = {"format_version": 2, "class_allow_list": ["superteach.federated.nvflare"]}
    (workspace / "local" / "resources.json").write_text(json.dumps(allowed))
    code = (
        "from superteach.federated.nvflare import make_job\n"
        f"make_job({str(home / 'box')!r}, 60.0).simulator_run({str(workspace)!r}, n_clients=3, log_config='error')"
    )
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    simulator = subprocess.Popen([sys.executable, "-c", code], env=ENV, **quiet)
    try:
        with site(tmp_path / "north"), site(tmp_path / "south"), site(tmp_path / "west"):
            for privacy in ("isolated", "dp"):
                teach(tmp_path, privacy, "--privacy", privacy)
    finally:
        simulator.wait(120)
    for privacy in ("isolated", "dp"):
        assert json.loads((tmp_path / privacy / "lesson.json").read_text())["privacy"] == privacy
