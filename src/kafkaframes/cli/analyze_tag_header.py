"""``kafkaframes analyze tag-header``: KIP-482's tag header against its draft's and against what the KIP rejects."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import click

from kafkaframes.cli.options import json_option_of
from kafkaframes.cli.text import print_table
from kafkaframes.errors import OptionError
from kafkaframes.jobs.analyze import tag_header
from kafkaframes.jobs.analyze.tag_header import DEFAULT_TEXT_BYTES, LENGTHS, SCHEMES, TAGS, MessageSize, TaggedField
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec


@click.command("tag-header")
@click.option("--length", "lengths", type=int, multiple=True, help="Length of a value in bytes (may be repeated).")
@click.option("--tag", "tags", type=int, multiple=True, help="Number of a tag (may be repeated).")
@click.option("--message", "names", multiple=True, help="Only this message (may be repeated); default: the catalog.")
@click.option(
    "--text-bytes",
    type=click.IntRange(0, 2**20),
    default=DEFAULT_TEXT_BYTES,
    show_default=True,
    help="How long strings and bytes are taken to be; arrays have one element.",
)
@json_option_of("One JSON object a line.")
def command(
    lengths: tuple[int, ...],
    tags: tuple[int, ...],
    names: tuple[str, ...],
    text_bytes: int,
    as_json: bool,
) -> None:
    """Print the sizes of the draft's interleaved tag header beside the two varints that were adopted.

    Three tables: the header for chosen lengths and tags; every tagged field of the catalog at its newest
    version; and whole messages, beside the alternatives that KIP-482 rejects: escape bytes (an empty tag section takes
    no byte), and every field tagged. On traffic: kafkaframes spec propose tag-header.
    """
    headers = tag_header.header_sizes(lengths or LENGTHS, tags or TAGS)
    specs = [catalog.load(name) for name in names or catalog.names()]
    newest = [(spec, _newest(spec, named=bool(names))) for spec in specs]
    flexible = [(spec, version) for spec, version in newest if version is not None]
    fields = [one for spec, version in flexible for one in tag_header.tagged_fields(spec, version, text_bytes)]
    sizes = [tag_header.message_size(spec, version, text_bytes) for spec, version in flexible]
    if as_json:
        _print_json(headers, fields, sizes)
        return
    _print_headers(headers, lengths or LENGTHS, tags or TAGS)
    _print_fields(fields)
    _print_messages(sizes, each=bool(names))


def _newest(spec: MessageSpec, *, named: bool) -> int | None:
    """Return the newest version if it has tag sections."""
    version = spec.valid_versions.highest
    if not spec.valid_versions.is_empty and spec.flexible_versions.contains(version):
        return version
    if named:
        raise OptionError(f"{spec.name}: no version has tagged fields")
    return None


def _print_json(
    headers: Sequence[tag_header.HeaderSize], fields: Sequence[TaggedField], sizes: Sequence[MessageSize]
) -> None:
    for kind, rows in (("header", headers), ("field", fields), ("message", sizes)):
        for row in rows:
            click.echo(json.dumps({"kind": kind, **dataclasses.asdict(row)}, default=bytes.hex))


def _print_headers(headers: Sequence[tag_header.HeaderSize], lengths: Sequence[int], tags: Sequence[int]) -> None:
    click.echo("Header in bytes, interleaved/adopted (* the draft's is smaller)\n")
    cells = iter(headers)
    rows = [[str(length), *(_pair(next(cells)) for _ in tags)] for length in lengths]
    print_table(["length", *(f"tag {tag}" for tag in tags)], rows)


def _pair(entry: tag_header.HeaderSize) -> str:
    return f"{entry.interleaved}/{entry.adopted}" + ("*" if entry.interleaved < entry.adopted else "")


def _print_fields(fields: Sequence[TaggedField]) -> None:
    click.echo("\nTagged fields of the newest versions\n")
    rows = [[one.message, str(one.version), one.path, one.type, *map(str, _numbers(one.header))] for one in fields]
    if rows:
        print_table(["message", "version", "field", "type", "tag", "length", "interleaved", "adopted"], rows)
    won = sum(one.header.adopted - one.header.interleaved for one in fields)
    smaller = sum(one.header.interleaved < one.header.adopted for one in fields)
    click.echo(f"{len(fields)} tagged fields: the draft's header is smaller for {smaller}, {won} bytes in all")


def _numbers(header: tag_header.HeaderSize) -> tuple[int, int, int, int]:
    return header.tag, header.length, header.interleaved, header.adopted


def _print_messages(sizes: Sequence[MessageSize], *, each: bool) -> None:
    click.echo("\nWhole messages in bytes, one element in each array\n")
    rows = [
        [f"{one.message} {one.version}", written, *(str(by_scheme[scheme]) for scheme in SCHEMES)]
        for one in (sizes if each else ())
        for written, by_scheme in (("no", one.bare), ("yes", one.filled))
    ]
    for written, result in (("no", [one.bare for one in sizes]), ("yes", [one.filled for one in sizes])):
        totals = [sum(by_scheme[scheme] for by_scheme in result) for scheme in SCHEMES]
        rows.append([f"all {len(sizes)}", written, *(f"{n} ({_percent(n, totals[0])})" for n in totals)])
    print_table(["messages", "tagged fields written", *SCHEMES], rows)


def _percent(size: int, adopted: int) -> str:
    return f"{100 * (size - adopted) / adopted:+.1f} %" if adopted else "-"
