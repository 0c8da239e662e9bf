"""``kafkaframes decode``, ``diff``, ``encode``, ``vectors``: explain bytes field by field, and encode messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from kafkaframes.cli.options import Command, add_click_options, make_json_option, specs_option
from kafkaframes.cli.text import print_text
from kafkaframes.errors import NO_SUCH_PATH_TEXT, OptionError, format_path_error
from kafkaframes.protocol.message_functions import compare_messages, encode_message, explain_message, explain_records

_HEX_CHARACTERS = frozenset(b"0123456789abcdefABCDEF \t\r\n:,")


def read_bytes(source: str) -> bytes:
    """Return the bytes of an argument: hex digits, a file of hex digits, a binary file, or ``-``."""
    if source == "-":
        return _decode_if_hex(sys.stdin.buffer.read())
    try:
        if Path(source).exists() and not Path(source).is_dir():
            return _decode_if_hex(Path(source).read_bytes())
    except OSError:
        pass  # hex digits can be too long for a file name
    if not set(source.encode()) <= _HEX_CHARACTERS:
        raise OptionError(f"{NO_SUCH_PATH_TEXT} (at {source[:60]}); expected a file or hex digits")
    return _decode_hex(source)


def _decode_if_hex(raw: bytes) -> bytes:
    """Return the bytes that hexadecimal digits represent. Other input is returned unchanged."""
    return _decode_hex(raw.decode()) if raw and set(raw) <= _HEX_CHARACTERS else raw


def _decode_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.replace(":", " ").replace(",", " "))
    except ValueError as error:
        raise OptionError(f"expected hex digits: {error}") from None


def add_message_options(command: Command) -> Command:
    """Add the options that specify which message the bytes contain."""
    return add_click_options(
        click.option("--api", help="Name or key of an API: the bytes are a response of this API, with header."),
        click.option("--message", help="Name of a message: the bytes are the body of this message, without header."),
        click.option("--version", type=int, help="Version of the API or the message."),
        click.option("--body", is_flag=True, help="With --api: the bytes are a response's body, without header."),
        click.option("--request", is_flag=True, help="With --api: the bytes are a request's body, without header."),
        specs_option,
        click.option(
            "--names-of", metavar="RELEASE", help="Also print the name that a field had in this release, such as 2.8."
        ),
        click.option("--mode", type=click.Choice(["reference", "strict"]), default="reference", show_default=True),
    )(command)


@click.command("diff")
@click.argument("left", metavar="HEX|FILE")
@click.argument("right", metavar="HEX|FILE")
@add_message_options
@click.option("--all", "show_all", is_flag=True, help="Also print equal fields.")
def diff_messages(left: str, right: str, show_all: bool, **which: Any) -> None:
    """Compare two encodings of a message and print the fields that differ; exit 1 if any does.

    Bytes are compared, so two encodings of the same value differ, too.
    """
    comparison = compare_messages(read_bytes(left), read_bytes(right), **which)
    for line in comparison.lines(all_fields=show_all):
        click.echo(line)
    sys.exit(0 if comparison.is_equal else 1)


@click.command("decode")
@click.argument("source", metavar="HEX|FILE|-")
@add_message_options
@make_json_option("Print JSON: messages in Kafka's JSON form with unknown tags, records as a list of batches.")
@click.option("--all", "show_all", is_flag=True, help="Print every byte of long values.")
@click.option("--records", is_flag=True, help="The bytes are batches or a message set, as in a segment.")
@click.option(
    "--depth",
    type=click.IntRange(0, 2),
    help="Detail of records: 1 for the headers of batches, 2 also for their records. "
    "Default: 2, and 0 for records inside messages.",
)
def command(source: str, as_json: bool, show_all: bool, records: bool, depth: int | None, **which: Any) -> None:
    """Explain each byte of a frame, a message or a batch of records.

    A request is recognized with or without its size. For a response, specify --api and --version, and for a body
    --message and --version. Batches and message sets are recognized by magic and CRC; specify --records if they are
    damaged. Each varint is shown with its value, its zig-zag number and its bits. --depth also shows the batches inside
    Produce and Fetch. Invalid bytes are explained up to the error, and the exit status is then 2.
    """
    from kafkaframes.records.annotate import are_records

    data = read_bytes(source)
    if records or (not which["api"] and not which["message"] and are_records(data)):
        _print_records(data, as_json=as_json, show_all=show_all, depth=depth)
        return
    explanation = explain_message(data, **which)
    if as_json:
        click.echo(json.dumps(explanation.to_dict(), indent=2, ensure_ascii=False))
    else:
        for line in explanation.lines(all_bytes=show_all, depth=depth or 0):
            click.echo(line)
    if explanation.error is not None:
        raise explanation.error


def _print_records(data: bytes, *, as_json: bool, show_all: bool, depth: int | None) -> None:
    """Print batches with their records. After the batches that can be read, raise the first error."""
    if as_json:
        from kafkaframes.protocol.messages.explanation import read_batch_forms

        batches, damage = read_batch_forms(data)
        click.echo(json.dumps(batches, indent=2))
        if damage is not None:
            raise damage
        return
    explanation = explain_records(data, depth=1 if depth in (0, 1) else 2)
    for line in explanation.lines(all_bytes=show_all):
        click.echo(line)
    if explanation.error is not None:
        raise explanation.error


@click.command("encode")
@click.argument("name")
@click.argument("version", type=int)
@click.argument("source", metavar="JSON|FILE|-")
@specs_option
@click.option("--header", "with_header", is_flag=True, help="Print the request or response with its header.")
@click.option(
    "--frame",
    "with_size",
    is_flag=True,
    help="Print the message with header and size, as it is sent over a connection.",
)
@click.option("--correlation-id", type=int, default=0)
@click.option("--client-id", default=None)
@click.option("--tag", "tags", multiple=True, metavar="NUMBER=HEX", help="Raw tagged field of the message; repeatable.")
@click.option("--raw", is_flag=True, help="Write bytes instead of hex digits.")
def encode_command(name: str, version: int, source: str, raw: bool, tags: tuple[str, ...], **options: Any) -> None:
    """Encode the message NAME at VERSION from Kafka's JSON form, and print the bytes."""
    data = encode_message(
        name,
        version,
        _read_json(source),
        header=options["with_header"],
        frame=options["with_size"],
        correlation_id=options["correlation_id"],
        client_id=options["client_id"],
        tags=[_parse_tag(text) for text in tags],
        specs=options["specs"],
    )
    if raw:
        sys.stdout.buffer.write(data)
    else:
        click.echo(data.hex())


def _read_json(source: str) -> Any:
    """Return the JSON value in an argument, a file, or standard input (``-``)."""
    text = source
    if source == "-":
        text = sys.stdin.read()
    elif not source.lstrip().startswith("{"):
        try:
            text = Path(source).read_text()
        except OSError as error:
            raise OptionError(f"{format_path_error(error, source[:60])}; expected a file or JSON") from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"not JSON: {error}") from None


def _parse_tag(text: str) -> tuple[int, bytes]:
    """Return the tag number and the payload in NUMBER=HEX."""
    number, _, payload = text.partition("=")
    try:
        return int(number), bytes.fromhex(payload)
    except ValueError as error:
        raise OptionError(f"--tag {text}: expected NUMBER=HEX ({error})") from None


@click.command("vectors")
@click.argument("directory", metavar="DIR")
@specs_option
def write_vectors_command(directory: str, specs: str | None) -> None:
    """Write test vectors for other libraries (encoded messages with their meaning) to DIR, which is new or empty.

    The vectors are JSON lines: all messages at all versions with their headers, valid and damaged; batches of all
    formats and codecs; varints; keys with their hash and partition. A README.md describes them. The same version of
    kafkaframes writes the same bytes. With --specs, the vectors contain the messages that a proposal defines.
    """
    from kafkaframes.testing.vectors import write_vectors

    for name, count in write_vectors(directory, specs=specs).items():
        print_text(f"{count:>8,}  {name}")
    print_text(f"the vectors were written to {directory}; its README.md describes them")
