"""``kafkaframes analyze records`` and ``tag-header``: sizes of records and tag headers, now and in other layouts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaframes.cli.options import json_option_of, opens_batches, ports_option, reads, specs_option, workers_option
from kafkaframes.cli.text import print_table, say
from kafkaframes.cli.workers import exit_if_unread, run_measured, spark_option, traffic_tasks
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.settings import PartitionSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.records import RecordSizes
    from kafkaframes.jobs.analyze.scale import HeaderSize, MessageSize, TaggedField


@click.command("records")
@click.argument("sources", nargs=-1, required=True, metavar="INPUT...")
@ports_option
@specs_option
@json_option_of("One JSON object for each source: log, produced, fetched.")
@spark_option
@workers_option
@opens_batches
@reads("sources", kind=PartitionSettings)
def records(
    sources: tuple[str, ...],
    settings: PartitionSettings,
    ports: str,
    specs: str | None,
    as_json: bool,
    on_spark: bool,
    jobs: int | None,
) -> None:
    """Lay records out in formats 0, 1 and 2, and print the bytes of each field.

    INPUT is a log, a partition directory, segments, or a capture: then records produced and records fetched have a
    table each. Records of every format are measured, uncompressed; those of formats 0 and 1 are laid out in format 2 as
    `convert` writes them. Formats 0 and 1 write each length in four bytes, format 2 as a varint; it has one header a
    batch instead of fields in each message.

    Exit status: 0, 1 when part of a capture could not be read (see standard error).
    """
    from kafkaframes.jobs.analyze.measure import measure_records, split_sources

    logs, captures = split_sources(sources)
    if not captures and (ports or specs or on_spark):
        raise OptionError(f"{'--ports' if ports else '--specs' if specs else '--spark'} is for captures")
    tasks, share_bytes = traffic_tasks(tuple(captures), ports, jobs) if captures else ([], 0)
    run = partial(run_measured, share_bytes=share_bytes, on_spark=on_spark, jobs=jobs)
    result = measure_records(logs, tasks, settings, specs=specs, run=run)
    if as_json:
        for row in result.rows():
            say(json.dumps(row))
    for part_name, sizes in result.sizes.items() if not as_json else ():
        if captures:
            say(f"Records {part_name}:" if part_name != "log" else "Records of logs:")
        _print(sizes)
    exit_if_unread(result.coverage)


def _print(sizes: RecordSizes) -> None:
    if sizes.records:
        rows = [_row(name, result, sizes.records) for name, result in sizes.sizes.items()]
        print_table(
            ["field", "format 0", "format 1", "format 2", "a record"], [*rows, _row("all", sizes.totals, sizes.records)]
        )
    say(_summary(sizes.totals, sizes.records, sizes.batches, sizes.left_out))


def _row(name: str, sizes: list[int], records: int) -> list[str]:
    each = "/".join(f"{size / records:.1f}" for size in sizes)
    return [name, *(f"{size:,}" for size in sizes), each]


def _summary(totals: list[int], records: int, batches: int, left_out: int) -> str:
    if not records:
        return (
            f"no record can be measured; {count_text(left_out, 'batch', 'batches')} "
            "left out (control batches, LogAppendTime, damage)"
        )
    saved_texts = [
        f"{100 * (old - totals[2]) / old:.1f} % against format {number}" for number, old in enumerate(totals[:2])
    ]
    return (
        f"{count_text(records, 'record')} in {count_text(batches, 'batch', 'batches')}: "
        f"format 2 saves {' and '.join(saved_texts)}, uncompressed; "
        f"{count_text(left_out, 'batch', 'batches')} left out (control batches, LogAppendTime, damage)"
    )


@click.command("tag-header")
@click.option("--length", "lengths", type=int, multiple=True, help="Length of a value in bytes (may be repeated).")
@click.option("--tag", "tags", type=int, multiple=True, help="Number of a tag (may be repeated).")
@click.option("--message", "names", multiple=True, help="Only this message (may be repeated); default: the catalog.")
@click.option(
    "--text-bytes",
    type=click.IntRange(0, 2**20),
    help="How long strings and bytes are taken to be; arrays have one element. Default: as in other examples, 10.",
)
@json_option_of("One JSON object a line.")
def tag_headers(
    lengths: tuple[int, ...],
    tags: tuple[int, ...],
    names: tuple[str, ...],
    text_bytes: int | None,
    as_json: bool,
) -> None:
    """Print the sizes of the draft's interleaved tag header beside the two varints that were adopted.

    Three tables: the header for chosen lengths and tags; every tagged field of the catalog at its newest
    version; and whole messages, beside the alternatives that KIP-482 rejects: escape bytes (an empty tag section takes
    no byte), and every field tagged. On traffic: kafkaframes spec propose tag-header.
    """
    from kafkaframes.jobs.analysis_functions import analyze_tag_headers
    from kafkaframes.jobs.analyze import scale

    result = analyze_tag_headers(messages=names, lengths=lengths, tags=tags, text_bytes=text_bytes)
    if as_json:
        for row in result.rows():
            click.echo(json.dumps(row, default=bytes.hex))
        return
    _print_headers(result.headers, lengths or scale.EXAMPLE_LENGTHS, tags or scale.EXAMPLE_TAGS)
    _print_tagged(result.fields)
    _print_messages(result.messages, each=bool(names))


def _print_headers(headers: Sequence[HeaderSize], lengths: Sequence[int], tags: Sequence[int]) -> None:
    click.echo("Header in bytes, interleaved/adopted (* the draft's is smaller)\n")
    cells = iter(headers)
    rows = [[str(length), *(_pair(next(cells)) for _ in tags)] for length in lengths]
    print_table(["length", *(f"tag {tag}" for tag in tags)], rows)


def _pair(entry: HeaderSize) -> str:
    return f"{entry.interleaved}/{entry.adopted}" + ("*" if entry.interleaved < entry.adopted else "")


def _print_tagged(fields: Sequence[TaggedField]) -> None:
    click.echo("\nTagged fields of the newest versions\n")
    numbers = ["tag", "length", "interleaved", "adopted"]
    rows = [
        [one.message, str(one.version), one.path, one.type, *(str(getattr(one.header, name)) for name in numbers)]
        for one in fields
    ]
    if rows:
        print_table(["message", "version", "field", "type", *numbers], rows)
    won = sum(one.header.adopted - one.header.interleaved for one in fields)
    smaller = sum(one.header.interleaved < one.header.adopted for one in fields)
    click.echo(
        f"{len(fields)} tagged fields: the draft's header is smaller for {smaller}, {count_text(won, 'byte')} in all"
    )


def _print_messages(sizes: Sequence[MessageSize], *, each: bool) -> None:
    from kafkaframes.jobs.analyze.scale import SCHEMES

    click.echo("\nWhole messages in bytes, one element in each array\n")
    rows = [
        [f"{one.message} {one.version}", has_tags, *(str(by_scheme[scheme]) for scheme in SCHEMES)]
        for one in (sizes if each else ())
        for has_tags, by_scheme in (("no", one.bare), ("yes", one.filled))
    ]
    for has_tags, result in (
        ("no", [one.bare for one in sizes]),
        ("yes", [one.filled for one in sizes]),
    ):
        totals = [sum(by_scheme[scheme] for by_scheme in result) for scheme in SCHEMES]
        rows.append([f"all {len(sizes)}", has_tags, *(f"{n} ({_percent(n, totals[0])})" for n in totals)])
    print_table(["messages", "tagged fields written", *SCHEMES], rows)


def _percent(size: int, adopted_bytes: int) -> str:
    return f"{100 * (size - adopted_bytes) / adopted_bytes:+.1f} %" if adopted_bytes else "-"
