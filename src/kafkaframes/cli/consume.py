"""``kafkaframes consume``: prints the records of a topic in kcat's formats, as JSON lines, or as an Arrow stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import add_connection_options, add_topic_argument, is_specified, reach_broker
from kafkaframes.cli.options import add_budget_option, add_click_options, isolation_option, range_options
from kafkaframes.cli.text import open_record_output
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    Bound,
    check_partitions,
    describe_offset_below_start,
    describe_offset_beyond_end,
    get_common_offset,
    get_common_time,
    to_log_bound,
)
from kafkaframes.storage.files.filesystem import has_wildcard
from kafkaframes.storage.log.discover import check_topics, is_selected

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.client import Consumer, TopicPartition
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.jobs.dump.kcat import KcatOffsetRange

_MAX_OFFSET = 2**63 - 1
_DEFAULT_RANGE = {"start": EARLIEST, "end": LATEST}
_PRINTED_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
Row = dict[str, Any]
Writer = Callable[[Row], bytes]


@click.command("consume")
@add_topic_argument("names", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "-t", "--topic", "topics", multiple=True, help="Topic to print: a name or pattern; repeatable. Equivalent to TOPIC."
)
@add_connection_options
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Partition of each topic to print; repeatable.",
)
@add_click_options(*range_options)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    default=("beginning",),
    help="Start position, as in kcat: beginning, end, N, -N, s@MS, e@MS.",
)
@click.option("-c", "count", type=click.IntRange(0), help="Maximum number of records to print.")
@click.option("-e", "--exit", "ends", is_flag=True, help="Stop at the current end instead of waiting for new records.")
@click.option("-f", "pattern", metavar="FORMAT", help=r"kcat format: %t %p %o %T %k %K %s %S %h, \n, \xHH.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("values", "jsonl", "arrow")),
    default="values",
    show_default=True,
    help="values: one value per line; jsonl: one JSON object per line, with bytes "
    'that are not UTF-8 as {"base64": "..."}; '
    "arrow: an Arrow stream.",
)
@click.option("-g", "--group", metavar="GROUP", help="Consumer group to join. Reading starts at its committed offsets.")
@isolation_option
@add_budget_option
def command(names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], **flags: Any) -> None:
    """Print the records of topics. TOPIC is a name, or a pattern such as 'orders-*'.

    A consumer reads no control records, and stops at damage.

    \b
    kafkaframes consume orders -e
    kafkaframes consume orders -f '%t/%p@%o %T %k: %s\\n' --offset -10 -e
    kafkaframes consume orders --start 2026-01-31T12:00 --end 2026-02-01
    """
    from kafkaframes.client import Consumer
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.jobs.dump.kcat import parse_offsets

    patterns = (*names, *flags["topics"])
    if not patterns:
        raise OptionError("topics are missing; specify TOPIC or --topic")
    offset_range = parse_offsets(flags["offsets"])
    has_range = flags["start"] is not None or flags["end"] is not None
    if has_range:
        offset_range = select_range(flags)
    client = {
        "isolation": {"isolation.level": flags["isolation"]},
        "offsets": {"auto.offset.reset": _choose_auto_offset_reset(offset_range)},
        "group": {} if flags["group"] is None else {"group.id": flags["group"]},
    }
    write = (
        None if flags["form"] == "arrow" and not flags["pattern"] else _make_row_writer(flags["pattern"], flags["form"])
    )
    settings = reach_broker(servers, properties, flags["timeout"], flags=client, kind=ConsumerSettings)
    consumer_settings = ConsumerSettings.from_options(settings)
    flags["group"] = consumer_settings.group_id
    if not is_specified("offsets") and not has_range:
        offset_range = _choose_default_start(consumer_settings)
    with Consumer(**settings) as consumer:
        tables = _iterate_tables(consumer, _select_topics(consumer, patterns), offset_range, flags)
        if write is None:
            _write_arrow(tables)
        else:
            _write_rows(tables, write)


def select_range(flags: dict[str, Any]) -> KcatOffsetRange:
    """Return the range from ``--start`` to ``--end``. End offsets are applied later, by ``_limit_ends``."""
    from kafkaframes.jobs.dump.kcat import KcatOffsetRange

    if is_specified("offsets"):
        raise OptionError("--offset cannot be combined with --start and --end, which it replaces")
    if flags["start"] is not None and flags["group"] is not None:
        raise OptionError("--start cannot be combined with -g, because a group continues at its committed offsets")
    start, end = (to_log_bound(name, flags[name], unset=is_unset) for name, is_unset in _DEFAULT_RANGE.items())
    start_offset = _MAX_OFFSET if start == LATEST else get_common_offset(start)
    return KcatOffsetRange(start_offset, get_common_time(start), get_common_time(end))


def _choose_auto_offset_reset(offset_range: KcatOffsetRange) -> str:
    """Return the ``auto.offset.reset`` for a start offset."""
    return "latest" if offset_range.start_offset == _MAX_OFFSET else "earliest"


def _choose_default_start(settings: ConsumerSettings) -> KcatOffsetRange:
    """Return the start that ``auto.offset.reset`` selects, if ``--offset`` is not specified."""
    from kafkaframes.jobs.dump.kcat import parse_offsets

    if settings.reset_duration_ms is not None:
        return parse_offsets((f"s@{int(time.time() * 1000) - settings.reset_duration_ms}",))
    if settings.auto_offset_reset == "none" and settings.group_id is None:
        raise OptionError("auto.offset.reset=none requires committed offsets; add -g GROUP, or --offset")
    return parse_offsets(("end" if settings.auto_offset_reset == "latest" else "beginning",))


def _select_topics(consumer: Consumer, patterns: Sequence[str]) -> list[str]:
    """Return the topics that names and patterns select. Names are returned without a look-up."""
    if not any(map(has_wildcard, patterns)):
        return list(dict.fromkeys(patterns))
    existing_topics = consumer.topics()
    check_topics(patterns, existing_topics)
    return [topic for topic in existing_topics if is_selected(topic, patterns)]


def _iterate_tables(
    consumer: Consumer, topics: list[str], offset_range: KcatOffsetRange, flags: dict[str, Any]
) -> Iterator[pa.Table]:
    """Yield the requested records, up to the requested number, or with -e up to the end of the log."""
    partitions = _select_partitions(consumer, topics, flags["partitions"])
    has_end = flags["ends"] or flags["end"] is not None or offset_range.end_timestamp is not None
    ends = _find_ends(consumer, partitions, offset_range) if has_end else None
    if ends is not None and flags["end"] is not None:
        ends = _limit_ends(consumer, ends, to_log_bound("end", flags["end"], unset=LATEST))
    if isinstance(flags["start"], int):
        _check_start(consumer, partitions, flags["start"])
    if flags["group"] is not None:
        consumer.subscribe(topics)
    else:
        consumer.assign(_find_starts(consumer, partitions, offset_range))
    remaining = flags["count"]
    while remaining is None or remaining > 0:
        if ends is not None and _has_reached_ends(consumer, ends):
            return
        table = consumer.fetch_arrow(500, columns=_PRINTED_COLUMNS)
        if ends is not None and not table.num_rows:
            _skip_gaps(consumer, ends)
        table = _remove_after_ends(table, ends)
        if remaining is not None:
            table = table.slice(0, remaining)
            remaining -= table.num_rows
        if table.num_rows:
            yield table


def _select_partitions(consumer: Consumer, topics: list[str], numbers: tuple[int, ...]) -> list[TopicPartition]:
    """Return the selected partitions of the topics. A partition that does not exist is an error."""
    existing_partitions = consumer.partitions_for(*topics)
    missing = sorted(set(numbers) - {partition.partition for partition in existing_partitions})
    if missing and len(topics) == 1:
        raise OptionError(
            f"topic {topics[0]} does not have partition {missing[0]}; it has "
            f"{count_text(len(existing_partitions), 'partition')}"
        )
    check_partitions(numbers, {partition.partition for partition in existing_partitions})
    return [partition for partition in existing_partitions if not numbers or partition.partition in numbers]


def _find_starts(
    consumer: Consumer, partitions: list[TopicPartition], offset_range: KcatOffsetRange
) -> dict[TopicPartition, int]:
    """Return the start offset of each partition, within its log."""
    first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    if offset_range.start_timestamp is not None:
        result = consumer.offsets_for_times(dict.fromkeys(partitions, offset_range.start_timestamp))
        return {
            partition: offset.offset if offset.offset >= 0 else last[partition] for partition, offset in result.items()
        }
    if offset_range.start_offset is None:
        return first
    start = offset_range.start_offset
    return {
        partition: min(max(start if start >= 0 else last[partition] + start, first[partition]), last[partition])
        for partition in partitions
    }


def _find_ends(
    consumer: Consumer, partitions: list[TopicPartition], offset_range: KcatOffsetRange
) -> dict[TopicPartition, int]:
    """Return the end offset of each partition: at the end time, or the end of its log."""
    last = consumer.end_offsets(partitions)
    if offset_range.end_timestamp is None:
        return last
    result = consumer.offsets_for_times(dict.fromkeys(partitions, offset_range.end_timestamp))
    return {partition: offset.offset if offset.offset >= 0 else last[partition] for partition, offset in result.items()}


def _limit_ends(consumer: Consumer, ends: dict[TopicPartition, int], end: Bound) -> dict[TopicPartition, int]:
    """Return the ends limited to ``--end``. Raise OptionError for an offset after the end of a partition."""
    if end == EARLIEST:
        return consumer.beginning_offsets(list(ends))
    offset = get_common_offset(end)
    if offset is None:
        return ends
    firsts = consumer.beginning_offsets(list(ends))
    for partition, last in ends.items():
        if last < offset and firsts[partition] < last:  # an empty partition has lost no records
            raise OptionError(f"`end`: {describe_offset_beyond_end(partition, offset, last)}")
    return {partition: min(offset, last) for partition, last in ends.items()}


def _check_start(consumer: Consumer, partitions: list[TopicPartition], offset: int) -> None:
    """Reject an offset that a partition does not have. An empty partition has lost no records."""
    firsts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for partition in partitions:
        first, last = firsts[partition], ends[partition]
        if first < last and offset < first:
            raise OptionError(f"`start`: {describe_offset_below_start(partition, offset, first)}")
        if first < last < offset:
            raise OptionError(f"`start`: {describe_offset_beyond_end(partition, offset, last)}")


def _has_reached_ends(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    assignment = consumer.assignment()
    return bool(assignment) and all(consumer.position(partition) >= ends.get(partition, 0) for partition in assignment)


def _skip_gaps(consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
    """Skip the offsets without records at the end of compacted logs, so that the command does not wait for them."""
    for entry in consumer.assignment():
        consumer.skip_gap(entry, ends.get(entry, 0))


def _remove_after_ends(table: pa.Table, ends: dict[TopicPartition, int] | None) -> pa.Table:
    """Remove the records after the ends."""
    import pyarrow as pa

    if ends is None or not table.num_rows:
        return table
    columns = (table[name].to_pylist() for name in ("topic", "partition", "offset"))
    end_offsets = {(partition.topic, partition.partition): end for partition, end in ends.items()}
    is_before_end = [
        offset < end_offsets.get((topic, number), _MAX_OFFSET) for topic, number, offset in zip(*columns, strict=True)
    ]
    return table if all(is_before_end) else table.filter(pa.array(is_before_end))


def _write_rows(tables: Iterator[pa.Table], write: Writer) -> None:
    import pyarrow as pa

    out = open_record_output()
    for table in tables:
        milliseconds = table["timestamp"].cast(pa.int64())
        rows = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", milliseconds).to_pylist()
        out.write(b"".join(map(write, rows)))
        out.flush()


def _write_arrow(tables: Iterator[pa.Table]) -> None:
    from pyarrow import ipc

    out, writer = open_record_output(is_text=False), None
    for table in tables:
        writer = writer or ipc.new_stream(out, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


# ------------------------------------------------------------------------------------------------------------ a record


def _make_row_writer(pattern: str | None, form: str) -> Writer:
    """Return the function that renders a row in kcat's format, as JSON, or as its value."""
    if pattern is not None:
        from kafkaframes.jobs.dump.kcat import parse_format

        parts = list(parse_format(pattern, _FIELD_WRITER_BY_DIRECTIVE))
        return lambda row: b"".join(part if isinstance(part, bytes) else part(row) for part in parts)
    if form == "jsonl":
        return _format_json_line
    return lambda row: (row["value"] or b"") + b"\n"


def _get_byte_length(value: bytes | None) -> int:
    """Return the size of a value in bytes; -1 for null."""
    return -1 if value is None else len(value)


def _format_headers(row: Row) -> bytes:
    """Return a row's headers as NAME=VALUE, separated by commas."""
    pairs = ((row_headers["key"], row_headers["value"]) for row_headers in row["headers"] or ())
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in pairs)


_FIELD_WRITER_BY_DIRECTIVE: dict[str, Writer] = {
    "t": lambda row: str(row["topic"]).encode(),
    "p": lambda row: b"%d" % row["partition"],
    "o": lambda row: b"%d" % row["offset"],
    "T": lambda row: b"%d" % row["timestamp"],
    "k": lambda row: row["key"] or b"",
    "K": lambda row: b"%d" % _get_byte_length(row["key"]),
    "s": lambda row: row["value"] or b"",
    "S": lambda row: b"%d" % _get_byte_length(row["value"]),
    "R": lambda row: _get_byte_length(row["value"]).to_bytes(4, signed=True),
    "h": _format_headers,
    "%": lambda row: b"%",
}


def _format_json_line(row: Row) -> bytes:
    from kafkaframes.records.json_lines import to_json_bytes, to_json_headers, to_json_line

    values = {"key": to_json_bytes(row["key"]), "value": to_json_bytes(row["value"])}
    return to_json_line({**row, **values, "headers": to_json_headers(row["headers"])})
