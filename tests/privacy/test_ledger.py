"""The ledger: what rows spend is theirs, is on the disk before an answer, and is never read as less."""

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

from superteach.errors import BudgetSpent, QueryRefused, SettingError
from superteach.privacy.accounting import epsilon_of, mu_of
from superteach.privacy.ledger import Ledger
from tests.privacy.crashes import Dead, Machine, on

BUDGET = (1.0, 1e-6)
MU = mu_of(*BUDGET)
"""What a whole life may spend."""
ROWS = np.arange(100, 160, dtype=np.uint64)
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
    assert ledger.left(ROWS) == pytest.approx(1.0, rel=1e-9)
    for number in range(10):
        assert ledger.spend(f"lesson {number}", ROWS, share(0.1), {"coordinator": "c"})
        assert ledger.left(ROWS) == pytest.approx(epsilon_of(share(0.9 - 0.1 * number), 1e-6), rel=1e-6, abs=1e-6)
    before = ledger.path.read_bytes()
    asked = epsilon_of(share(0.1), 1e-6)
    with pytest.raises(
        BudgetSpent, match=f"asks for ε = {asked:.4g} at δ = 1e-06; of ε = 1 .* spent 1 and have 0 left"
    ) as told:
        ledger.spend("one more", ROWS, share(0.1), {})
    assert "Nothing was spent now" in str(told.value)
    assert isinstance(told.value, QueryRefused)
    assert ledger.path.read_bytes() == before


def test_what_is_left_can_be_spent(ledger):
    """The ε that `left` says, as a lesson."""
    ledger.spend("first", ROWS, share(0.37), {})
    ledger.spend("second", ROWS, mu_of(ledger.left(ROWS), BUDGET[1]), {})
    assert ledger.left(ROWS) < 1e-4
    with pytest.raises(BudgetSpent):
        ledger.spend("third", ROWS, mu_of(0.01, BUDGET[1]), {})


def test_rows_that_come_and_go_do_not_give_the_others_anything_back(ledger):
    """Neither one row more nor one row less is a new table with a new budget."""
    ledger.spend("first", ROWS, share(0.9), {})
    new = np.array([7], np.uint64)
    for table in (ROWS, ROWS[1:], np.append(ROWS, new), ROWS[:1], ROWS[::-1]):
        with pytest.raises(BudgetSpent):
            ledger.spend("second", table, share(0.2), {})
        assert ledger.left(table) == pytest.approx(epsilon_of(share(0.1), 1e-6), rel=1e-6)
    assert ledger.left(new) == pytest.approx(1.0)
    assert ledger.spend("of new rows", new, share(0.6), {})
    assert ledger.spend("of all", np.append(ROWS, new), share(0.1), {})
    assert ledger.spent(np.array([7, 8, 100], np.uint64)) / MU**2 == pytest.approx([0.7, 0, 1])
    assert ledger.left(ROWS) == 0, "a row that comes back finds what it had spent"


def test_accounts_of_single_rows_against_a_dictionary(ledger):
    """Random tables over random rows, one dictionary entry per row."""
    rng = np.random.default_rng(5)
    paid: dict[int, float] = {}
    for number in range(40):
        table = rng.choice(200, rng.integers(0, 60)).astype(np.uint64)
        mu = share(rng.uniform(0.01, 0.3))
        fits = max((paid.get(int(key), 0.0) for key in table), default=0.0) + mu**2 <= MU**2
        if fits:
            ledger.spend(str(number), table, mu, {})
            for key in set(table.tolist()):
                paid[key] = paid.get(key, 0.0) + mu**2
        else:
            with pytest.raises(BudgetSpent):
                ledger.spend(str(number), table, mu, {})
    everybody = np.arange(200, dtype=np.uint64)
    assert ledger.spent(everybody) == pytest.approx([paid.get(key, 0.0) for key in range(200)], rel=1e-12)


def test_a_lesson_pays_once(ledger):
    """Nor is one of the same name paid for, whatever its μ and its rows: whoever asks hears the same."""
    assert ledger.spend("a", ROWS, share(0.3), {})
    assert not ledger.spend("a", ROWS[::-1], share(0.3), {"try": 2})
    assert len(ledger.entries()) == 1
    for rows, mu in ((ROWS, share(0.31)), (ROWS[1:], share(0.3)), (np.append(ROWS, np.uint64(3)), share(0.3))):
        assert not ledger.spend("a", rows, mu, {})
    assert ledger.spent(ROWS) == pytest.approx(0.3 * MU**2)


def test_entries_are_read_back_by_another_process_to_be(ledger):
    """Lessons and notes, with what an owner needs to know; the keys are the same after the ledger is opened again."""
    ledger.spend("a", ROWS, share(0.5), {"coordinator": "who", "rounds": 9})
    ledger.note({"release": "fit", "numbers": 11})
    again = Ledger(ledger.path.parent, 2.0, 1e-7)
    first, second = again.entries()
    assert (first["lesson"], first["rows"], first["lifetime"]) == ("a", 60, 1.0)
    assert first["facts"] == {"coordinator": "who", "rounds": 9}
    assert first["epsilon"] == pytest.approx(epsilon_of(share(0.5), 1e-6))
    assert second["note"] == {"release": "fit", "numbers": 11}
    assert again.spent(ROWS) == pytest.approx(0.5 * MU**2), "another budget, the same spending"
    X = np.random.default_rng(0).normal(size=(9, 3))
    assert (again.keys([X]) == ledger.keys([X])).all()
    other = Ledger(ledger.path.parent / "other", *BUDGET)
    assert (other.keys([X]) != ledger.keys([X])).all()


def test_files_are_for_their_owner_alone(ledger):
    ledger.spend("a", ROWS, share(0.1), {})
    assert {path.name: path.stat().st_mode & 0o777 for path in ledger.path.parent.iterdir()} == {
        "ledger": 0o600,
        "ledger.lock": 0o600,
    }
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_big_table_stays_small_and_fast(tmp_path):
    """16 bytes per row, whatever the number of lessons."""
    ledger = Ledger(tmp_path, *BUDGET)
    keys = np.random.default_rng(0).integers(1 << 63, size=200_000).astype(np.uint64)
    start = time.perf_counter()
    for lesson in range(5):
        ledger.spend(str(lesson), keys[lesson:], share(0.01), {})
    assert ledger.path.stat().st_size < 17 * len(keys)
    assert time.perf_counter() - start < 5


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
    ledger.spend("a", ROWS, share(0.5), {})
    harm(ledger.path)
    found = [path.read_bytes() for path in sorted(ledger.path.parent.iterdir())]
    for act in (
        lambda: Ledger(ledger.path.parent, *BUDGET),
        lambda: ledger.left(ROWS),
        lambda: ledger.spend("b", ROWS, share(0.1), {}),
        lambda: ledger.note({}),
        ledger.entries,
    ):
        with pytest.raises(QueryRefused, match=r"the ledger is damaged: .* nothing is answered"):
            act()
    assert [path.read_bytes() for path in sorted(ledger.path.parent.iterdir())] == found, (
        "what is left stays for a repair"
    )


@pytest.mark.parametrize(
    ("lesson", "keys", "mu"), [("", ROWS, 0.1), ("a", ROWS, 0.0), ("a", ROWS, math.nan), ("a", np.arange(3), 0.1)]
)
def test_what_is_no_lesson_is_an_error(ledger, lesson, keys, mu):
    with pytest.raises(SettingError):
        ledger.spend(lesson, keys, mu, {})
    assert ledger.entries() == []


def test_a_system_without_locks_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fcntl", None)
    with pytest.raises(SettingError, match="needs file locks"):
        Ledger(tmp_path, *BUDGET)


# Kills, power cuts, full disks ------------------------------------------------------------------------------

SMALL = share(1e-4)


def pay_first(ledger, name, keys, release):
    if ledger.spend(name, keys, SMALL, {}):
        release(name)


def release_first(ledger, name, keys, release):
    release(name)
    ledger.spend(name, keys, SMALL, {})


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
                order(ledger, f"{life}.{number}", ROWS[rng.integers(5) :], release)
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
    lost = ledger.spent(ROWS[-1:])[0] / SMALL**2 - len(released)
    wrong = [f"{name} was released and never paid" for name in released if name not in paid]
    if lost < -1e-6:
        wrong.append(f"{-lost:g} lessons more were released than the rows have paid")
    if lost > kills + 1e-6:
        wrong.append(f"{lost:g} lessons were lost in {kills} kills")
    if abs(ledger.spent(ROWS[-1:])[0] / SMALL**2 - len(paid)) > 1e-6:
        wrong.append("entries and rows say different things")
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
    ledger.spend("before", ROWS, SMALL, {})
    seen = set()
    for cut in range(1, 20):
        before = ledger.path.read_bytes()
        machine = Machine(cut, cut, full=True)
        patch = on(machine)
        try:
            paid = ledger.spend(f"lesson {cut}", ROWS, SMALL, {})
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


def spend_within(folder: Path, most: int, told) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        Ledger(folder, *BUDGET).spend("too big", np.arange(1000, dtype=np.uint64), SMALL, {})
        told.put("paid")
    except QueryRefused as error:
        told.put(str(error))


def test_a_real_limit_on_files_refuses_too(tmp_path):
    """The system's own error, in a process of its own."""
    ledger = Ledger(tmp_path, *BUDGET)
    ledger.spend("before", ROWS, SMALL, {})
    before = ledger.path.read_bytes()
    told = FORK.SimpleQueue()
    child = FORK.Process(target=spend_within, args=(tmp_path, 4096, told))
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
        pay_first(ledger, f"{name}.{number}", ROWS, lambda lesson: os.write(handle, f"{lesson}\n".encode()))


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
    assert ledger.spent(ROWS) == pytest.approx(75 * SMALL**2)
    assert json.dumps(ledger.entries())


def test_processes_at_once_do_not_overspend(tmp_path):
    """Each would fit, all together do not: exactly ten tenths are paid."""
    children = [FORK.Process(target=spend_tenths, args=(tmp_path / "kept", i)) for i in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    assert len(Ledger(tmp_path / "kept", *BUDGET).entries()) == 10


def spend_tenths(folder: Path, who: int) -> None:
    ledger = Ledger(folder, *BUDGET)
    for number in range(6):
        try:
            ledger.spend(f"{who}.{number}", ROWS, share(0.1), {})
        except BudgetSpent:
            return
