"""Boxes: a folder here, and whatever fsspec reaches; copying between them in any order loses nothing."""

from __future__ import annotations

import random

import pytest

from superteach.exceptions import SettingError
from superteach.federated.box import Box, LocalBox, RemoteBox, open_box
from tests.federated.conftest import SITES, Stepping

pytest.importorskip("fsspec")


@pytest.fixture(params=["local", "memory"])
def box(request, tmp_path):
    return LocalBox(tmp_path) if request.param == "local" else RemoteBox(f"memory://box{random.random()}")


def test_a_box_lists_what_was_put(box):
    assert box.list("lessons") == []
    assert box.get("lessons/none", 10) == b""
    box.put("lessons/a/one.json", b"12345")
    box.put("lessons/a/one.json", b"12345")
    assert box.list("lessons") == ["a"]
    assert box.list("lessons/a") == ["one.json"]
    assert box.get("lessons/a/one.json", 10) == b"12345"
    assert len(box.get("lessons/a/one.json", 2)) == 3  # one more than allowed, so that it is seen


def test_a_box_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingError, match="is no folder"):
        open_box(str(tmp_path / "nowhere"))
    with pytest.raises(SettingError, match="cannot be reached"):
        open_box("nonsense://x")


def carry(one: Box, other: Box) -> int:
    """Copy what is missing: all that anybody needs who carries documents."""
    missing = [
        f"{folder}/{name}"
        for folder in ["members", *(f"lessons/{lesson}" for lesson in one.list("lessons"))]
        for name in set(one.list(folder)) - set(other.list(folder))
    ]
    for name in missing:
        other.put(name, one.get(name, 1 << 20))
    return len(missing)


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_documents_carried_by_hand_between_two_boxes_make_the_same_lesson(town, privacy, tmp_path):
    """The coordinator has a box, the sites another, and somebody copies now and then."""
    if privacy == "dp":
        town.accept("dp")
    theirs = RemoteBox(f"memory://theirs{random.random()}")
    ours = LocalBox(town.place)
    town.carrier = theirs

    class Carried(Stepping):
        def list(self, folder):
            town.step_all()
            carry(ours, theirs)
            carry(theirs, ours)
            return LocalBox.list(self, folder)

        def put(self, name, data):
            LocalBox.put(self, name, data)

    town.box = Carried(town)
    assert town.teach("out", "--privacy", privacy, "--teachers", ",".join(SITES)) == 0
    assert sum(entry["rows"] for entry in town.lesson("out")["files"]) == 90
    assert carry(ours, theirs) + carry(theirs, ours) <= 2
    assert carry(ours, theirs) + carry(theirs, ours) == 0
