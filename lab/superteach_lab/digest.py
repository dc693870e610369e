"""A digest of values: the same for the same contents, whatever file or variable they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse


def digest_of(value: Any) -> str:
    """SHA-256 of a value: numbers, texts, arrays, sequences, mappings, and dataclasses of such."""
    digest = hashlib.sha256()
    _add(digest, value)
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    """Add a value to a digest, with its kind and its length in front, so that no two values read alike."""
    if sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        digest.update(f"array {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value, dtype=np.float64).data)  # as methods see it: 1 and 1.0 are the same
    elif isinstance(value, np.ndarray):
        _add(digest, value.tolist())
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        _add(digest, [type(value).__name__, parts])
    elif isinstance(value, Mapping):
        _add(digest, sorted(value.items()))
    elif isinstance(value, str | bytes | bool | int | float | None):
        text = repr(value).encode()
        digest.update(f"{type(value).__name__} {len(text)} ".encode() + text)
    elif isinstance(value, Sequence):
        digest.update(f"list {len(value)} ".encode())
        for one in value:
            _add(digest, one)
    else:
        raise TypeError(f"{type(value).__name__} has no digest")
