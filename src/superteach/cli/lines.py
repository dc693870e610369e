"""Sentences for people: broken between words on a terminal, one line each in a pipe."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TextIO

_LEAST = 40
"""Columns of the narrowest terminal that lines are broken for."""


def say(text: str, indent: int = 0) -> None:
    """Write a sentence on stdout; `indent` is for its second line and those below."""
    sys.stdout.write(fit(text, sys.stdout, indent) + "\n")


def warn(text: str) -> None:
    """Write a sentence on stderr."""
    sys.stderr.write(fit(text, sys.stderr) + "\n")


def fit(text: str, stream: TextIO, indent: int = 0) -> str:
    """Break a sentence between words to fit the terminal that `stream` is; leave it whole where it is none."""
    if not stream.isatty():
        return text
    return textwrap.fill(
        text,
        max(_width(stream), _LEAST),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _width(stream: TextIO) -> int:
    """Columns of the stream's own terminal: where output is piped, the one that shows errors still has a width."""
    if os.environ.get("COLUMNS", "").isdecimal():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns
