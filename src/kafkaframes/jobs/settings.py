"""Declare the settings of jobs. A dataclass field has the default, the allowed values and the help text of a setting.

Command flags (``add_settings_flags`` and ``add_log_settings`` in ``cli/options.py``), documentation tables
(``docs/tables.py``) and validation (``check_values``) are generated from these fields. A test compares the signatures
in ``jobs/functions.py`` with them. Jobs with many settings have their own settings module. This module does not import
code that reads logs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from kafkaframes.errors import OptionError
from kafkaframes.records.reasons import SPARK_MODES
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    Bound,
    Limit,
    PartitionOffsets,
    TimeBound,
    check_batch_start,
    nest_by_topic,
)
from kafkaframes.scan.selection import Selection

if TYPE_CHECKING:
    from kafkaframes.storage.cleaner.plan import CleanerSettings

Path = str | PathLike[str]
Paths = Path | Sequence[Path]
CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
POSITION_METAVAR = "OFFSET|TIME"  # metavar of settings that accept an offset or a time
# help texts of settings that several classes have
START_HELP = "Start in each partition at this offset, or at the first record that reaches this time."
END_HELP = "Stop in each partition before this offset, or before the first record that reaches this time."
KEY_FILES_HELP = "Private RSA key (PEM) for encrypted tiered segments; repeatable."
FOLLOW_LINKS_HELP = "Follow symbolic links; they are skipped otherwise."
BATCH_BYTES, INDEX_INTERVAL_BYTES = 16384, 4096  # defaults of ``records.build`` and of brokers
Default = TypeVar("Default")
Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True)
class StoredForm:
    """The form in which a job's report stores a setting, so that reports of earlier releases are still recognized.

    Attributes:
        name: the stored key.
        values: stored values by value of the setting. Other values are stored unchanged.
    """

    name: str
    values: Mapping[Any, Any]


STORED_MODE = StoredForm("mode", SPARK_MODES)


def setting(
    default: Default,
    meaning: str,
    *,
    choices: Sequence[str] = (),
    minimum: float | None = None,
    flag: str | None = None,
    default_text: str | None = None,
    is_recorded: bool = True,
    stored_as: StoredForm | None = None,
    secret: bool = False,
) -> Default:
    """Return the dataclass field of a setting.

    Args:
        default: default value. Each instance gets its own copy of an empty mapping.
        meaning: help text of the flag.
        choices: allowed texts, if the type is not a ``Literal``.
        minimum: smallest allowed number.
        flag: names of the command-line flag, the short one first. Default: the setting's name with hyphens.
        default_text: placeholder for the value in help texts, such as ``RELEASE``. ``NAME=VALUE`` makes the flag
            repeatable.
        is_recorded: whether the setting is part of a job's identity. If True, the result of a job with another value
            is not reused.
        stored_as: name and values in the job's report, if they differ from those of the setting.
        secret: whether the value may contain a password. Secret values are omitted from ``repr``.
    """
    metadata: dict[str, Any] = {
        "meaning": meaning,
        "choices": tuple(choices),
        "least": minimum,
        "flag": flag,
        "shown": default_text,
    }
    metadata |= {"recorded": is_recorded, "stored": stored_as}
    dict_field: Any = field(default_factory=dict, repr=False, metadata=metadata) if default == {} else None
    return cast(Default, dict_field or field(default=default, repr=not secret, metadata=metadata))


def required_setting(meaning: str, *, flag: str | None = None) -> Any:
    """Return the dataclass field of a setting without a default. ``meaning`` and ``flag`` are as in ``setting``."""
    metadata = {"meaning": meaning, "choices": (), "least": None, "flag": flag, "shown": None, "recorded": True}
    return field(metadata=metadata | {"stored": None})


def check_values(settings: Any) -> None:
    """Reject values that are not allowed for a setting.

    Raises:
        OptionError: a value is not allowed; the message names the setting.
    """
    for entry in fields(settings):
        value, choices = getattr(settings, entry.name), find_allowed_values(type(settings), entry)
        minimum = entry.metadata.get("least")
        if choices and value not in choices and not (value is None and entry.default is None):
            raise OptionError(f"`{entry.name}` must be one of {', '.join(map(str, choices))}, not {value!r}")
        numbers = value if isinstance(value, tuple | list) else (value,)
        if minimum is not None and any(number is not None and number < minimum for number in numbers):
            raise OptionError(f"`{entry.name}` must be at least {minimum}, not {value}")


class ValidatedSettings:
    """Base class of settings that are validated on construction."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Reject values that are not allowed, and settings that contradict each other.

        Raises:
            OptionError: a value is rejected; the message names the setting.
        """
        self._normalize()
        check_values(self)
        self._reject_conflicts()

    def _normalize(self) -> None:
        """Replace values with equal ones in the form that the settings store."""

    def _reject_conflicts(self) -> None:
        """Reject settings that contradict each other."""


def find_allowed_values(settings: type, entry: Field[Any]) -> tuple[Any, ...]:
    """Return the allowed values of a setting, or an empty tuple if its type is the only restriction."""
    kind = find_setting_types(settings)[entry.name]
    literals = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    return get_args(literals[0]) if literals else tuple(entry.metadata.get("choices", ()))


@cache
def find_setting_types(settings: type) -> dict[str, Any]:
    """Return the type of each setting by name."""
    return get_type_hints(settings)


def create_settings(make: Callable[..., Settings], values: Mapping[str, Any]) -> Settings:
    """Create settings from names and values.

    Raises:
        OptionError: a setting is unknown (the message names the closest match) or its value is invalid.
    """
    field_names = [entry.name for entry in fields(cast(Any, make))]
    for name in values:
        if name not in field_names:
            near = difflib.get_close_matches(name, field_names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(field_names)}"
            raise OptionError(f"unknown setting {name}: {hint}")
    return make(**values)


# --------------------------------------------------------------------------------------- settings of the smaller jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Settings for reading source files, which all jobs over logs have in common."""

    key_files: Sequence[str] = setting(
        (),
        KEY_FILES_HELP,
        flag="--key-file",
        default_text="[ID=]FILE",
        is_recorded=False,
    )
    follow_links: bool = setting(False, FOLLOW_LINKS_HELP, is_recorded=False)

    @property
    def storage(self) -> dict[str, Any]:
        """The settings as storage options, for ``discover`` and other functions that read files."""
        from kafkaframes.storage.files.filesystem import storage_options

        return storage_options(self.key_files, follow_links=self.follow_links)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSettings(SourceSettings, ValidatedSettings):
    """Settings that select topic partitions of the sources. Default: all."""

    topics: str | Sequence[str] = setting((), "Topic to select: a name or pattern; repeatable.", flag="-t --topic")
    partitions: int | Sequence[int] = setting((), "Partition to select; repeatable.", minimum=0, flag="-p --partition")

    def _normalize(self) -> None:
        for name, single in (("topics", str), ("partitions", int)):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, single) else tuple(value))

    def _reject_conflicts(self) -> None:
        _ = self.selection

    @property
    def selection(self) -> Selection:
        """The topics, partitions and range that the settings select.

        Raises:
            OptionError: a value is invalid.
        """
        return Selection(topics=self.topics, partitions=self.partitions)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The topic names and patterns."""
        return self.selection.topic_names

    @property
    def partition_numbers(self) -> frozenset[int]:
        """The partition numbers; empty for all."""
        return self.selection.partition_numbers or frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSettings(PartitionSettings):
    """Settings that select topic partitions, and in each a range of offsets or times."""

    start: Limit = setting(None, START_HELP, default_text=POSITION_METAVAR, is_recorded=False)
    end: Limit = setting(None, END_HELP, default_text=POSITION_METAVAR, is_recorded=False)

    @property
    def selection(self) -> Selection:
        """The topics, partitions and range that the settings select.

        Raises:
            OptionError: a value is invalid.
        """
        return Selection(topics=self.topics, partitions=self.partitions, start=self.start, end=self.end)

    def _reject_conflicts(self) -> None:
        check_batch_start(self.selection.log_range[0])

    @property
    def is_limited(self) -> bool:
        """Whether only a part of the sources is selected: some partitions, or a range."""
        return bool(self.topic_names or self.partition_numbers) or self.selection.log_range != (EARLIEST, LATEST)


def to_stored_limit(limit: Bound) -> Any:
    """Return the start or end of a range as a JSON value, for a job's report.

    >>> to_stored_limit(TimeBound(86400000)), to_stored_limit({("orders", 0): 5})
    ({'time': 86400000}, {'orders': {'0': 5}})
    """
    if isinstance(limit, TimeBound):
        return {"time": _to_stored_offsets(limit.times)}
    return _to_stored_offsets(limit)


def _to_stored_offsets(offsets: int | PartitionOffsets) -> Any:
    return offsets if isinstance(offsets, int) else nest_by_topic(offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings(RangeSettings):
    """Settings of ``verify_log``."""

    replicas: Literal["merge", "all"] = setting(
        "merge", "Several copies of a partition (brokers, disks): also check the log that they form, or each copy only."
    )

    deep: bool = setting(False, "Also decompress and read every record.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeSettings(PartitionSettings):
    """Settings of ``describe_log``. Without ``deep`` only the first and the last batch of each segment are read."""

    replicas: Literal["merge", "all"] = setting(
        "merge", "Several copies of a partition (brokers, disks): show the log that they form, or each copy."
    )

    deep: bool = setting(False, "Read the header of every batch, for exact codecs, formats, times and counts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings(PartitionSettings):
    """Settings of ``report_log``."""

    to: Path | None = setting(None, "Path of the page or the JSON file. Default: it is not written.")
    format: Literal["html", "json"] = setting("html", "Format of the file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings(RangeSettings):
    """Settings that ``convert_log`` and ``recompress_log`` share.

    The settings are picklable, because workers receive them.
    """

    topics: str | Sequence[str] = setting(
        (), "Topic to select: a name or pattern; repeatable.", flag="-t --topic", is_recorded=False
    )
    partitions: int | Sequence[int] = setting(
        (), "Partition to select; repeatable.", minimum=0, flag="-p --partition", is_recorded=False
    )
    level: int | None = setting(None, "Compression level. Default: Kafka's.")
    on_damage: Literal["fail", "keep"] = setting(
        "fail", "Action at a damaged batch: stop, or copy the batch unchanged.", stored_as=STORED_MODE
    )
    batch_bytes: int = setting(
        BATCH_BYTES, "Join uncompressed messages of v0 and v1 into batches of about this size.", minimum=1
    )
    index_interval_bytes: int = setting(
        INDEX_INTERVAL_BYTES, "Bytes between two entries of the new indexes.", minimum=1
    )

    @property
    def record_format(self) -> Literal[0, 1, 2] | None:
        """The format to write; None keeps the format of each batch."""
        return None

    @property
    def codec(self) -> CodecName | None:
        """The codec to write; None keeps the codec of each batch."""
        return None

    @property
    def on_loss(self) -> Literal["error", "warn", "drop"]:
        """Handling of data that an older format cannot represent."""
        return "error"

    def to_stored_values(self) -> dict[str, Any]:
        """Return the settings under the keys that the reports of both jobs have.

        If partitions or a range are selected, there is an additional key.
        """
        values: dict[str, Any] = {"record_format": self.record_format, "codec": self.codec, "on_loss": self.on_loss}
        if self.is_limited:
            start, end = self.selection.log_range
            numbers = sorted(self.partition_numbers)
            values["selection"] = {
                "topics": sorted(self.topic_names),
                "partitions": numbers,
                "start": to_stored_limit(start),
                "end": to_stored_limit(end),
            }
        return values

    def _reject_conflicts(self) -> None:
        RangeSettings._reject_conflicts(self)  # slots=True creates the class again, so super() would fail
        if self.codec == "zstd" and self.record_format in (0, 1):
            raise OptionError(f"zstd requires record format 2, not {self.record_format}")
        if self.level is not None:
            self._check_level(self.level)

    def _check_level(self, level: int) -> None:
        from kafkaframes.records.codecs import CODECS, codec_of

        levels = CODECS[codec_of(self.codec)].levels if self.codec not in (None, "none") else None
        if levels is None:
            raise OptionError("`level` requires a codec that has levels: gzip, lz4 or zstd")
        if not levels[0] <= level <= levels[1]:
            raise OptionError(f"`level` for {self.codec} must be {levels[0]} to {levels[1]}, not {level}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSettings(RewriteSettings):
    """Settings of ``convert_log``, which requires a record format."""

    record_format: Literal[0, 1, 2] = required_setting("Record format to write.")
    codec: CodecName | None = setting(None, "Codec to write. Default: the codec of each batch.")
    on_loss: Literal["error", "warn", "drop"] = setting(
        "error", "If the older format cannot store some data: stop, count and warn, or drop it silently."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompressSettings(RewriteSettings):
    """Settings of ``recompress_log``, which requires a codec and keeps each batch's format."""

    codec: CodecName = required_setting("Codec to write.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings(PartitionSettings):
    """Settings of ``compact_log``: topic partitions, and the cleaning rules to apply.

    A range cannot be selected, because the last record of a key is only known from all later records.
    """

    broker_release: Literal["2.8", "3.9", "4.x"] = setting("4.x", "Compact by the rules of this release.")
    delete_retention_ms: int = setting(86_400_000, "Value of the topic setting delete.retention.ms.", minimum=0)
    min_compaction_lag_ms: int = setting(0, "Value of the topic setting min.compaction.lag.ms.", minimum=0)

    def make_cleaner_settings(self, now_ms: int) -> CleanerSettings:
        """Return the cleaner settings for one cleaning run."""
        from kafkaframes.storage.cleaner.plan import CleanerSettings

        return CleanerSettings(
            now_ms=now_ms,
            broker_release=self.broker_release,
            delete_retention_ms=self.delete_retention_ms,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairSettings(ValidatedSettings):
    """Settings of ``repair_log``."""

    as_kafka: bool = setting(False, "Recover as a broker does: truncate each log at the first damage.")
    index_interval_bytes: int = setting(
        INDEX_INTERVAL_BYTES, "Bytes between two entries of the new indexes.", minimum=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Settings of an upgrade audit: the target release, and how to parse the captured traffic."""

    target: str | None = setting(
        None, "Kafka release to upgrade to: 4.0.1, 4.3, 3.9, ... Default: the newest.", default_text="RELEASE"
    )
    ports: str | Sequence[int] = setting("", "Ports of the brokers: 9092,9094-9096.", default_text="PORTS")
    specs: object = setting(
        None, "File or folder of message specs that override those of the catalog.", default_text="PATH"
    )
    verbose: bool = setting(
        False, "Also list compatible clients and APIs, and the reason for each finding.", flag="-v --verbose"
    )
    strict: bool = setting(False, "Exit with status 5 if a part of the input could not be read.")
