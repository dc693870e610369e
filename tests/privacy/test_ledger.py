"""The ledger: what a table spends is on the disk before a reply, and is never read as less."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import signal
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from superteach.exceptions import BudgetSpent, QueryRefused, SettingError
from superteach.privacy.accounting import epsilon_of, mu_of
from superteach.privacy.ledger import AuditLog, Ledger
from tests.privacy.crashes import Dead, Machine, on

BUDGET = (1.0, 1e-6)
MU = mu_of(*BUDGET)
"""What a whole life may spend."""
FORK = multiprocessing.get_context("fork")


def share(part: float) -> float:
    """The μ of a lesson that spends this part of a life's μ²."""
    return MU * math.sqrt(part)


@pytest.fixture(autouse=True)
def _formulas_run_once(monkeypatch):
    """The same numbers over and over: searched for once."""
    monkeypatch.setattr("superteach.privacy.ledger.mu_of", cache(mu_of))
    monkeypatch.setattr("superteach.privacy.ledger.epsilon_of", cache(epsilon_of))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "kept", *BUDGET)


def test_a_life_is_spent_in_parts_and_then_refused(ledger):
    """Ten tenths fit whatever the roundings, an eleventh does not, and the refusal says all three amounts."""
    assert ledger.left == pytest.approx(1.0, rel=1e-9)
    for number in range(10):
        assert ledger.pay(f"lesson {number}", share(0.1), {"coordinator": "c"})
        assert ledger.left == pytest.approx(epsilon_of(share(0.9 - 0.1 * number), 1e-6), rel=1e-6, abs=1e-6)
    before = ledger.path.read_bytes()
    asked = epsilon_of(share(0.1), 1e-6)
    with pytest.raises(BudgetSpent, match=f"asks for ε = {asked:.4g} at δ = 1e-06; of ε = 1 .* has 0 left") as told:
        ledger.pay("one more", share(0.1), {})
    assert "Nothing was spent" in str(told.value)
    assert isinstance(told.value, QueryRefused)
    assert ledger.path.read_bytes() == before


def test_what_is_left_can_be_spent(ledger):
    """The ε that `left` says, as a lesson."""
    ledger.pay("first", share(0.37), {})
    ledger.pay("second", mu_of(ledger.left, BUDGET[1]), {})
    assert ledger.left < 1e-4
    with pytest.raises(BudgetSpent):
        ledger.pay("third", mu_of(0.01, BUDGET[1]), {})


def test_the_account_is_the_tables_whatever_is_in_it(tmp_path):
    """No row, column or type is looked at: one cell once made every row new, and the budget whole again."""
    ledger = Ledger(tmp_path, *BUDGET)
    ledger.pay("first", share(0.9), {})
    assert Ledger(tmp_path, *BUDGET).left == pytest.approx(epsilon_of(share(0.1), 1e-6), rel=1e-6)
    with pytest.raises(BudgetSpent):
        Ledger(tmp_path, *BUDGET).pay("second", share(0.2), {})


def test_a_lesson_has_a_budget_of_its_own(tmp_path):
    ledger = Ledger(tmp_path, *BUDGET, lesson=0.5)
    with pytest.raises(BudgetSpent):
        ledger.check("greedy", mu_of(0.6, BUDGET[1]))
    with pytest.raises(BudgetSpent):
        ledger.pay("greedy", mu_of(0.6, BUDGET[1]), {})
    assert ledger.pay("modest", mu_of(0.5, BUDGET[1]), {})
    assert len(ledger.entries()) == 1


def test_an_old_copy_is_noticed_from_the_audit_log(tmp_path):
    audit = AuditLog(tmp_path / "audit.jsonl")
    ledger = Ledger(tmp_path / "kept", *BUDGET, audit=audit)
    assert ledger.pay("a", share(0.3), {})
    old = ledger.path.read_bytes()
    assert ledger.pay("b", share(0.3), {})
    ledger.path.write_bytes(old)
    with pytest.raises(QueryRefused):
        ledger.pay("c", share(0.3), {})
    with pytest.raises(QueryRefused):
        Ledger(tmp_path / "kept", *BUDGET, audit=audit)
    audit.path.unlink()
    assert Ledger(tmp_path / "kept", *BUDGET, audit=audit).pay("c", share(0.3), {}), (
        "both put back: nothing protects there"
    )


def test_a_line_that_a_full_disk_cut_off_takes_no_other_with_it(tmp_path):
    """The next line was joined to it, could not be read, and an old ledger passed for the newest."""
    audit = AuditLog(tmp_path / "audit.jsonl")
    audit.path.write_bytes(b'{"time": "2026-01-01T00:00:00.000+00:00", "que')
    ledger = Ledger(tmp_path / "kept", *BUDGET, audit=audit)
    old = ledger.path.read_bytes()
    assert ledger.pay("a", share(0.3), {})
    assert audit.values("paid") == ["a"]
    ledger.path.write_bytes(old)
    with pytest.raises(QueryRefused, match="old copy"):
        ledger.pay("b", share(0.3), {})


def test_what_has_left_is_entered_whatever_budget_there_is(ledger):
    assert ledger.pay("a", share(0.9), {})
    ledger.enter("b", share(0.5), {})
    ledger.enter("b", share(0.5), {})
    assert len(ledger.entries()) == 2
    assert ledger.left == 0.0
    with pytest.raises(BudgetSpent):
        ledger.pay("c", share(1e-6), {})


def test_a_lesson_pays_once(ledger):
    """Nor is one of the same name paid for, whatever its μ: whoever asks hears the same."""
    assert ledger.pay("a", share(0.3), {})
    for mu in (share(0.3), share(0.31), share(0.9)):
        assert not ledger.pay("a", mu, {"try": 2})
    assert len(ledger.entries()) == 1
    assert ledger.spent == pytest.approx(0.3 * MU**2)


def test_entries_are_read_back_by_another_process_to_be(ledger):
    """Lessons, with what an owner needs to know."""
    ledger.pay("a", share(0.5), {"coordinator": "who", "rounds": 9})
    again = Ledger(ledger.path.parent, 2.0, 1e-7)
    (first,) = again.entries()
    assert (first["lesson"], first["lifetime"]) == ("a", 1.0)
    assert first["facts"] == {"coordinator": "who", "rounds": 9}
    assert first["epsilon"] == pytest.approx(epsilon_of(share(0.5), 1e-6))
    assert again.spent == pytest.approx(0.5 * MU**2), "another budget, the same spending"


def test_files_are_for_their_owner_alone(ledger):
    ledger.pay("a", share(0.1), {})
    assert {path.name: path.stat().st_mode & 0o777 for path in ledger.path.parent.iterdir()} == {
        "ledger": 0o600,
        "ledger.lock": 0o600,
    }
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:40]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-3] + b"abc"),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"mu": 0', b'"mu": 1')),
        lambda path: path.unlink(),
    ],
    ids=["cut by one", "cut", "empty", "changed", "edited", "deleted"],
)
def test_a_damaged_ledger_is_refused_and_never_read_as_empty(ledger, harm):
    ledger.pay("a", share(0.5), {})
    harm(ledger.path)
    found = [path.read_bytes() for path in sorted(ledger.path.parent.iterdir())]
    for act in (
        lambda: Ledger(ledger.path.parent, *BUDGET),
        lambda: ledger.left,
        lambda: ledger.pay("b", share(0.1), {}),
        ledger.entries,
    ):
        with pytest.raises(QueryRefused, match=r"the ledger is damaged: .* nothing is answered"):
            act()
    assert [path.read_bytes() for path in sorted(ledger.path.parent.iterdir())] == found, (
        "what is left stays for a repair"
    )


@pytest.mark.parametrize(("lesson", "mu"), [("", 0.1), ("a", 0.0), ("a", math.nan), ("a", math.inf)])
def test_what_is_no_lesson_is_an_error(ledger, lesson, mu):
    with pytest.raises(SettingError):
        ledger.pay(lesson, mu, {})
    assert ledger.entries() == []


def test_a_system_without_locks_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fcntl", None)
    with pytest.raises(SettingError, match="needs file locks"):
        Ledger(tmp_path, *BUDGET)


# Kills, power cuts, full disks ------------------------------------------------------------------------------

SMALL = share(1e-4)


def pay_first(ledger, name, release):
    if ledger.pay(name, SMALL, {}):
        release(name)


def release_first(ledger, name, release):
    release(name)
    ledger.pay(name, SMALL, {})


def kill(folder: Path, kills: int, seed: int, order=pay_first, lazy: str = "") -> list[str]:
    """Live `kills` lives on one ledger, each with a lesson after another until it is cut; what is wrong after them."""
    rng = np.random.default_rng(seed)
    released: list[str] = []
    wrong = []
    for life in range(kills):
        machine = Machine(int(rng.integers(1 << 31)), int(rng.integers(1, 25)), lazy=lazy)
        patch = on(machine)
        try:
            ledger = Ledger(folder, *BUDGET)
            for number in range(25):
                release = lambda name: machine.do("release", lambda: released.append(name))  # noqa: B023, E731
                order(ledger, f"{life}.{number}", release)
        except Dead:
            pass
        finally:
            patch.undo()
        assert machine.dead, machine.calls
        if rng.integers(2) and folder.exists():
            machine.lose_power(folder)
        try:
            wrong += looked_at(folder, released, life + 1)
        except QueryRefused as error:
            return [*wrong, f"life {life}: {error}"]
        if len(list(folder.glob(".*"))) > 1:
            wrong.append("files of killed writers pile up")
    return wrong


def looked_at(folder: Path, released: list[str], kills: int) -> list[str]:
    """Open the ledger as the next start would, and hold it against what has left."""
    ledger = Ledger(folder, *BUDGET)
    paid = [entry["lesson"] for entry in ledger.entries()]
    lost = ledger.spent / SMALL**2 - len(released)
    wrong = [f"{name} was released and never paid" for name in released if name not in paid]
    if lost < -1e-6:
        wrong.append(f"{-lost:g} lessons more were released than were paid")
    if lost > kills + 1e-6:
        wrong.append(f"{lost:g} lessons were lost in {kills} kills")
    if abs(ledger.spent / SMALL**2 - len(paid)) > 1e-6:
        wrong.append("entries and what is spent say different things")
    return wrong


@pytest.mark.long(every=5)
@pytest.mark.parametrize("seed", range(4))
def test_no_kill_leaves_a_release_unpaid_or_loses_more_than_one_lesson(seed, tmp_path):
    """1,000 cuts in all: half are kills, half are power cuts; many within the first opening."""
    for number in range(25):
        assert kill(tmp_path / str(number), 10, 1000 * seed + number) == []


def test_the_same_kills_catch_a_release_before_its_payment(tmp_path):
    assert any(
        "never paid" in wrong
        for number in range(5)
        for wrong in kill(tmp_path / f"{number}", 10, number, release_first)
    )


@pytest.mark.parametrize(("lazy", "wrong"), [("sync", "damaged"), ("sync folder", "never paid")])
def test_the_same_power_cuts_catch_what_was_not_brought_to_the_disk(lazy, wrong, tmp_path):
    """A file that is moved before it is whole there, and a move that is not there when the answer goes out."""
    found = [told for number in range(5) for told in kill(tmp_path / str(number), 10, number, lazy=lazy)]
    assert any(wrong in told for told in found)


def test_a_full_disk_refuses_and_changes_nothing(tmp_path):
    """At every call of a payment in turn."""
    ledger = Ledger(tmp_path, *BUDGET)
    ledger.pay("before", SMALL, {})
    seen = set()
    for cut in range(1, 20):
        before = ledger.path.read_bytes()
        machine = Machine(cut, cut, full=True)
        patch = on(machine)
        try:
            paid = ledger.pay(f"lesson {cut}", SMALL, {})
        except QueryRefused as error:
            seen.add((machine.calls[cut - 1], "(No space left on device), so nothing is answered" in str(error)))
            if "sync folder" not in machine.calls:
                assert ledger.path.read_bytes() == before
        else:
            assert paid
            break
        finally:
            patch.undo()
        ledger.entries()
    assert seen == {(call, True) for call in ("write", "sync", "replace", "sync folder")}
    assert {path.name for path in tmp_path.iterdir()} == {"ledger", "ledger.lock"}


def pay_within(folder: Path, most: int, told) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        Ledger(folder, *BUDGET).pay("too big", SMALL, {"facts": "x" * 10_000})
        told.put("paid")
    except QueryRefused as error:
        told.put(str(error))


def test_a_real_limit_on_files_refuses_too(tmp_path):
    """The system's own error, in a process of its own."""
    ledger = Ledger(tmp_path, *BUDGET)
    ledger.pay("before", SMALL, {})
    before = ledger.path.read_bytes()
    told = FORK.SimpleQueue()
    child = FORK.Process(target=pay_within, args=(tmp_path, 4096, told))
    child.start()
    child.join(20)
    assert "File too large" in told.get()
    assert ledger.path.read_bytes() == before
    assert [entry["lesson"] for entry in ledger.entries()] == ["before"]


def teach_on(folder: Path, name: str, lessons: int) -> None:
    """Pay and release, again and again."""
    ledger = Ledger(folder, *BUDGET)
    handle = os.open(folder.parent / "released", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(lessons):
        pay_first(ledger, f"{name}.{number}", lambda lesson: os.write(handle, f"{lesson}\n".encode()))


@pytest.mark.slow
def test_twenty_real_kills(tmp_path):
    folder = tmp_path / "kept"
    rng = np.random.default_rng(11)
    kills, released = 0, []
    while kills < 20 or (len(released) <= 20 and kills < 400):  # a busy machine gets less done before it is killed
        kills += 1
        child = FORK.Process(target=teach_on, args=(folder, f"life {kills}", 10_000))
        child.start()
        time.sleep(rng.uniform(0.005, 0.06))
        os.kill(child.pid, signal.SIGKILL)
        child.join(20)
        path = tmp_path / "released"
        released = path.read_text().splitlines() if path.exists() else []
        assert looked_at(folder, released, kills) == []
    assert len(released) > 20


def test_processes_at_once_lose_nothing(tmp_path):
    children = [FORK.Process(target=teach_on, args=(tmp_path / "kept", f"process {i}", 25)) for i in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0, 0, 0]
    ledger = Ledger(tmp_path / "kept", *BUDGET)
    assert len({entry["lesson"] for entry in ledger.entries()}) == 75
    assert ledger.spent == pytest.approx(75 * SMALL**2)
    assert json.dumps(ledger.entries())


def test_processes_at_once_do_not_overspend(tmp_path):
    """Each would fit, all together do not: exactly ten tenths are paid."""
    children = [FORK.Process(target=pay_tenths, args=(tmp_path / "kept", i)) for i in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    assert len(Ledger(tmp_path / "kept", *BUDGET).entries()) == 10


def pay_tenths(folder: Path, who: int) -> None:
    ledger = Ledger(folder, *BUDGET)
    for number in range(6):
        try:
            ledger.pay(f"{who}.{number}", share(0.1), {})
        except BudgetSpent:
            return
