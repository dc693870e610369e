"""The teacher's own rules: read strictly, and held against every question."""

from __future__ import annotations

import pytest

from superteach.errors import QueryRefused, SettingError
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from superteach.privacy.policy import Declared, Policy, draft, policy_of, read_policy, template
from superteach.words import PROMISES
from tests.inside import log_of

DECLARED = "coordinators = []\n[declared]\ncolumns = ['x']\ntarget = 'y'"


def test_the_template_is_a_policy_that_promises_an_epsilon(tmp_path):
    """What a kit starts with reads back as the defaults, never as "open", and says what each promise means."""
    place, marks = tmp_path / "policy.toml", ["sha256:" + "0" * 64, "sha256:" + "f" * 64]
    place.write_text(template(["who@where.example"], marks), encoding="utf-8")
    policy = read_policy(place)
    assert policy == Policy(("who@where.example",), teachers=tuple(marks), folder=tmp_path / "chosen")
    assert (policy.promise, policy.epsilon, policy.delta, policy.deliver) == ("epsilon", 1.0, 1e-6, False)
    text = place.read_text(encoding="utf-8")
    assert all(sentence in text for sentence in PROMISES.values())
    assert "The coordinator can read your rows." in text


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
        ("coordinators = []\npromise = 'none'", "promise='none' must be one of closed, epsilon, masked, open"),
        ("coordinators = []\ndeliver = 1", "deliver=1 must be true or false"),
        ("coordinators = []\n[budget]\nepsilon = 0", "budget.epsilon=0 must be"),
        ("coordinators = []\n[budget]\nepsilon = true", "budget.epsilon=True must be"),
        ("coordinators = []\n[budget]\ndelta = 0.5", "budget.delta=0.5 must be"),
        ("coordinators = []\n[masks]\nleast_teachers = 1", "masks.least_teachers=1 must be"),
        ("coordinators = []\n[masks]\nteachers = ['ann']", "masks.teachers=.'ann'. must be a list of sha256"),
        ("coordinators = []\n[declared]\nrows = 5", "has no columns; draft it with  superteach federation declare"),
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


def test_coordinators_are_known_by_name_or_fingerprint(tmp_path):
    """Either is enough; neither is not."""
    policy = policy_of({"coordinators": ["ann@a.org", "sha256:00ff"]}, tmp_path / "p.toml")
    guard = Guard(policy)
    guard.check_coordinator("ann@a.org", "1234")
    guard.check_coordinator("bob@b.org", "00ff")
    for name, fingerprint in (("bob@b.org", "1234"), ("00ff", ""), ("", "")):
        with pytest.raises(QueryRefused, match="does not list"):
            guard.check_coordinator(name, fingerprint)


@pytest.mark.parametrize("accepted", PROMISES)
def test_a_weaker_promise_is_refused_with_both_words(accepted):
    """The policy names the weakest one."""
    guard = Guard(Policy((), accepted))
    for promise in PROMISES:
        if list(PROMISES).index(promise) <= list(PROMISES).index(accepted):
            guard.check_promise(promise)
            continue
        with pytest.raises(QueryRefused, match=f"promises {promise!r}, and .* nothing weaker than {accepted!r}"):
            guard.check_promise(promise)


def test_the_audit_log_only_grows(tmp_path):
    """Lines are added to what is there, also by another process's object."""
    path = tmp_path / "audit.jsonl"
    Audit(path).add({"query": "Census"})
    before = path.read_bytes()
    Audit(path).add({"query": "Keep"})
    assert path.read_bytes().startswith(before)
    assert [entry["query"] for entry in log_of(Audit(path))] == ["Census", "Keep"]


def test_a_log_that_cannot_be_written_refuses():
    """A full disk is the device that is always full."""
    with pytest.raises(QueryRefused, match="cannot be written"):
        Audit("/dev/full").add({"query": "Census"})
    with pytest.raises(QueryRefused, match="cannot be written"):
        Audit("/nowhere/at/all").add({"query": "Census"})
