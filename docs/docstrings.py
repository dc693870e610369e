"""How docstrings of this package are read: `name : what it is`, with the type in the signature, where NumPy has a type."""

from __future__ import annotations

import re

import griffe

_ENTRY = re.compile(r"^( *)([a-zA-Z_]\w*(?:, \w+)*) : (.+)$", re.MULTILINE)


class NamesAndWords(griffe.Extension):
    """Turns entries into NumPy's `name`, and what is said of it in the next line."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of whatever was read."""
        if obj.docstring is None or not _ENTRY.search(obj.docstring.value):
            return
        text = _ENTRY.sub(r"\1\2\n\1    \3", obj.docstring.value)
        if "\n----" not in text:  # settings, which others list among their own parameters
            first, _, rest = text.partition("\n\n")
            text = f"{first}\n\nParameters\n----------\n{rest}"
        obj.docstring.value = text
