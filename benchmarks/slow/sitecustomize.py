"""Loaded by the processes of one teacher in a benchmark: every answer takes so much longer, as on a slow disk."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any
from unittest import mock

from superteach.privacy.ledger import AuditLog

_add = AuditLog.add


def _slowly(self: AuditLog, facts: Mapping[str, Any]) -> None:
    time.sleep(float(os.environ["SUPERTEACH_SLOW"]))
    _add(self, facts)


mock.patch.object(AuditLog, "add", _slowly).start()
