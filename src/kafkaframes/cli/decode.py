"""``kafkaframes decode``, ``diff``, ``encode``, ``vectors``: explain bytes field by field, and encode messages."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkaframes.cli.options import Command, json_option_of, specs_option, with_options
from kafkaframes.cli.text import say
from kafkaframes.errors import NO_SUCH_PATH_TEXT, CorruptRecordError, OptionError, format_path_error
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.framing import frame
from kafkaframes.protocol.messages.annotate import (
    Annotated,
    AnnotatedRange,
    annotate_body,
    annotate_request,
    annotate_response,
    compare,
)
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.registry import Apis, message_of
from kafkaframes.protocol.spec.catalog.ledgers import ReleaseNames
from kafkaframes.records.annotate import HEADERS, RECORDS, AnnotatedBytes, are_records, draw_records

if TYPE_CHECKING:
    from kafkaframes.records.batch import Batch


_HEX_CHARACTERS = frozenset(b"0123456789abcdefABCDEF \t\r\n:,")


def read_bytes(source: str) -> bytes:
    """Return the bytes of an argument: hex digits, a file of hex digits, a binary file, or ``-``."""
    if source == "-":
        return _maybe_hex(sys.stdin.buffer.read())
    try:
        if Path(source).is_file():
            return _maybe_hex(Path(source).read_bytes())
    except OSError:
        pass  # hex digits can be too long for a file name
    if not set(source.encode()) <= _HEX_CHARACTERS:
        raise OptionError(f"{NO_SUCH_PATH_TEXT} (at {source[:60]}), and not hex digits")
    return _from_hex(source)


def _maybe_hex(raw: bytes) -> bytes:
    return _from_hex(raw.decode()) if raw and set(raw) <= _HEX_CHARACTERS else raw


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.replace(":", " ").replace(",", " "))
    except ValueError as error:
        raise OptionError(f"not hex digits: {error}") from None


def which_message(command: Command) -> Command:
    """Add the options that specify the message of the bytes."""
    return with_options(
        click.option("--api", help="API name or key: the bytes are a response (with its header) of this API"),
        click.option("--message", "name", help="a message's name: the bytes are its body, without header"),
        click.option("--version", type=int, help="version of the API or the message"),
        click.option("--body", is_flag=True, help="with --api: the response's body, without header"),
        click.option("--request", is_flag=True, help="with --api: a request's body, without header"),
        specs_option,
        click.option("--names-of", metavar="RELEASE", help="also the name that a field had in this release: 2.8"),
        click.option("--mode", type=click.Choice(["reference", "strict"]), default="reference", show_default=True),
    )(command)


def annotate(
    data: bytes,
    *,
    api: str | None,
    name: str | None,
    version: int | None,
    body: bool,
    request: bool,
    specs: str | None,
    names_of: str | None,
    mode: str,
) -> Annotated:
    """Return the annotated runs of ``data`` according to the options. Contradictory options are rejected."""
    apis = Apis(specs)
    if api is None and name is None:
        annotation = annotate_request(data, mode=mode, apis=apis)
    elif version is None:
        raise OptionError("--version is needed: only a request contains its version")
    elif name is not None:
        annotation = annotate_body(data, message_of(name, specs), version, mode=mode)
    else:
        key = apis.find_api(str(api)).key
        if body or request:
            cls = apis.message_class(key, "request" if request else "response", version)
            annotation = annotate_body(data, cls, version, mode=mode)
        else:
            annotation = annotate_response(data, key, version, mode=mode, apis=apis)
    if names_of is not None:
        names = ReleaseNames(names_of)
        annotation.runs = [
            dataclasses.replace(run, path=_with_former_name(run.path, names, names_of)) for run in annotation.runs
        ]
    return annotation


def _with_former_name(path: str, names: ReleaseNames, release: str) -> str:
    message, *steps = re.sub(r"\[\d+\]", "", path).split(".")
    former = names.field(message, steps) if steps else None
    return path if former is None else f"{path} = {former} in {release}"


_HEX_WIDTH: Final = 38


@click.command("diff")
@click.argument("left", metavar="HEX|FILE")
@click.argument("right", metavar="HEX|FILE")
@which_message
@click.option("--all", "show_all", is_flag=True, help="also what is equal")
def diff(left: str, right: str, show_all: bool, **which: Any) -> None:
    """Compare two encodings of a message and print the fields that differ; exit 1 if any does.

    Bytes are compared, so two encodings of the same value differ, too.
    """
    data = read_bytes(left), read_bytes(right)
    annotations = [annotate(one, **which) for one in data]
    differ = False
    for entry, other_entry in compare(*annotations):
        same = entry is not None and other_entry is not None and _raw(data[0], entry) == _raw(data[1], other_entry)
        differ |= not same
        if show_all or not same:
            click.echo(_diff_line(data, entry, other_entry, same))
    for side, result in zip(("left", "right"), annotations, strict=True):
        if result.error is not None:
            differ = True
            click.echo(f"! {side}: {result.error}")
    sys.exit(1 if differ else 0)


def _raw(data: bytes, run: AnnotatedRange) -> bytes:
    return data[run.start : run.end]


def _diff_line(
    data: tuple[bytes, bytes], entry: AnnotatedRange | None, other_entry: AnnotatedRange | None, same: bool
) -> str:
    run = entry or other_entry
    assert run is not None
    sides = [_side(raw, side) for raw, side in zip(data, (entry, other_entry), strict=True)]
    return f"{' ' if same else '*'} {sides[0]:<{_HEX_WIDTH}} | {sides[1]:<{_HEX_WIDTH}} {run.path} ({run.what})"


def _side(data: bytes, run: AnnotatedRange | None) -> str:
    if run is None:
        return "-"
    raw = _raw(data, run)
    text = f"{run.start:06x} {raw[:6].hex()}{'..' if len(raw) > 6 else ''} {run.text()}"
    return text if len(text) <= _HEX_WIDTH else f"{text[: _HEX_WIDTH - 2]}.."


_BYTES_A_LINE: Final = 16
_MAX_LINES: Final = 4  # largest number of lines of one run; --all shows every byte


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
    """Explain each byte of a frame, a message or a batch of records.

    A request is recognised (with or without its size). A response needs --api and --version, a body --message and
    --version. Batches and message sets are recognised by magic and CRC (damaged ones: --records). Each varint is shown
    with its value, its zig-zag number and its bits. --depth also shows the batches inside Produce and Fetch. Broken
    bytes are shown up to the break; the exit status is then 2.
    """
    data = read_bytes(source)
    if records or (not which["api"] and not which["name"] and are_records(data)):
        if as_json:
            _print_batches(data)
            return
        drawings = draw_records(data, depth=RECORDS if depth is None else max(depth, HEADERS))
        _print_drawings(drawings, show_all=show_all)
        return
    annotation = annotate(data, **which)
    if as_json:
        forms = {name: value.to_json(version, records="base64") for name, version, value in annotation.values}
        click.echo(json.dumps(forms, indent=2, ensure_ascii=False))
    else:
        for line in dump_lines(data, annotation, show_all=show_all, depth=depth or 0):
            click.echo(line)
    if annotation.error is not None:
        raise annotation.error


def _print_batches(data: bytes) -> None:
    """Print the batches and their records as JSON, with keys and values in base64. Then raise the first error."""
    from kafkaframes.records.batch import read_values

    walk = read_values(data)
    batches = list(walk)
    click.echo(json.dumps(list(map(_batch_form, batches)), default=lambda raw: b64encode(raw).decode(), indent=2))
    damage = next((batch.damage.reason for batch in batches if batch.damage is not None), None)
    position = 0 if walk.end is None else walk.end.position
    if damage is not None or position < len(data):
        raise CorruptRecordError(damage or f"the bytes from {position} on are no batch", position=position)


def _batch_form(batch: Batch) -> dict[str, Any]:
    """Return a batch with its records, with Kafka's field names."""
    fields = {one.name: getattr(batch, one.name) for one in dataclasses.fields(batch)}
    records = [
        _camel(record._asdict() | {"headers": [_camel(header._asdict()) for header in record.headers]})
        for record in batch.records
    ]
    return _camel(fields | {"records": records, "damage": None if batch.damage is None else batch.damage.reason})


def _camel(fields: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_(.)", lambda letter: letter[1].upper(), name): value for name, value in fields.items()}


def _print_drawings(drawings: list[AnnotatedBytes], *, show_all: bool) -> None:
    for line in drawing_lines(drawings, show_all=show_all):
        click.echo(line)
    for drawing in drawings:
        if drawing.error is not None:
            raise drawing.error


def drawing_lines(drawings: list[AnnotatedBytes], *, start: int = 0, show_all: bool = False) -> Iterator[str]:
    """Yield the lines of drawn records. Positions of the first drawing are relative to ``start``."""
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
            tail = drawing.data[drawing.position :]
            position = first + drawing.position
            hex_text = tail[:_BYTES_A_LINE].hex(" ")
            yield f"{position:08x}  {hex_text:<47}  ... {count_text(len(tail), 'byte')} not understood: {drawing.error}"
        elif drawing.error is not None:
            yield f"          {drawing.error}"


def dump_lines(data: bytes, annotation: Annotated, *, show_all: bool = False, depth: int = 0) -> Iterator[str]:
    """Yield the lines of the dump: position, bytes, field, value. With a depth, records are drawn as well."""
    for name, version, _ in annotation.values:
        yield f"# {name} version {version}"
    width = min(max((len(_label(run)) for run in annotation.runs), default=0), 70)
    for run in annotation.runs:
        if depth and run.what == "records" and run.value:
            nested_data = data[run.end - len(run.value) : run.end]
            yield from _lines(
                data[run.start : run.end - len(nested_data)],
                run.start,
                f"{_label(run)}  {count_text(len(nested_data), 'byte')}",
                False,
            )
            yield from drawing_lines(
                draw_records(nested_data, depth=depth), start=run.end - len(nested_data), show_all=show_all
            )
            continue
        yield from _lines(data[run.start : run.end], run.start, f"{_label(run):<{width}}  {run.text()}", show_all)
    if annotation.error is not None:
        tail = data[annotation.position :]
        yield (
            f"{annotation.position:08x}  {tail[:_BYTES_A_LINE].hex(' '):<47}  "
            f"... {count_text(len(tail), 'byte')} not understood"
        )


def _label(run: AnnotatedRange) -> str:
    plain = run.what in ("string", "bytes", "records", "bool", "uuid", "float64") or run.what.startswith(
        ("int", "uint")
    )
    return run.path if plain else f"{run.path} ({run.what})"


def _lines(raw: bytes, start: int, words: str, show_all: bool) -> Iterator[str]:
    """Yield the lines of the bytes at ``start``, with their description in the first line."""
    lines = [raw[position : position + _BYTES_A_LINE] for position in range(0, len(raw), _BYTES_A_LINE)] or [b""]
    shown_lines = lines if show_all else lines[:_MAX_LINES]
    for index, line in enumerate(shown_lines):
        text = f"{start + index * _BYTES_A_LINE:08x}  {line.hex(' '):<47}"
        yield f"{text}  {words}" if index == 0 else text.rstrip()
    if len(shown_lines) < len(lines):
        yield f"          ... {count_text(len(raw) - len(shown_lines) * _BYTES_A_LINE, 'byte')} more"


@click.command("encode")
@click.argument("name")
@click.argument("version", type=int)
@click.argument("source", metavar="JSON|FILE|-")
@specs_option
@click.option("--header", "with_header", is_flag=True, help="a request or response with its header")
@click.option("--frame", "with_size", is_flag=True, help="with header and size, as it goes to a socket")
@click.option("--correlation-id", type=int, default=0)
@click.option("--client-id", default=None)
@click.option(
    "--tag", "tags", multiple=True, metavar="NUMBER=HEX", help="a raw tagged field of the message; repeatable"
)
@click.option("--raw", is_flag=True, help="write bytes, not hex")
def encode(name: str, version: int, source: str, raw: bool, tags: tuple[str, ...], **options: Any) -> None:
    """Print the bytes of the message NAME at VERSION, given in Kafka's JSON form."""
    cls = message_of(name, options["specs"])
    value = cls.from_json(_read_json(source), version)
    if tags:  # in addition to the tags of the JSON
        value.unknown_tags = sorted([*value.unknown_tags, *map(_tag, tags)], key=itemgetter(0))
    data = value.encode(version)
    if options["with_header"] or options["with_size"]:
        number = options["correlation_id"]
        if value.spec.type == "response":
            data = encode_response(value, version, correlation_id=number)
        else:
            data = encode_request(value, version, correlation_id=number, client_id=options["client_id"])
    if options["with_size"]:
        data = frame(data)
    if raw:
        sys.stdout.buffer.write(data)
    else:
        click.echo(data.hex())


def _read_json(source: str) -> Any:
    text = source
    if source == "-":
        text = sys.stdin.read()
    elif not source.lstrip().startswith("{"):
        try:
            text = Path(source).read_text()
        except OSError as error:
            raise OptionError(f"{format_path_error(error, source[:60])}, and not JSON") from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"not JSON: {error}") from None


def _tag(text: str) -> tuple[int, bytes]:
    number, _, payload = text.partition("=")
    try:
        return int(number), bytes.fromhex(payload)
    except ValueError as error:
        raise OptionError(f"--tag {text}: must be NUMBER=HEX ({error})") from None


@click.command("vectors")
@click.argument("directory", metavar="DIR")
@specs_option
def vectors(directory: str, specs: str | None) -> None:
    """Write test vectors for other libraries, bytes with their meaning, into DIR (new or empty).

    Every message at every version with its headers, whole and damaged; batches of every format and codec; varints; keys
    with their hash and partition. JSON lines, and a README.md that explains them. The same version of kafkaframes
    writes the same bytes. With --specs the messages are those of a proposal.
    """
    from kafkaframes.testing.vectors import write_vectors

    for name, count in write_vectors(directory, specs=specs).items():
        say(f"{count:>8,}  {name}")
    say(f"written into {directory}: README.md explains them")
