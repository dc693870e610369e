"""Cells of a long run: none is computed twice, and side by side they end up in one order."""

from superteach_lab.records import Records


def fill(path, cells, calls):
    records = Records(path, {"rows": 5})
    for cell in cells:
        records.get({"cell": cell, "seed": 0}, lambda cell=cell: calls.append(cell) or {"risk": 0.1 * cell})
    return records


def test_a_finished_cell_is_read_back_not_computed(tmp_path):
    calls = []
    first = list(fill(tmp_path / "cells.jsonl", range(3), calls))
    again = fill(tmp_path / "cells.jsonl", range(4), calls)
    assert calls == [0, 1, 2, 3]
    assert list(again)[:3] == first
    assert len(again) == 4
    assert {"seed": 0, "cell": 3} in again
    assert {"seed": 1, "cell": 3} not in again


def test_cells_are_put_in_the_order_of_a_plan_with_others_last(tmp_path):
    path = tmp_path / "cells.jsonl"
    records = fill(path, (2, 7, 0, 1), [])
    records.arrange([{"cell": cell, "seed": 0} for cell in range(3)])
    assert [record["cell"]["cell"] for record in records] == [0, 1, 2, 7]
    assert list(Records(path, {"rows": 5})) == list(records)
