"""``kafkaframes analyze records`` and ``tag-header``: sizes of records and tag headers, now and in other layouts."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaframes.capture.coverage import Coverage
from kafkaframes.capture.files import CAPTURE_NAME_PATTERN, is_traffic
from kafkaframes.cli.options import json_option_of, opens_batches, ports_option, specs_option, workers_option
from kafkaframes.cli.text import print_table, say
from kafkaframes.cli.workers import exit_if_unread, run_measured, spark_option, traffic_tasks
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec

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
def records(
    sources: tuple[str, ...], ports: str, specs: str | None, as_json: bool, on_spark: bool, jobs: int | None
) -> None:
    """Lay records out in formats 0, 1 and 2, and print the bytes of each field.

    INPUT is a log, a partition directory, segments, or a capture: then records produced and records fetched have a
    table each. Records of every format are measured, uncompressed; those of formats 0 and 1 are laid out in format 2 as
    `convert` writes them. Formats 0 and 1 write each length in four bytes, format 2 as a varint; it has one header a
    batch instead of fields in each message.

    Exit status: 0, 1 when part of a capture could not be read (see standard error).
    """
    captures = tuple(source for source in sources if _is_capture(source))
    logs = [source for source in sources if source not in captures]
    if not captures and (ports or specs or on_spark):
        raise OptionError(f"{'--ports' if ports else '--specs' if specs else '--spark'} is for captures")
    result: dict[str, RecordSizes] = {"log": _measure_logs(logs)} if logs else {}
    coverage = Coverage()
    if captures:
        result |= _measure_captures(captures, ports, specs, coverage, on_spark=on_spark, jobs=jobs)
    for part_name, sizes in result.items():
        if as_json:
            say(json.dumps({"source": part_name} | dataclasses.asdict(sizes) | {"totals": sizes.totals}))
            continue
        if captures:
            say(f"Records {part_name}:" if part_name != "log" else "Records of logs:")
        _print(sizes)
    exit_if_unread(coverage)


def _is_capture(source: str) -> bool:
    """Return whether a source is a capture, or a directory of captures. A request log is an ``OptionError``."""
    from kafkaframes.capture.reader import is_request_log

    if not is_traffic(source):
        return False
    if os.path.isfile(source) and not CAPTURE_NAME_PATTERN.search(os.path.basename(source)):
        if is_request_log(source):
            raise OptionError(f"{source}: a request log has no records; give a capture or a log")
        return False
    return True


def _measure_logs(sources: list[str]) -> RecordSizes:
    from kafkaframes.jobs.analyze.records import RecordSizes
    from kafkaframes.storage.files.scan import scan_segment
    from kafkaframes.storage.log.discover import discover

    sizes = RecordSizes()
    for directory in discover(sources):
        for partition in directory.partitions:
            for segment in partition.segments:
                with directory.filesystem.open(segment.path) as read_at:
                    for window in scan_segment(
                        read_at, size_bytes=segment.size_bytes, includes_data=True, file=segment.path
                    ):
                        sizes.add_batches(window.data, window.batches_in_data())
    return sizes


def _measure_captures(
    paths: tuple[str, ...], ports: str, specs: str | None, coverage: Coverage, *, on_spark: bool, jobs: int | None
) -> dict[str, RecordSizes]:
    from kafkaframes.jobs.analyze.records import RecordSizes
    from kafkaframes.jobs.analyze.traffic import FETCHED, PRODUCED, measure_share
    from kafkaframes.protocol.messages.registry import Apis

    tasks, share_bytes = traffic_tasks(paths, ports, jobs)
    result = {PRODUCED: RecordSizes(), FETCHED: RecordSizes()}
    for part in run_measured(
        partial(measure_share, apis=Apis(specs)), tasks, share_bytes, on_spark=on_spark, jobs=jobs
    ):
        coverage.update(part.coverage.entries)
        for part_name, sizes in part.sizes.items():
            result[part_name].merge(sizes)
    return result


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
    from kafkaframes.jobs.analyze import scale

    lengths, tags = lengths or scale.EXAMPLE_LENGTHS, tags or scale.EXAMPLE_TAGS
    text_bytes = scale.EXAMPLE_TEXT_BYTES if text_bytes is None else text_bytes
    headers = scale.list_header_sizes(lengths, tags)
    specs = [catalog.load(name) for name in names or catalog.names()]
    newest = [(spec, _newest(spec, is_required=bool(names))) for spec in specs]
    flexible = [(spec, version) for spec, version in newest if version is not None]
    fields = [one for spec, version in flexible for one in scale.find_tagged_fields(spec, version, text_bytes)]
    sizes = [scale.compare_message_sizes(spec, version, text_bytes) for spec, version in flexible]
    if as_json:
        _print_json(headers, fields, sizes)
        return
    _print_headers(headers, lengths, tags)
    _print_tagged(fields)
    _print_messages(sizes, each=bool(names))


def _newest(spec: MessageSpec, *, is_required: bool) -> int | None:
    """Return the newest version if it has tag sections."""
    version = spec.valid_versions.highest
    if not spec.valid_versions.is_empty and spec.flexible_versions.contains(version):
        return version
    if is_required:
        raise OptionError(f"{spec.name}: no version has tagged fields")
    return None


def _print_json(headers: Sequence[HeaderSize], fields: Sequence[TaggedField], sizes: Sequence[MessageSize]) -> None:
    for kind, rows in (("header", headers), ("field", fields), ("message", sizes)):
        for row in rows:
            click.echo(json.dumps({"kind": kind, **dataclasses.asdict(row)}, default=bytes.hex))


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
