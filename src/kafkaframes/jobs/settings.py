"""Settings of jobs, each declared once: a field of a dataclass has the default, what is allowed, and what it means.

The flags of the commands (``settings_options`` and ``reads`` in ``cli/options.py``), the tables of the docs
(``docs/tables.py``) and the checks (``check``) are made of the fields; a test compares the signatures in
``jobs/functions.py`` with them. Jobs with many settings have a file of their own.
Nothing that reads logs is imported here.
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
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from kafkaframes.errors import OptionError
from kafkaframes.records.reasons import SPARK_MODES

if TYPE_CHECKING:
    from kafkaframes.storage.cleaner.plan import CleanerSettings

Path = str | PathLike[str]
CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
POSITION = "OFFSET|TIME"  # the metavar of settings that are an offset or a time
BATCH_BYTES, INDEX_INTERVAL_BYTES = 16384, 4096  # as ``records.build`` and brokers have them
Default = TypeVar("Default")
Settings = TypeVar("Settings")
Source = TypeVar("Source")
Target = TypeVar("Target")
Result = TypeVar("Result")
Keywords = ParamSpec("Keywords")
SettingsIn = TypeVar("SettingsIn", contravariant=True)
SourceIn = TypeVar("SourceIn", contravariant=True)
ResultOut = TypeVar("ResultOut", covariant=True)


@dataclass(frozen=True, slots=True)
class StoredAs:
    """How a job's report stores a setting, so that a report of an earlier release is still recognized.

    Attributes:
        name: the stored key; empty if the setting is new, and is stored only when it is not its default.
        values: value to stored value; others are stored as they are.
    """

    name: str = ""
    values: Mapping[Any, Any] = field(default_factory=dict)


STORED_MODE = StoredAs("mode", SPARK_MODES)
NEW = StoredAs()


def setting(
    default: Default,
    meaning: str,
    *,
    choices: Sequence[str] = (),
    least: float | None = None,
    flag: str | None = None,
    shown: str | None = None,
    recorded: bool = True,
    stored: StoredAs | None = None,
    secret: bool = False,
) -> Default:
    """Return the field of a setting.

    Args:
        default: of the setting; an empty mapping is made anew each time.
        meaning: for people: the help of its flag.
        choices: the texts that are allowed, where the type is no ``Literal`` of them.
        least: the smallest number that is allowed.
        flag: what the command line calls it, its letter first; by default its name with hyphens.
        shown: what stands for its value in help; ``NAME=VALUE`` is repeatable.
        recorded: whether another value makes it another job, whose result is not taken for this one's.
        stored: the name and the values under which a job's report stores it, if they are not its own.
        secret: whether it may hold a password, and is left out of what settings print as.
    """
    facts: dict[str, Any] = {
        "meaning": meaning,
        "choices": tuple(choices),
        "least": least,
        "flag": flag,
        "shown": shown,
    }
    facts |= {"recorded": recorded, "stored": stored}
    made: Any = field(default_factory=dict, repr=False, metadata=facts) if default == {} else None
    return cast(Default, made or field(default=default, repr=not secret, metadata=facts))


def required(meaning: str, *, flag: str | None = None) -> Any:
    """Return the field of a setting that has no default; ``meaning`` and ``flag`` as of ``setting``."""
    facts = {"meaning": meaning, "choices": (), "least": None, "flag": flag, "shown": None, "recorded": True}
    return field(metadata=facts | {"stored": None})


def check(settings: Any) -> None:
    """Refuse what no source allows.

    Raises:
        OptionError: names the setting.
    """
    for entry in fields(settings):
        value, choices = getattr(settings, entry.name), choices_of(type(settings), entry)
        least = entry.metadata.get("least")
        if choices and value not in choices and not (value is None and entry.default is None):
            raise OptionError(f"`{entry.name}` is one of {', '.join(map(str, choices))}, not {value!r}")
        numbers = value if isinstance(value, tuple | list) else (value,)
        if least is not None and any(number is not None and number < least for number in numbers):
            raise OptionError(f"`{entry.name}` is at least {least}, not {value}")


class Checked:
    """Settings that are checked when they are made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse what is not allowed, or does not fit together.

        Raises:
            OptionError: names the setting.
        """
        check(self)
        self._refuse()

    def _refuse(self) -> None:
        """Refuse what does not fit together."""


def choices_of(settings: type, entry: Field[Any]) -> tuple[Any, ...]:
    """Return the values that a setting may have; nothing where its type says all."""
    kind = kinds_of(settings)[entry.name]
    literals = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    return get_args(literals[0]) if literals else tuple(entry.metadata.get("choices", ()))


@cache
def kinds_of(settings: type) -> dict[str, Any]:
    """Return the types of settings."""
    return get_type_hints(settings)


def settings_of(make: Callable[..., Settings], values: Mapping[str, Any]) -> Settings:
    """Make settings of names and values.

    Raises:
        OptionError: one does not exist (the nearest is named), or does not fit.
    """
    known = [entry.name for entry in fields(cast(Any, make))]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise OptionError(f"no setting {name}: {hint}")
    return make(**values)


# ------------------------------------------------------------------------------------------- of jobs with few settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """How the files of sources are read: every job over logs has these."""

    key_files: Sequence[str] = setting(
        (),
        "Private RSA key (PEM) of encrypted tiered segments; may be repeated.",
        flag="--key-file",
        shown="[ID=]FILE",
        recorded=False,
    )
    follow_links: bool = setting(False, "Follow symbolic links; they are skipped otherwise.", recorded=False)

    @property
    def storage(self) -> dict[str, Any]:
        """The same as ``discover`` and its kind take it as ``options``."""
        from kafkaframes.storage.files.filesystem import FOLLOW_LINKS, KEY_FILES

        options: dict[str, Any] = {KEY_FILES: tuple(self.key_files)} if self.key_files else {}
        return options | ({FOLLOW_LINKS: True} if self.follow_links else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSettings(SourceSettings):
    """Which topic partitions of sources are read. Default: all."""

    topics: Sequence[str] = setting((), "Only this topic: a name or pattern; repeatable.", flag="-t --topic")
    partitions: Sequence[int] = setting((), "Only this partition; repeatable.", least=0, flag="-p --partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings(PartitionSettings):
    """What is verified."""

    deep: bool = setting(False, "Also decompress and read every record.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeSettings(PartitionSettings):
    """What is described; without ``deep`` the first and the last batch of each segment are read."""

    deep: bool = setting(False, "Read the header of every batch, for exact codecs, formats, times and counts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings(PartitionSettings):
    """What is reported, and where to."""

    to: Path | None = setting(None, "Where the page or the JSON is written; nowhere by default.")
    format: Literal["html", "json"] = setting("html", "Of what is written.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings(SourceSettings, Checked):
    """The settings of a conversion; picklable, for it travels to other processes."""

    record_format: Literal[0, 1, 2] | None = setting(None, "The format to write; each batch keeps its own by default.")
    codec: CodecName | None = setting(None, "The codec to write. Default: each batch keeps its own.")
    level: int | None = setting(None, "Compression level. Default: Kafka's.")
    on_loss: Literal["error", "warn", "drop"] = setting(
        "error", "When the older format cannot hold something: stop, count and warn, or drop it silently."
    )
    on_damage: Literal["fail", "keep"] = setting(
        "fail", "At a damaged batch: stop, or copy it byte for byte.", stored=STORED_MODE
    )
    batch_bytes: int = setting(
        BATCH_BYTES, "Join uncompressed messages of v0 and v1 into batches of about this size.", least=1
    )
    index_interval_bytes: int = setting(INDEX_INTERVAL_BYTES, "Bytes between two entries of the new indexes.", least=1)

    def _refuse(self) -> None:
        if self.codec == "zstd" and self.record_format in (0, 1):
            raise OptionError(f"zstd needs format 2, not {self.record_format}")
        if self.level is not None:
            self._check_level(self.level)

    def _check_level(self, level: int) -> None:
        from kafkaframes.records.codecs import CODECS, codec_of

        levels = CODECS[codec_of(self.codec)].levels if self.codec not in (None, "none") else None
        if levels is None:
            raise OptionError("a level needs a codec that has levels: gzip, lz4 or zstd")
        if not levels[0] <= level <= levels[1]:
            raise OptionError(f"{self.codec} has levels {levels[0]} to {levels[1]}, not {level}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSettings(RewriteSettings):
    """The settings of ``convert_log``: the record format is required."""

    record_format: Literal[0, 1, 2] = required("The format to write.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompressSettings(SourceSettings, Checked):
    """The settings of ``recompress_log``, which keeps each batch's format: the codec is required."""

    codec: CodecName = required("The codec to write.")
    level: int | None = setting(None, "Compression level. Default: Kafka's.")
    on_damage: Literal["fail", "keep"] = setting(
        "fail", "At a damaged batch: stop, or copy it byte for byte.", stored=STORED_MODE
    )
    batch_bytes: int = setting(
        BATCH_BYTES, "Join uncompressed messages of v0 and v1 into batches of about this size.", least=1
    )
    index_interval_bytes: int = setting(INDEX_INTERVAL_BYTES, "Bytes between two entries of the new indexes.", least=1)

    @property
    def rewrite(self) -> RewriteSettings:
        """The settings of the rewriting job."""
        return RewriteSettings(**{entry.name: getattr(self, entry.name) for entry in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings(SourceSettings, Checked):
    """Which topics are compacted, and by whose rules."""

    topics: Sequence[str] = setting((), "Only this topic: a name or pattern; repeatable.", flag="-t --topic")
    broker_release: Literal["2.8", "3.9", "4.x"] = setting("4.x", "Compact by the rules of this release.")
    delete_retention_ms: int = setting(86_400_000, "As the topics' setting of this name.", least=0)
    min_compaction_lag_ms: int = setting(0, "As the topics' setting of this name.", least=0)

    def cleaner(self, now_ms: int) -> CleanerSettings:
        """Return the settings of a round of cleaning."""
        from kafkaframes.storage.cleaner.plan import CleanerSettings

        return CleanerSettings(
            now_ms=now_ms,
            broker_release=self.broker_release,
            delete_retention_ms=self.delete_retention_ms,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairSettings(Checked):
    """How a log is repaired."""

    as_kafka: bool = setting(False, "Recover as a broker does: cut each log off at the first damage.")
    index_interval_bytes: int = setting(INDEX_INTERVAL_BYTES, "Bytes between two entries of the new indexes.", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Which upgrade is audited, and what traffic is read by."""

    target: str | None = setting(
        None, "The release to upgrade to: 4.0.1, 4.3, 3.9, ... Default: the newest.", shown="RELEASE"
    )
    ports: str = setting("", "Ports of the brokers: 9092,9094-9096.", shown="PORTS")
    specs: str | None = setting(
        None, "Your own message specs (a file or folder), used before the catalog's.", shown="PATH"
    )
    verbose: bool = setting(False, "Also list what is fine, and each finding with its reason.", flag="-v --verbose")
    strict: bool = setting(False, "Exit with status 5 if part of the input could not be read.")
