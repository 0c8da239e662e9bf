"""Options of ``format("kafka-topic")``, which are parsed from Spark's text to immutable values. No pyspark, no I/O.

Names, defaults, precedence and JSON forms are those of Spark's own Kafka source and sink
(https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html). ``OPTIONS`` contains all options and
is the source of their documentation. ``kafka.*`` options are client settings under Kafka's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kafkaframes.client.properties import java_properties, kafka_name_of, log_ignored, map_options, use_kafka_names
from kafkaframes.client.settings import ConsumerSettings, ProducerSettings, setting_names
from kafkaframes.errors import OptionError
from kafkaframes.scan.ranges import LATEST, GroupBound, PartitionOffsets, check_batch_start
from kafkaframes.scan.topic.options import TopicOptions, TopicWriteOptions
from kafkaframes.spark.options.decode_options import DECODE_ROWS, refuse_decoding
from kafkaframes.spark.options.log_options import OPTIONS as LOG_OPTIONS
from kafkaframes.spark.options.log_options import refuse_stream_end
from kafkaframes.spark.options.option_values import (
    Option,
    boolean,
    choice_parser,
    describe_unknown_option,
    field_values,
    not_negative,
    positive,
    select_bounds_by_precedence,
    starting_value,
    whole_number,
)
from kafkaframes.storage.files.units import parse_size

SPECULATION_SETTING: Final = "spark.speculation"
_CLIENT_PREFIX: Final = "kafka."
# Options that Spark itself adds or uses.
_SPARK_OPTIONS: Final = frozenset({"path", "checkpointlocation", "queryname"})
GROUP_PREFIX: Final = "group:"
DELIVERIES: Final = ("at-least-once", "exactly-once")
# Client settings that Spark's source and sink reject, with the reason why they are invalid here too.
FORBIDDEN: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": "the option startingOffsets sets the start of a query",
    "kafka.enable.auto.commit": "offsets are in the checkpoint; kafkaframes.spark.watch_topics reports them to a group",
    "kafka.key.deserializer": "keys are given as bytes; cast or decode them in the query",
    "kafka.value.deserializer": "values are given as bytes; cast or decode them in the query",
    "kafka.key.serializer": "keys are written as bytes or text; encode them in the query",
    "kafka.value.serializer": "values are written as bytes or text; encode them in the query",
    "kafka.interceptor.classes": "use the client's `interceptors` in Python; change columns in the query",
}


def topic_options(options: Mapping[str, str], *, is_stream: bool, warns: bool = True) -> TopicOptions:
    """Parse options, regardless of the letter case of their names.

    Args:
        options: Options as Spark passes them.
        is_stream: Whether they are those of a stream.
        warns: Whether to log the client settings that have no effect here.

    Raises:
        OptionError: An option is unknown, forbidden, has an invalid value, or contradicts another one.
    """
    client, source_options = _separate_options(options, OPTIONS)
    refuse_decoding(source_options)
    values: dict[str, Any] = field_values(OPTIONS, source_options)
    select_bounds_by_precedence(values)
    for name in ("retries", "retry_interval_ms", "group_prefix"):  # options of Spark without an effect here
        values.pop(name, None)
    selections = [OPTIONS[name].name for name in ("subscribe", "subscribepattern", "assign") if name in source_options]
    if len(selections) != 1:
        raise OptionError(
            "kafka-topic requires one of the options subscribe, subscribePattern and assign" + _got(selections)
        )
    _check_trigger_limits(values)
    if is_stream:
        values.setdefault("start", LATEST)
        refuse_stream_end(source_options)
    read = TopicOptions(client=_check_client(client, ConsumerSettings, warns=warns), **values)
    if not is_stream:
        check_batch_start(read.start)
    return read


def reader_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the client settings of ``kafka.*`` options.

    Raises:
        OptionError: As for ``topic_options``.
    """
    return _check_client(_separate_options(options, OPTIONS)[0], ConsumerSettings)


def topic_write_options(options: Mapping[str, str]) -> TopicWriteOptions:
    """Parse the options of a write, regardless of the letter case of their names.

    Raises:
        OptionError: As for ``topic_options``.
    """
    client, sink_options = _separate_options(options, WRITE_OPTIONS)
    values = field_values(WRITE_OPTIONS, sink_options)
    if "record_format" in values:
        client["record_format"] = values.pop("record_format")
    client_settings = _check_client(client, ProducerSettings)
    _check_compression_level(client_settings)
    _reject_partitioner(client_settings)
    return TopicWriteOptions(client=client_settings, **values)


def _reject_partitioner(client: Mapping[str, Any]) -> None:
    """Reject a partitioner other than Kafka's default one, which Spark's tasks implement.

    Raises:
        OptionError: There is such an option. The message names the column that replaces it.
    """
    settings = ProducerSettings.from_options(client)
    if settings.partitioner not in (None, "", "default") or settings.partitioner_ignore_keys:
        name = "kafka.partitioner.class" if settings.partitioner else "kafka.partitioner.ignore.keys"
        raise OptionError(f"option {name}: Spark's writers use the default partitioner; set the column partition")


def check_exactly_once(options: TopicWriteOptions) -> None:
    """Reject settings that an exactly-once write determines itself.

    Raises:
        OptionError: There is such a setting.
    """
    forbidden = sorted(_FIXED_SETTINGS & set(options.client))
    if forbidden:
        raise OptionError(f"option kafka.{forbidden[0]}: an exactly-once write sets this option itself; remove it")


def check_speculation(value: str | None) -> None:
    """Reject a session with speculative execution, by its value of ``SPECULATION_SETTING``.

    Raises:
        OptionError: The session may run two attempts of a task at the same time.
    """
    if (value or "").strip().lower() == "true":
        raise OptionError(
            "spark.speculation is true: the second copy of a task would write its rows again, so each micro-batch with "
            "a slow task would fail. Use a session without spark.speculation for exactly-once writes"
        )


def _parse_start(text: str) -> int | PartitionOffsets | GroupBound:
    if text.strip().lower().startswith(GROUP_PREFIX):
        name = text.strip()[len(GROUP_PREFIX) :].strip()
        if not name:
            raise ValueError("must be the name of a group: group:NAME")
        return GroupBound(name)
    return starting_value(text)


def _parse_duration_ms(text: str) -> int:
    """Parse a duration in Spark's notation, and return milliseconds.

    >>> _parse_duration_ms("15m") == _parse_duration_ms("900s") == _parse_duration_ms("900000")
    True
    """
    match = re.fullmatch(r"(\d{1,12})\s*(us|ms|s|m|min|h|d)?", text.strip())
    if match is None:
        raise ValueError("must be a duration such as 900000, 900s or 15m")
    count = int(match[1])
    if match[2] == "us":
        return count // 1_000
    factor = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    return count * factor[match[2] or "ms"]


def _parse_port(text: str) -> int:
    if not 0 <= (port := whole_number(text)) <= _MAX_PORT:
        raise ValueError(f"must be from 0 to {_MAX_PORT}")
    return port


_MAX_PORT: Final = 65_535
_COMPRESSION_LEVELS: Final = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}  # Kafka's CompressionType
_FIXED_SETTINGS: Final = frozenset(
    {"transactional.id", "enable.idempotence", "acks"}
)  # determined by exactly-once writes
_READ_OPTION_ROWS: Final = (
    LOG_OPTIONS["subscribe"],
    LOG_OPTIONS["subscribepattern"],
    LOG_OPTIONS["assign"],
    Option(
        "startingOffsets",
        "start",
        _parse_start,
        'earliest, latest (streams), {"orders": {"0": 23, "1": -2}}, or group:NAME',
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
    *DECODE_ROWS,
    Option("minPartitions", "min_partitions", positive, "approximate minimum number of tasks"),
    Option("maxRecordsPerPartition", "max_records_per_partition", positive, "maximum offsets in one task"),
    LOG_OPTIONS["maxoffsetspertrigger"],
    Option(
        "minOffsetsPerTrigger",
        "min_offsets_per_trigger",
        positive,
        "start a micro-batch when this many new offsets exist, or after maxTriggerDelay",
    ),
    Option(
        "maxTriggerDelay", "max_trigger_delay_ms", _parse_duration_ms, "maximum wait for minOffsetsPerTrigger", "15m"
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
        positive,
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
        _parse_port,
        "batch reads: port of the driver for these tasks; 0 means any free port",
        "0",
    ),
    Option(
        "fetchOffset.numRetries",
        "retries",
        positive,
        "accepted for compatibility, without effect; use kafka.retries",
        "3",
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        "retry_interval_ms",
        not_negative,
        "accepted for compatibility, without effect; use kafka.retry.backoff.ms",
        "10",
    ),
    Option("groupIdPrefix", "group_prefix", str, "accepted for compatibility, without effect: no group is joined"),
)
OPTIONS: Final[Mapping[str, Option]] = {option.name.lower(): option for option in _READ_OPTION_ROWS}
_WRITE_OPTION_ROWS: Final = (
    Option("topic", "topic", str, "topic of all rows; by default, the column topic of each row"),
    Option(
        "delivery",
        "delivery",
        choice_parser(DELIVERIES),
        "at-least-once, or exactly-once: one Kafka transaction, committed after all Spark tasks have succeeded",
        "at-least-once",
    ),
    Option("sink", "sink", str, "exactly-once: name of this sink, if a query has several", "sink"),
    Option(
        "onForeignMarker",
        "on_foreign_marker",
        choice_parser(("error", "skip")),
        "exactly-once, if the checkpoint does not match the newest marker: error, or skip to the state after "
        "the marker",
        "error",
    ),
    Option(
        "driverPort",
        "driver_port",
        _parse_port,
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
    Option("recordFormat", "record_format", whole_number, "record format 0, 1 or 2, for old brokers and consumers"),
    Option("messageFormat", "record_format", whole_number, "the same option under the name of the broker setting"),
    Option(
        "includeHeaders", "include_headers", boolean, "accepted for compatibility: headers are always written", "false"
    ),
    Option(
        "timestamps",
        "timestamps",
        choice_parser(("now", "column")),
        "now: the time of sending, as in Spark's sink; column: the value of the column timestamp",
        "now",
    ),
)
WRITE_OPTIONS: Final[Mapping[str, Option]] = {option.name.lower(): option for option in _WRITE_OPTION_ROWS}


def _separate_options(
    options: Mapping[str, str], options_by_name: Mapping[str, Option]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Separate client settings (``kafka.*``) from the other options."""
    client: dict[str, Any] = {}
    values: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower.startswith(_CLIENT_PREFIX):
            kafka_name = _CLIENT_PREFIX + kafka_name_of(lower[len(_CLIENT_PREFIX) :])
            if kafka_name in FORBIDDEN:
                raise OptionError(f"option {name}: {FORBIDDEN[kafka_name]}")
            client[lower[len(_CLIENT_PREFIX) :]] = text
        elif lower in options_by_name:
            values[lower] = text
        elif lower not in _SPARK_OPTIONS:
            raise OptionError(describe_unknown_option(name, options_by_name, "kafka-topic"))
    client = use_kafka_names(client)
    if "bootstrap.servers" not in client:
        raise OptionError(
            "option kafka.bootstrap.servers is missing; expected host:port, or several separated by commas"
        )
    return client, values


def _check_client(
    client: dict[str, Any], settings: type[ConsumerSettings] | type[ProducerSettings], *, warns: bool = True
) -> dict[str, Any]:
    """Return the client settings that have an effect, so that tasks do not repeat warnings about the other settings.

    As in Spark's connector, producer settings are ignored for a reader, and consumer settings for a writer.
    """
    try:
        client_options = {name: client[name] for name in map_options(client, setting_names(settings), settings.client)}
        settings.from_options(client_options)
    except OptionError as error:
        raise OptionError(f"option kafka.*: {_SETTING_NAME_PATTERN.sub(_format_kafka_name, str(error))}") from None
    if warns:
        log_ignored(client.keys() - client_options.keys())
    return client_options


_SETTING_NAME_PATTERN: Final = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def _format_kafka_name(match: re.Match[str]) -> str:
    name = match[0].replace("_", ".")
    return name if name in java_properties() or match[0] in ProducerSettings.__dataclass_fields__ else match[0]


def _check_trigger_limits(values: Mapping[str, Any]) -> None:
    min_offsets, max_offsets = values.get("min_offsets_per_trigger"), values.get("max_offsets_per_trigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise OptionError(f"minOffsetsPerTrigger={min_offsets} must not be above maxOffsetsPerTrigger={max_offsets}")


def _check_compression_level(client: Mapping[str, Any]) -> None:
    settings = ProducerSettings.from_options(client)
    lowest, highest = _COMPRESSION_LEVELS.get(settings.compression_type, (None, None))
    level = settings.compression_level
    if level is not None and lowest is not None and highest is not None and not lowest <= level <= highest:
        name = f"kafka.compression.{settings.compression_type}.level"
        raise OptionError(f"option {name}={level} must be from {lowest} to {highest}")


def _got(selections: list[str]) -> str:
    return f", not {' and '.join(selections)} together" if selections else ""
