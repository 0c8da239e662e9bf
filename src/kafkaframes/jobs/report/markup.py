"""HTML as values: what is text is escaped, always; only what these functions made is taken as it is.

Topic names, paths and transactional ids are outside input; nothing else in this room writes a ``<``.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

_VOID = frozenset({"meta", "input", "rect", "path", "line"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Any  # text, Markup, None, or an iterable of such


def join(children: Iterable[Child]) -> Markup:
    """Return children one after the other; ``None`` is left out.

    >>> join(["a < b", None, tag("br", void=True)])
    'a &lt; b<br>'
    """
    return Markup("".join(map(_text, children)))


def path_code(path: str) -> Markup:
    """Return a path as code that may be broken behind its slashes.

    >>> path_code("/a/b")
    '<code>/<wbr>a/<wbr>b</code>'
    """
    return tag("code", Markup(_text(path).replace("/", "/<wbr>")))


def _text(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    if isinstance(child, str | int):
        return html.escape(_printable(str(child)))
    return join(child)


def _printable(text: str) -> str:
    """Replace what a page cannot hold or would hide: control characters and halves of surrogate pairs."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text)


def tag(name: str, /, *children: Child, void: bool = False, **attributes: Any) -> Markup:
    """Return an element. ``class_`` and ``data_v`` are written ``class`` and ``data-v``; ``None`` is left out.

    >>> tag("a", "x & y", href='"quoted"', class_=None)
    '<a href="&quot;quoted&quot;">x &amp; y</a>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if void or (name in _VOID and not children):
        return Markup(f"<{name}{written}/>" if name in ("rect", "path", "line") else f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")
