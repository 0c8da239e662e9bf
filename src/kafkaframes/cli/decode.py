"""``kafkaframes decode``: bytes to an annotated hex dump, each run of bytes beside the field that it is."""

from __future__ import annotations

import dataclasses
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from kafkaframes.cli.frames import annotate, read_bytes, which_message
from kafkaframes.cli.options import json_option_of
from kafkaframes.errors import CorruptRecordError
from kafkaframes.protocol.messages.annotate import Annotated, Run
from kafkaframes.records.annotate import HEADERS, RECORDS, Drawing, are_records, draw_records

if TYPE_CHECKING:
    from kafkaframes.records.batch import Batch

_BYTES_A_LINE: Final = 16
_MOST_LINES: Final = 4  # of one run; --all shows every byte


@click.command("decode")
@click.argument("source", metavar="HEX|FILE|-")
@which_message
@json_option_of("Print JSON instead: of messages Kafka's form, with unknown tags; of records a list of batches.")
@click.option("--all", "show_all", is_flag=True, help="every byte of long values")
@click.option("--records", is_flag=True, help="the bytes are batches or a message set, as in a segment")
@click.option(
    "--depth",
    type=click.IntRange(0, 2),
    help="records: 1 draws the headers of batches, 2 the records in them; default: 2, inside messages 0",
)
def command(source: str, as_json: bool, show_all: bool, records: bool, depth: int | None, **which: Any) -> None:
    """Print what each byte of a frame, a message or a batch of records is.

    A request names itself (with or without its size); a response takes --api and --version, any body --message and
    --version. Batches and message sets are known by their magic and their CRC (--records: also damaged ones); each
    varint is shown with the number whose zig-zag value it is, and its bits. With --depth those inside Produce and Fetch
    are drawn too. Broken bytes are shown up to the break; the exit status is then 2.
    """
    data = read_bytes(source)
    if records or (not which["api"] and not which["name"] and are_records(data)):
        if as_json:
            _print_batches(data)
            return
        drawings = draw_records(data, depth=RECORDS if depth is None else max(depth, HEADERS))
        _print_drawings(drawings, show_all=show_all)
        return
    annotated = annotate(data, **which)
    if as_json:
        forms = {name: value.to_json(version, records="base64") for name, version, value in annotated.values}
        click.echo(json.dumps(forms, indent=2, ensure_ascii=False))
    else:
        for line in dump_lines(data, annotated, show_all=show_all, depth=depth or 0):
            click.echo(line)
    if annotated.error is not None:
        raise annotated.error


def _print_batches(data: bytes) -> None:
    """Print the batches and their records as JSON, keys and values as base64; then raise what is wrong with them."""
    from kafkaframes.records.batch import read_values

    walk = read_values(data)
    batches = list(walk)
    click.echo(json.dumps(list(map(_batch_form, batches)), default=lambda raw: b64encode(raw).decode(), indent=2))
    damage = next((batch.damage.reason for batch in batches if batch.damage is not None), None)
    position = 0 if walk.end is None else walk.end.position
    if damage is not None or position < len(data):
        raise CorruptRecordError(damage or f"the bytes from {position} on are no batch", position=position)


def _batch_form(batch: Batch) -> dict[str, Any]:
    """Return a batch with its records, fields in Kafka's spelling."""
    fields = {one.name: getattr(batch, one.name) for one in dataclasses.fields(batch)}
    records = [
        _camel(record._asdict() | {"headers": [_camel(header._asdict()) for header in record.headers]})
        for record in batch.records
    ]
    return _camel(fields | {"records": records, "damage": None if batch.damage is None else batch.damage.reason})


def _camel(fields: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_(.)", lambda letter: letter[1].upper(), name): value for name, value in fields.items()}


def _print_drawings(drawings: list[Drawing], *, show_all: bool) -> None:
    for line in drawing_lines(drawings, show_all=show_all):
        click.echo(line)
    for drawing in drawings:
        if drawing.error is not None:
            raise drawing.error


def drawing_lines(drawings: list[Drawing], *, start: int = 0, show_all: bool = False) -> Iterator[str]:
    """Yield the lines of drawn records; positions of the first drawing count from ``start``."""
    for number, drawing in enumerate(drawings):
        if drawing.title:
            yield f"# {drawing.title}"
        first = 0 if number else start
        width = min(max((len(run.path) for run in drawing.runs), default=0), 70)
        for run in drawing.runs:
            yield from _lines(
                drawing.data[run.start : run.end], first + run.start, f"{run.path:<{width}}  {run.words}", show_all
            )
        if drawing.error is not None and drawing.position < len(drawing.data):
            rest = drawing.data[drawing.position :]
            at = first + drawing.position
            shown = rest[:_BYTES_A_LINE].hex(" ")
            yield f"{at:08x}  {shown:<47}  ... {len(rest)} bytes not understood: {drawing.error}"
        elif drawing.error is not None:
            yield f"          {drawing.error}"


def dump_lines(data: bytes, annotated: Annotated, *, show_all: bool = False, depth: int = 0) -> Iterator[str]:
    """Yield the lines of the dump: position, bytes, field, value; with a depth, records are drawn as well."""
    for name, version, _ in annotated.values:
        yield f"# {name} version {version}"
    paths = max((len(_label(run)) for run in annotated.runs), default=0)
    for run in annotated.runs:
        if depth and run.what == "records" and run.value:
            held = data[run.end - len(run.value) : run.end]
            yield from _lines(
                data[run.start : run.end - len(held)], run.start, f"{_label(run)}  {len(held)} bytes", False
            )
            yield from drawing_lines(draw_records(held, depth=depth), start=run.end - len(held), show_all=show_all)
            continue
        yield from _run_lines(data, run, min(paths, 70), show_all)
    if annotated.error is not None:
        rest = data[annotated.position :]
        yield f"{annotated.position:08x}  {rest[:_BYTES_A_LINE].hex(' '):<47}  ... {len(rest)} bytes not understood"


def _label(run: Run) -> str:
    plain = run.what in ("string", "bytes", "records", "bool", "uuid", "float64") or run.what.startswith(
        ("int", "uint")
    )
    return run.path if plain else f"{run.path} ({run.what})"


def _run_lines(data: bytes, run: Run, width: int, show_all: bool) -> Iterator[str]:
    return _lines(data[run.start : run.end], run.start, f"{_label(run):<{width}}  {run.text()}", show_all)


def _lines(raw: bytes, start: int, words: str, show_all: bool) -> Iterator[str]:
    """Yield the lines of some bytes that stand at ``start``, with what they are beside the first."""
    lines = [raw[at : at + _BYTES_A_LINE] for at in range(0, len(raw), _BYTES_A_LINE)] or [b""]
    shown = lines if show_all else lines[:_MOST_LINES]
    for index, line in enumerate(shown):
        text = f"{start + index * _BYTES_A_LINE:08x}  {line.hex(' '):<47}"
        yield f"{text}  {words}" if index == 0 else text.rstrip()
    if len(shown) < len(lines):
        yield f"          ... {len(raw) - len(shown) * _BYTES_A_LINE} bytes more"
