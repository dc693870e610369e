"""What people type: every wait names whom it waits for, every refusal reaches both sides, and nothing is paid in vain."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from superteach.federated.coordinator import Coordinator
from superteach.federated.documents import own_key, public_of
from superteach.privacy.ledger import Ledger
from tests.federated.conftest import SITES


def paid(town, name):
    return len(Ledger(town.site(name) / "ledger", 1.0, 1e-6).entries())


def test_a_lesson_is_ordered_now_and_fetched_later(town, capsys):
    town.step_all()
    town.away = set(SITES)
    assert town.teach("out", "--no-wait") == 0
    said = capsys.readouterr().out
    name = said.partition("Lesson ")[2][:12]
    assert f"superteach lessons fetch {town.home} {name}" in said
    assert town.call("lessons", "list", town.home) == 0
    assert "waits for north, south, west" in capsys.readouterr().out
    assert town.call("lessons", "fetch", town.home, name, "--out", town.folder / "out") == 0
    assert not (town.folder / "out").exists()
    town.away = set()
    town.step_all()
    assert town.call("lessons", "fetch", town.home, name, "--out", town.folder / "out") == 0
    assert town.lesson("out")["lesson"].startswith(name)
    assert town.call("lessons", "fetch", town.home, name, "--out", town.folder / "twice") == 0
    assert town.lesson("twice")["files"] == town.lesson("out")["files"]
    capsys.readouterr()
    assert town.call("lessons", "show", town.home, name, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["state"], shown["questions"]) == ("fetched", 1)


def test_dp_fetched_step_by_step_is_paid_once(town, capsys):
    town.accept("dp")
    town.step_all()
    town.away = set(SITES)
    assert town.teach("out", "--privacy", "dp", "--no-wait") == 0
    name = capsys.readouterr().out.partition("Lesson ")[2][:12]
    for _ in range(3):
        for site in SITES:
            town.step(site)
        assert town.call("lessons", "fetch", town.home, name, "--out", town.folder / "out") == 0
    assert town.lesson("out")["rounds"] == 3
    assert [paid(town, site) for site in SITES] == [1, 1, 1]


def test_the_same_command_goes_on_with_a_lesson_and_pays_nothing_again(town, capsys):
    town.accept("dp")
    town.step_all()
    town.away = {"west"}
    assert town.teach("out", "--privacy", "dp", "--wait", 0.2) == 1
    err = capsys.readouterr().err
    assert "no reply yet from west" in err
    assert "Paid for this lesson: north ε = 1, south ε = 1" in err
    town.away = set()
    assert town.teach("out", "--privacy", "dp") == 0
    assert [paid(town, name) for name in SITES] == [1, 1, 1]
    assert "goes on with lesson" in capsys.readouterr().err
    assert len(Coordinator(town.home).sites) == 3
    assert len(list((town.home / "lessons").iterdir())) == 1


def test_whom_a_command_waits_for_is_said_soon(town, capsys, monkeypatch):
    monkeypatch.setattr("superteach.federated.engine.SOON", 0.05)
    town.step_all()
    town.away = {"west"}
    assert town.teach("out", "--wait", 0.3) == 1
    assert "waiting for west (question 1" in capsys.readouterr().err


def test_a_refusal_reaches_both_people_and_mended_the_lesson_goes_on(town, fails):
    town.accept("dp")
    town.step_all()
    town.away = {"west"}
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.8, "--wait", 0.2) == 1
    town.away = set()
    town.edit("west", "lesson = 1 ", "lesson = 0.5 ")
    line = fails(lambda: town.teach("out", "--privacy", "dp", "--epsilon", 0.8), 1)
    for part in (
        "site west refuses",
        "ask for less",
        "Paid for this lesson: north ε = 0.8, south ε = 0.8",
        "lessons abort",
    ):
        assert part in line
    assert any("was refused" in text for text in town.sites["west"][0].notices)
    assert paid(town, "west") == 0
    town.edit("west", "lesson = 0.5 ", "lesson = 1 ")
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.8) == 0
    assert [paid(town, name) for name in SITES] == [1, 1, 1]


def test_a_lesson_that_is_given_up_is_over_for_everybody(town, capsys, fails):
    town.step_all()
    town.away = {"west"}
    assert town.teach("out", "--wait", 0.2) == 1
    (lesson,) = [path.name for path in (town.home / "lessons").iterdir()]
    assert town.call("lessons", "abort", town.home, lesson[:8]) == 0
    assert "Paid for this lesson: nothing" in capsys.readouterr().out
    town.away = set()
    for _ in range(2):
        town.step_all()
    assert all((town.site(name) / "lessons" / lesson / "done").exists() for name in SITES)
    assert "given up" in fails(lambda: town.call("lessons", "fetch", town.home, lesson, "--out", town.folder / "x"), 2)
    assert town.teach("out") == 0
    assert town.lesson("out")["lesson"] != lesson


def test_under_review_nothing_leaves_before_a_person_has_read_it(town, capsys):
    for name in SITES:
        town.edit(name, "review = false", "review = true ")
    assert town.teach("out", "--wait", 0.2) == 1
    assert list((town.place / "lessons").rglob("*reply*")) == []
    capsys.readouterr()
    for name in SITES:
        assert town.call("site", "review", town.site(name)) == 0
        said = capsys.readouterr().out
        assert f'"site": "{name}"' in said
        assert town.call("site", "approve", town.site(name), "all") == 0
        assert town.call("site", "review", town.site(name)) == 0
        assert "0 replies wait" in capsys.readouterr().out
    assert town.teach("out") == 0
    assert town.call("site", "approve", town.site("north"), "all") == 2


def test_a_sites_new_key_is_one_line_at_the_coordinator(town, fails, capsys):
    assert town.teach("out") == 0
    (town.site("north") / "key").unlink()
    town.restart("north")
    town.step("north")
    new = public_of(own_key(town.site("north")))
    for path in (town.place / "members").glob("north-*"):
        if new not in path.read_text():
            path.unlink()
    capsys.readouterr()
    assert town.teach("new", "--wait", 0.1, "--teachers", "north,south") == 2
    err = capsys.readouterr().err
    assert new in err
    assert "federation.toml" in err
    path = town.home / "federation.toml"
    lines = [f'north = "{new}"' if line.startswith("north") else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    assert town.teach("new", "--teachers", "north,south") == 0
    path.write_text("\n".join('north = "revoked"' if line.startswith("north") else line for line in lines) + "\n")
    assert "sent away" in fails(lambda: town.teach("third", "--wait", 0.1, "--teachers", "north,south"), 2)
    assert town.teach("third") == 0
    assert {entry["teacher"] for entry in town.lesson("third")["files"]} == {"south", "west"}


def test_a_coordinators_new_key_is_one_line_in_each_policy(town, capsys):
    assert town.teach("out") == 0
    old = Coordinator(town.home).public
    (town.home / "key").unlink()
    new = Coordinator(town.home).public
    assert town.teach("new", "--wait", 0.2) == 1
    assert "no reply yet from north, south, west" in capsys.readouterr().err
    assert any(new in text for text in town.sites["north"][0].notices)
    for name in SITES:
        town.edit(name, old, new)
    town.step_all()
    assert town.teach("new") == 0


def test_site_commands_answer_once_and_say_how_things_stand(town, capsys):
    town.accept("dp")
    for name in SITES:
        assert town.call("site", "once", town.site(name)) == 0
    town.away = set(SITES)
    assert town.teach("out", "--privacy", "dp", "--no-wait") == 0
    for name in SITES:
        assert town.call("site", "once", town.site(name)) == 0
    capsys.readouterr()
    assert town.call("site", "status", town.site("north"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["left"] == 0.0
    assert told["lessons"][0]["paid"] == {"epsilon": 1.0, "delta": 1e-6}
    assert json.loads((town.site("north") / "status.json").read_text())["site"] == "north"
    assert town.call("site", "status", town.site("north")) == 0


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (("--privacy", "none"), 1, "site north accepts privacy 'isolated', not 'none'"),
        (("--privacy", "dp"), 1, "site north accepts privacy 'isolated', not 'dp'"),
        (("--teachers", "nobody"), 2, "never invited"),
        (("--features", "a,zzz"), 2, "no feature column 'zzz'"),
        (("--privacy", "isolated", "--method", "dual"), 2, "--method"),
        (("--target", "ill"), 2, "--box takes no files"),
        (("--measured",), 2, "--costs and --measured are for files"),
        (("--epsilon", 1), 2, "--epsilon goes with --privacy dp"),
        (("--goal", "perturbed"), 2, "releases no such fit"),
        (("--positive", "yes"), 2, "'yes'"),
    ],
)
def test_wrong_orders_are_refused_before_anything_is_asked(town, fails, more, status, said):
    line = fails(lambda: town.teach("out", *more), status)
    assert said in line
    assert not (town.place / "lessons").exists()


def test_sites_whose_labels_differ_in_type_are_told_before_anything_is_asked(town, fails):
    """0 and 1 at one site, the texts "0" and "1" at another: the coordinator names both."""
    pd.read_csv(town.files["south"], dtype={"ill": str}).to_parquet(town.folder / "south.parquet")
    path = town.site("south") / "site.toml"
    path.write_text(path.read_text().replace("south.csv", "south.parquet"))
    town.edit("south", "labels = [0, 1]", 'labels = ["0", "1"]')
    line = fails(lambda: town.teach("out"), 2)
    assert "site north has 0, 1 (numbers), site south has '0', '1' (text)" in line
    assert not (town.place / "lessons").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("share = 1.0", "share = 2", "share=2"),
        ("[budget]", "[budgets]", "budgets"),
        ("delta = 1e-06", "delta = 0.2", "delta"),
    ],
)
def test_a_policy_with_a_fault_answers_nothing_and_says_why(town, fails, old, new, said):
    town.step_all()
    town.edit("north", old, new)
    assert "north" in fails(lambda: town.teach("out", "--wait", 0.3), 1)
    assert any(said in text for text in town.sites["north"][0].notices)


def test_site_new_says_what_is_wrong(town, fails, tmp_path):
    invitation = town.home / "invitations" / "north.json"
    data = ("--data", town.files["north"], "--target", "ill")
    assert "is there already" in fails(
        lambda: town.call("site", "new", town.site("north"), "--invitation", invitation, *data), 2
    )
    assert "is no invitation" in fails(
        lambda: town.call("site", "new", tmp_path / "s", "--invitation", town.files["north"], *data), 2
    )
    assert "'zz'" in fails(
        lambda: town.call("site", "new", tmp_path / "s", "--invitation", invitation, *data[:2], "--target", "zz"), 2
    )
    assert not (tmp_path / "s").exists()
    assert "is no site" in fails(lambda: town.call("site", "once", tmp_path), 2)
    assert "is no federation" in fails(lambda: town.call("lessons", "list", tmp_path), 2)
    assert "is no folder" in fails(
        lambda: town.call("federation", "new", tmp_path / "fed", "--site", "a", "--box", tmp_path / "nowhere"), 2
    )


def test_a_site_that_joins_a_little_late_takes_part(town, capsys):
    """Sites are started in some order, and the coordinator need not know in which."""
    town.away = {"north", "south", "west"}
    late, plain = iter(["north", "south", "west"]), town.step_all

    def one_by_one():
        town.away.discard(next(late, ""))
        plain()

    town.step_all = one_by_one
    assert town.teach("out", "--wait", 30) == 0
    assert {entry["teacher"] for entry in town.lesson("out")["files"]} == set(SITES)
    assert town.call("federation", "new", town.home, "--site", "east") == 0
    capsys.readouterr()
    assert town.teach("new", "--wait", 0.2) == 0
    assert "east was invited and has not joined" in capsys.readouterr().err


def test_further_sites_are_invited_later(town, capsys):
    assert town.teach("out") == 0
    assert town.call("federation", "new", town.home, "--site", "east") == 0
    assert (town.home / "invitations" / "east.json").exists()
    data = ("--data", town.files["west"], "--target", "ill")
    east = town.folder / "site-east"
    assert town.call("site", "new", east, "--invitation", town.home / "invitations" / "east.json", *data) == 0
    assert town.call("site", "once", east) == 0
    capsys.readouterr()
    town.away = set(SITES)
    assert town.teach("new", "--no-wait", "--teachers", "east,south") == 0


def test_a_box_that_is_away_for_a_while_ends_no_lesson(town, capsys, monkeypatch):
    town.step_all()
    looks, plain = [0], type(town.box).list

    def away(self, folder):
        looks[0] += 1
        if 3 <= looks[0] < 8:
            raise OSError("connection lost")
        return plain(self, folder)

    monkeypatch.setattr(type(town.box), "list", away)
    assert town.teach("out") == 0
    assert capsys.readouterr().err.count("documents cannot be exchanged (connection lost)") == 1
