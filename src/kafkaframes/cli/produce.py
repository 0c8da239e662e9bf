"""``kafkaframes produce``: sends lines, JSON lines, or an Arrow or Parquet file to a topic."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kafkaframes.cli.connecting import add_connection_options, add_topic_argument, reach_broker
from kafkaframes.cli.line_input import StopSignal, catch_signals, read_lines
from kafkaframes.cli.options import ExistingPath
from kafkaframes.cli.text import print_text
from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.errors.words import count_text, verb_text

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.client import Producer


_MAX_TABLE_ROWS = 10_000
_MAX_UNACKNOWLEDGED_TABLES = 4  # largest number of unacknowledged tables


@click.command("produce")
@add_topic_argument("topic")
@click.argument("file", required=False, type=ExistingPath(dir_okay=False, allow_dash=True))
@add_connection_options
@click.option(
    "--format",
    "form",
    type=click.Choice(("lines", "jsonl", "parquet", "arrow")),
    default="lines",
    show_default=True,
    help="Input: lines (one value per line), jsonl (one JSON object per line, as consume --format jsonl "
    "writes), or files with the columns key, value, headers, timestamp, partition.",
)
@click.option("-K", "delimiter", metavar="TEXT", help="Separator between key and value (with --format lines).")
@click.option(
    "-p", "--partition", type=click.IntRange(0), help="Partition for all records. Default: the partition of the key."
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Header of every record (with --format lines); repeatable.",
)
@click.option("-z", "--codec", type=click.Choice(("none", "gzip", "snappy", "lz4", "zstd")), default="none")
@click.option("--record-format", type=click.IntRange(0, 2), help="Record format 0 or 1, for old brokers and consumers.")
def command(topic: str, file: str | None, servers: str | None, properties: tuple[str, ...], **flags: Any) -> None:
    """Send records from FILE to TOPIC. Without FILE, or if FILE is -, read standard input.

    In JSON lines, key, value and the values of headers are text, or {"base64": "..."} for bytes that are not UTF-8.
    Files of older versions of consume are rejected: they have the field timestamp_ms, and base64 in all fields.

    \b
    echo hello | kafkaframes produce greetings
    kafkaframes produce orders -K : -z zstd < orders.txt
    kafkaframes consume orders -e --format jsonl > orders.jsonl
    kafkaframes produce copy orders.jsonl --format jsonl
    kafkaframes produce orders orders.parquet --format parquet
    """
    from kafkaframes.client import Producer
    from kafkaframes.client.settings import ProducerSettings

    file = None if file == "-" else file
    client = {
        "codec": {"compression.type": flags["codec"]},
        "record_format": {} if flags["record_format"] is None else {"record_format": flags["record_format"]},
    }
    settings = reach_broker(servers, properties, flags["timeout"], new_topic=topic, flags=client, kind=ProducerSettings)
    producer_settings = ProducerSettings.from_options(settings)
    linger_s = producer_settings.linger_ms / 1000
    count = rows_before = 0
    row_name = "row" if flags["form"] in ("parquet", "arrow") else "line"
    with catch_signals() as stop:
        with Producer(**settings) as producer:
            under_way: deque[Future[pa.Table]] = deque()
            try:
                for table in _iterate_tables(file, flags, stop, linger_s):
                    if flags["partition"] is not None:
                        table = _set_partition(table, flags["partition"])
                    under_way.append(
                        _queue_table(
                            producer,
                            topic,
                            table,
                            rows_before=rows_before,
                            row_name=row_name,
                            max_request_size=producer_settings.max_request_size,
                        )
                    )
                    rows_before += table.num_rows
                    while len(under_way) > _MAX_UNACKNOWLEDGED_TABLES or under_way[0].done():
                        count += _count_written(under_way.popleft())
                        if not under_way:
                            break
                    if stop.number is not None:
                        break
            except OptionError:  # an invalid line or row: the error says that the records before it were written
                producer.flush()
                raise
            while under_way:
                count += _count_written(under_way.popleft())
        print_text(f"{count_text(count, 'record')} written to {topic}", err=True)


def _queue_table(
    producer: Producer, topic: str, table: pa.Table, *, rows_before: int, row_name: str, max_request_size: int
) -> Future[pa.Table]:
    """Queue a whole table, or nothing if a row cannot be sent.

    Raises:
        OptionError: a row cannot be sent. The message contains the row's number in the file.
    """
    from kafkaframes.client.producer_records import check_table

    try:
        check_table(table, max_request_size)  # queue_arrow would report the error only after later tables
    except EncodeError as error:
        row = next((step for step in error.path if isinstance(step, int)), None)
        if row is None:
            raise
        raise OptionError(
            f"{row_name} {rows_before + row + 1}: {error.reason}; {_describe_written_count(rows_before)}"
        ) from None
    return producer.queue_arrow(table, topic=topic)


def _describe_written_count(count: int) -> str:
    """Return how many records were written, for the error message of a failed run."""
    if not count:
        return "nothing is written"
    return f"the first {count_text(count, 'record')} {verb_text(count)} written"


def _count_written(result: Future[pa.Table]) -> int:
    """Wait until a table is written. Return the number of its records."""
    return sum(result.result().column("count").to_pylist())


def _iterate_tables(file: str | None, flags: dict[str, Any], stop: StopSignal, linger_s: float) -> Iterator[pa.Table]:
    import pyarrow as pa

    form = flags["form"]
    if form in ("parquet", "arrow"):
        if file is None:
            raise OptionError(f"--format {form} requires a file; specify it")
        yield from _read_file_tables(file, form)
        return
    stream: BinaryIO = sys.stdin.buffer if file is None else open(file, "rb")  # noqa: SIM115  # closed below
    with stream:
        read = _parse_json_line if form == "jsonl" else _make_line_parser(flags)
        row_count = 0
        for lines in read_lines(stream, stop, linger_s=linger_s, max_lines=_MAX_TABLE_ROWS):
            rows: list[dict[str, Any]] = []
            for number, line in enumerate(lines, row_count + 1):
                try:
                    rows.append(read(line, number))
                except OptionError as error:
                    if rows:
                        yield pa.Table.from_pylist(rows, _record_schema())
                    raise OptionError(f"{error}; {_describe_written_count(number - 1)}") from None
            row_count += len(lines)
            yield pa.Table.from_pylist(rows, _record_schema())


def _read_file_tables(file: str, form: str) -> Iterator[pa.Table]:
    import pyarrow as pa

    from kafkaframes.records.build import READER_COLUMNS
    from kafkaframes.records.rows import reject_unknown_columns

    try:
        batches: Iterable[pa.RecordBatch]
        if form == "parquet":
            from pyarrow import parquet

            rows = parquet.ParquetFile(file)
            schema, batches = rows.schema_arrow, rows.iter_batches()
        else:
            from pyarrow import ipc

            reader = ipc.open_file(file) if _is_arrow_file(file) else ipc.open_stream(file)
            schema = reader.schema
            batches = map(reader.get_batch, range(reader.num_record_batches)) if _is_arrow_file(file) else reader
        reject_unknown_columns(schema.names, ignore=READER_COLUMNS)  # checked even if the file has no rows
        for batch in batches:
            yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        raise OptionError(f"{file} is not a file in the format {form}: {error}") from None


@cache
def _record_schema() -> pa.Schema:
    """Return the schema of the records to send."""
    import pyarrow as pa

    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))),
            ("partition", pa.int32()),
            ("timestamp", pa.int64()),
        ]
    )


def _is_arrow_file(file: str) -> bool:
    with open(file, "rb") as arrow_file:
        return arrow_file.read(6) == b"ARROW1"


def _make_line_parser(flags: dict[str, Any]) -> Any:
    headers = []
    for entry in flags["headers"]:
        name, separator, value = entry.partition("=")
        if not separator:
            raise OptionError(f"-H {entry}; expected NAME=VALUE")
        headers.append({"key": name, "value": value.encode()})
    delimiter = None if flags["delimiter"] is None else flags["delimiter"].encode()

    def read(line: bytes, number: int) -> dict[str, Any]:
        key, value = None, line
        if delimiter:
            key, result, value = line.partition(delimiter)
            if not result:
                raise OptionError(f"line {number} has no {flags['delimiter']!r} between key and value")
        return {"key": key, "value": value, "headers": headers}

    return read


def _parse_json_line(line: bytes, number: int) -> dict[str, Any]:
    """Read a line of ``consume --format jsonl`` without its topic, partition and offset, which are assigned again."""
    from kafkaframes.records.json_lines import from_json_record
    from kafkaframes.records.strict_json import parse_json

    try:
        return from_json_record(parse_json(line))
    except EncodeError as error:
        raise OptionError(f"line {number} is not a record in JSON: {error}") from None


def _set_partition(table: pa.Table, partition: int) -> pa.Table:
    """Return the table with all rows in one partition."""

    import pyarrow as pa

    column = pa.array([partition] * table.num_rows, pa.int32())
    columns_to_send = table.drop_columns(["partition"]) if "partition" in table.schema.names else table
    return columns_to_send.append_column("partition", column)
