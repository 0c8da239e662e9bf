"""Tables of the page: columns said once, rows drawn from values, sorted and searched by the page's script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from kafkaframes.jobs.report.markup import Markup, tag
from kafkaframes.jobs.report.words import NONE, count_mark, minute_text, time_text

_SORTED_AS_TEXT = (count_mark, str, minute_text, time_text)
_TALL_ROWS = 25  # more scroll in a box of their own


class Field(NamedTuple):
    """A column.

    Attributes:
        name: the heading.
        show: a row's cell, text or ``Markup``.
        value: what the column is sorted by; makes it a column of numbers.
        says_all: the text alone sorts as well: counts and times do, sizes in KiB and MiB do not.
        is_minor: left out on a phone.
        wide: may be broken into lines.
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
    """Return a column of numbers: ``show`` writes an attribute (``keys.distinct``) of the row; ``none`` is a dash."""
    get = attrgetter(attribute)

    def value(row: Any) -> float:
        found = get(row)
        return float(none if found is None else found)

    says_all = show in _SORTED_AS_TEXT
    return Field(name, lambda row: NONE if value(row) == none else show(get(row)), value, is_minor, says_all=says_all)


def table(
    rows: Sequence[Any], fields: Sequence[Field], *, name: str, searchable: bool = False, stacked: bool = False
) -> Markup:
    """Return a table.

    Args:
        rows, fields: the body and the columns.
        name: for who does not see it, and for the search field.
        searchable: add a search field, which looks at the first column.
        stacked: on a phone each row is a paragraph: for long texts.
    """
    head = tag("tr", (tag("th", _heading(one), class_=_class(one), scope="col") for one in fields))
    body = [tag("tr", (_cell(row, one, stacked) for one in fields)) for row in rows]
    made = tag("table", tag("thead", head), tag("tbody", body), class_="stacked" if stacked else None)
    kind = "wide tall" if len(rows) > _TALL_ROWS else "wide"
    box = tag("div", made, class_=kind, tabindex="0", role="region", aria_label=name)
    if not searchable:
        return box
    search = tag("input", type="search", placeholder=f"Search {name}", aria_label=f"Search {name}", autocomplete="off")
    found = tag("span", class_="found soft", aria_live="polite")
    return tag("div", tag("div", search, found, class_="search"), box, class_="searchable")


def _heading(one: Field) -> Markup:
    return tag("button", one.name, type="button")


def _class(one: Field) -> str | None:
    names = ["num"] * (one.value is not None) + ["minor"] * one.is_minor + ["wrap"] * one.wide
    return " ".join(names) or None


def _cell(row: Any, one: Field, stacked: bool) -> Markup:
    value = one.value(row) if one.value and not one.says_all else None
    sorted_by = None if value is None else f"{value:.6g}" if value % 1 else f"{value:.0f}"
    label = one.name if stacked and one.value else None
    return tag("td", one.show(row), class_=_class(one), data_v=sorted_by, data_label=label)
