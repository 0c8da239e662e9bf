"""Options of ``format("kafka-capture")``, parsed from Spark's text to an immutable value. No pyspark, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaframes.capture.columns import TABLE_COLUMNS
from kafkaframes.capture.reader import ON_DAMAGE_VALUES, CaptureOptions
from kafkaframes.capture.streams import parse_ports
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.registry import ApiRegistry
from kafkaframes.scan.capture import CaptureReadOptions
from kafkaframes.spark.options.option_values import (
    Option,
    boolean,
    choice_parser,
    describe_unknown_option,
    field_values,
    load_paths,
    mode_parser,
    positive,
)

_WAIT_FILES: Final = 3


def _parse_number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("must be an integer")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


OPTIONS: Final = (
    Option("path", "", str, "captures or request logs: file, directory or glob"),
    Option("paths", "", str, "JSON list, which Spark creates from load([...])"),
    Option(
        "table",
        "table",
        choice_parser(TABLE_COLUMNS),
        "calls (default), connections, gaps, packets or records",
        "calls",
    ),
    Option("columns", "columns", _names, "columns of the result, in this order; others are not decoded"),
    Option("api", "api", str, "calls of this API only (name or number), with request and response as structs"),
    Option(
        "ports",
        "ports",
        parse_ports,
        "listener ports of the brokers: 9092,9094-9096; by default recognized by their bytes",
    ),
    Option(
        "secrets",
        "secrets",
        boolean,
        "true returns credentials (SASL tokens, SCRAM, HMACs, passwords in configs) unmasked",
        "false",
    ),
    Option(
        "specs", "apis", ApiRegistry, "your own specs (a file or a folder), read on the driver, before the catalog's"
    ),
    Option(
        "namesOf",
        "names_of",
        str,
        "Kafka release whose field names requestNamed and responseNamed use",
    ),
    Option(
        "mode",
        "on_damage",
        mode_parser(*ON_DAMAGE_VALUES),
        "PERMISSIVE logs unread data that may contain calls; FAILFAST raises an error",
        "PERMISSIVE",
    ),
    Option(
        "minPartitions",
        "min_partitions",
        positive,
        "minimum number of tasks; by default chosen by size, at most the number of cores",
    ),
    Option(
        "quietSeconds",
        "quiet_seconds",
        _parse_number,
        "streams: seconds without a write after which the newest file is read (10)",
        "10",
    ),
    Option(
        "waitFiles",
        "wait_files",
        positive,
        "streams: number of later files in which the response of a call is awaited (3)",
        "3",
    ),
    Option("maxFilesPerTrigger", "max_files", positive, "streams: maximum number of files in a micro-batch"),
)
_OPTION_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}


def capture_options(options: Mapping[str, str]) -> CaptureReadOptions:
    """Parse options, regardless of the letter case of their names.

    >>> capture_options({"path": "/tmp/x.pcap", "TABLE": "gaps"}).read.table
    'gaps'

    Raises:
        OptionError: An option is unknown or has an invalid value. The message names it.
    """
    by_name = {name.lower(): text for name, text in options.items()}
    for name in by_name:
        if name not in _OPTION_BY_NAME:
            raise OptionError(describe_unknown_option(name, _OPTION_BY_NAME, "kafka-capture"))
    values = field_values(_OPTION_BY_NAME, by_name)
    of_files = {name: values.pop(name) for name in ("min_partitions", "quiet_seconds", "max_files") if name in values}
    read = CaptureOptions(**{"wait_files": _WAIT_FILES, **values})
    read.select_columns()
    paths = load_paths(by_name, source="kafka-capture", example="/captures/x.pcap")
    return CaptureReadOptions(paths=paths, read=read, **of_files)
