"""A table as its settings say: opened at its place, and how its values are decoded.

Values are decoded by files of schemas, by a registry, or by what the first values are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.task import OWN, ExportTask, SegmentResult, Settings, copy_segment
from kafkaframes.jobs.tables import delta, iceberg
from kafkaframes.jobs.tables.committing import RUNS
from kafkaframes.jobs.tables.content import Content
from kafkaframes.jobs.tables.files import TopicTask, copy_topic
from kafkaframes.jobs.tables.parquet import COMMITS, ParquetTable
from kafkaframes.jobs.tables.run import Plan
from kafkaframes.jobs.tables.settings import PROTOBUF, RAW, TableSettings
from kafkaframes.jobs.tables.state import Table, TableState
from kafkaframes.records.memory import lent_memory
from kafkaframes.scan.values.decoding import JSON, Decoding, subject_schema
from kafkaframes.scan.values.json_values import infer_schema
from kafkaframes.scan.values.registry import Registry
from kafkaframes.storage.files.atomic import refuse_inside

DEAD_SUFFIX = "-dead-letters"


def open_table(
    form: str, to: str, *, catalog: str | None = None, name: str | None = None, is_of_dead_letters: bool = False
) -> Table:
    """Return the table at a place, there or yet to be made.

    Args:
        form: ``delta``, ``iceberg``, or ``parquet``: plain files.
        to: the place; Iceberg's may be empty where there is a catalog.
        catalog, name: Iceberg: of pyiceberg's configuration; NAMESPACE.NAME.
        is_of_dead_letters: Iceberg: the table of these that belongs to the one with the name.

    Raises:
        MissingExtraError: the format's library is absent.
        OptionError: there is no such catalog; there are other files, or (Parquet) the place is not of this machine.
    """
    if form == "parquet":
        return ParquetTable(to if "://" in to else destination(to, COMMITS))
    if form == "delta":
        delta.load_library()
        return delta.DeltaTable(destination(to, "_delta_log"))
    iceberg.load_library()
    name = (name or iceberg.DEFAULT_NAME) + ("_dead_letters" if is_of_dead_letters else "")
    if catalog is not None:
        url = iceberg.url_of(to if "://" in to else str(Path(to).absolute()))
        return iceberg.IcebergTable(iceberg.open_catalog(catalog, None), name, location=to and url)
    return iceberg.IcebergTable(
        iceberg.open_catalog(None, to if "://" in to else destination(to, iceberg.CATALOG_FILE)), name
    )


@dataclass(frozen=True)
class Tables:
    """The two tables, opened anew for each round."""

    table: Callable[[], Table]
    dead_letters: Callable[[], Table]


def tables_of(form: str, to: str, settings: TableSettings, *, sources: Sequence[str]) -> Tables:
    """Open a table and that of its dead letters: both formats' libraries are loaded, and both places looked at.

    Args:
        form, to: as for ``open_table``.
        sources: log directories, inside which nothing is written.

    Raises:
        OptionError: settings do not fit the format, or there are other files.
        MissingExtraError: the format's library is absent.
    """
    if not to.rstrip("/"):
        raise OptionError(f"`to` {form} {to!r}: must be a directory")
    for name in ("catalog", "table"):
        if getattr(settings, name) is not None and form != "iceberg":
            raise OptionError(f"`{name}` is for `to` iceberg")
    if settings.is_latest and form == "parquet":
        raise OptionError(
            "`mode` latest: rows of Parquet files cannot be replaced by key: `to` delta or `to` iceberg has them; "
            "`mode` raw keeps every record"
        )
    if settings.dead_letters is not None and form == "iceberg":
        raise OptionError(
            "`dead_letters` cannot be set: for an Iceberg table they are in TABLE_dead_letters of its catalog"
        )
    beside = settings.dead_letters or f"{to.rstrip('/')}{DEAD_SUFFIX}"
    named = partial(open_table, form, catalog=settings.catalog, name=settings.table)
    dead = partial(named, to if form == "iceberg" else beside, is_of_dead_letters=True)
    tables = Tables(partial(named, to), dead)
    for path in (to, beside):
        if "://" not in path:
            refuse_inside(Path(path), sources)
    tables.table()
    tables.dead_letters()
    return tables


def destination(to: str, sign: str) -> str:
    """Return where a table is or may be made.

    Args:
        sign: what a directory holds that has one.

    Raises:
        OptionError: there are other files.
    """
    to = to.removeprefix("file://")
    if "://" in to:
        return to.rstrip("/")
    root = Path(to).absolute()
    if root.exists() and not root.is_dir():
        raise OptionError(f"`to` {to}: is a file")
    if root.is_dir() and not (root / sign).exists():
        others = [path.name for path in root.iterdir() if path.name != OWN]
        is_begun = (root / RUNS).is_dir()  # by a run that was killed before its first commit, or is at it now
        if (others and not is_begun) or (root / OWN / "export.json").exists():
            raise OptionError(f"`to` {to}: holds other files, and no table")
    return str(root)


# ------------------------------------------------------------------------------------------------------------- values


_PROTOC = "protoc --include_imports --descriptor_set_out=FILE"  # flags of its own, not of a command of ours
SAMPLED_VALUES = 1_000  # of each topic partition
INFERRED = "schema"  # the table's setting that keeps an inferred schema


@dataclass(frozen=True)
class Values:
    """What the settings say of values.

    Attributes:
        schema, by_id: files' contents, of the table and of ids.
        subject: whose newest schema of the registry the table has.
    """

    settings: TableSettings
    schema: bytes | None
    by_id: Mapping[int, bytes]
    subject: str

    @property
    def is_inferred(self) -> bool:
        """Whether the first values say the columns."""
        return self.settings.decoded == JSON and self.schema is None and self.settings.registry is None

    def check(self) -> None:
        """Check what needs neither brokers nor a registry: its address, the schemas of files, the format's library.

        Raises:
            OptionError: one of the first two is wrong.
            MissingExtraError: the library is absent.
        """
        settings = self.settings
        if settings.registry is not None:
            Registry(settings.registry)
        elif self.schema is not None:
            Decoding(settings.decoded, self.schema, self.by_id, message=settings.message or "").decoder()

    def content(self, state: TableState | None, plan: Plan, files: Settings) -> Content:
        """Return how rows are made; a registry is asked, or values are looked at, where that has to be.

        Raises:
            OptionError: no schema can be had, or it does not fit.
            NetworkError: the registry does not answer.
        """
        mode, registry = self.settings.decoded, self.settings.registry
        if mode == RAW:
            return Content(None, self.settings.is_latest)
        registered = None if registry is None else subject_schema(registry, self.subject, mode)
        schema = self._inferred(state, plan, files) if self.is_inferred else self.schema
        decoding = Decoding(mode, schema, self.by_id, registry, registered, self.settings.message or "")
        decoding.decoder()
        return Content(decoding, self.settings.is_latest)

    def _inferred(self, state: TableState | None, plan: Plan, files: Settings) -> bytes:
        """Return the schema that the table was begun with, or that of the first values."""
        known = (state.settings or {}).get(INFERRED) if state is not None else None
        if isinstance(known, str):
            return known.encode()
        result = infer_schema(sample_values(plan(None).tasks, files))
        return json.dumps(result, sort_keys=True).encode()

    def chosen(self, content: Content) -> dict[str, Any]:
        """Return what every run into the table must agree on; nothing for a table as ``export`` makes it."""
        mode = self.settings.decoded
        chosen: dict[str, Any] = {} if mode == RAW else {"value": mode}
        if self.settings.is_latest:
            chosen["latest"] = True
        if self.is_inferred and content.decoding is not None:
            chosen[INFERRED] = (content.decoding.schema or b"").decode()
        return chosen


def values_of(topics: Sequence[str], settings: TableSettings) -> Values:
    """Read the files of schemas.

    Args:
        topics: that the source names; several, or none named, have no one subject.

    Raises:
        OptionError: there is no one subject, or a file cannot be used.
    """
    schema, by_id = _schemas(settings.schemas, settings.decoded)
    return Values(settings, schema, by_id, _subject(topics, settings))


def _subject(topics: Sequence[str], settings: TableSettings) -> str:
    if settings.registry is None or settings.subject:
        return settings.subject or ""
    if len(topics) != 1 or any(mark in topics[0] for mark in "*?["):
        raise OptionError("`registry`: with several topics, set `subject`: the table gets its newest schema")
    return f"{topics[0]}-value"


def _schemas(texts: Sequence[str], mode: str) -> tuple[bytes | None, dict[int, bytes]]:
    """Return the table's schema, and those by id: of these the greatest id is the table's."""
    plain: list[bytes] = []
    by_id: dict[int, bytes] = {}
    for text in texts:
        number, equals, path = text.partition("=")
        if equals and number.isdecimal():
            by_id[int(number)] = _read(path, mode)
        else:
            plain.append(_read(text, mode))
    if len(plain) > 1 or (plain and by_id):
        raise OptionError("`schemas`: one FILE, or ID=FILE for each id that values begin with")
    if by_id:
        return by_id[max(by_id)], by_id
    return (plain[0] if plain else None), {}


def _read(path: str, mode: str) -> bytes:
    if mode == PROTOBUF and path.endswith(".proto"):
        raise OptionError(f"`schemas` {path}: must be descriptors: {_PROTOC} {path}")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"`schemas` {path}: {error.strerror}") from None


class _EnoughError(Exception):
    """The sample is full."""


def sample_values(tasks: Iterable[ExportTask], settings: Settings) -> list[bytes | None]:
    """Return the first values of each topic partition, at most ``SAMPLED_VALUES``, of its first task."""
    firsts: dict[tuple[str, int], ExportTask] = {}
    for task in tasks:
        firsts.setdefault((task.topic, task.partition), task)
    return [value for task in firsts.values() for value in _values(task, settings)]


def _values(task: ExportTask, settings: Settings) -> list[bytes | None]:
    sampled: list[bytes | None] = []

    def take(batch: pa.RecordBatch) -> None:
        sampled.extend(batch.column("value").slice(0, SAMPLED_VALUES - len(sampled)).to_pylist())
        if len(sampled) >= SAMPLED_VALUES:
            raise _EnoughError

    result = SegmentResult(task)
    try:
        with lent_memory() as memory:
            if isinstance(task, TopicTask):
                copy_topic(result, task, settings, take, memory=memory)
            else:
                copy_segment(result, settings, take, memory=memory)
    except _EnoughError:
        pass
    return sampled
