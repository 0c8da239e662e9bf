"""Show the examples of docstrings as code on the site: an extension of griffe, named in mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*", re.MULTILINE)


class DocstringExamples(griffe.Extension):
    """A griffe extension that puts a fence around each example that begins with a prompt."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put a fence around the examples in an object's docstring."""
        if obj.docstring:
            text = _EXAMPLE.sub(lambda block: f"```pycon\n{block[0].rstrip()}\n```\n", obj.docstring.value)
            obj.docstring.value = re.sub(r"  # doctest: \+\w+$", "", text, flags=re.MULTILINE)
