"""The teacher's own rules: read strictly, and held against every question."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from superteach.errors import QueryRefused, SettingError
from superteach.promises.audit import Audit
from superteach.promises.guard import Guard
from superteach.promises.policy import NAMES, Policy, policy_of, read_policy, template
from superteach.queries import QUERIES, AskMoments, Census, Gather


def test_the_template_is_a_policy_that_allows_all_but_single_rows(tmp_path):
    """What a kit starts with reads back as the defaults, with every query whose reply is a sum and what it shows."""
    place = tmp_path / "policy.toml"
    place.write_text(template(["who@where.example"]), encoding="utf-8")
    policy = read_policy(place)
    assert policy == Policy(("who@where.example",), folder=tmp_path / "chosen")
    sums = set(NAMES) - {"Play", "Settle", "Gather", "Assign", "Show", "Take"}
    assert policy.queries == Policy(()).queries == sums
    text = place.read_text(encoding="utf-8")
    assert set(tomllib.loads(text)["queries"]) == sums
    assert all(query.exposure in text for query in QUERIES if query.__name__ in sums)


def test_an_owner_may_list_queries_that_show_single_rows(tmp_path):
    """By name and not otherwise: the list in the file is the list that holds."""
    some = policy_of({"coordinators": [], "queries": ["Gather", "Census"]}, tmp_path / "p.toml")
    gather = Gather((3,), 2)
    Guard(some).admit(gather, 0, 3)
    usual = policy_of({"coordinators": []}, tmp_path / "p.toml")
    with pytest.raises(QueryRefused, match="does not allow Gather"):
        Guard(usual).admit(gather, 0, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names no coordinators"),
        ("coordinators = 'a'", "must be a list"),
        ("coordinators = []\nrounds = 3", "'rounds', which is not known"),
        ("coordinators = []\n[chosen]\nplace = 'x'", "'place', which is not known"),
        ("coordinators = []\nqueries = ['AskRow']", "'AskRow', which is no query"),
        ("coordinators = []\nleast_rows = 0", "least_rows=0"),
        ("coordinators = []\nmost_rounds = true", "most_rounds=True"),
        ("coordinators = []\nmost_rounds = '3'", "most_rounds='3'"),
        ("coordinators = []\nleast_change = 3", "'least_change', which is not known"),
        ("coordinators = []\nasynchronous = 1", "asynchronous=1"),
        ("coordinators = []\n[chosen]\nwrite = 'all'", "chosen.write='all'"),
        ("coordinators = [", "is no TOML"),
    ],
)
def test_a_bad_policy_is_an_error_that_names_the_entry(text, reason, tmp_path):
    """Nothing in a policy file is ignored."""
    place = tmp_path / "policy.toml"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=reason):
        read_policy(place)


def test_a_missing_policy_is_an_error(tmp_path):
    """Without a policy nothing starts."""
    with pytest.raises(SettingError, match="cannot be read"):
        read_policy(tmp_path / "none.toml")


def test_coordinators_are_known_by_name_or_fingerprint(tmp_path):
    """Either is enough; neither is not."""
    policy = policy_of({"coordinators": ["ann@a.org", "sha256:00ff"]}, tmp_path / "p.toml")
    guard = Guard(policy)
    guard.check_coordinator("ann@a.org", "1234")
    guard.check_coordinator("bob@b.org", "00ff")
    for name, fingerprint in (("bob@b.org", "1234"), ("00ff", ""), ("", "")):
        with pytest.raises(QueryRefused, match="does not list"):
            guard.check_coordinator(name, fingerprint)


def test_queries_rounds_and_rows(tmp_path):
    """Each rule refuses with its own number in the reason."""
    policy = policy_of({"coordinators": [], "queries": ["Census"], "most_rounds": 3, "least_rows": 5}, tmp_path / "p")
    guard = Guard(policy)
    guard.admit(Census(), 2, 3)
    with pytest.raises(QueryRefused, match="does not allow AskMoments"):
        guard.admit(AskMoments("loss", "all", np.zeros(2), 1), 0, 3)
    with pytest.raises(QueryRefused, match="3 rounds"):
        guard.admit(Census(), 3, 3)
    guard.check_rows(5, "these")
    guard.check_rows(0, "these")
    for rows in (1, 4):
        with pytest.raises(QueryRefused, match="at least 5 rows, these are fewer"):
            guard.check_rows(rows, "these")


def test_the_audit_log_only_grows(tmp_path):
    """Lines are added to what is there, also by another process's object, and a torn line spoils nothing."""
    path = tmp_path / "audit.jsonl"
    Audit(path).add({"query": "Census"})
    before = path.read_bytes()
    Audit(path).add({"query": "Keep"})
    assert path.read_bytes().startswith(before)
    with path.open("ab") as file:
        file.write(b'{"query": "torn')
    assert [entry["query"] for entry in Audit(path).entries()] == ["Census", "Keep"]


def test_a_log_that_cannot_be_written_refuses():
    """A full disk is the device that is always full."""
    with pytest.raises(QueryRefused, match="cannot be written"):
        Audit("/dev/full").add({"query": "Census"})
    with pytest.raises(QueryRefused, match="cannot be written"):
        Audit("/nowhere/at/all").add({"query": "Census"})
