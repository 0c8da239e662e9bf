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

from kafkaframes.jobs.report.words import NO_VALUE_TEXT, format_count, format_minute, format_time

_ASSET_DIRECTORY = Path(__file__).parent  # directory of the page's style sheet and script
_VOID_ELEMENTS = frozenset({"meta", "input", "rect", "path", "line"})  # elements without an end tag


class Markup(str):
    """Text that is already HTML and must not be escaped."""

    __slots__ = ()


Child = Any  # text, Markup, None, or an iterable of these


def join_html(children: Iterable[Child]) -> Markup:
    """Join values to one piece of HTML. ``None`` is omitted.

    >>> join_html(["a < b", None, make_tag("br", void=True)])
    'a &lt; b<br>'
    """
    return Markup("".join(map(_to_html, children)))


def format_path(path: str) -> Markup:
    """Format a path as code, with possible line breaks after its slashes.

    >>> format_path("/a/b")
    '<code>/<wbr>a/<wbr>b</code>'
    """
    return make_tag("code", make_breakable(path, "/"))


def format_paths(paths: Sequence[str], max_paths: int) -> Markup:
    """Format the first of several paths, and the number of other paths."""
    codes = ([", " if number else None, format_path(path)] for number, path in enumerate(paths[:max_paths]))
    return join_html([codes, f" and {len(paths) - max_paths:,} more" if len(paths) > max_paths else None])


def make_breakable(text: str, sign: str) -> Markup:
    """Return text with a possible line break after each occurrence of a character."""
    return Markup(_to_html(text).replace(sign, f"{sign}<wbr>"))


def _to_html(child: Child) -> str:
    """Return a value as HTML; text is escaped."""
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    if isinstance(child, str | int):
        return html.escape(_replace_invisible(str(child)))
    return join_html(child)


def _replace_invisible(text: str) -> str:
    """Replace characters that are invalid or invisible in HTML: control characters and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def make_tag(name: str, /, *children: Child, void: bool = False, **attributes: Any) -> Markup:
    """Return an element. ``class_`` and ``data_v`` become ``class`` and ``data-v``. ``None`` is omitted.

    >>> make_tag("a", "x & y", href='"quoted"', class_=None)
    '<a href="&quot;quoted&quot;">x &amp; y</a>'
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_to_html(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if void or (name in _VOID_ELEMENTS and not children):
        return Markup(f"<{name}{attribute_text}/>" if name in ("rect", "path", "line") else f"<{name}{attribute_text}>")
    return Markup(f"<{name}{attribute_text}>{join_html(children)}</{name}>")


_FORMATS_SORTED_AS_TEXT = (format_count, str, format_minute, format_time)
_MAX_UNSCROLLED_ROWS = 25  # tables with more rows scroll in a box


class TableColumn(NamedTuple):
    """A column of a table.

    Attributes:
        show: function that returns the contents of a row's cell, as text or ``Markup``.
        value: function that returns a row's sort key; if it is set, the column is numeric.
        says_all: whether the cell's text has the exact value, so that the page can sort by it (counts and times, but
            not sizes).
        is_minor: whether the column is hidden on a phone.
        wide: whether the cells may have several lines.
    """

    name: str
    show: Callable[[Any], Any]
    value: Callable[[Any], float] | None = None
    is_minor: bool = False
    wide: bool = False
    says_all: bool = False


def make_number_column(
    name: str, attribute: str, show: Callable[[Any], str] = format_count, *, is_minor: bool = False, none: float = -1
) -> TableColumn:
    """Return a numeric column.

    ``show`` formats the value of the row's attribute, which may be nested (``keys.distinct``). A missing value is a
    dash.
    """
    get = attrgetter(attribute)

    def value(row: Any) -> float:
        result = get(row)
        return float(none if result is None else result)

    shows_exact_value = show in _FORMATS_SORTED_AS_TEXT
    return TableColumn(
        name,
        lambda row: NO_VALUE_TEXT if value(row) == none else show(get(row)),
        value,
        is_minor,
        says_all=shows_exact_value,
    )


def make_table(
    rows: Sequence[Any], fields: Sequence[TableColumn], *, name: str, searchable: bool = False, is_stacked: bool = False
) -> Markup:
    """Return a table. ``name`` describes the table to screen readers.

    If ``searchable``, a search field filters by the first column. If ``is_stacked``, a phone shows each row as a
    paragraph.
    """
    head = make_tag(
        "tr",
        (
            make_tag(
                "th", make_tag("button", column.name, type="button"), class_=_format_css_classes(column), scope="col"
            )
            for column in fields
        ),
    )
    body = [make_tag("tr", (_make_cell(row, column, is_stacked) for column in fields)) for row in rows]
    table_tag = make_tag(
        "table", make_tag("thead", head), make_tag("tbody", body), class_="stacked" if is_stacked else None
    )
    kind = "wide tall" if len(rows) > _MAX_UNSCROLLED_ROWS else "wide"
    box = make_tag("div", table_tag, class_=kind, tabindex="0", role="region", aria_label=name)
    if not searchable:
        return box
    search = make_tag(
        "input", type="search", placeholder=f"Search {name}", aria_label=f"Search {name}", autocomplete="off"
    )
    result = make_tag("span", class_="found soft", aria_live="polite")
    return make_tag("div", make_tag("div", search, result, class_="search"), box, class_="searchable")


def _format_css_classes(entry: TableColumn) -> str | None:
    """Return the CSS classes of a column's cells; None without classes."""
    names = ["num"] * (entry.value is not None) + ["minor"] * entry.is_minor + ["wrap"] * entry.wide
    return " ".join(names) or None


def _make_cell(row: Any, entry: TableColumn, is_stacked: bool) -> Markup:
    """Return the cell of a row in a column."""
    value = entry.value(row) if entry.value and not entry.says_all else None
    sorted_by = None if value is None else f"{value:.6g}" if value % 1 else f"{value:.0f}"
    label = entry.name if is_stacked and entry.value else None
    return make_tag("td", entry.show(row), class_=_format_css_classes(entry), data_v=sorted_by, data_label=label)


def build_html_page(
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
        title: text for the browser's window or tab.
        heading: main heading, at the top of the page.
        location: description of the input.
        footer: text on when and by which program the page was written.
        tiles: figures at the top, each with a name, an explanation, and ``good``, ``warn``, ``bad`` or "".
        version: the kafkaframes version that creates the page.
        sections: links to cards, by their ids.
        data: data that the reader can save as JSON. Without ``data``, the page has no script, so tables cannot be
            sorted.
    """
    head = make_tag("div", (_make_tile(*tile) for tile in tiles), class_="tiles")
    lines = make_tag(
        "div", make_tag("h1", heading), make_tag("p", location, class_="paths"), make_tag("p", footer, class_="soft")
    )
    body = [
        make_tag(
            "header",
            make_tag("div", lines, None if data is None else _make_buttons(), class_="title"),
            head,
            class_="top",
        )
    ]
    if sections is not None:
        links = (make_tag("a", name, href=f"#{card}") for card, name in sections.items())
        body.append(make_tag("nav", links, aria_label="Sections"))
    body.append(make_tag("main", cards))
    if data is not None:
        text = json.dumps(data, separators=(",", ":"))
        safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        body += [
            make_tag("div", id="tip", role="tooltip", hidden=""),
            make_tag("script", Markup(safe), type="application/json", id="data"),
            make_tag("script", _read_asset("page.js")),
        ]
    page_facts = [
        make_tag("meta", charset="utf-8"),
        make_tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        make_tag("meta", name="generator", content=f"kafkaframes {version}"),
        make_tag("title", title),
        make_tag("style", _read_asset("page.css")),
    ]
    return f"<!doctype html>\n{make_tag('html', make_tag('head', page_facts), make_tag('body', body), lang='en')}\n"


def _make_tile(name: str, value: str, remark: str, state: str) -> Markup:
    """Return a tile at the top of the page: a number with its name and a remark."""
    return make_tag(
        "div", make_tag("span", name), make_tag("b", value), make_tag("small", remark), class_=f"tile {state}".strip()
    )


def _make_buttons() -> Markup:
    """Return the page's buttons: save the data, and switch between light and dark."""
    save = make_tag("button", "Save data", type="button", id="save", title="Save the numbers of this page as JSON")
    theme = make_tag("button", "◐", type="button", id="theme", title="Light or dark", aria_label="Light or dark")
    return make_tag("div", save, theme, class_="buttons")


def _read_asset(name: str) -> Markup:
    return Markup((_ASSET_DIRECTORY / name).read_text(encoding="utf-8"))
