"""Build HTML safely: tables of typed columns and whole pages.

The page's script sorts and searches tables. HTML is a value of type ``Markup``. All other text is escaped, without
exception, because topic names, paths and transactional ids are foreign input. No other module of this package writes
HTML tags.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from kafkaframes.jobs.report.words import NONE, count_mark, minute_text, time_text

_ASSET_DIRECTORY = Path(__file__).parent
_VOID_ELEMENTS = frozenset({"meta", "input", "rect", "path", "line"})


class Markup(str):
    """A text that is HTML and must not be escaped."""

    __slots__ = ()


Child = Any  # text, Markup, None, or an iterable of these


def join(children: Iterable[Child]) -> Markup:
    """Return children as one HTML value. ``None`` is omitted.

    >>> join(["a < b", None, tag("br", void=True)])
    'a &lt; b<br>'
    """
    return Markup("".join(map(_text, children)))


def path_code(path: str) -> Markup:
    """Return a path as code that may be broken after its slashes.

    >>> path_code("/a/b")
    '<code>/<wbr>a/<wbr>b</code>'
    """
    return tag("code", breakable(path, "/"))


def path_codes(paths: Sequence[str], max_paths: int) -> Markup:
    """Return the first of some paths, and the number of the others."""
    codes = ([", " if number else None, path_code(path)] for number, path in enumerate(paths[:max_paths]))
    return join([codes, f" and {len(paths) - max_paths:,} more" if len(paths) > max_paths else None])


def breakable(text: str, sign: str) -> Markup:
    """Return text that may be broken after each occurrence of a character."""
    return Markup(_text(text).replace(sign, f"{sign}<wbr>"))


def _text(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    if isinstance(child, str | int):
        return html.escape(_printable(str(child)))
    return join(child)


def _printable(text: str) -> str:
    """Replace characters that are invalid or invisible in HTML: control characters and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text)


def tag(name: str, /, *children: Child, void: bool = False, **attributes: Any) -> Markup:
    """Return an element. ``class_`` and ``data_v`` become ``class`` and ``data-v``. ``None`` is omitted.

    >>> tag("a", "x & y", href='"quoted"', class_=None)
    '<a href="&quot;quoted&quot;">x &amp; y</a>'
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if void or (name in _VOID_ELEMENTS and not children):
        return Markup(f"<{name}{attribute_text}/>" if name in ("rect", "path", "line") else f"<{name}{attribute_text}>")
    return Markup(f"<{name}{attribute_text}>{join(children)}</{name}>")


_TEXT_SORTED_FORMATS = (count_mark, str, minute_text, time_text)
_TALL_ROWS = 25  # tables with more rows scroll in a box


class Field(NamedTuple):
    """A column of a table.

    Attributes:
        show: returns a row's cell, as text or ``Markup``.
        value: returns a row's sort key; if set, the column is numeric.
        says_all: whether the cell's text can be sorted instead of ``value``, as counts and times can and sizes in KiB
            and MiB cannot.
        is_minor: whether the column is hidden on a phone.
        wide: whether the cells may be broken into lines.
    """

    name: str
    show: Callable[[Any], Any]
    value: Callable[[Any], float] | None = None
    is_minor: bool = False
    wide: bool = False
    says_all: bool = False


def number(
    name: str, attribute: str, show: Callable[[Any], str] = count_mark, *, is_minor: bool = False, none: float = -1
) -> Field:
    """Return a numeric column. ``show`` formats the row's attribute (``keys.distinct``); ``none`` is a dash."""
    get = attrgetter(attribute)

    def value(row: Any) -> float:
        result = get(row)
        return float(none if result is None else result)

    says_all = show in _TEXT_SORTED_FORMATS
    return Field(name, lambda row: NONE if value(row) == none else show(get(row)), value, is_minor, says_all=says_all)


def table(
    rows: Sequence[Any], fields: Sequence[Field], *, name: str, searchable: bool = False, is_stacked: bool = False
) -> Markup:
    """Return a table. ``name`` describes it to screen readers.

    If ``searchable``, a search field filters by the first column. If ``is_stacked``, a row is a paragraph on a phone.
    phone.
    """
    head = tag(
        "tr", (tag("th", tag("button", one.name, type="button"), class_=_class(one), scope="col") for one in fields)
    )
    body = [tag("tr", (_cell(row, one, is_stacked) for one in fields)) for row in rows]
    table_tag = tag("table", tag("thead", head), tag("tbody", body), class_="stacked" if is_stacked else None)
    kind = "wide tall" if len(rows) > _TALL_ROWS else "wide"
    box = tag("div", table_tag, class_=kind, tabindex="0", role="region", aria_label=name)
    if not searchable:
        return box
    search = tag("input", type="search", placeholder=f"Search {name}", aria_label=f"Search {name}", autocomplete="off")
    result = tag("span", class_="found soft", aria_live="polite")
    return tag("div", tag("div", search, result, class_="search"), box, class_="searchable")


def _class(entry: Field) -> str | None:
    names = ["num"] * (entry.value is not None) + ["minor"] * entry.is_minor + ["wrap"] * entry.wide
    return " ".join(names) or None


def _cell(row: Any, entry: Field, is_stacked: bool) -> Markup:
    value = entry.value(row) if entry.value and not entry.says_all else None
    sorted_by = None if value is None else f"{value:.6g}" if value % 1 else f"{value:.0f}"
    label = entry.name if is_stacked and entry.value else None
    return tag("td", entry.show(row), class_=_class(entry), data_v=sorted_by, data_label=label)


def html_page(
    title: str,
    *,
    heading: str,
    location: Child,
    footer: str,
    tiles: Iterable[tuple[str, str, str, str]],
    cards: Iterable[Markup],
    version: str,
    sections: Mapping[str, str] | None = None,
    data: Any = None,
) -> str:
    """Return a whole page in one file that needs no network.

    Args:
        title: title of the window.
        heading: heading of the page.
        location: description of the input.
        footer: when and by which program the page was written.
        tiles: figures at the top, each with a name, an explanation, and ``good``, ``warn``, ``bad`` or "".
        version: version of kafkaframes.
        sections: links to cards, by their ids.
        data: data that the reader can save as JSON. Without it the page has no script, so tables cannot be sorted.
    """
    head = tag("div", (_tile(*one) for one in tiles), class_="tiles")
    lines = tag("div", tag("h1", heading), tag("p", location, class_="paths"), tag("p", footer, class_="soft"))
    body = [tag("header", tag("div", lines, None if data is None else _buttons(), class_="title"), head, class_="top")]
    if sections is not None:
        links = (tag("a", name, href=f"#{card}") for card, name in sections.items())
        body.append(tag("nav", links, aria_label="Sections"))
    body.append(tag("main", cards))
    if data is not None:
        text = json.dumps(data, separators=(",", ":"))
        safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        body += [
            tag("div", id="tip", role="tooltip", hidden=""),
            tag("script", Markup(safe), type="application/json", id="data"),
            tag("script", _file("page.js")),
        ]
    page_facts = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"kafkaframes {version}"),
        tag("title", title),
        tag("style", _file("page.css")),
    ]
    return f"<!doctype html>\n{tag('html', tag('head', page_facts), tag('body', body), lang='en')}\n"


def _tile(name: str, value: str, remark: str, state: str) -> Markup:
    return tag("div", tag("span", name), tag("b", value), tag("small", remark), class_=f"tile {state}".strip())


def _buttons() -> Markup:
    save = tag("button", "Save data", type="button", id="save", title="The numbers of this page as JSON")
    theme = tag("button", "◐", type="button", id="theme", title="Light or dark", aria_label="Light or dark")
    return tag("div", save, theme, class_="buttons")


def _file(name: str) -> Markup:
    return Markup((_ASSET_DIRECTORY / name).read_text(encoding="utf-8"))
