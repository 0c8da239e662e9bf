"""Options of Spark's sources and sinks, with a table for each, and their translation from Spark's text to settings.

``kafka-log`` and ``kafka-topic`` have the names, defaults, precedence and JSON forms of Spark's own Kafka source and
sink (https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html). A row of a table maps such a
name to the setting of ``ReadOptions``, ``TopicOptions``, ``WriteSettings``, ``TopicWriteOptions`` or
``CaptureOptions``, with the parser of its text. These classes check the values, and the client checks ``kafka.*``
options, which are its settings under Kafka's names. The tables are also the source of the documentation.

Spark passes names in lower case, so letter case does not matter. This module does not import PySpark. Clients, captures
and writers are imported by the functions that need them, because a planner process of Spark should import little.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import redact_value
from kafkaframes.records.reasons import ON_DAMAGE
from kafkaframes.scan.java_pattern import compile_java_pattern
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.option_texts import (
    create_choice_parser,
    create_mode_parser,
    parse_assign,
    parse_boolean,
    parse_duration_ms,
    parse_end,
    parse_integer,
    parse_names,
    parse_non_negative_integer,
    parse_port,
    parse_positive_integer,
    parse_record_format,
    parse_start,
    parse_start_or_group,
    parse_timestamp,
    parse_timestamps,
    parse_topic_ids,
    parse_topics,
)
from kafkaframes.scan.ranges import LATEST, TimeBound, check_batch_start
from kafkaframes.scan.selection import ISOLATIONS, READER_DEFAULTS
from kafkaframes.scan.where import warn_of_seconds
from kafkaframes.storage.files.filesystem import storage_options
from kafkaframes.storage.files.units import parse_size

if TYPE_CHECKING:
    from kafkaframes.client.settings import ConsumerSettings, ProducerSettings
    from kafkaframes.protocol.messages.registry import ApiRegistry
    from kafkaframes.scan.capture import CaptureReadOptions
    from kafkaframes.scan.decoded import ValueDecoding
    from kafkaframes.scan.topic.options import TopicOptions, TopicWriteOptions


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its name in Spark's spelling, its setting, the parser of its text, and its documentation."""

    name: str
    setting: str
    parse: Callable[[str], Any]
    meaning: str
    default: str = ""


OptionTable = Mapping[str, Option]  # option name in lower case -> option
VALUE_COLUMN: Final = "value"
ERROR_COLUMN: Final = "_error"
DECODE_MODES: Final = ("json", "avro", "protobuf")
LOG_DECODERS: Final = ("none", "internal")  # values of `decode` that kafka-log handles without a schema
CAPTURE_TABLES: Final = ("calls", "connections", "gaps", "packets", "records")
_DECODE_OPTION: Final = "decode"
_CLIENT_PREFIX: Final = "kafka."
_HADOOP_PREFIX: Final = "spark.hadoop."
_STORAGE_OPTION: Final = "storageoptions"
_CHECKPOINT_LOCATION: Final = "checkpointlocation"
_SPARK_OPTIONS: Final = frozenset({_CHECKPOINT_LOCATION, "queryname"})  # options that Spark itself adds or uses
_DEFAULT_WAIT_FILES: Final = 3  # default of the option waitFiles


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_ports(text: str) -> tuple[int, ...]:
    """Parse ports and ranges of ports, separated by commas."""
    from kafkaframes.capture.streams import parse_ports

    with suppress(OptionError):
        if text:
            return parse_ports(text)
    raise ValueError("must be port numbers and ranges, such as 9092,9094-9096")


def _load_specs(path: str) -> ApiRegistry:
    """Load message specs from a file or folder."""
    from kafkaframes.protocol.messages.registry import ApiRegistry

    return ApiRegistry(path)


def _parse_offsets_mode(text: str) -> bool:
    """Parse the option ``offsets``: True for keep, False for assign."""
    if text.lower() not in ("assign", "keep"):
        raise ValueError("must be assign or keep")
    return text.lower() == "keep"


def _parse_endpoint(text: str) -> str:
    return text if "://" in text else f"https://{text}"


def _parse_addressing(text: str) -> str:
    return "path" if parse_boolean(text) else "auto"


def _index(rows: Iterable[Option]) -> OptionTable:
    return {option.name.lower(): option for option in rows}


DECODE_OPTIONS: Final = (
    Option(
        "schema",
        "schema",
        str,
        "for the option decode: schema of the values (JSON Schema, Avro schema or Protobuf descriptor set), as text "
        "or as the path of a file on the driver",
    ),
    Option("schemaRegistry", "registry", str, "for the option decode: URL of the schema registry"),
    Option(
        "schemaSubject",
        "subject",
        str,
        "for the option decode: registry subject whose newest schema defines the columns",
        "TOPIC-value",
    ),
    Option("messageName", "message", str, "for decode=protobuf: full name of the message type; default: the first"),
    Option(
        "decodeErrors",
        "errors",
        create_choice_parser(("null", "raise")),
        "for the option decode: null returns null for an invalid value, and the reason in the column _error; "
        "raise raises an error",
        "null",
    ),
    Option(
        "otherFields",
        "other_fields",
        parse_boolean,
        "for decode=json: whether fields that the schema lacks are returned as JSON text in the column other_fields",
        "false",
    ),
)
_DECODE_TABLE: Final = _index(DECODE_OPTIONS)
LOG_OPTIONS: Final = _index(
    (
        Option("path", "paths", str, "log directory, topic partition directory, segment file or glob"),
        Option("paths", "paths", str, "several paths as a JSON list, which Spark creates from load([...])"),
        Option("subscribe", "subscribe", parse_topics, "topics to read, comma-separated"),
        Option(
            "subscribePattern",
            "subscribe_pattern",
            compile_java_pattern,
            "Java regular expression that matches whole topic names",
        ),
        Option("assign", "assign", parse_assign, 'topic partitions to read: {"orders": [0, 1]}'),
        Option(
            "startingOffsets",
            "start",
            parse_start,
            'first offsets: earliest, or {"orders": {"0": 23, "1": -2}}',
            "earliest",
        ),
        Option(
            "endingOffsets",
            "end",
            parse_end,
            'end offsets, exclusive: latest, or {"orders": {"0": 50, "1": -1}}',
            "latest",
        ),
        Option(
            "startingTimestamp",
            "start_time",
            parse_timestamp,
            "start time: ms since 1970, or 2025-10-09T12:00Z; overrides startingOffsetsByTimestamp",
        ),
        Option(
            "startingOffsetsByTimestamp",
            "start_times",
            parse_timestamps,
            'start time of each partition: {"orders": {"0": 1763700000000}}; overrides startingOffsets',
        ),
        Option(
            "startingOffsetsByTimestampStrategy",
            "no_match",
            create_choice_parser(("error", "latest")),
            "result if no record is at or after the start time: error, or latest (no rows)",
            "error",
        ),
        Option(
            "endingTimestamp",
            "end_time",
            parse_timestamp,
            "end time: ms since 1970, or 2025-10-09T12:00Z; overrides endingOffsetsByTimestamp",
        ),
        Option(
            "endingOffsetsByTimestamp",
            "end_times",
            parse_timestamps,
            'end time of each partition: {"orders": {"0": 1763700000000}}; overrides endingOffsets',
        ),
        Option(
            "failOnDataLoss",
            "fail_on_data_loss",
            parse_boolean,
            "fail if requested offsets no longer exist in the log",
            "true",
        ),
        Option(
            "isolation",
            "isolation",
            create_choice_parser(ISOLATIONS),
            "read_committed omits aborted transactions, and all records from the first open one on",
            "read_uncommitted",
        ),
        Option("columns", "columns", parse_names, "columns of the result, in this order; others are not decoded"),
        Option("includeHeaders", "include_headers", parse_boolean, "add the column headers", "false"),
        Option(
            "includeControlRecords",
            "include_control",
            parse_boolean,
            "also return transaction markers and other control records",
            "false",
        ),
        Option(
            "includeInternalTopics",
            "include_internal",
            parse_boolean,
            "also read Kafka's internal topics: __consumer_offsets, ...",
            "false",
        ),
        Option(
            "decode",
            "decode",
            create_choice_parser(LOG_DECODERS),
            "json, avro or protobuf decodes values; internal decodes Kafka's internal topics",
            "none",
        ),
        *DECODE_OPTIONS,
        Option(
            "replicas",
            "replicas",
            create_choice_parser(("merge", "all")),
            "merge the replicas of a partition into one log, or return the rows of all, with the column source",
            "merge",
        ),
        Option(
            "table",
            "table",
            create_choice_parser(("records", "batches", "segments")),
            "rows to return: records, batches or segments",
            "records",
        ),
        Option(
            "deepIteration",
            "deep",
            parse_boolean,
            "decompress each batch (table=batches), or read all batch headers (table=segments)",
            "false",
        ),
        Option(
            "mode",
            "on_damage",
            create_mode_parser(*ON_DAMAGE),
            "handling of damage: PERMISSIVE, DROPMALFORMED or FAILFAST",
            "PERMISSIVE",
        ),
        Option(
            "timestampErrors",
            "timestamp_errors",
            create_choice_parser(("raise", "null")),
            "result for a timestamp outside Spark's range: raise (an error) or null",
            "raise",
        ),
        Option("verifyCrc", "verify_crc", parse_boolean, "verify the checksum of each batch", "true"),
        Option(
            "budgetBytes",
            "budget_bytes",
            parse_size,
            "memory limit of a task for decompressed batches; a larger batch is decompressed alone",
            "256m",
        ),
        Option(
            "keyFile",
            "key_files",
            parse_names,
            "private RSA keys (PEM) of encrypted tiered segments: [id=]path, comma-separated, on each worker",
        ),
        Option("followLinks", "follow_links", parse_boolean, "follow symbolic links below the paths", "false"),
        Option("minPartitions", "min_partitions", parse_positive_integer, "approximate minimum number of tasks", "1"),
        Option(
            "maxBytesPerPartition", "max_bytes_per_partition", parse_size, "maximum bytes of log in one task", "128m"
        ),
        Option(
            "maxOffsetsPerTrigger",
            "max_offsets_per_trigger",
            parse_positive_integer,
            "maximum offsets in a micro-batch of a stream",
        ),
        Option(
            "maxBytesPerTrigger",
            "max_bytes_per_trigger",
            parse_size,
            "maximum bytes of log in a micro-batch; at least one batch of each partition is read",
        ),
    )
)
TOPIC_OPTIONS: Final = _index(
    (
        LOG_OPTIONS["subscribe"],
        LOG_OPTIONS["subscribepattern"],
        LOG_OPTIONS["assign"],
        Option(
            "startingOffsets",
            "start",
            parse_start_or_group,
            'first offsets: earliest, latest (streams), {"orders": {"0": 23, "1": -2}}, or group:NAME',
            "latest (streams), earliest",
        ),
        LOG_OPTIONS["endingoffsets"],
        LOG_OPTIONS["startingtimestamp"],
        LOG_OPTIONS["startingoffsetsbytimestamp"],
        LOG_OPTIONS["startingoffsetsbytimestampstrategy"],
        LOG_OPTIONS["endingtimestamp"],
        LOG_OPTIONS["endingoffsetsbytimestamp"],
        LOG_OPTIONS["failondataloss"],
        LOG_OPTIONS["columns"],
        LOG_OPTIONS["includeheaders"],
        LOG_OPTIONS["timestamperrors"],
        Option("decode", "decode", str, "json, avro or protobuf decodes values into structs"),
        *DECODE_OPTIONS,
        Option("minPartitions", "min_partitions", parse_positive_integer, "approximate minimum number of tasks"),
        Option(
            "maxRecordsPerPartition", "max_records_per_partition", parse_positive_integer, "maximum offsets in one task"
        ),
        LOG_OPTIONS["maxoffsetspertrigger"],
        Option(
            "minOffsetsPerTrigger",
            "min_offsets_per_trigger",
            parse_positive_integer,
            "start a micro-batch when this many new offsets exist, or after maxTriggerDelay",
        ),
        Option(
            "maxTriggerDelay", "max_trigger_delay_ms", parse_duration_ms, "maximum wait for minOffsetsPerTrigger", "15m"
        ),
        Option(
            "maxBytesPerTrigger",
            "max_bytes_per_trigger",
            parse_size,
            "approximate maximum of fetched bytes in a micro-batch, estimated from sampled batches",
        ),
        Option(
            "kafkaConsumer.pollTimeoutMs",
            "poll_timeout_ms",
            parse_positive_integer,
            "maximum time that a task waits for records",
            "120000",
        ),
        Option(
            "driverHost",
            "driver_host",
            str,
            "batch reads: host name or address where the driver listens for tasks on other machines",
            "spark.driver.host",
        ),
        Option(
            "driverPort",
            "driver_port",
            parse_port,
            "batch reads: port where the driver listens for these tasks; 0 means any free port",
            "0",
        ),
        Option(
            "fetchOffset.numRetries",
            "retries",
            parse_positive_integer,
            "accepted for compatibility, without effect; use kafka.retries",
            "3",
        ),
        Option(
            "fetchOffset.retryIntervalMs",
            "retry_interval_ms",
            parse_non_negative_integer,
            "accepted for compatibility, without effect; use kafka.retry.backoff.ms",
            "10",
        ),
        Option("groupIdPrefix", "group_prefix", str, "accepted for compatibility, without effect: no group is joined"),
    )
)
LOG_WRITE_OPTIONS: Final = _index(
    (
        Option("topic", "topic", str, "topic of all rows; overrides the column topic"),
        Option(
            "numPartitions",
            "num_partitions",
            parse_positive_integer,
            "number of partitions of each new topic; keys choose the partition",
            "1",
        ),
        Option("codec", "codec", str.lower, "compression codec: none, gzip, snappy, lz4 or zstd", "none"),
        Option("level", "level", parse_integer, "compression level of the codec; by default Kafka's"),
        Option("recordFormat", "record_format", parse_record_format, "record format: v2, v1 or v0", "v2"),
        Option("batchSize", "batch_bytes", parse_size, "maximum size of a batch (batch.size)", "16384"),
        Option("batchRecords", "batch_records", parse_positive_integer, "maximum number of records in a batch"),
        Option("segmentSize", "segment_bytes", parse_size, "maximum size of a segment", "1g"),
        Option(
            "maxMessageBytes",
            "max_message_bytes",
            parse_size,
            "maximum size of a batch (message.max.bytes); a larger record is an error",
            "1048588",
        ),
        Option(
            "offsets",
            "keep_offsets",
            _parse_offsets_mode,
            "assign new offsets, or keep the offsets in the column offset, including gaps",
            "assign",
        ),
        Option(
            "topicIds",
            "topic_ids",
            parse_topic_ids,
            'ids of new topics: {"orders": "AAAAAAAAAAAAAAAAAAAAAQ"}; other new topics get random ids',
        ),
    )
)
TOPIC_WRITE_OPTIONS: Final = _index(
    (
        Option("topic", "topic", str, "topic of all rows; by default, the column topic of each row"),
        Option(
            "delivery",
            "delivery",
            create_choice_parser(("at-least-once", "exactly-once")),
            "at-least-once; or exactly-once: one Kafka transaction, committed after all Spark tasks have succeeded",
            "at-least-once",
        ),
        Option("sink", "sink", str, "name of this sink, if a query has several exactly-once sinks", "sink"),
        Option(
            "onForeignMarker",
            "on_foreign_marker",
            create_choice_parser(("error", "skip")),
            "exactly-once: reaction if the checkpoint does not match the newest marker: error, or skip to the offsets "
            "of the marker",
            "error",
        ),
        Option(
            "driverPort",
            "driver_port",
            parse_port,
            "exactly-once: port where the driver listens for tasks; 0 means any free port",
            "0",
        ),
        Option(
            "driverHost",
            "driver_host",
            str,
            "exactly-once with writeStream.format: host name or address where the driver listens for tasks on "
            "other machines",
            "127.0.0.1",
        ),
        Option(
            "recordFormat", "record_format", parse_integer, "record format 0, 1 or 2, for old brokers and consumers"
        ),
        Option(
            "messageFormat",
            "record_format",
            parse_integer,
            "the same as recordFormat, under the name of the broker setting",
        ),
        Option(
            "includeHeaders",
            "include_headers",
            parse_boolean,
            "accepted for compatibility: headers are always written",
            "false",
        ),
        Option(
            "timestamps",
            "timestamps",
            create_choice_parser(("now", "column")),
            "timestamps of the records: now (the time of sending, as in Spark's sink) or column (the column timestamp)",
            "now",
        ),
    )
)
CAPTURE_OPTIONS: Final = _index(
    (
        Option("path", "", str, "captures or request logs: file, directory or glob"),
        Option("paths", "", str, "several paths as a JSON list, which Spark creates from load([...])"),
        Option(
            "table",
            "table",
            create_choice_parser(CAPTURE_TABLES),
            "table to read: calls, connections, gaps, packets or records",
            "calls",
        ),
        Option("columns", "columns", _split_names, "columns of the result, in this order; others are not decoded"),
        Option(
            "api", "api", str, "read only the calls of this API (name or number), with request and response as structs"
        ),
        Option(
            "ports",
            "ports",
            _parse_ports,
            "listener ports of the brokers: 9092,9094-9096; by default, Kafka connections are detected by their bytes",
        ),
        Option(
            "secrets",
            "secrets",
            parse_boolean,
            "return credentials (SASL tokens, SCRAM, HMACs, passwords in configs) unmasked",
            "false",
        ),
        Option(
            "specs",
            "apis",
            _load_specs,
            "your own message specs (a file or folder on the driver), which override the built-in ones",
        ),
        Option(
            "namesOf",
            "names_of",
            str,
            "Kafka release whose field names are used in the additional columns requestNamed and responseNamed",
        ),
        Option(
            "mode",
            "on_damage",
            create_mode_parser("keep", "fail"),
            "handling of unread data that may contain calls: PERMISSIVE (log a warning) or FAILFAST (raise an error)",
            "PERMISSIVE",
        ),
        Option(
            "minPartitions",
            "min_partitions",
            parse_positive_integer,
            "minimum number of tasks; default: by the size of the files, at most one per core",
        ),
        Option(
            "quietSeconds",
            "quiet_seconds",
            parse_non_negative_integer,
            "streams: seconds without a write after which the newest file is read",
            "10",
        ),
        Option(
            "waitFiles",
            "wait_files",
            parse_positive_integer,
            "streams: number of later files that are searched for the response of a call",
            "3",
        ),
        Option(
            "maxFilesPerTrigger",
            "max_files",
            parse_positive_integer,
            "streams: maximum number of files in a micro-batch",
        ),
    )
)
# Option name -> path of fsspec's keyword argument, and parser of the text. Names are those of fsspec and Hadoop.
STORE_OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], Any]]]] = {
    "endpoint_url": (("endpoint_url",), _parse_endpoint),
    "region": (("client_kwargs", "region_name"), str),
    "key": (("key",), str),
    "secret": (("secret",), str),
    "token": (("token",), str),
    "anon": (("anon",), parse_boolean),
    "profile": (("profile",), str),
    "project": (("project",), str),
    "fs.s3a.endpoint": (("endpoint_url",), _parse_endpoint),
    "fs.s3a.endpoint.region": (("client_kwargs", "region_name"), str),
    "fs.s3a.access.key": (("key",), str),
    "fs.s3a.secret.key": (("secret",), str),
    "fs.s3a.session.token": (("token",), str),
    "fs.s3a.path.style.access": (("config_kwargs", "s3", "addressing_style"), _parse_addressing),
    "fs.s3a.connection.ssl.enabled": (("use_ssl",), parse_boolean),
}

# Options of Spark's Kafka source that apply to brokers only.
_BROKER_OPTIONS: Final = (
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
)
# Client settings that Spark's source and sink reject, with the reason why they are invalid here too.
FORBIDDEN_OPTIONS: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": "the option startingOffsets sets the start of a query",
    "kafka.enable.auto.commit": "offsets are in the checkpoint; kafkaframes.spark.watch_topics reports them to a group",
    "kafka.key.deserializer": "keys are given as bytes; cast or decode them in the query",
    "kafka.value.deserializer": "values are given as bytes; cast or decode them in the query",
    "kafka.key.serializer": "keys are written as bytes or text; encode them in the query",
    "kafka.value.serializer": "values are written as bytes or text; encode them in the query",
    "kafka.interceptor.classes": "use the client's `interceptors` in Python; change columns in the query",
}
# Settings of Spark options that have no effect here.
_SETTINGS_WITHOUT_EFFECT: Final = ("retries", "retry_interval_ms", "group_prefix")
_EXACTLY_ONCE_SETTINGS: Final = frozenset(
    {"transactional.id", "enable.idempotence", "acks"}
)  # set by exactly-once writes


def parse_log_options(texts: Mapping[str, str], **settings: Any) -> ReadOptions:
    """Translate the options of a read of ``kafka-log``.

    Options of a store (``s3://``, ``gs://``, ...) become keyword arguments of fsspec's constructor. Store options have
    the names of fsspec and of Hadoop's S3A, with or without the prefix ``spark.hadoop.``. Other arguments can be given
    as a JSON object in ``storageOptions``, which overrides the single options.

    >>> parse_log_options({"path": "/data", "MINPARTITIONS": "8"}).min_partitions
    8

    Args:
        texts: Options as Spark passes them.
        settings: Values of the ``ReadOptions`` fields that are not in ``texts``.

    Raises:
        OptionError: An option is unknown, has an invalid value, or contradicts another one. The message names the
            option.
    """
    others, storage = separate_storage(texts)
    for name in others:
        lower = name.lower()
        if lower not in LOG_OPTIONS and (lower.startswith(_CLIENT_PREFIX) or lower in _BROKER_OPTIONS):
            raise OptionError(f"option {name} applies to brokers only; kafka-log reads log files")
    options = _select_known_options(others, LOG_OPTIONS, "kafka-log", others=STORE_OPTIONS)
    _reject_decoding_options(options)
    path_names = [name for name in options if name in ("path", "paths")]
    paths = {name: options.pop(name) for name in path_names}
    values = _get_selection_defaults("kafka-log") | settings | _parse_values(LOG_OPTIONS, options)
    _select_bounds_by_precedence(values, warns=True)
    values["storage"] = storage_options(
        values.pop("key_files", ()),
        follow_links=values.pop("follow_links", False),
        store={**settings.get("storage", {}), **storage},
    )
    if "paths" not in settings:
        values["paths"] = parse_load_paths(paths, source="kafka-log", example="/var/lib/kafka/data")
    return ReadOptions(**values)


def parse_topic_options(options: Mapping[str, str], *, is_stream: bool, warns: bool = True) -> TopicOptions:
    """Translate the options of a read of ``kafka-topic``.

    Args:
        options: Options as Spark passes them.
        is_stream: Whether the options are those of a stream.
        warns: Whether to log the client settings that have no effect here, and times that look like seconds.

    Raises:
        OptionError: An option is unknown, forbidden, has an invalid value, or contradicts another one.
    """
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.scan.topic.options import TopicOptions

    client, texts = _separate_client_settings(options, TOPIC_OPTIONS)
    _reject_decoding_options(texts)
    selections = [TOPIC_OPTIONS[name].name for name in ("subscribe", "subscribepattern", "assign") if name in texts]
    defaults = _get_selection_defaults("kafka-topic")
    del defaults["isolation"]  # for live topics, the isolation level is a client setting
    values = defaults | _parse_values(TOPIC_OPTIONS, texts)
    _select_bounds_by_precedence(values, warns=warns)
    for setting in _SETTINGS_WITHOUT_EFFECT:
        values.pop(setting, None)
    if len(selections) != 1:
        together = f", not {' and '.join(selections)} together" if selections else ""
        raise OptionError(f"kafka-topic requires one of the options subscribe, subscribePattern and assign{together}")
    _check_trigger_limits(values)
    if is_stream:
        values.setdefault("start", LATEST)
        reject_stream_end(texts)
    read = TopicOptions(client=_check_client_settings(client, ConsumerSettings, warns=warns), **values)
    if not is_stream:
        check_batch_start(read.start)
    return read


def parse_client_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Translate ``kafka.*`` options to consumer settings.

    Raises:
        OptionError: As for ``parse_topic_options``.
    """
    from kafkaframes.client.settings import ConsumerSettings

    return _check_client_settings(_separate_client_settings(options, TOPIC_OPTIONS)[0], ConsumerSettings)


def parse_capture_options(options: Mapping[str, str]) -> CaptureReadOptions:
    """Translate the options of ``kafka-capture``.

    >>> parse_capture_options({"path": "/tmp/x.pcap", "TABLE": "gaps"}).read.table
    'gaps'

    Raises:
        OptionError: An option is unknown or has an invalid value. The message names the option.
    """
    from kafkaframes.capture.reader import CaptureOptions
    from kafkaframes.scan.capture import CaptureReadOptions

    texts = _select_known_options(options, CAPTURE_OPTIONS, "kafka-capture")
    values = _parse_values(CAPTURE_OPTIONS, texts)
    file_settings = {
        name: values.pop(name) for name in ("min_partitions", "quiet_seconds", "max_files") if name in values
    }
    read = CaptureOptions(**{"wait_files": _DEFAULT_WAIT_FILES, **values})
    read.select_columns()
    paths = parse_load_paths(texts, source="kafka-capture", example="/captures/x.pcap")
    return CaptureReadOptions(paths=paths, read=read, **file_settings)


def parse_log_write_options(options: Mapping[str, str], *, is_stream: bool = False) -> tuple[str, dict[str, Any]]:
    """Translate the options of a write with ``kafka-log``, and return the path and the values of ``WriteSettings``.

    >>> parse_log_write_options({"path": "/data/new", "NUMPARTITIONS": "3", "codec": "zstd"})
    ('/data/new', {'num_partitions': 3, 'codec': 'zstd'})

    Args:
        options: Options as Spark passes them.
        is_stream: Whether the options are those of a stream's sink, to which Spark adds its own.

    Raises:
        OptionError: An option is unknown or has an invalid value, or the path is missing.
    """
    from kafkaframes.jobs.restore.writing.routing import WriteSettings

    path = "".join(text for name, text in options.items() if name.lower() == "path")
    ignored_names = {"path", *(_SPARK_OPTIONS if is_stream else ())}
    others = {name: text for name, text in options.items() if name.lower() not in ignored_names}
    values = _parse_values(LOG_WRITE_OPTIONS, _select_known_options(others, LOG_WRITE_OPTIONS, "to write, kafka-log"))
    if not path:
        raise OptionError(
            'kafka-log needs a path: df.write.format("kafka-log").mode("append").save("/backup/new-logs"); '
            "INSERT INTO a catalog table has no path, because Spark does not pass a table's options to Python writers"
        )
    WriteSettings(now_ms=0, **values)
    return path, values


def parse_topic_write_options(options: Mapping[str, str]) -> TopicWriteOptions:
    """Translate the options of a write with ``kafka-topic``.

    Raises:
        OptionError: As for ``parse_topic_options``.
    """
    from kafkaframes.client.settings import ProducerSettings
    from kafkaframes.scan.topic.options import TopicWriteOptions

    client, texts = _separate_client_settings(options, TOPIC_WRITE_OPTIONS)
    values = _parse_values(TOPIC_WRITE_OPTIONS, texts)
    if "record_format" in values:
        client["record_format"] = values.pop("record_format")
    client_settings = _check_client_settings(client, ProducerSettings)
    settings = ProducerSettings.from_options(client_settings)
    _check_compression_level(settings)
    _reject_partitioner(settings)
    return TopicWriteOptions(client=client_settings, **values)


def get_checkpoint_location(options: Mapping[str, str]) -> str:
    """Return the checkpoint of a stream's sink; an empty string if the option is missing."""
    return "".join(text for name, text in options.items() if name.lower() == _CHECKPOINT_LOCATION)


def split_decoding(
    options: Mapping[str, str], *, other_modes: tuple[str, ...] = ()
) -> tuple[ValueDecoding | None, dict[str, str]]:
    """Return the decoding, which is None if values are bytes, and the options of the source.

    Args:
        options: Options as Spark passes them.
        other_modes: Values of the option ``decode`` that the source handles itself.

    Raises:
        OptionError: A decoding option is given without ``decode``, or the schema is missing or invalid.
        MissingExtraError, NetworkError: As for ``Scan.decode``.
    """
    by_name = {name.lower(): text for name, text in options.items()}
    mode = by_name.get(_DECODE_OPTION, "").lower()
    source_options = {name: text for name, text in options.items() if name.lower() not in _DECODE_TABLE}
    values = _parse_values(_DECODE_TABLE, {name: text for name, text in by_name.items() if name in _DECODE_TABLE})
    if mode not in DECODE_MODES:
        if mode and mode not in other_modes:
            raise OptionError(f"option decode must be one of {', '.join((*DECODE_MODES, *other_modes))}, not {mode}")
        if values:
            names = ", ".join(option.name for option in DECODE_OPTIONS if option.setting in values)
            raise OptionError(f"option {names} requires decode={'|'.join(DECODE_MODES)}")
        return None, source_options
    del source_options[next(name for name in source_options if name.lower() == _DECODE_OPTION)]
    if not values.keys() & {"schema", "registry"}:
        raise OptionError(f"decode={mode} requires the option schema or schemaRegistry")
    if ERROR_COLUMN in _split_names(by_name.get("columns", "")):
        raise OptionError(
            f"columns: {ERROR_COLUMN} is added automatically after the other columns if value is one of them"
        )
    return _create_value_decoding(mode, values, _split_names(by_name.get("subscribe", ""))), source_options


def _create_value_decoding(mode: str, values: dict[str, Any], topics: tuple[str, ...]) -> ValueDecoding:
    """Return the decoding for the options ``decode``, ``schema`` and related options."""
    from kafkaframes.scan.decoded import SchemaArguments, ValueDecoding

    raises = values.pop("errors", "null") == "raise"
    schema = SchemaArguments(**{"other_fields": False, **values})
    return ValueDecoding(schema.create_decoding(mode, topics=list(topics), sample=list), raises=raises)


def _reject_decoding_options(names: Iterable[str]) -> None:
    """Reject decoding options in jobs, because only ``spark.read`` and ``spark.readStream`` support them.

    Raises:
        OptionError: One of the names, in lower case, is a decoding option. The message names the reads that support
            decoding.
    """
    for name in names:
        if name in _DECODE_TABLE:
            raise OptionError(f"option {_DECODE_TABLE[name].name}: only spark.read and spark.readStream decode values")


def reject_stream_end(options: Iterable[str]) -> None:
    """Reject options for the end of a read, because a stream has none.

    Spark's connector rejects these options as well.

    Raises:
        OptionError: An option for the end is set.
    """
    ends = [LOG_OPTIONS[name.lower()].name for name in options if name.lower().startswith("ending")]
    if ends:
        raise OptionError(f"a stream has no end: {', '.join(ends)} is for batch reads")


def check_exactly_once(options: TopicWriteOptions) -> None:
    """Reject settings that an exactly-once write determines itself.

    Raises:
        OptionError: One of these settings is set.
    """
    forbidden = sorted(_EXACTLY_ONCE_SETTINGS & set(options.client))
    if forbidden:
        raise OptionError(f"option kafka.{forbidden[0]}: an exactly-once write sets this option itself; remove it")


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
        lower = name.lower().removeprefix(_HADOOP_PREFIX)
        if lower == _STORAGE_OPTION:
            json_options = _parse_json_object(text)
        elif lower in STORE_OPTIONS:
            path, parse = STORE_OPTIONS[lower]
            try:
                _set_nested_value(storage, path, parse(text))
            except ValueError as error:
                raise OptionError(f"option {name}: {error}") from None  # the value may be a secret
        else:
            others[name] = text
    return others, {**storage, **json_options}


def _set_nested_value(storage: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value in nested dictionaries at a path of keys."""
    for step in path[:-1]:
        storage = storage.setdefault(step, {})
    storage[path[-1]] = value


def _parse_json_object(text: str) -> dict[str, Any]:
    """Parse the option ``storageOptions``, a JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError('option storageOptions: must be JSON such as {"anon": true}')
    return value


def parse_load_paths(values: Mapping[str, str], *, source: str, example: str) -> tuple[str, ...]:
    """Return the arguments of ``load()``: the option ``path``, or ``paths`` (Spark's JSON list of several).

    Args:
        values: Texts, by their names in lower case.
        source: Name of the data source.
        example: Example of a path in the error message.

    Raises:
        OptionError: The path is missing, or ``paths`` is not a list of text.
    """
    paths = [values["path"]] if values.get("path") else []
    if values.get("paths"):
        try:
            more = json.loads(values["paths"])
        except ValueError:
            more = None
        if not isinstance(more, list) or not all(isinstance(path, str) and path for path in more):
            raise OptionError(f"option paths={values['paths']}: must be a JSON list of paths")
        paths += more
    if not paths:
        raise OptionError(f'{source} needs a path: spark.read.format("{source}").load("{example}")')
    return tuple(paths)


def parse_value(name: str, parse: Callable[[str], Any], text: str) -> Any:
    """Return the parsed value of an option.

    Raises:
        OptionError: The text is invalid. The message names the option.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise OptionError(f"option {name}={redact_value(name, text)}: {error}") from None


def _parse_values(table: OptionTable, texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse option texts, which are keyed by lower-case name, and return the values by setting.

    Raises the same exceptions as ``parse_value``.
    """
    pairs = [(table[name], text) for name, text in texts.items()]
    return {option.setting: parse_value(option.name, option.parse, text) for option, text in pairs if option.setting}


def _select_known_options(
    options: Mapping[str, str], table: OptionTable, source: str, *, others: Iterable[str] = ()
) -> dict[str, str]:
    """Return the texts of known options by lower-case name. Reject unknown options.

    Raises:
        OptionError: An option is unknown.
    """
    for name in options:
        if name.lower() not in table:
            raise OptionError(describe_unknown_option(name, table, source, others=others))
    return {name.lower(): text for name, text in options.items()}


def describe_unknown_option(name: str, table: OptionTable, source: str, *, others: Iterable[str] = ()) -> str:
    """Return the message for an unknown option, with the closest known name or all names.

    Args:
        name: Name of the unknown option.
        table: Options of the source.
        source: Name of the data source.
        others: Names of further valid options, in lower case.
    """
    lower = name.lower()
    if source == "kafka-topic" and (hint := _describe_missing_prefix(lower)):
        return f"unknown option {name}: {hint}"
    # Spark's name for the topics to read; by edit distance, topicColumn and others would be closer
    meant = "subscribe" if lower in ("topic", "topics") and "subscribe" in table else lower
    near = difflib.get_close_matches(meant, [*table, *others], n=1, cutoff=0.6)
    if near:
        suggestion = table[near[0]].name if near[0] in table else near[0]
        return f"unknown option {name}: did you mean {suggestion}?"
    names = ", ".join(option.name for option in table.values())
    return f"unknown option {name}; {source} has the options {names}"


def _describe_missing_prefix(name: str) -> str:
    """Return a hint if the name of an unknown option is that of a client setting without ``kafka.``; "" if not."""
    from kafkaframes.client.properties import list_java_properties, to_kafka_name

    kafka_name = _CLIENT_PREFIX + to_kafka_name(name)
    if kafka_name in FORBIDDEN_OPTIONS:
        return FORBIDDEN_OPTIONS[kafka_name]
    return f"did you mean {kafka_name}?" if to_kafka_name(name) in list_java_properties() else ""


def _get_selection_defaults(source: str) -> dict[str, Any]:
    """Return the default values of a source's settings that select records."""
    defaults = READER_DEFAULTS[source]
    return {
        "isolation": defaults.isolation,
        "include_control": defaults.control_records,
        "on_damage": defaults.on_damage,
    }


def _select_bounds_by_precedence(values: dict[str, Any], *, warns: bool) -> None:
    """Keep only the bounds with precedence, as in Spark: a time for all partitions, times for each, then offsets.

    Args:
        values: Parsed values of options.
        warns: Whether to log a warning for a time that was probably intended as seconds.
    """
    for limit in ("start", "end"):
        by_partition = values.pop(f"{limit}_times", None)
        time = values.pop(f"{limit}_time", by_partition)
        if time is not None:
            values[limit] = TimeBound(time)
            for milliseconds in set(time.values() if isinstance(time, Mapping) else [time]) if warns else ():
                warn_of_seconds(milliseconds)


def _separate_client_settings(options: Mapping[str, str], table: OptionTable) -> tuple[dict[str, Any], dict[str, str]]:
    """Separate client settings (``kafka.*``) from the texts of the other options."""
    from kafkaframes.client.properties import to_kafka_name, to_kafka_names

    client: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower.startswith(_CLIENT_PREFIX):
            kafka_name = _CLIENT_PREFIX + to_kafka_name(lower[len(_CLIENT_PREFIX) :])
            if kafka_name in FORBIDDEN_OPTIONS:
                raise OptionError(f"option {name}: {FORBIDDEN_OPTIONS[kafka_name]}")
            client[lower[len(_CLIENT_PREFIX) :]] = text
        elif lower in table or lower not in {"path", *_SPARK_OPTIONS}:
            others[name] = text
    texts = _select_known_options(others, table, "kafka-topic")
    client = to_kafka_names(client)
    if "bootstrap.servers" not in client:
        raise OptionError(
            "option kafka.bootstrap.servers is missing; expected host:port, or several separated by commas"
        )
    return client, texts


def _check_client_settings(
    client: dict[str, Any], settings: type[ConsumerSettings] | type[ProducerSettings], *, warns: bool = True
) -> dict[str, Any]:
    """Return the client settings that have an effect, so that tasks do not repeat warnings about the other settings.

    As in Spark's connector, producer settings are ignored for a reader, and consumer settings for a writer.
    """
    from kafkaframes.client.properties import log_ignored_settings, map_options
    from kafkaframes.client.settings import list_setting_names

    try:
        client_options = {
            name: client[name] for name in map_options(client, list_setting_names(settings), settings.client)
        }
        settings.from_options(client_options)
    except OptionError as error:
        raise OptionError(f"option kafka.*: {_rename_to_kafka_names(str(error))}") from None
    if warns:
        log_ignored_settings(client.keys() - client_options.keys())
    return client_options


_SETTING_NAME_PATTERN: Final = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def _rename_to_kafka_names(message: str) -> str:
    """Return a message from the client, with Kafka's names for its settings."""
    from kafkaframes.client.properties import list_java_properties
    from kafkaframes.client.settings import ProducerSettings

    def format_name(match: re.Match[str]) -> str:
        """Return the setting's name in Kafka's spelling."""
        name = match[0].replace("_", ".")
        return name if name in list_java_properties() or match[0] in ProducerSettings.__dataclass_fields__ else match[0]

    return _SETTING_NAME_PATTERN.sub(format_name, message)


def _check_trigger_limits(values: Mapping[str, Any]) -> None:
    """Check that ``minOffsetsPerTrigger`` is not above ``maxOffsetsPerTrigger``."""
    min_offsets, max_offsets = values.get("min_offsets_per_trigger"), values.get("max_offsets_per_trigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise OptionError(f"minOffsetsPerTrigger={min_offsets} must not be above maxOffsetsPerTrigger={max_offsets}")


def _check_compression_level(settings: ProducerSettings) -> None:
    """Check that the compression level is valid for the codec."""
    from kafkaframes.records.codecs import CODECS, codec_of

    row, level = CODECS.get(codec_of(settings.compression_type)), settings.compression_level
    levels = None if row is None else row.levels
    if level is not None and levels is not None and not levels[0] <= level <= levels[1]:
        name = f"kafka.compression.{settings.compression_type}.level"
        raise OptionError(f"option {name}={level} must be from {levels[0]} to {levels[1]}")


def _reject_partitioner(settings: ProducerSettings) -> None:
    """Reject a partitioner other than Kafka's default one, which Spark's tasks implement.

    Raises:
        OptionError: Another partitioner is set. The message names the column that replaces it.
    """
    if settings.partitioner not in (None, "", "default") or settings.partitioner_ignore_keys:
        name = "kafka.partitioner.class" if settings.partitioner else "kafka.partitioner.ignore.keys"
        raise OptionError(f"option {name}: Spark's writers use the default partitioner; set the column partition")
