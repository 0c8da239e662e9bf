"""Options of ``spark.read.format("kafka-log")``, which are parsed from Spark's text to ``ReadOptions``. No I/O.

Names, defaults and JSON forms are those of Spark's own Kafka source if it has the option
(https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html). ``OPTIONS`` contains all options and
is the source of their documentation. Spark passes names in lower case, so letter case does not matter. pyspark is not
imported.

Options of a store (``s3://``, ``gs://``, ...) become keyword arguments of fsspec's constructor. Their names in Spark
are those of Hadoop's S3A, with or without the prefix ``spark.hadoop.``. Other arguments can be given as a JSON object
in ``storageOptions``. It is passed to fsspec as it is, and overrides the single options.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.records.reasons import ON_DAMAGE
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.spark.options.decode_options import DECODE_ROWS, refuse_decoding
from kafkaframes.spark.options.java_pattern import compile_java_pattern
from kafkaframes.spark.options.option_values import (
    Option,
    boolean,
    choice_parser,
    describe_unknown_option,
    ending_value,
    field_values,
    load_paths,
    mode_parser,
    parse_assign,
    positive,
    select_bounds_by_precedence,
    starting_value,
    text_list,
    timestamp_value,
    timestamps_value,
    topics_value,
)
from kafkaframes.storage.files.filesystem import storage_options
from kafkaframes.storage.files.units import parse_size

TABLES = ("records", "batches", "segments")
ISOLATIONS = ("read_uncommitted", "read_committed")
STRATEGIES = ("error", "latest")
DECODERS = ("none", "internal")
REPLICAS = ("merge", "all")


def log_options(texts: Mapping[str, str], **settings: Any) -> ReadOptions:
    """Parse options, regardless of the letter case of their names.

    >>> log_options({"path": "/data", "MINPARTITIONS": "8"}).min_partitions
    8

    Args:
        texts: Options as Spark passes them.
        settings: Values of ``ReadOptions`` fields for which there are no texts.

    Raises:
        OptionError: An option is unknown, has an invalid value, or contradicts another one. The message names it.
    """
    others, storage = separate_storage(texts)
    options = _index_by_option_name(others)
    refuse_decoding(options)
    values = field_values(OPTIONS, {name: text for name, text in options.items() if name not in ("path", "paths")})
    select_bounds_by_precedence(values)
    values["storage"] = storage_options(
        values.pop("key_files", ()),
        follow_links=values.pop("follow_links", False),
        store={**settings.get("storage", {}), **storage},
    )
    if "paths" not in settings:
        values["paths"] = load_paths(options, source="kafka-log", example="/var/lib/kafka/data")
    return ReadOptions(**{**settings, **values})


def refuse_stream_end(options: Mapping[str, str]) -> None:
    """Refuse options for the end of a read, as Spark's connector does for a stream.

    Raises:
        OptionError: there is such an option.
    """
    ends = [OPTIONS[name.lower()].name for name in options if name.lower().startswith("ending")]
    if ends:
        raise OptionError(f"a stream has no end: {', '.join(ends)} is for batch reads")


_ROWS = (
    Option("path", "paths", str, "log directory, topic partition directory, segment file or glob"),
    Option("paths", "paths", str, "JSON list, which Spark creates from load([...])"),
    Option("subscribe", "subscribe", topics_value, "topics to read, comma-separated"),
    Option(
        "subscribePattern",
        "subscribe_pattern",
        compile_java_pattern,
        "Java regular expression that matches whole topic names",
    ),
    Option("assign", "assign", parse_assign, 'topic partitions to read: {"orders": [0, 1]}'),
    Option("startingOffsets", "start", starting_value, 'earliest, or {"orders": {"0": 23, "1": -2}}', "earliest"),
    Option("endingOffsets", "end", ending_value, 'latest, or {"orders": {"0": 50, "1": -1}}; exclusive', "latest"),
    Option(
        "startingTimestamp",
        "start_time",
        timestamp_value,
        "ms since 1970, or 2025-10-09T12:00Z; overrides the next option",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "start_times",
        timestamps_value,
        '{"orders": {"0": 1763700000000}}; overrides startingOffsets',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "no_match",
        choice_parser(STRATEGIES),
        "if no record has this timestamp or a later one: error, or latest (read nothing)",
        "error",
    ),
    Option(
        "endingTimestamp", "end_time", timestamp_value, "ms since 1970, or 2025-10-09T12:00Z; overrides the next option"
    ),
    Option(
        "endingOffsetsByTimestamp",
        "end_times",
        timestamps_value,
        '{"orders": {"0": 1763700000000}}; overrides endingOffsets',
    ),
    Option(
        "failOnDataLoss",
        "fail_on_data_loss",
        boolean,
        "fail if requested offsets no longer exist in the log",
        "true",
    ),
    Option(
        "isolation",
        "isolation",
        choice_parser(ISOLATIONS),
        "read_committed omits aborted transactions, and all records from the first open one on",
        "read_uncommitted",
    ),
    Option("columns", "columns", text_list, "columns of the result, in this order; others are not decoded"),
    Option("includeHeaders", "include_headers", boolean, "add the column headers", "false"),
    Option(
        "includeControlRecords",
        "include_control",
        boolean,
        "also return transaction markers and other control records",
        "false",
    ),
    Option(
        "includeInternalTopics",
        "include_internal",
        boolean,
        "also read Kafka's internal topics: __consumer_offsets, ...",
        "false",
    ),
    Option(
        "decode",
        "decode",
        choice_parser(DECODERS),
        "json, avro or protobuf decodes values; internal decodes Kafka's internal topics",
        "none",
    ),
    *DECODE_ROWS,
    Option(
        "replicas",
        "replicas",
        choice_parser(REPLICAS),
        "merge copies of a partition into one log, or return all, with the column source",
        "merge",
    ),
    Option("table", "table", choice_parser(TABLES), "rows to return: records, batches or segments", "records"),
    Option(
        "deepIteration", "deep", boolean, "decompress each batch (batches), or read all headers (segments)", "false"
    ),
    Option(
        "mode",
        "on_damage",
        mode_parser(*ON_DAMAGE),
        "handling of damage: PERMISSIVE, DROPMALFORMED or FAILFAST",
        "PERMISSIVE",
    ),
    Option(
        "timestampErrors",
        "timestamp_errors",
        choice_parser(("raise", "null")),
        "timestamps outside Spark's range: raise (an error) or null",
        "raise",
    ),
    Option("verifyCrc", "verify_crc", boolean, "verify the checksum of each batch", "true"),
    Option(
        "budgetBytes",
        "budget_bytes",
        parse_size,
        "maximum memory of a task for open batches; a larger batch is opened alone",
        "256m",
    ),
    Option(
        "keyFile",
        "key_files",
        text_list,
        "private RSA keys (PEM) of encrypted tiered segments: [id=]path, comma-separated, on each worker",
    ),
    Option("followLinks", "follow_links", boolean, "follow symbolic links below the paths", "false"),
    Option("minPartitions", "min_partitions", positive, "approximate minimum number of tasks", "1"),
    Option("maxBytesPerPartition", "max_bytes_per_partition", parse_size, "maximum bytes of log in one task", "128m"),
    Option("maxOffsetsPerTrigger", "max_offsets_per_trigger", positive, "maximum offsets in a micro-batch of a stream"),
    Option(
        "maxBytesPerTrigger",
        "max_bytes_per_trigger",
        parse_size,
        "maximum bytes of log in a micro-batch; at least one batch of each partition is read",
    ),
)
OPTIONS: Mapping[str, Option] = {option.name.lower(): option for option in _ROWS}

# Options of Spark's Kafka source that apply to brokers only.
_BROKER_OPTIONS = (
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
)


def _index_by_option_name(options: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower not in OPTIONS:
            raise OptionError(_describe_unknown_option(name, lower))
        values[lower] = text
    return values


def _describe_unknown_option(name: str, lower: str) -> str:
    if lower.startswith("kafka.") or lower in _BROKER_OPTIONS:
        return f"option {name} applies to brokers only; kafka-log reads log files"
    return describe_unknown_option(name, OPTIONS, "kafka-log", others=NAMES)


_HADOOP = "spark.hadoop."
WHOLE = "storageoptions"


def _endpoint(text: str) -> str:
    return text if "://" in text else f"https://{text}"


def _addressing(text: str) -> str:
    return "path" if boolean(text) else "auto"


# Name in Spark or fsspec -> path in fsspec's keyword arguments, and parser of the text.
NAMES: Mapping[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "endpoint_url": (("endpoint_url",), _endpoint),
    "region": (("client_kwargs", "region_name"), str),
    "key": (("key",), str),
    "secret": (("secret",), str),
    "token": (("token",), str),
    "anon": (("anon",), boolean),
    "profile": (("profile",), str),
    "project": (("project",), str),
    "fs.s3a.endpoint": (("endpoint_url",), _endpoint),
    "fs.s3a.endpoint.region": (("client_kwargs", "region_name"), str),
    "fs.s3a.access.key": (("key",), str),
    "fs.s3a.secret.key": (("secret",), str),
    "fs.s3a.session.token": (("token",), str),
    "fs.s3a.path.style.access": (("config_kwargs", "s3", "addressing_style"), _addressing),
    "fs.s3a.connection.ssl.enabled": (("use_ssl",), boolean),
}


def separate_storage(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Separate the options of the source from keyword arguments for fsspec.

    >>> separate_storage({"path": "s3://b/logs", "fs.s3a.endpoint": "http://127.0.0.1:9000", "key": "k"})
    ({'path': 's3://b/logs'}, {'endpoint_url': 'http://127.0.0.1:9000', 'key': 'k'})

    Raises:
        OptionError: A value cannot be parsed.
    """
    others: dict[str, str] = {}
    storage: dict[str, Any] = {}
    json_options: dict[str, Any] = {}
    for name, text in options.items():
        lower = name.lower().removeprefix(_HADOOP)
        if lower == WHOLE:
            json_options = _parse_json_object(text)
        elif lower in NAMES:
            path, parse = NAMES[lower]
            try:
                _set_nested_value(storage, path, parse(text))
            except ValueError as error:
                raise OptionError(f"option {name}: {error}") from None  # the value may be a secret
        else:
            others[name] = text
    return others, {**storage, **json_options}


def _set_nested_value(storage: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        storage = storage.setdefault(step, {})
    storage[path[-1]] = value


def _parse_json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError('option storageOptions: must be JSON such as {"anon": true}')
    return value
