"""What an operator meets: a second server, a copied kit, a teacher that is gone, certificates that end or are replaced."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import time
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from cryptography import x509

from benchmarks.town import free_port
from superteach.errors import SettingError
from superteach.organisations.nvflare import certificates
from superteach.organisations.nvflare.kits import found, read_project
from superteach.organisations.nvflare.preflight import check_dates
from tests.federation.rows import TEACHERS


def teach(town, out, *options: str):
    goal = town.home / "goal.json"
    goal.write_text("[0.8, -0.5, 0.3, 0.2, 0.1]")
    common = ("--learner", "logistic", "--goal", str(goal), "--promise", "open", "--budget", "60", "--out", str(out))
    return town.run("teach", "--federation", str(town.folder), *common, *options)


def joining(town, data, name: str, kit, said: str, seconds: float = 60.0) -> None:
    """A teacher that is not let in says why, as `stranger`."""
    policy = kit / "policy.toml"
    policy.write_text(policy.read_text().replace('promise = "epsilon"', 'promise = "open"'))
    town.join("stranger", "--data", str(data.files[name]), "--target", "ill", kit=kit)
    town.wait(lambda: said in town.said("stranger"), seconds, said)
    town.stop("stranger", signal.SIGTERM)
    assert "joined;" not in town.said("stranger")
    assert "Traceback" not in town.said("stranger")


def test_a_second_server_and_a_port_in_use_are_refused(town, tmp_path):
    """One sentence, and nothing listens twice."""
    run = town.run("serve", str(town.folder))
    assert run.returncode == 1
    assert "this federation is served already, by process" in run.stderr
    other = tmp_path / "other"
    found(other, ["north"], port=town.project.port)
    run = town.run("serve", str(other))
    assert run.returncode == 1
    assert f"port {town.project.port} cannot be opened (Address already in use)" in run.stderr


def test_a_kit_that_is_in_use_here_is_refused(town, data):
    run = town.run("join", str(town.kit("north")), "--data", str(data.files["north"]), "--target", "ill")
    assert run.returncode == 1
    assert "joined with this kit already, by process" in run.stderr


def test_no_server_and_another_authority_are_said(town, data, tmp_path):
    """Each try has its sentence, and a signal ends it; where waiting is no help the command ends by itself."""
    found(tmp_path / "nobody", ["north"], port=free_port())
    joining(town, data, "north", tmp_path / "nobody" / "teachers" / "north", "no server answers at localhost:")
    found(tmp_path / "other", ["north"], port=town.project.port)
    joining(town, data, "north", tmp_path / "other" / "teachers" / "north", "this kit belongs to another federation")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        found(tmp_path / "mute", ["north"], port=mute.getsockname()[1])
        joining(town, data, "north", tmp_path / "mute" / "teachers" / "north", "trying again in 5 seconds")


def test_dates_of_a_certificate_are_compared_with_the_clock(town, tmp_path, monkeypatch):
    """A certificate that has ended, or begins later, is named with the clock here."""
    path = town.kit("north") / "startup" / "client.crt"
    shown = x509.load_pem_x509_certificate(path.read_bytes())
    assert check_dates(path, "it") == shown.not_valid_after_utc

    class Clock(datetime):
        shift = timedelta(days=4000)

        @classmethod
        def now(cls, zone=None):
            return datetime.now(UTC) + cls.shift

    monkeypatch.setattr("superteach.organisations.nvflare.preflight.datetime", Clock)
    with pytest.raises(SettingError, match=r"holds from .* and here it is 20.*: ask for a new one .* or set the clock"):
        check_dates(path, "it")
    Clock.shift = timedelta(days=-2)
    with pytest.raises(SettingError, match="set the clock"):
        check_dates(path, "it")


def test_a_copied_kit_is_refused_and_its_owner_told(town, data, tmp_path):
    """The newcomer ends with a reason, the owner hears of it and stays."""
    copy = tmp_path / "copy"
    shutil.copytree(town.kit("north"), copy)
    town.join("stranger", "--data", str(data.files["north"]), "--target", "ill", kit=copy)
    town.wait(lambda: not town.alive("stranger"), 120, "the end of the copy")
    assert "error: the server does not let this teacher in: north has joined already" in town.said("stranger")
    town.wait(lambda: "a second process with a copy of this kit" in town.said("north"), 60, "a word to the owner")
    town.wait(lambda: "north" in standing(town)["connected"], 60, "north")


def standing(town) -> dict:
    run = town.run("status", str(town.folder), "--json")
    return json.loads(run.stdout)


def test_a_teacher_that_stands_still_is_known_before_a_lesson(town, tmp_path):
    """Status says so; a lesson ends, goes on without it, or says for whom it waits."""
    everybody = town.processes("south")
    for process in everybody:
        process.suspend()
    try:
        assert standing(town)["silent"] == ["south"]
        run = teach(town, tmp_path / "a")
        assert run.returncode == 1
        assert "teacher south is lost: it has joined and does not answer now" in run.stderr
        assert "--teachers north,west" in run.stderr
        run = teach(town, tmp_path / "b", "--on-loss", "wait", "--wait", "1")
        assert "Waiting for south, 1 second more: teacher south has joined and does not answer now." in run.stderr
        run = teach(town, tmp_path / "c", "--on-loss", "drop")
        assert run.returncode == 0, run.stderr
        assert "Without south: teacher south has joined and does not answer now." in run.stderr
        assert json.loads((tmp_path / "c" / "lesson.json").read_text())["teachers"] == ["north", "west"]
    finally:
        for process in everybody:
            process.resume()
    town.wait(lambda: "south" in standing(town)["connected"], 60, "south")


def test_a_teacher_killed_just_before_a_lesson_is_named_at_once(town, data, tmp_path):
    """Within ten seconds, more where the machine is busy: a look waits for LOOK at most, the rest is computing."""
    town.stop("south")
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = teach(town, tmp_path / "out")
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "teacher south is lost: it has" in run.stderr
    computing = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert computing < 4.0
    assert wall < 10.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    town.join("south", "--data", str(data.files["south"]), "--target", "ill")
    town.wait(lambda: "south" in standing(town)["connected"], 120, "south")


def test_a_data_file_that_has_changed_is_named_on_both_sides(town, data, tmp_path):
    """Nobody's old rows are taught for new ones."""
    file = data.files["west"]
    before = file.stat()
    os.utime(file)
    run = teach(town, tmp_path / "lesson")
    assert "teacher west refuses the first hello: its file west.parquet has changed since it joined" in run.stderr
    assert "west.parquet has changed since you joined" in town.said("west")
    assert town.audit("west")[-1]["verdict"].startswith("refused: its file west.parquet has changed")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_certificates_are_revoked_and_made_anew_on_site(town, data, tmp_path):
    """A revoked teacher is sent away; with a key of its own making, signed, it joins again, and the old kit does not."""
    old, kit = tmp_path / "old", town.kit("west")
    shutil.copytree(kit, old)
    assert town.run("federation", "revoke", str(town.folder), "west").returncode == 0
    town.wait(lambda: "you are sent away: the certificate of west was revoked" in town.said("west"), 60, "a word")
    assert "west" not in standing(town)["connected"]
    town.stop("west", signal.SIGTERM)
    key = (kit / "startup" / "client.key").read_bytes()
    run = town.run("federation", "request", str(kit))
    assert run.returncode == 0, run.stderr
    run = town.run("federation", "sign", str(town.folder), str(kit / "west.csr"))
    assert run.returncode == 0, run.stderr
    run = town.run("federation", "install", str(kit), str(kit / "west.crt"))
    assert run.returncode == 0, run.stderr
    assert (kit / "startup" / "client.key").read_bytes() != key
    joining(town, data, "west", old, "another certificate of west has taken this one's place")
    town.join("west", "--data", str(data.files["west"]), "--target", "ill")
    town.wait_joined(["west"])
    with pytest.raises(SettingError, match="does not fit the request"):
        certificates.install(kit, kit / "west.crt")
    assert psutil.pid_exists(town.processes("west")[0].pid)


def test_adding_and_renewing(tmp_path):
    """A kit for one more, after all certificates of the coordinator's side were signed anew."""
    home = tmp_path / "home"
    found(home, ["a"], port=free_port(), days=30)
    before = (home / "server" / "startup" / "server.key").read_bytes()
    ends = certificates.renew(home, 500)
    assert 498 <= (ends - datetime.now(UTC)).days <= 500
    mark = certificates.add(home, "b")
    assert read_project(home).teachers == ["a", "b"]
    root = x509.load_pem_x509_certificate((home / "server" / "startup" / "rootCA.pem").read_bytes())
    for place in ("server/startup/server.crt", "coordinator/startup/client.crt", "teachers/b/startup/client.crt"):
        x509.load_pem_x509_certificate((home / place).read_bytes()).verify_directly_issued_by(root)
    assert (home / "server" / "startup" / "server.key").read_bytes() == before
    assert mark in (home / "teachers" / "b" / "policy.toml").read_text()
    assert not list((home / "certificate-authority").rglob("client.key"))
    for wrong, reason in (("a", "already"), ("no name", "letters, digits")):
        with pytest.raises(SettingError, match=reason):
            certificates.add(home, wrong)
    shutil.rmtree(home / "certificate-authority")
    with pytest.raises(SettingError, match="is needed for this"):
        certificates.renew(home, 9)


def test_everybody_is_there_again(town):
    assert sorted(standing(town)["connected"]) == sorted(TEACHERS)
