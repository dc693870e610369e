"""Triton's kernels run in its interpreter here: no GPU is needed to see what they compute."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
