"""Options of ``df.write.format("kafka-log")``, and the columns of the DataFrame. No pyspark, no I/O.

Columns are those of Spark's Kafka sink, and ``timestamp`` and ``offset``. Other columns of the source
(``timestampType``, ``magic``, ...) are ignored. Any other column is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.restore.writing.routing import DEFAULT_MAX_MESSAGE_BYTES, WriteSettings
from kafkaframes.scan.columns import RECORD_COLUMNS
from kafkaframes.spark.options.option_values import (
    Option,
    describe_unknown_option,
    field_values,
    positive,
    whole_number,
)
from kafkaframes.spark.options.schemas import COLUMN_TYPES
from kafkaframes.storage.files.units import parse_size

_SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})


def _parse_format(text: str) -> int:
    format_numbers = {"v0": 0, "v1": 1, "v2": 2, "0": 0, "1": 1, "2": 2}
    if text.lower() not in format_numbers:
        raise ValueError("must be v2, v1 or v0")
    return format_numbers[text.lower()]


def _parse_offsets_mode(text: str) -> bool:
    if text.lower() not in ("assign", "keep"):
        raise ValueError("must be assign or keep")
    return text.lower() == "keep"


def _parse_topic_ids(text: str) -> dict[str, str]:
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    if not isinstance(result, dict) or not all(isinstance(topic_id, str) for topic_id in result.values()):
        raise ValueError('must be JSON such as {"orders": "AAAAAAAAAAAAAAAAAAAAAQ"}')
    return result


_OPTION_ROWS = (
    Option("topic", "topic", str, "topic of all rows; overrides the column topic"),
    Option(
        "numPartitions",
        "num_partitions",
        positive,
        "number of partitions of each new topic; keys choose the partition",
        "1",
    ),
    Option("codec", "codec", str.lower, "none, gzip, snappy, lz4 or zstd", "none"),
    Option("level", "level", whole_number, "compression level of the codec; by default Kafka's"),
    Option("recordFormat", "record_format", _parse_format, "v2, v1 or v0", "v2"),
    Option("batchSize", "batch_bytes", parse_size, "maximum size of a batch (batch.size)", "16384"),
    Option("batchRecords", "batch_records", positive, "maximum number of records in a batch"),
    Option("segmentSize", "segment_bytes", parse_size, "maximum size of a segment", "1g"),
    Option(
        "maxMessageBytes",
        "max_message_bytes",
        parse_size,
        "maximum size of a batch (message.max.bytes); a larger record is an error",
        str(DEFAULT_MAX_MESSAGE_BYTES),
    ),
    Option(
        "offsets",
        "keep_offsets",
        _parse_offsets_mode,
        "assign new offsets, or keep those of the column offset, including gaps",
        "assign",
    ),
    Option(
        "topicIds",
        "topic_ids",
        _parse_topic_ids,
        'topic ids: {"orders": "AAAAAAAAAAAAAAAAAAAAAQ"}; other new topics get random ids',
    ),
)
WRITE_OPTIONS: Mapping[str, Option] = {option.name.lower(): option for option in _OPTION_ROWS}


def parse_write(options: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Parse options, regardless of the letter case of their names, and return the path and the settings.

    >>> parse_write({"path": "/data/new", "NUMPARTITIONS": "3", "codec": "zstd"})
    ('/data/new', {'num_partitions': 3, 'codec': 'zstd'})

    Raises:
        OptionError: An option is unknown or has an invalid value, or the path is missing.
    """
    for name in options:
        if name.lower() not in ("path", *WRITE_OPTIONS):
            raise OptionError(describe_unknown_option(name, WRITE_OPTIONS, "to write, kafka-log"))
    texts = {name.lower(): text for name, text in options.items()}
    path = texts.pop("path", "")
    values = field_values(WRITE_OPTIONS, texts)
    if not path:
        raise OptionError(
            'kafka-log needs a path: df.write.format("kafka-log").mode("append").save("/backup/new-logs"); '
            "INSERT INTO a catalog table has no path, because Spark passes a table's options to no Python writer"
        )
    WriteSettings(now_ms=0, **values)
    return path, values


def parse_stream_write(options: Mapping[str, str]) -> tuple[str, dict[str, Any], str]:
    """Return path, settings and checkpoint location of a stream's sink. Spark adds its own options, which are removed.

    Raises:
        OptionError: As for ``parse_write``.
    """
    by_name = {name.lower(): text for name, text in options.items()}
    sink_options = {name: text for name, text in options.items() if name.lower() not in _SPARK_OPTIONS}
    path, values = parse_write(sink_options)
    return path, values, by_name.get("checkpointlocation", "")


_IGNORED_COLUMNS = frozenset(column.name for column in RECORD_COLUMNS) - frozenset(COLUMN_TYPES)


def check_columns(columns: Mapping[str, str], settings: WriteSettings) -> None:
    """Reject a DataFrame that cannot be written.

    Args:
        columns: Types of the columns, by name.
        settings: Settings of the write.

    Raises:
        OptionError: A column is missing, unknown or has an invalid type. The message names it.
    """
    for name, kind in columns.items():
        if name in _IGNORED_COLUMNS:
            continue
        allowed_types = COLUMN_TYPES.get(name)
        if allowed_types is None:
            raise OptionError(f"column {name}: must be one of {', '.join(COLUMN_TYPES)}; drop it, or rename it")
        if kind not in (*allowed_types, "void"):
            raise OptionError(f"column {name} is {' or '.join(allowed_types)}, not {kind}")
    if "value" not in columns:
        raise OptionError("a column named value is required; nulls in it are tombstones")
    if settings.topic is None and "topic" not in columns:
        raise OptionError("the topic is missing; set the option topic, or add a column topic")
    if settings.keep_offsets and "offset" not in columns:
        raise OptionError("offsets=keep requires the column offset")
