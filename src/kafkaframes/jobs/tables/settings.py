"""Define the settings of a table of records: decoding of values, source of schemas, commit interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import ConditionSettings, LogSourceSettings
from kafkaframes.jobs.settings import setting
from kafkaframes.scan.selection import Isolation

RAW, LATEST, PROTOBUF = "raw", "latest", "protobuf"
MAX_LOG_BYTES_PER_COMMIT = 512 << 20  # largest amount of log in one commit; a killed run repeats at most this amount


@dataclass(frozen=True, kw_only=True)
class TopicTableSettings(ConditionSettings):
    """Settings of ``table_topics``."""

    isolation: Isolation = setting("read_committed", "read_committed omits records of aborted and open transactions.")
    format: Literal["delta", "iceberg", "parquet"] = setting("parquet", "Format of the table.")

    mode: Literal["raw", "json", "avro", "protobuf", "latest"] = setting(
        "raw",
        "Decoding of values: raw bytes, or columns from JSON, Avro or Protobuf; latest keeps one row for each key.",
    )
    value: Literal["raw", "json", "avro", "protobuf"] | None = setting(
        None, "With --mode latest: decoding of values. Default: raw."
    )
    schemas: Sequence[str] = setting(
        (),
        "Schema file: JSON Schema, .avsc or Protobuf descriptors. ID=FILE for values with a registry's "
        "prefix; repeatable.",
        flag="--schema",
        default_text="[ID=]FILE",
    )
    registry: str | None = setting(
        None,
        "A schema registry, http(s)://[user:password@]host[:port].",
        default_text="URL",
        is_recorded=False,
        secret=True,
    )
    subject: str | None = setting(
        None, "Registry subject whose newest schema defines the columns. Default: TOPIC-value.", default_text="NAME"
    )
    message: str | None = setting(
        None, "Full name of the Protobuf message. Default: the first message in the file.", default_text="NAME"
    )
    dead_letters: str | None = setting(
        None, "Table for records that cannot be decoded. Default: DIR-dead-letters.", default_text="DIR"
    )
    continuous: bool = setting(False, "Keep running and add new records, until Ctrl-C or SIGTERM.")
    interval: float = setting(
        60.0,
        "With --continuous: minimum time between two commits, in seconds. A shorter time creates smaller files.",
        minimum=0.1,
        default_text="SECONDS",
    )
    commit_bytes: int = setting(
        MAX_LOG_BYTES_PER_COMMIT,
        "Bytes of log in one commit. If the run is killed, at most one commit has to be repeated.",
        minimum=1,
        flag="--commit-every",
        default_text="SIZE",
    )
    overwrite: bool = setting(False, "Replace the table's content in one commit.")
    catalog: str | None = setting(
        None, "Iceberg catalog in the configuration of pyiceberg. Default: DIR/catalog.db.", default_text="NAME"
    )
    table: str | None = setting(None, "Iceberg table in the catalog. Default: kafka.records.", default_text="NS.NAME")

    def _reject_conflicts(self) -> None:
        if self.overwrite and (self.continuous or self.is_latest):
            other = "`continuous`" if self.continuous else "`mode` latest"
            raise OptionError(f"`overwrite` replaces the content once, and cannot be combined with {other}")
        if self.value is not None and not self.is_latest:
            raise OptionError("`value` requires `mode`=latest, because other modes specify the decoding of values")
        for name in ("schemas", "registry", "subject", "message"):
            if getattr(self, name) and self.decoding_mode == RAW:
                raise OptionError(
                    f"`{name}` cannot be combined with raw values; set `mode` to json, avro or protobuf to decode "
                    "values"
                )
        if self.schemas and self.registry:
            raise OptionError("`schemas` and `registry` cannot be combined")
        if self.subject and not self.registry:
            raise OptionError("`subject` requires `registry`")
        if self.message and self.decoding_mode != PROTOBUF:
            raise OptionError("`message` requires `mode`=protobuf")

    @property
    def is_latest(self) -> bool:
        """Whether the table has one row for each key."""
        return self.mode == LATEST

    @property
    def decoding_mode(self) -> str:
        """The decoding of values: ``raw``, or one of ``decoding.MODES``."""
        return (self.value or RAW) if self.is_latest else self.mode


@dataclass(frozen=True, kw_only=True)
class TableSettings(LogSourceSettings, TopicTableSettings):
    """Settings of ``table_log``."""

    isolation: Isolation = setting("read_committed", "read_committed omits records of aborted and open transactions.")
