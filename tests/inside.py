"""What tests read of a teacher's audit log."""

from __future__ import annotations

import json
from typing import Any

from superteach.privacy.ledger import AuditLog


def log_of(audit: AuditLog) -> list[dict[str, Any]]:
    """Every line of an audit log."""
    return [json.loads(line) for line in audit.path.read_text(encoding="utf-8").splitlines()]
