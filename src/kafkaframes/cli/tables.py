"""Tables for the terminal: as narrow as their words, one line a row, plain text when piped."""

from __future__ import annotations

from collections.abc import Sequence

from kafkaframes.cli.text import console, printable


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, dim: Sequence[bool] = ()) -> None:
    """Print rows under their columns; the column ``name`` or else the first is bold, an empty column is left out.

    Args:
        columns: the headings.
        rows: the cells, as many as there are columns.
        dim: which rows are of less weight.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used = [index for index, _ in enumerate(columns) if any(row[index] for row in rows)]
    bold = columns.index("name") if "name" in columns else 0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index in used:
        is_last = index == used[-1]
        table.add_column(columns[index], no_wrap=not is_last, style="bold" if index == bold else "")
    for number, row in enumerate(rows):
        style = "dim" if number < len(dim) and dim[number] else ""
        table.add_row(*(Text(printable(row[index])) for index in used), style=style)
    console().print(table)
