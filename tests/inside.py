"""What tests see of a teacher at home that no message may tell: the one place that looks behind that door."""

from __future__ import annotations

import json
from typing import Any

from superteach.organisations.site import Site
from superteach.privacy.audit_log import Audit


def lesson_at(site: Site, name: str = "lesson") -> Any:
    """What a site remembers of a lesson: its `state` and how many `rounds` it has answered."""
    return site._lessons[name]


def log_of(audit: Audit) -> list[dict[str, Any]]:
    """Every line of an audit log."""
    return [json.loads(line) for line in audit.path.read_text(encoding="utf-8").splitlines()]
