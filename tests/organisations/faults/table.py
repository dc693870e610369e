"""Every fault scenario of the suite, in one table: what breaks, what the policy is, how it must end.

Ends: "whole" is the lesson of all teachers as if nothing had happened, "rest" that of the teachers who remain, both to
the last bit; "error" is one that says the words given. A scenario with `then` is resumed afterwards and ends so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

End = Literal["whole", "rest", "error"]


@dataclass(frozen=True)
class Scenario:
    """One fault and its end."""

    name: str
    fault: str
    """What breaks: see `tests.organisations.faults.line` and `tests/federation/test_faults.py`."""
    when: str
    """hello, agree, early, middle, late or end; the round is drawn from the seed."""
    policy: Literal["abort", "drop", "wait"]
    end: End
    says: str = ""
    """What the error, or the first interruption of the lesson, says."""
    then: End | None = None
    """How it ends after --resume."""
    teachers: tuple[str, ...] = ("south",)
    """Who is struck; nobody where the coordinator is."""
    how: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


MATCH: dict[str, Any] = {"method": "match", "budget": 60}
BLOCK: dict[str, Any] = {"method": "dual", "solver": "block", "intercept": False, "budget": 60}
DUAL: dict[str, Any] = {"method": "dual", "budget": 60}
RIDGE: dict[str, Any] = {"learner": "ridge", "method": "match", "budget": 60}
LOST = "is lost: it gave no answer to"

SIMULATED = [
    Scenario("killed before hello", "killed", "hello", "drop", "rest", "no answer to the first hello", seed=1),
    Scenario("killed at the agreement", "killed", "agree", "drop", "rest", "no answer to the agreement", seed=2),
    Scenario("killed early", "killed", "early", "drop", "rest", "it gave no answer to", how=DUAL, seed=3),
    Scenario("killed late", "killed", "late", "drop", "rest", "it gave no answer to", how=RIDGE, seed=4),
    Scenario("killed at the end", "killed", "end", "drop", "rest", "no answer to the end", seed=5),
    Scenario(
        "two killed at once", "killed", "middle", "drop", "rest", teachers=("east", "south"), how=BLOCK, seed=6
    ),
    Scenario(
        "too many killed", "killed", "middle", "drop", "error", "fewer than the 2 of --least-teachers",
        teachers=("east", "north", "south"), seed=7,
    ),
    Scenario("killed and aborted", "killed", "middle", "abort", "error", f"south {LOST}", "whole", seed=8),
    Scenario("killed and started again", "killed, back", "middle", "wait", "whole", "no answer to", seed=9),
    Scenario("killed twice", "killed, back, killed, back", "early", "wait", "whole", how=BLOCK, seed=10),
    Scenario(
        "killed for good", "killed", "late", "wait", "error", "has not come back within 0.2 seconds", "whole", seed=11
    ),
    Scenario("hanging", "hanging", "middle", "drop", "rest", "it gave no answer to", how=BLOCK, seed=12),
    Scenario("cut off and healed", "cut, back", "late", "wait", "whole", "it gave no answer to", seed=13),
    Scenario("slow within the limit", "slow", "middle", "abort", "whole", seed=14),
    Scenario("slow beyond the limit", "too slow, back", "middle", "wait", "whole", "it gave no answer", seed=15),
    Scenario("answers NaN, dropped", "nan", "middle", "drop", "rest", "with nan among its numbers", seed=16),
    Scenario("answers NaN", "nan", "late", "abort", "error", "south answered .* with nan among", "whole", seed=17),
    Scenario("answers infinity to a count", "infinity", "hello", "abort", "error", "Census with inf", seed=18),
    Scenario("answers NaN, waited for", "nan", "middle", "wait", "error", "with nan among its numbers", seed=19),
    Scenario("wrong shape", "shape", "early", "drop", "rest", "numbers of shape", how=DUAL, seed=20),
    Scenario("answers nonsense", "nonsense", "middle", "abort", "error", "with something else", "whole", seed=21),
    Scenario("an accident at a teacher", "accident", "middle", "drop", "rest", "failed over", seed=22),
    Scenario("its audit log is full", "no log", "middle", "abort", "error", "audit log cannot be", "whole", seed=23),
    Scenario("its disk is full at the end", "full disk", "end", "abort", "whole", seed=24),
    Scenario("coordinator killed", "coordinator", "middle", "abort", "error", then="whole", teachers=(), seed=25),
    Scenario(
        "coordinator killed, a line torn", "coordinator, torn", "late", "abort", "error", then="whole", teachers=(),
        how=BLOCK, seed=26,
    ),
    Scenario(
        "coordinator killed twice", "coordinator, coordinator", "late", "abort", "error", then="whole", teachers=(),
        how=RIDGE, seed=27,
    ),
    Scenario(
        "coordinator killed after a drop", "killed, coordinator", "middle", "drop", "error", then="rest", seed=28
    ),
]  # fmt: skip
"""On a line that breaks as it is told."""

REAL = [
    Scenario("a process killed early", "kill -9", "early", "drop", "rest", "it gave no answer to BlockRound", seed=41),
    Scenario("a process killed late", "kill -9", "late", "abort", "error", f"teacher south {LOST} BlockRound", seed=42),
    Scenario("a process started again", "kill -9, join", "middle", "wait", "whole", "it gave no answer to", seed=43),
    Scenario("a process stands still", "SIGSTOP", "middle", "drop", "rest", "it gave no answer to", seed=44),
    Scenario("a process stands still shortly", "SIGSTOP, SIGCONT", "early", "abort", "whole", seed=45),
    Scenario("the server's processes killed", "server kill -9", "late", "abort", "error", then="whole", seed=46),
    Scenario("the cable cut and healed", "link down, link up", "middle", "abort", "whole", seed=47),
]  # fmt: skip
"""On NVFlare's processes; `tests/federation` plays them in acts, several lessons under way at once."""
