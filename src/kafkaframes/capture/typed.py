"""Convert the bodies of one API to structs of a single type, which covers all versions.

The struct has the fields of all versions. A field that a version lacks is null. Bodies in a broker's request log, which
are JSON, are converted to the same struct type.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.capture.bodies import MessageKind
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.errors.sensitive import (
    CONFIG_FIELDS,
    CONFIG_NAME_FIELDS,
    REQUEST,
    RESPONSE,
    SECRET_FIELDS,
    find_envelope_field,
    is_secret,
)
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry

Path = tuple[str, ...]


class ApiTypes:
    """The Arrow struct types of an API's requests and responses."""

    def __init__(self, api: str, *, secrets: bool = False, apis: ApiRegistry = CATALOG) -> None:
        """Look up an API by its name or number.

        Raises:
            OptionError: the API does not exist.
        """
        try:
            self.api = apis.find_api(api)
        except OptionError as error:
            raise OptionError(f"api={api}: {error}") from None
        self.apis = apis
        self.api_key = self.api.key
        self.secrets = secrets

    @cached_property
    def request_type(self) -> pa.DataType:
        """The type of requests."""
        return self._merge_version_types(REQUEST)

    @cached_property
    def response_type(self) -> pa.DataType:
        """The type of responses."""
        return self._merge_version_types(RESPONSE)

    def get_type(self, direction: str) -> pa.DataType:
        """Return the type of requests or responses."""
        return self.request_type if direction == REQUEST else self.response_type

    def _merge_version_types(self, direction: str) -> pa.DataType:
        """Return the type with the fields of all versions."""
        versions = range(self.api.versions.highest, self.api.versions.lowest - 1, -1)
        kinds = (MessageKind(self.api_key, version, direction, self.apis) for version in versions)
        return _merge_types([kind.decode_columns([]).type.field("body").type for kind in kinds if kind.is_known])

    def align_bodies(self, body: pa.StructArray, errors: pa.Array, direction: str) -> pa.Array:
        """Convert bodies of one version to the common type. Bodies with an error and credentials become null."""
        hidden_paths = frozenset() if self.secrets else frozenset(SECRET_FIELDS.get((self.api_key, direction), ()))
        name = None if self.secrets else find_envelope_field(self.api_key, direction)
        hidden_paths |= {(name,)} if name is not None else set()
        configs = frozenset() if self.secrets else frozenset(CONFIG_FIELDS.get((self.api_key, direction), ()))
        result = _align_array(body, self.get_type(direction), (), hidden_paths, configs)
        return (
            pc.if_else(errors.is_null(), result, pa.nulls(len(result), result.type))
            if errors.null_count < len(errors)
            else result
        )


def _merge_types(kinds: Iterable[pa.DataType]) -> pa.DataType:
    """Return a struct type with the fields of all given types, in the order of their first occurrence."""
    kinds = list(kinds)
    first = kinds[0]
    if pa.types.is_struct(first):
        by_name: dict[str, list[pa.DataType]] = {}
        for kind in kinds:
            for field in kind:
                by_name.setdefault(field.name, []).append(field.type)
        return pa.struct([(name, _merge_types(types)) for name, types in by_name.items()])
    if pa.types.is_list(first):
        return pa.list_(pa.field("element", _merge_types([kind.value_type for kind in kinds])))
    return pa.binary() if pa.types.is_fixed_size_binary(first) else first


def _align_array(
    array: Any, kind: pa.DataType, path: Path, hidden_paths: frozenset[Path], configs: frozenset[Path]
) -> pa.Array:
    """Return an array with the fields of ``kind``. Fields at hidden paths and credentials become null."""
    if path in hidden_paths:
        return pa.nulls(len(array), kind)
    if pa.types.is_struct(kind):
        parts = []
        for field in kind:
            if array.type.get_field_index(field.name) < 0:
                parts.append(pa.nulls(len(array), field.type))
            else:
                deeper = (*path, field.name)
                parts.append(_align_array(array.field(field.name), field.type, deeper, hidden_paths, configs))
        if path in configs:
            parts = _remove_secret_values(parts, kind)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = _align_array(array.values, kind.value_type, path, hidden_paths, configs)
        return pa.ListArray.from_arrays(
            array.offsets, values, type=kind, mask=array.is_null() if array.null_count else None
        )
    return array.cast(kind)


def _remove_secret_values(parts: list[pa.Array], kind: pa.DataType) -> list[pa.Array]:
    """Set the values of secret configurations, which are identified by name, to null."""
    names = max(kind.get_field_index(name) for name in CONFIG_NAME_FIELDS)
    values = kind.get_field_index("value")
    if names < 0 or values < 0:
        return parts
    secret = [name for name in pc.unique(parts[names]).to_pylist() if name is not None and is_secret(name)]
    hidden = pc.is_in(parts[names], pa.array(secret, pa.string()))
    parts[values] = pc.if_else(hidden, pa.scalar(None, pa.string()), parts[values])
    return parts


RECORDS_SIZE_SUFFIX: Final = "SizeInBytes"


def replace_record_sizes(value: object, records: str | None = "") -> object:
    """Replace the record sizes of a request log with a ``records`` field (empty or null)."""
    if isinstance(value, dict):
        fields_without_sizes = {
            name: replace_record_sizes(item, records)
            for name, item in value.items()
            if not name.endswith(RECORDS_SIZE_SUFFIX)
        }
        return fields_without_sizes | {
            name.removesuffix(RECORDS_SIZE_SUFFIX): records for name in value if name.endswith(RECORDS_SIZE_SUFFIX)
        }
    return [replace_record_sizes(item, records) for item in value] if isinstance(value, list) else value


def build_typed_columns(rows: Sequence[dict[str, Any]], types: ApiTypes) -> Mapping[str, pa.Array]:
    """Return requests and responses of one API as structs, null if missing; ``_error`` then contains the reason."""
    return {direction: _build_structs(rows, types, direction) for direction in (REQUEST, RESPONSE)}


def _build_structs(rows: Sequence[dict[str, Any]], types: ApiTypes, direction: str) -> pa.Array:
    """Return the logged bodies as structs of the common type. The bodies are encoded and decoded again, by version."""
    messages: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row[direction] is None:
            continue  # the row already has an error
        data = _encode_body(row, types, direction)
        if data is not None:
            messages[row["apiVersion"]].append((index, data))
    kind = types.get_type(direction)
    parts, value_indexes = [pa.nulls(0, kind)], np.full(len(rows), -1, np.int64)
    count = 0
    for version, indexed_bodies in messages.items():
        cls = types.apis.message_class(types.api_key, direction, version)
        result = cls.decode_columns([data for _, data in indexed_bodies], version)
        parts.append(types.align_bodies(result, result.field("_error"), direction))
        value_indexes[[index for index, _ in indexed_bodies]] = count + np.arange(len(indexed_bodies))
        count += len(indexed_bodies)
    return pa.concat_arrays(parts).take(pa.array(value_indexes, pa.int64(), mask=value_indexes < 0))


def _encode_body(row: dict[str, Any], types: ApiTypes, direction: str) -> bytes | None:
    """Return a logged body as bytes, or None with an error added to the row if it cannot be encoded."""
    version = row["apiVersion"]
    kind = MessageKind(types.api_key, version, direction, types.apis)
    if not kind.is_known:
        _add_error(row, f"{direction}: version {version} is not known")
        return None
    try:
        body = kind.message_class.from_json(replace_record_sizes(json.loads(row[direction]), None), version)
        data: bytes = body.encode(version)
    except (KafkaframesError, TypeError) as error:
        _add_error(row, f"{direction}: {error}")
        return None
    if kind.has_records:
        _add_error(row, f"{direction}: a request log contains only the size of records")
    return data


def _add_error(row: dict[str, Any], text: str) -> None:
    row["_error"] = text if row["_error"] is None else f"{row['_error']}; {text}"
