"""A site's table: how many rows of one person take part, and when rows are looked at."""

from __future__ import annotations

import json

import numpy as np
import pytest

from superteach.federated import runner
from superteach.federated.rows import canonical, first_rows_of_each, read_table
from superteach.federated.runner import Runner
from superteach.federated.site import Site
from superteach.privacy.accounting import mu_of
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import read_policy


@pytest.mark.parametrize(
    "spellings",
    [
        [1, 1.0, "1", " 1 ", "1.0", np.float32(1), np.int8(1), b"1", True, "１"],
        ["Ann", "ann ", "ANN", b"ann"],
        [None, float("nan"), "", " ", "nan", "<NA>", "NaT"],
        [-0.0, 0, "0", "-0", False],
        ["é", "e\u0301"],
    ],
)
def test_one_person_stays_one_however_its_cell_is_written(spellings):
    assert len({canonical(one) for one in spellings}) == 1


def test_different_people_stay_different():
    cells = ["1", "2", "1.5", "a", "inf", "1e400", "", "01a", 10**17, 10**17 + 16]
    assert len({canonical(one) for one in cells}) == len(cells) - 1  # inf and 1e400 are one number


def test_no_more_rows_of_a_person_take_part_than_the_policy_says():
    people = np.array(["a", "b", "A", "a ", "c", "b", "b", "a"], dtype=object)
    assert first_rows_of_each(people, 2).tolist() == [True, True, True, False, True, True, False, False]
    assert first_rows_of_each(people, 9).all()


def with_people(town, name="north", most=3):
    """Give a site's rows a column that says whose they are, ten rows each, and the policy a bound."""
    path = town.files[name]
    header, *lines = path.read_text().split()
    path.write_text(
        "\n".join([f"{header},who", *(f"{line},p{place // 10}" for place, line in enumerate(lines))]) + "\n"
    )
    town.edit(name, '# identity = "patient" ', 'identity = "who" ')
    town.edit(name, "# rows_per_person = 10 ", f"rows_per_person = {most} ")
    site = town.site(name) / "site.toml"
    site.write_text(site.read_text() + 'features = ["a", "b", "c", "d"]\n')


def test_a_person_with_several_rows_is_charged_for_all_that_take_part(town):
    town.accept("dp")
    with_people(town)
    table = read_table("north", town.files["north"], "ill", ["a", "b", "c", "d"])
    bounded = table.bounded(read_policy(town.site("north") / "policy.toml"))
    assert bounded.count == 3 * (table.count // 10)
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.2) == 0
    (entry,) = Ledger(town.site("north") / "ledger", 1.0, 1e-6).entries()
    assert entry["mu"] == pytest.approx(3.0 * mu_of(0.2, 1e-6))


def test_an_acknowledgement_goes_out_before_rows_are_looked_at(town):
    """So neither its bytes nor its time can tell of them: here there are no rows at all (F12)."""
    town.step_all()
    town.away = {"north", "south", "west"}
    assert town.teach("out", "--no-wait") == 0
    town.files["north"].unlink()
    site = Site(town.site("north"))
    site.sync(town.carrier)
    Runner(site).work()
    site.sync(town.carrier)
    (reply,) = (town.place / "lessons").rglob("*reply-north*.json")
    body = json.loads(reply.read_text())["body"]
    assert (body["status"], body["numbers"], body["reason"]) == ("ok", [], "")


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(town, monkeypatch):
    """Rows and the people they belong to come from one reading (F4)."""
    with_people(town)
    site, read = Site(town.site("north")), []

    def slowly(*given):
        table = read_table(*given)
        if not read:
            town.files["north"].write_text(town.files["north"].read_text().replace(",p0\n", ",p1\n"))
        read.append(table.count)
        return table

    monkeypatch.setattr(runner, "read_table", slowly)
    working = Runner(site)
    table = working._table(working.policy())
    assert len(read) == 2
    assert table.count == 3 * (read[0] // 10) - 3  # the first two people became one
