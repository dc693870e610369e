"""What a saboteur tries: each of these succeeded, or its like did, over a shared command channel."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from superteach.exceptions import QueryRefused, SettingError
from superteach.federated import documents, engine
from superteach.federated.box import LocalBox, file_name
from superteach.federated.coordinator import Coordinator, create_federation
from superteach.federated.documents import own_key, public_of, read, sign
from superteach.federated.runner import Runner
from superteach.federated.site import Site
from superteach.privacy.ledger import Ledger
from tests.federated.conftest import respond

STRANGER = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)


@pytest.fixture
def order(town):
    """The order of a lesson that the sites have not seen."""
    town.away = {"north", "south", "west"}
    for name in town.away:
        town.step(name)  # they join
    assert town.teach("out", "--no-wait") == 0
    (path,) = (town.place / "lessons").rglob("*order*.json")
    return read(path.read_bytes())


def forged(order, key, **more):
    return sign(key, "order", {**order.body, **more})


def put(town, document, lesson=None, name=None):
    path = town.place / "lessons" / (lesson or document.id) / (name or file_name(document))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document.data)
    return path


def replies(town, name="north"):
    return list((town.place / "lessons").rglob(f"*reply-{name}*.json"))


def test_an_order_by_a_stranger_or_a_fellow_site_is_not_answered(town, order):
    fellow = own_key(town.site("south"))
    for key in (STRANGER, fellow):
        put(town, forged(order, key))
    for path in (town.place / "lessons" / order.id).iterdir():
        path.unlink()
    town.step("north")
    assert replies(town) == []
    notices = " ".join(town.sites["north"][0].notices)
    assert public_of(STRANGER) in notices
    assert public_of(fellow) in notices
    assert "add its key to `coordinators`" in notices


def test_a_site_answers_nobody_who_only_knows_the_coordinators_name(town, order):
    stolen = json.loads(order.data)
    stolen["body"]["size"] = 91
    data = json.dumps(stolen, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(QueryRefused, match="do not hold"):
        respond(Site(town.site("north")), data)


def test_a_reply_in_the_name_of_another_site_is_ignored(town, order, capsys):
    body = {"site": "south", "number": 1, "status": "ok", "numbers": [], "reason": "", "paid": None}
    put(town, sign(own_key(town.site("north")), "reply", body, order.id), order.id)
    put(town, sign(STRANGER, "reply", body, order.id), order.id)
    town.away = {"south"}
    assert town.teach("out", "--wait", 0.3) == 1
    err = capsys.readouterr().err
    assert "no reply yet from south" in err
    assert "is not signed with its key" in err


def test_a_reply_to_another_lesson_counts_for_nothing(town, order, capsys):
    town.away = set()
    assert town.teach("out") == 0
    old = replies(town, "south")[0]
    town.away = {"south"}
    assert town.teach("new", "--no-wait") == 0
    (other,) = [path for path in (town.place / "lessons").iterdir() if path.name != order.id]
    (other / old.name).write_bytes(old.read_bytes())
    assert town.teach("new", "--wait", 0.3) == 1
    assert "no reply yet from south" in capsys.readouterr().err


def test_a_question_is_not_moved_into_another_lesson(town, order):
    site = Site(town.site("north"))
    assert site.take(order)
    key = Coordinator(town.home).key
    other = forged(order, key, size=100)
    site.take(other)
    question = {"number": 2, "to": ["north"], "query": order.body["query"]}
    strange = sign(STRANGER, "question", question, order.id)
    with pytest.raises(QueryRefused, match="does not list"):
        site.take(strange)
    first = sign(key, "question", question, order.id)
    assert site.take(first)
    changed = sign(key, "question", {**question, "to": ["north", "south"]}, order.id)
    with pytest.raises(QueryRefused, match="another question 2 already"):
        site.take(changed)
    assert not site.take(sign(key, "question", question, "b" * 64))  # of no order that is here


def test_two_coordinators_do_not_speak_for_each_other(town, order):
    second = STRANGER
    town.edit("north", "coordinators = [", f'coordinators = [ "{public_of(second)}",')
    site = Site(town.site("north"))
    site.take(order)
    receipt = sign(second, "receipt", {"outcome": "aborted", "reason": ""}, order.id)
    with pytest.raises(QueryRefused, match="another coordinator"):
        site.take(receipt)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"privacy": "none"}, "its policy accepts privacy 'isolated', not 'none'"),
        ({"privacy": "open"}, "cannot be taught"),
        ({"columns": ["a", "password"]}, "declares no column 'password'"),
        ({"classes": [0, 2]}, "other labels"),
        ({"classes": ["0", "1"]}, "other labels"),
        ({"target": "name"}, "the target 'name'"),
        ({"version": "99.0"}, "versions work together"),
        ({"size": 1}, "its policy allows 1"),
        ({"learner": {"loss": {"name": "os.system"}}}, "cannot be taught"),
        (
            {"query": {"name": "Census", "fields": {"rows": "all", "classes": 0, "costs": False}, "arrays": []}},
            "lets no reply",
        ),
        ({"query": {"name": "sys.shell", "fields": {}, "arrays": []}}, "no query named"),
        ({"query": {"name": "../../etc/passwd", "fields": {}, "arrays": [1]}}, "arrays that are not"),
        ({"query": {"cmd": "rm"}}, "nothing else"),
    ],
)
def test_an_order_that_the_policy_does_not_allow_is_refused_to_both_people(town, order, more, said):
    site = Site(town.site("west"))
    (reply,) = respond(site, forged(order, Coordinator(town.home).key, **more).data)
    body = read(reply).body
    assert (body["status"], body["numbers"], body["paid"]) == ("refused", [], None)
    assert said in body["reason"]
    assert any(said in notice for notice in site.notices)
    assert said in (town.site("west") / "audit.jsonl").read_text()
    assert not (town.site("west") / "chosen").exists()


def test_an_expired_order_and_one_from_the_future_are_refused(town, order, monkeypatch):
    site = Site(town.site("north"))
    old = sign(Coordinator(town.home).key, "order", {**order.body, "size": 89}, days=-1)
    (reply,) = respond(site, old.data)
    assert "expired" in read(reply).body["reason"]


def test_an_order_for_a_path_outside_writes_nothing_there(town, order):
    before = set(town.folder.rglob("*"))
    site = Site(town.site("north"))
    for odd in ("../../../outside", "/etc/cron.d/x", "north/../../x", "x\x00y"):
        seats = [{**seat, "name": odd} if seat["name"] == "north" else seat for seat in order.body["roster"]]
        with pytest.raises(QueryRefused):
            site.take(forged(order, Coordinator(town.home).key, roster=seats))
        put(town, order, order.id, "evil.json")
    box = LocalBox(town.place)
    (town.place / "lessons" / ("f" * 64)).symlink_to("/etc")
    (town.place / "lessons" / "..%2f").mkdir()
    site.sync(box)
    assert box.list("lessons/" + "f" * 64) == []
    new = set(town.folder.rglob("*")) - before
    assert all(town.place in path.parents or town.site("north") in path.parents for path in new)


def test_a_name_with_escape_sequences_does_not_reach_a_terminal(town, order):
    site = Site(town.site("north"))
    heard: list[str] = []
    site.on_notice = heard.append
    respond(site, forged(order, Coordinator(town.home).key, target="\x1b]0;owned\x07\x1b[2J").data)
    assert heard
    assert not any("\x1b" in text or "\x07" in text for text in (*heard, *site.notices, json.dumps(site.status())))


def test_a_refusal_with_escape_sequences_is_shown_without(town, order, capsys):
    body = {
        "site": "north",
        "number": 1,
        "status": "refused",
        "numbers": [],
        "reason": "\x1b[2Jpay\r\n me",
        "paid": None,
    }
    put(town, sign(own_key(town.site("north")), "reply", body, order.id), order.id)
    town.away = {"north"}
    assert town.teach("out") == 1
    err = capsys.readouterr().err
    assert "site north refuses" in err
    assert "\x1b[2J" not in err


def test_a_version_with_escape_sequences_is_no_version(town, order):
    """It would be shown where two versions do not work together."""
    for kind, body in (("order", order.body), ("membership", Site(town.site("north")).membership().body)):
        with pytest.raises(QueryRefused, match="'version' does not fit"):
            sign(STRANGER, kind, {**body, "version": "9.\x1b[2J"})


def test_a_document_of_ten_megabytes_is_not_read(town, order, monkeypatch):
    read_bytes: list[int] = []
    plain = LocalBox.get
    monkeypatch.setattr(LocalBox, "get", lambda self, name, most: read_bytes.append(most) or plain(self, name, most))
    path = town.place / "lessons" / order.id / f"0002-question-{'a' * 32}.json"
    path.write_bytes(b"[" * 10_000_000)
    town.step("north")
    assert read_bytes
    assert max(read_bytes) <= 1 << 20


@pytest.mark.parametrize("part", ["lessons", "outbox", "ledger", "chosen", "policy.toml"])
def test_a_folder_that_became_a_link_is_refused(town, part):
    place = town.site("north") / part
    aside = town.folder / "aside"
    if place.exists():
        place.rename(aside)
    else:
        aside.mkdir()
    place.symlink_to(aside)
    with pytest.raises(SettingError, match="symbolic link"):
        Site(town.site("north"))


def test_a_key_that_others_can_read_is_refused(town):
    for folder, make in ((town.site("north"), Site), (town.home, Coordinator)):
        os.chmod(folder / "key", 0o644)
        with pytest.raises(SettingError, match="chmod 600"):
            make(folder)


def test_what_a_site_keeps_is_for_its_owner_alone(town):
    town.accept("dp")
    assert town.teach("out", "--privacy", "dp") == 0
    for path in town.site("north").rglob("*"):
        if path.is_file() and path.parent.name not in ("site-north",):
            assert path.stat().st_mode & 0o077 == 0, path


def test_an_invitation_cannot_be_accepted_by_whoever_reads_the_box(town, order):
    """Another key joins as a site whose membership it has seen, and is not taken for it."""
    (membership,) = (town.place / "members").glob("north-*.json")
    seen = read(membership.read_bytes())
    false = sign(STRANGER, "membership", {**seen.body, "rows": 1_000_000}, seen.answers)
    (town.place / "members" / f"north-{false.id[:32]}.json").write_bytes(false.data)
    members, strange = Coordinator(town.home).members(LocalBox(town.place))
    assert members["north"].author == public_of(own_key(town.site("north")))
    assert strange == []


def test_a_budget_is_not_reset_by_what_lies_in_the_folder(town):
    """The lesson's documents are removed and the order is given again: no second draw of noise, with or without the box."""
    town.accept("dp")
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.5) == 0
    site = town.site("north")
    (lesson,) = [path.name for path in (site / "lessons").iterdir()]
    kept = {path.name: path.read_bytes() for path in (site / "lessons" / lesson).glob("*.json")}
    for path in (site / "lessons" / lesson).iterdir():
        path.unlink()
    (site / "lessons" / lesson).rmdir()
    order = next(data for name, data in kept.items() if "order" in name)
    (reply,) = respond(Site(site), order)
    assert "second draw of noise" in read(reply).body["reason"]
    assert len(Ledger(site / "ledger", 1.0, 1e-6).entries()) == 1


def test_an_older_copy_of_the_whole_folder_is_noticed_in_the_box_and_charged(town):
    town.accept("dp")
    town.step_all()
    shutil.copytree(town.site("north"), town.folder / "backup")
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.5) == 0
    lesson = town.lesson("out")["lesson"]
    town.restart("north")
    shutil.rmtree(town.site("north"))
    shutil.copytree(town.folder / "backup", town.site("north"))
    for path in (town.place / "lessons").rglob("*receipt*"):
        path.unlink()
    town.step("north")
    town.step("north")
    assert [one["lesson"] for one in Ledger(town.site("north") / "ledger", 1.0, 1e-6).entries()] == [lesson]
    assert any("an older copy" in text for text in town.sites["north"][0].notices)
    numbers = {path.name for path in replies(town)}
    assert len(numbers) == 3  # as they were


def test_an_older_ledger_is_noticed_from_the_audit_log(town):
    town.accept("dp")
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.3) == 0
    old = (town.site("north") / "ledger" / "ledger").read_bytes()
    assert town.teach("more", "--privacy", "dp", "--epsilon", 0.4) == 0
    (town.site("north") / "ledger" / "ledger").write_bytes(old)
    town.restart("north")
    assert town.teach("third", "--privacy", "dp", "--epsilon", 0.2) == 1
    assert "old copy" in " ".join(town.sites["north"][0].notices)


def test_two_sites_of_one_name_are_not_invited(tmp_path):
    for names, said in ((["north", "North"], "one name"), (["a/b"], "no name"), (["-x"], "no name")):
        with pytest.raises(SettingError, match=said):
            create_federation(tmp_path / "f", names)
    assert not Path(tmp_path / "f").exists()


def test_answering_needs_no_network_and_no_port(town, order, monkeypatch):
    import socket

    def refuse(*_, **__):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "__init__", refuse)
    site = Site(town.site("north"))
    assert len(respond(site, order.data)) == 1


# Boxes that somebody else writes into ----------------------------------------------------------------------


def test_folders_in_place_of_documents_use_up_no_handles(town, order, capsys):
    """The coordinator looked at one again and again, and was left without files to open."""
    for path in (f"0001-reply-south-{'a' * 32}.json", f"0002-question-{'b' * 32}.json"):
        (town.place / "lessons" / order.id / path).mkdir(parents=True)
    town.away = {"south"}
    before = len(os.listdir("/proc/self/fd"))
    box = LocalBox(town.place)
    for _ in range(30):
        assert box.get(f"lessons/{order.id}/0002-question-{'b' * 32}.json", 10) == b""
    assert len(os.listdir("/proc/self/fd")) == before
    assert town.teach("out", "--wait", 0.3) == 1
    assert "no reply yet from south" in capsys.readouterr().err


def test_rubbish_in_a_box_is_read_a_few_times_and_not_at_every_look(town, order, monkeypatch):
    path = town.place / "lessons" / order.id / f"0001-reply-south-{'a' * 32}.json"
    path.write_bytes(b"[" * 1_000_000)
    looks = []
    plain = LocalBox.get
    monkeypatch.setattr(LocalBox, "get", lambda box, name, most: looks.append(name) or plain(box, name, most))
    town.away = {"south"}
    assert town.teach("out", "--wait", 0.5) == 1
    assert 0 < sum(name.endswith(path.name) for name in looks) < 5


def test_a_folder_that_cannot_be_read_does_not_keep_others_from_being_answered(town, order, monkeypatch):
    shut = town.place / "lessons" / ("0" * 64)
    shut.mkdir()
    plain = os.listdir

    def listdir(place):
        if Path(place) == shut:
            raise PermissionError(13, "Permission denied")
        return plain(place)

    monkeypatch.setattr(os, "listdir", listdir)
    for _ in range(2):
        assert town.call("site", "once", town.site("north")) == 0
    assert replies(town)
    assert "Permission denied" in (town.site("north") / "notices.log").read_text()


@pytest.mark.parametrize("rights", [0o2770, 0o755, 0o700])
def test_files_in_a_box_are_for_whomever_the_box_is_for(tmp_path, rights):
    """A site under UMask=0077 wrote replies that no coordinator of another name could read."""
    tmp_path.chmod(rights)
    old = os.umask(0o077)
    try:
        LocalBox(tmp_path).put("lessons/a/b.json", b"x")
    finally:
        os.umask(old)
    file = tmp_path / "lessons" / "a" / "b.json"
    assert file.stat().st_mode & 0o777 == rights & 0o666
    assert {path.stat().st_mode & 0o7777 for path in (file.parent, file.parent.parent)} == {rights}


# Orders that a hostile coordinator signs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("privacy", "price"), [("dp", None), ("isolated", {"epsilon": 0.5, "delta": 1e-6}), ("none", None)]
)
def test_what_a_lesson_costs_is_said_in_its_order(town, order, privacy, price):
    """A dp lesson without a price was answered for ε = 1, and not charged when an old copy of the folder came back."""
    for name in ("isolated", "dp"):
        town.edit("north", 'privacy = ["', f'privacy = ["{name}", "')
    site = Site(town.site("north"))
    (reply,) = respond(site, forged(order, Coordinator(town.home).key, privacy=privacy, price=price).data)
    assert read(reply).body["status"] == "refused"


def test_rows_are_chosen_once_in_a_lesson(town, order):
    """Each question that asked for it kept the site busy once more, after its lesson."""
    site = Site(town.site("north"))
    (reply,) = respond(site, order.data)
    assert read(reply).body["status"] == "ok"
    again = sign(
        Coordinator(town.home).key,
        "question",
        {name: order.body[name] for name in ("to", "query")} | {"number": 2},
        order.id,
    )
    (reply,) = respond(site, again.data)
    assert "had rows chosen already" in read(reply).body["reason"]
    (choice,) = (town.site("north") / "chosen").glob("*.csv")
    assert choice.exists()


@pytest.mark.parametrize(
    "more",
    [
        {"rows": 10**30},
        {"rows": -5},
        {"share": 2},
        {"columns": []},
        {"columns": ["a", "a"]},
    ],
)
def test_numbers_that_no_site_declares_make_no_membership(town, more):
    """Ten to the thirty rows ended the coordinator's command with an error of NumPy's."""
    town.step("north")
    membership = Site(town.site("north")).membership()
    with pytest.raises(QueryRefused, match=f"'{next(iter(more))}' does not fit"):
        sign(STRANGER, "membership", {**membership.body, **more}, membership.answers)


def test_an_invitation_cannot_write_on_a_terminal(tmp_path):
    body = {"federation": "f", "site": "north", "box": "/tmp/\x1b]0;owned\x07", "secret": "a" * 64}
    with pytest.raises(QueryRefused, match="'box' does not fit"):
        sign(STRANGER, "invitation", body)


def test_a_site_says_where_its_documents_will_travel(town, capsys):
    invitation = Coordinator(town.home).invite("east")
    new = ("site", "new", town.folder / "east", "--invitation", invitation, "--data", town.files["west"])
    assert town.call(*new, "--target", "ill") == 0
    assert str(town.place) in capsys.readouterr().out


# Releases that are made good ----------------------------------------------------------------------------------


def test_a_second_reply_to_one_question_is_charged_as_a_second_release(town):
    """An old copy of a folder is put back, answers anew, and then the first reply turns up in the box after all."""
    town.accept("dp")
    town.step_all()
    shutil.copytree(town.site("north"), town.folder / "backup")
    town.away = {"south"}
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.9, "--wait", 0.3) == 1
    (first,) = replies(town)
    kept = first.read_bytes()
    first.unlink()
    town.restart("north")
    shutil.rmtree(town.site("north"))
    shutil.copytree(town.folder / "backup", town.site("north"))
    town.step("north")
    (second,) = replies(town)
    assert second.name != first.name
    first.write_bytes(kept)
    town.step("north")
    town.step("north")
    ledger = Ledger(town.site("north") / "ledger", 1.0, 1e-6)
    assert len(ledger.entries()) == 2
    assert ledger.left == 0.0
    assert any("older copy" in text for text in town.sites["north"][0].notices)
    town.step("north")
    assert len(ledger.entries()) == 2


def test_a_refusal_is_looked_at_again_once_clock_or_ledger_are_right(town, order, monkeypatch):
    """ "set the clocks" was said, and setting them changed nothing until the policy was touched."""
    monkeypatch.setattr(documents, "SKEW", timedelta(hours=-1))
    put(town, order)
    town.step("north")
    (refused,) = [read(path.read_bytes()) for path in replies(town)]
    assert "set the clocks" in refused.body["reason"]
    town.step("north")
    assert len(replies(town)) == 1  # the same refusal, said once
    monkeypatch.setattr(documents, "SKEW", timedelta(hours=1))
    town.step("north")
    assert sorted(read(path.read_bytes()).body["status"] for path in replies(town)) == ["ok", "refused"]


def test_a_refusal_says_nothing_of_when_rows_or_budgets_change(town, order):
    """Each change of the file brought a new one, with its time."""
    town.accept("dp")
    put(town, order)
    town.step("north")
    (refused,) = replies(town)
    with town.files["north"].open("a") as file:
        file.write("0,0,0,0,1\n")
    town.step("north")
    Ledger(town.site("north") / "ledger", 1.0, 1e-6)
    town.step("north")
    town.restart("north")
    town.step("north")
    assert replies(town) == [refused]


def test_of_a_refusal_and_a_later_answer_the_answer_counts(town, order):
    """The process was killed after the answer was kept, and before the refusal was removed."""
    town.accept("dp")
    site = Site(town.site("north"))
    (refusal,) = respond(site, order.data)
    town.edit("north", '["dp"]', '["isolated"]')
    runner = Runner(site)
    runner.work()
    lesson = next(iter(site.lessons.values()))
    assert lesson.replies[1].body["status"] == "ok"
    for name in ("a", "f"):
        (lesson.folder / f"0001-reply-north-{name * 32}.json").write_bytes(refusal)
    (again,) = Site(town.site("north")).lessons.values()
    assert again.replies[1].id == lesson.replies[1].id


def test_a_ledger_that_was_put_back_is_read_again(town):
    town.accept("dp")
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.3) == 0
    path = town.site("north") / "ledger" / "ledger"
    whole = path.read_bytes()
    path.unlink()
    assert town.teach("more", "--privacy", "dp", "--epsilon", 0.2) == 1
    path.write_bytes(whole)
    town.step("north")
    assert town.teach("more", "--privacy", "dp", "--epsilon", 0.2) == 0


def test_a_policy_that_is_being_written_lets_no_reply_pass_unseen(town, order, monkeypatch):
    """Between the answer and its reply the file was empty, and so "review = true" was not there."""
    town.edit("north", "review = false", "review = true")
    site, runner = town.sites["north"]
    plain = runner._answer

    def answer(lesson, number):
        replied = plain(lesson, number)
        (town.site("north") / "policy.toml").write_text("")
        return replied

    monkeypatch.setattr(runner, "_answer", answer)
    put(town, order)
    town.step("north")
    assert replies(town) == []
    assert len(site.waiting()) == 1


def test_nothing_is_approved_without_a_name(town, order):
    town.edit("north", "review = false", "review = true")
    put(town, order)
    town.step("north")
    with pytest.raises(SettingError, match="no reply that waits"):
        Site(town.site("north")).approve("")
    assert Site(town.site("north")).approve(order.id[:6]) == 1


# Folders on a disk that others use ------------------------------------------------------------------------------


def test_a_folder_that_everybody_can_change_is_refused(town):
    for folder, make in ((town.site("north"), Site), (town.home, Coordinator)):
        folder.chmod(0o777)
        with pytest.raises(SettingError, match="chmod o-w"):
            make(folder)


def test_a_damaged_file_in_a_sites_folder_is_named(town):
    town.step("north")
    lesson = town.site("north") / "lessons" / ("a" * 64)
    lesson.mkdir()
    (lesson / f"0001-order-{'a' * 32}.json").write_bytes(b"{")
    with pytest.raises(SettingError, match=r"0001-order-a.* is damaged"):
        Site(town.site("north"))
    (town.site("south") / "site.toml").write_text("name =")
    with pytest.raises(SettingError, match=r"site\.toml' cannot be read"):
        Site(town.site("south"))


def test_a_path_with_any_letters_can_be_read_again(tmp_path, town):
    place = tmp_path / "\U0001f3e5 klinik"
    place.mkdir()
    data = place / "rows.csv"
    data.write_bytes(town.files["north"].read_bytes())
    create_federation(tmp_path / "other", ["north"], str(place))
    invitation = Coordinator(tmp_path / "other").folder / "invitations" / "north.json"
    new = ("site", "new", tmp_path / "n", "--invitation", invitation, "--data", data, "--target", "ill")
    assert town.call(*new) == 0
    assert Site(tmp_path / "n").settings["data"] == str(data)


def test_names_that_some_disks_take_for_one_are_not_invited_one_after_the_other(tmp_path):
    create_federation(tmp_path / "f", ["north"])
    with pytest.raises(SettingError, match="one name"):
        create_federation(tmp_path / "f", ["North"])
    create_federation(tmp_path / "f", ["north", "south"])


# Sites that lie to the coordinator ------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "status"), [(1e308, 1), (1e25, 0)])
def test_a_site_that_says_impossible_numbers_ends_no_command_with_a_fault(town, monkeypatch, size, status, capsys):
    """Numbers beyond reason are refused by name; others spoil no more than the liar's own rows could."""
    town.accept("dp")
    town.step_all()
    site, _ = town.sites["west"]
    plain = site.reply

    def lie(lesson, number, status, numbers=(), **more):
        plain(lesson, number, status, [size * (-1) ** place for place in range(len(numbers))], **more)

    monkeypatch.setattr(site, "reply", lie)
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.5) == status
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert ("west" in err and "among its numbers" in err) == bool(status)


def test_a_question_that_no_site_would_read_is_not_asked(town, monkeypatch, capsys):
    """It lay in the box, and the coordinator waited for replies that could not come."""
    town.accept("dp")
    monkeypatch.setattr(engine, "MOST_BYTES", 70_000)
    monkeypatch.setattr(engine, "WRITTEN", 1_000)
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.5) == 2
    assert "fewer columns than 4" in capsys.readouterr().err
    assert list((town.home / "lessons").glob("[!.]*")) == []


def test_what_a_client_says_ends_no_nvflare_job(tmp_path):
    """Names that were no list ended the controller, and with it everybody's carrier."""
    pytest.importorskip("nvflare")
    from superteach.federated.nvflare import Shelf

    shelf = Shelf(tmp_path)
    name = f"members/north-{'a' * 32}.json"
    assert shelf.store({name: b"x", "../../out": b"x", f"members/south-{'a' * 32}.json": "text", 5: b"x"}) == 1
    assert [path.name for path in tmp_path.rglob("*.json")] == [name.partition("/")[2]]
    for odd in (None, 5, [[]], [{}], {"a": 1}):
        assert shelf.missing(odd) == {name: b"x"}
        assert shelf.store(odd) == 0
    assert shelf.missing([name]) == {}
