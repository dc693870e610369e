"""The teacher's own rules: read strictly, and held against every question."""

from __future__ import annotations

import pytest

from superteach.exceptions import QueryRefused, SettingError
from superteach.privacy import PRIVACY
from superteach.privacy.guard import Guard
from superteach.privacy.ledger import AuditLog
from superteach.privacy.policy import Declared, Policy, draft, read_policy, template
from superteach.privacy.shares import rounded
from tests.inside import log_of

DECLARED = "coordinators = []\n[declared]\ncolumns = ['x']\ntarget = 'y'"


def test_the_template_is_a_policy_that_accepts_isolated_alone(tmp_path):
    """What an owner starts with reads back as the defaults, never as "none", and says what each mode means."""
    place = tmp_path / "policy.toml"
    place.write_text(template(["ed25519:AAAA"]), encoding="utf-8")
    policy = read_policy(place)
    assert policy == Policy(("ed25519:AAAA",), lesson=1, folder=tmp_path / "chosen")
    assert (policy.privacy, policy.epsilon, policy.delta, policy.share) == (("isolated",), 1.0, 1e-6, 1.0)
    text = place.read_text(encoding="utf-8")
    assert all(sentence in text for sentence in PRIVACY.values())


@pytest.mark.parametrize(("rows", "stated"), [(1, 1), (9, 1), (97, 90), (735, 730), (48_842, 48_000)])
def test_a_draft_does_not_tell_the_exact_number_of_rows(rows, stated):
    """Two tables that differ by one row nearly always have the same draft."""
    assert rounded(rows) == stated
    assert f"rows = {stated} " in draft(rows, ["x"], "y", None)


@pytest.mark.parametrize("labels", [None, [0, 1], ["no", 'yes, "so"']])
def test_a_draft_of_what_is_declared_reads_back(labels, tmp_path):
    """An owner pastes it behind the template."""
    place = tmp_path / "policy.toml"
    place.write_text(template(["c"]) + draft(1200, ["age", 'the "x"'], "ill", labels), encoding="utf-8")
    told = None if labels is None else tuple(labels)
    assert read_policy(place).declared == Declared(1200, ("age", 'the "x"'), "ill", told)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names no coordinators"),
        ("coordinators = 'a'", "must be a list"),
        ("coordinators = []\nrounds = 3", "'rounds', which is not known"),
        ("coordinators = []\n[chosen]\nplace = 'x'", "'place', which is not known"),
        ("coordinators = []\nqueries = ['Census']", "'queries', which is not known"),
        ("coordinators = []\nleast_rows = 5", "'least_rows', which is not known"),
        ("coordinators = []\nprivacy = ['open']", "privacy=.'open'. must be a list with some of"),
        ("coordinators = []\nprivacy = []", "privacy=.. must be a list with some of"),
        ("coordinators = []\nreview = 1", "review=1 must be true or false"),
        ("coordinators = []\nshare = 1.5", "share=1.5 must be a number from 0 to 1"),
        ("coordinators = []\nrows_per_person = 3", "rows_per_person=3 needs identity"),
        ("privacy = ['dp']\n" + DECLARED + "\nrows = 500000", "budget.delta=1e-06 is above"),
        ("coordinators = []\n[budget]\nepsilon = 0", "budget.epsilon=0 must be"),
        ("coordinators = []\n[budget]\nepsilon = true", "budget.epsilon=True must be"),
        ("coordinators = []\n[budget]\ndelta = 0.5", "budget.delta=0.5 must be"),
        ("coordinators = []\n[declared]\nrows = 5", "has no columns; superteach site new drafts it"),
        (f"{DECLARED}\nrows = 0", "declared.rows=0 must be"),
        (f"{DECLARED}\nrows = 5\nlabels = [1, 1]", "declared.labels=.* must be two different values"),
        (f"{DECLARED}\nrows = 5\nlabels = [1, 'b']", "declared.labels=.* must be two different values"),
        ("coordinators = []\ndeclared = 3", r"\[declared\] must be a table"),
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


@pytest.mark.parametrize("accepted", PRIVACY)
def test_other_modes_are_refused_with_both_words(accepted):
    guard = Guard(Policy((), privacy=(accepted,)))
    for privacy in PRIVACY:
        if privacy == accepted:
            guard.check_mode(privacy)
            continue
        with pytest.raises(QueryRefused, match=f"{accepted!r}.*{privacy!r}"):
            guard.check_mode(privacy)


def test_the_audit_log_only_grows(tmp_path):
    """Lines are added to what is there, also by another process's object."""
    path = tmp_path / "audit.jsonl"
    AuditLog(path).add({"query": "Census"})
    before = path.read_bytes()
    AuditLog(path).add({"query": "Keep"})
    assert path.read_bytes().startswith(before)
    assert [entry["query"] for entry in log_of(AuditLog(path))] == ["Census", "Keep"]


def test_a_log_that_cannot_be_written_refuses():
    """A full disk is the device that is always full."""
    with pytest.raises(QueryRefused, match="cannot be written"):
        AuditLog("/dev/full").add({"query": "Census"})
    with pytest.raises(QueryRefused, match="cannot be written"):
        AuditLog("/nowhere/at/all").add({"query": "Census"})
