"""Decoding of a scan's values: each value becomes a struct, or null with the reason in the column ``_error``.

``scan.values`` is imported on first use: with ``pyarrow.compute`` it costs 65 ms, and most scans decode no values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, OptionError, format_path_error
from kafkaframes.records.arrays import repeat_value

if TYPE_CHECKING:
    from kafkaframes.scan.values.decoding import DecodingOptions

ERROR_COLUMN: Final = "_error"  # the column with the reason why a value could not be decoded
Schema = str | bytes | Mapping[str, Any] | os.PathLike[str] | None


@dataclass(frozen=True, slots=True)
class ValueDecoding:
    """A decoder of values with its error handling."""

    decoding: DecodingOptions
    raises: bool = False

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns that values are decoded from; headers may contain schema ids."""
        return ("value", "headers") if self.decoding.has_prefix else ("value",)

    @property
    def mode(self) -> str:
        """``json``, ``avro`` or ``protobuf``."""
        return self.decoding.mode

    def schema(self, plain: pa.Schema, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of decoded rows."""
        types = {"value": pa.struct(self.decoding.get_decoder().fields), ERROR_COLUMN: pa.string()}
        return pa.schema([pa.field(name, types[name]) if name in types else plain.field(name) for name in columns])

    def decode_batch(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows of a batch with decoded values.

        Raises:
            CorruptRecordError: A value cannot be decoded, and ``raises`` is set.
        """
        from kafkaframes.scan.values.columns import decode_to_struct, prepend_schema_ids

        schema = self.schema(batch.schema, columns)
        if "value" not in batch.schema.names:
            return batch
        batch_with_ids = prepend_schema_ids(batch) if self.decoding.has_prefix else batch
        values, reasons = decode_to_struct(batch_with_ids.column("value"), self.decoding.get_decoder())
        if reasons and self.raises:
            row = min(reasons)
            names = [name for name in ("topic", "partition", "offset") if name in batch.schema.names]
            location = ", ".join(f"{name} {batch.column(name)[row].as_py()}" for name in names)
            raise CorruptRecordError(f"value{' of ' if location else ''}{location}: {reasons[row]}")
        errors = repeat_value(None, pa.string(), batch.num_rows)
        if reasons:
            errors = pa.array([reasons.get(row) for row in range(batch.num_rows)], pa.string())
        new_columns = {"value": values, ERROR_COLUMN: errors}
        return pa.RecordBatch.from_arrays(
            [new_columns[name] if name in new_columns else batch.column(name) for name in columns], schema=schema
        )


@dataclass(frozen=True, slots=True)
class SchemaArguments:
    """The schema arguments of ``Scan.decode``, which determine the source of the value schema."""

    schema: Schema = None
    registry: str | None = None
    subject: str | None = None
    message: str | None = None
    other_fields: bool = True

    def create_decoding(
        self, mode: str, *, topics: Collection[str], sample: Callable[[], Iterable[bytes | None]]
    ) -> DecodingOptions:
        """Return the decoding of values, after a check that its schema is valid.

        Raises:
            OptionError, MissingExtraError, NetworkError: As for ``Scan.decode``.
        """
        from kafkaframes.scan.values.decoding import DECODE_MODES, DecodingOptions, fetch_subject_schema

        if mode not in DECODE_MODES:
            raise OptionError(f"`value` is {mode!r}; expected {', '.join(DECODE_MODES)}")
        if self.schema is not None and self.registry is not None:
            raise OptionError("`schema` and `registry` cannot be combined; specify one of them")
        if self.registry is not None:
            registered_schema = fetch_subject_schema(
                self.registry, self.subject or _find_subject_of_topics(topics), mode
            )
            decoding = DecodingOptions(
                mode, None, {}, self.registry, registered_schema, self.message or "", self.other_fields
            )
        else:
            text = _read_schema_text(self.schema)
            text = _infer_schema(sample, mode) if text is None else text
            decoding = DecodingOptions(mode, text, message=self.message or "", other_fields=self.other_fields)
        decoding.get_decoder()
        return decoding


def _find_subject_of_topics(topics: Collection[str]) -> str:
    """Return the registry subject for the values of the only topic. Raise OptionError for several topics."""
    if len(topics) != 1:
        raise OptionError("`registry` with several topics requires `subject`, whose newest schema defines the columns")
    return f"{next(iter(topics))}-value"


_JSON_FIRST_CHARACTERS: Final = ("", "{", "[", '"')  # first characters of a schema in JSON


def _read_schema_text(schema: Schema) -> bytes | None:
    """Return a schema that the caller specified as bytes, a dictionary, text or a file path."""
    if schema is None or isinstance(schema, bytes):
        return schema
    if isinstance(schema, Mapping):
        return json.dumps(schema).encode()
    if isinstance(schema, str) and not os.path.isfile(schema):
        if schema.lstrip()[:1] not in _JSON_FIRST_CHARACTERS and schema.strip() not in ("true", "false"):
            raise OptionError(f"`schema` {schema} is neither JSON nor a file")
        return schema.encode()
    try:
        return Path(schema).read_bytes()
    except OSError as error:
        raise OptionError(f"`schema`: {format_path_error(error, os.fspath(schema))}") from None


def _infer_schema(sample: Callable[[], Iterable[bytes | None]], mode: str) -> bytes:
    """Return a JSON Schema inferred from the first values."""
    from kafkaframes.scan.values.decoding import JSON, PROTOBUF
    from kafkaframes.scan.values.json_values import infer_schema

    if mode != JSON:
        advice = " (descriptors, of protoc)" if mode == PROTOBUF else ""
        raise OptionError(f"`value`={mode} requires `schema`{advice} or `registry`")
    return json.dumps(infer_schema(sample()), sort_keys=True).encode()
