"""Open a table by its settings, and determine how its values are decoded.

Values are decoded with schema files, with a schema registry, or with a schema inferred from the first values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError, format_path_error
from kafkaframes.jobs.export.positions import Plan
from kafkaframes.jobs.export.task import OWN_DIRECTORY, ExportTask, ExportTaskSettings, SegmentResult
from kafkaframes.jobs.tables import delta, iceberg
from kafkaframes.jobs.tables.committing import RUNS_DIRECTORY
from kafkaframes.jobs.tables.content import TableContent
from kafkaframes.jobs.tables.parquet import COMMITS_DIRECTORY, ParquetTable
from kafkaframes.jobs.tables.settings import PROTOBUF, RAW, TopicTableSettings
from kafkaframes.jobs.tables.state import Table, TableState
from kafkaframes.records.memory import borrow_memory
from kafkaframes.scan.values.decoding import AVRO, JSON, DecodingOptions, fetch_subject_schema
from kafkaframes.scan.values.json_values import infer_schema
from kafkaframes.scan.values.registry import SchemaRegistry
from kafkaframes.storage.files.atomic import reject_nested_destination

DEAD_LETTERS_SUFFIX = "-dead-letters"


def open_table(
    form: str, to: str, *, catalog: str | None = None, name: str | None = None, is_of_dead_letters: bool = False
) -> Table:
    """Return the table at a location, whether or not it exists.

    Args:
        form: ``delta``, ``iceberg``, or ``parquet`` for plain files.
        to: location. ``to`` may be empty for Iceberg if a catalog is given.
        catalog: for Iceberg: name of a catalog in pyiceberg's configuration.
        name: for Iceberg: NAMESPACE.NAME of the table.
        is_of_dead_letters: for Iceberg: whether to return the dead-letter table of that table.

    Raises:
        MissingExtraError: the library of the format is not installed.
        OptionError: the catalog does not exist, the location has other files, or (Parquet) it is not a local path.
    """
    if form == "parquet":
        return ParquetTable(to if "://" in to else parse_destination(to, COMMITS_DIRECTORY))
    if form == "delta":
        delta.load_library()
        return delta.DeltaTable(parse_destination(to, "_delta_log"))
    iceberg.load_library()
    name = (name or iceberg.DEFAULT_TABLE_NAME) + ("_dead_letters" if is_of_dead_letters else "")
    if catalog is not None:
        url = iceberg.to_url(to if "://" in to else str(Path(to).absolute()))
        return iceberg.IcebergTable(iceberg.open_catalog(catalog, None), name, location=to and url)
    return iceberg.IcebergTable(
        iceberg.open_catalog(None, to if "://" in to else parse_destination(to, iceberg.CATALOG_FILE)), name
    )


@dataclass(frozen=True)
class TableOpeners:
    """A pair of functions that open a table and its dead-letter table.

    A continuous run opens both again for each increment.
    """

    table: Callable[[], Table]
    dead_letters: Callable[[], Table]


def open_tables(to: str, settings: TopicTableSettings, *, sources: Sequence[str]) -> TableOpeners:
    """Return a table and its dead-letter table, after loading their libraries and checking both locations.

    Args:
        to: location of the table.
        settings: settings of the user, such as format, mode and catalog.
        sources: log directories, inside which no table may be written.

    Raises:
        OptionError: a setting does not apply to the format, or a location has other files.
        MissingExtraError: the library of the format is not installed.
    """
    table_format = settings.format
    if not to.rstrip("/") and not (table_format == "iceberg" and settings.catalog is not None):
        raise OptionError(f"`to` {table_format} {to!r} must be a directory")
    for name in ("catalog", "table"):
        if getattr(settings, name) is not None and table_format != "iceberg":
            raise OptionError(f"`{name}` requires the format iceberg")
    if settings.is_latest and table_format == "parquet":
        raise OptionError(
            "`mode`=latest requires the format delta or iceberg, because rows of Parquet files cannot be replaced by "
            "key; `mode`=raw keeps every record"
        )
    if settings.dead_letters is not None and table_format == "iceberg":
        raise OptionError(
            "`dead_letters` cannot be combined with the format iceberg, whose dead letters are in TABLE_dead_letters "
            "of the catalog"
        )
    dead_letter_path = settings.dead_letters or f"{to.rstrip('/')}{DEAD_LETTERS_SUFFIX}"
    open_named_table = partial(open_table, table_format, catalog=settings.catalog, name=settings.table)
    dead_letter_table = partial(
        open_named_table, to if table_format == "iceberg" else dead_letter_path, is_of_dead_letters=True
    )
    tables = TableOpeners(partial(open_named_table, to), dead_letter_table)
    for path in (to, dead_letter_path):
        if "://" not in path:
            reject_nested_destination(Path(path), sources)
    tables.table()
    tables.dead_letters()
    return tables


def parse_destination(to: str, sign: str) -> str:
    """Return the path of a directory that has a table or in which one can be created.

    Args:
        to: path of the directory.
        sign: name of a file or subdirectory that every table of this format has.

    Raises:
        OptionError: the directory has other files.
    """
    to = to.removeprefix("file://")
    if "://" in to:
        return to.rstrip("/")
    root = Path(to).absolute()
    if root.exists() and not root.is_dir():
        raise OptionError(f"`to` {to}: is a file")
    if root.is_dir() and not (root / sign).exists():
        other_entries = [path.name for path in root.iterdir() if path.name != OWN_DIRECTORY]
        is_begun = (root / RUNS_DIRECTORY).is_dir()  # a run was killed before its first commit, or is running now
        if (other_entries and not is_begun) or (root / OWN_DIRECTORY / "export.json").exists():
            raise OptionError(f"`to` {to}: the directory has other files, but no table; choose an empty directory")
    return str(root)


# ------------------------------------------------------------------------------------------------------------- values


_PROTOC_COMMAND = "protoc --include_imports --descriptor_set_out=FILE"  # flags of protoc, not of a kafkaframes command
MAX_SAMPLED_VALUES = 1_000  # largest number of values in the sample of a topic partition
INFERRED_SCHEMA_SETTING = "schema"  # the table's setting that stores an inferred schema


@dataclass(frozen=True)
class ValueSettings:
    """Settings for decoding values into columns, with the contents of schema files.

    Attributes:
        settings: settings of the user, such as format, mode and catalog.
        schema: contents of the table's schema file; None if no file is given.
        by_id: contents of schema files by schema id.
        subject: registry subject whose newest schema defines the table's columns.
    """

    settings: TopicTableSettings
    schema: bytes | None
    by_id: Mapping[int, bytes]
    subject: str

    @property
    def is_inferred(self) -> bool:
        """Whether the columns are inferred from the first values."""
        return self.settings.decoding_mode == JSON and self.schema is None and self.settings.registry is None

    def check_early(self) -> None:
        """Check everything that needs neither brokers nor a registry: the registry URL, schema files, and the library.

        Raises:
            OptionError: the registry URL or a schema is invalid.
            MissingExtraError: the library of the value format is not installed.
        """
        settings = self.settings
        if settings.registry is not None:
            SchemaRegistry(settings.registry)
        elif self.schema is not None:
            DecodingOptions(
                settings.decoding_mode, self.schema, self.by_id, message=settings.message or ""
            ).get_decoder()

    def choose_content(self, state: TableState | None, plan: Plan, files: ExportTaskSettings) -> TableContent:
        """Return the content of the table: how values are decoded, and whether it has one row per key.

        If necessary, fetch the schema from a registry or infer it from values.

        Raises:
            OptionError: no schema is available, or the schema does not match the table.
            NetworkError: the registry does not respond.
        """
        mode, registry = self.settings.decoding_mode, self.settings.registry
        if mode == RAW:
            return TableContent(None, self.settings.is_latest)
        registered_schema = None if registry is None else fetch_subject_schema(registry, self.subject, mode)
        schema = self._infer_schema(state, plan, files) if self.is_inferred else self.schema
        decoding = DecodingOptions(mode, schema, self.by_id, registry, registered_schema, self.settings.message or "")
        decoding.get_decoder()
        return TableContent(decoding, self.settings.is_latest)

    def _infer_schema(self, state: TableState | None, plan: Plan, files: ExportTaskSettings) -> bytes:
        """Return the schema with which the table was created, or infer one from the first values."""
        inferred_schema = (state.settings or {}).get(INFERRED_SCHEMA_SETTING) if state is not None else None
        if isinstance(inferred_schema, str):
            return inferred_schema.encode()
        result = infer_schema(sample_values(plan(None).tasks, files))
        return json.dumps(result, sort_keys=True).encode()

    def make_stored_value_settings(self, content: TableContent) -> dict[str, Any]:
        """Return the value settings that must be the same in every run into the table.

        An empty result means that values are not decoded and all records are kept.
        """
        mode = self.settings.decoding_mode
        value_settings: dict[str, Any] = {} if mode == RAW else {"value": mode}
        if self.settings.is_latest:
            value_settings["latest"] = True
        if self.is_inferred and content.decoding is not None:
            value_settings[INFERRED_SCHEMA_SETTING] = (content.decoding.schema or b"").decode()
        return value_settings


def read_value_settings(topics: Sequence[str], settings: TopicTableSettings) -> ValueSettings:
    """Read the schema files.

    Args:
        topics: names of the source's topics. The subject can only be derived from a single topic.
        settings: settings of the user, such as format, mode and catalog.

    Raises:
        OptionError: a schema is missing, there is not exactly one subject, or a file cannot be used.
    """
    if settings.decoding_mode in (AVRO, PROTOBUF) and not settings.schemas and settings.registry is None:
        raise OptionError(
            f"`mode` {settings.decoding_mode}: set `schemas` FILE or `registry` URL, "
            "because values are decoded with a schema"
        )
    schema, schemas_by_id = _read_schemas(settings.schemas, settings.decoding_mode)
    return ValueSettings(settings, schema, schemas_by_id, _choose_subject(topics, settings))


def _choose_subject(topics: Sequence[str], settings: TopicTableSettings) -> str:
    """Return the registry subject whose newest schema defines the table's columns; "" if there is none."""
    if settings.registry is None or settings.subject:
        return settings.subject or ""
    if len(topics) != 1 or any(placeholder in topics[0] for placeholder in "*?["):
        raise OptionError("`registry` with several topics requires `subject`, whose newest schema defines the columns")
    return f"{topics[0]}-value"


def _read_schemas(texts: Sequence[str], mode: str) -> tuple[bytes | None, dict[int, bytes]]:
    """Return the table's schema and the schemas by id.

    If all schemas have ids, the schema with the largest id defines the table's columns.
    """
    schemas_without_id: list[bytes] = []
    schemas_by_id: dict[int, bytes] = {}
    for text in texts:
        number, equals, path = text.partition("=")
        if equals and number.isdecimal():
            schemas_by_id[int(number)] = _read_schema_file(path, mode)
        else:
            schemas_without_id.append(_read_schema_file(text, mode))
    if len(schemas_without_id) > 1 or (schemas_without_id and schemas_by_id):
        raise OptionError("`schemas` must be a single FILE, or ID=FILE for each schema id in the values")
    if schemas_by_id:
        return schemas_by_id[max(schemas_by_id)], schemas_by_id
    return (schemas_without_id[0] if schemas_without_id else None), {}


def _read_schema_file(path: str, mode: str) -> bytes:
    """Return the contents of a schema file."""
    if mode == PROTOBUF and path.endswith(".proto"):
        raise OptionError(f"`schemas` {path}: must be a file of descriptors; create it with {_PROTOC_COMMAND} {path}")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"`schemas`: {format_path_error(error, path)}") from None


class _SampleCompleteError(Exception):
    """Raised to end a read early, because the sample of records is complete."""


def sample_values(tasks: Iterable[ExportTask], settings: ExportTaskSettings) -> list[bytes | None]:
    """Return the first values of each topic partition's first task, at most ``MAX_SAMPLED_VALUES`` each."""
    first_tasks: dict[tuple[str, int], ExportTask] = {}
    for task in tasks:
        first_tasks.setdefault((task.topic, task.partition), task)
    return [value for task in first_tasks.values() for value in _sample_task(task, settings)]


def _sample_task(task: ExportTask, settings: ExportTaskSettings) -> list[bytes | None]:
    """Return the first values of a task."""
    sample: list[bytes | None] = []

    def take(batch: pa.RecordBatch) -> None:
        sample.extend(batch.column("value").slice(0, MAX_SAMPLED_VALUES - len(sample)).to_pylist())
        if len(sample) >= MAX_SAMPLED_VALUES:
            raise _SampleCompleteError

    result = SegmentResult(task)
    try:
        with borrow_memory() as memory:
            task.copy_records(result, settings, take, memory=memory)
    except _SampleCompleteError:
        pass
    return sample
