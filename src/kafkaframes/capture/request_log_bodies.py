"""The bodies that a broker's request log has as JSON, turned back into messages and columns."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.capture.bodies import REQUEST, RESPONSE, WITH_RECORDS, is_known
from kafkaframes.capture.typed import ApiTypes
from kafkaframes.errors import KafkaframesError

SIZE_SUFFIX: Final = "SizeInBytes"


def with_records(value: object, records: str | None = "") -> object:
    """Put ``records`` (empty ones, or null) where a log has their size."""
    if isinstance(value, dict):
        named = {name: with_records(one, records) for name, one in value.items() if not name.endswith(SIZE_SUFFIX)}
        return named | {name.removesuffix(SIZE_SUFFIX): records for name in value if name.endswith(SIZE_SUFFIX)}
    return [with_records(one, records) for one in value] if isinstance(value, list) else value


def typed_columns(rows: Sequence[dict[str, Any]], types: ApiTypes) -> Mapping[str, pa.Array]:
    """Return requests and responses of one API as structs; what a row lacks is null, and its ``_error`` says why."""
    return {direction: _typed(rows, types, direction) for direction in (REQUEST, RESPONSE)}


def _typed(rows: Sequence[dict[str, Any]], types: ApiTypes, direction: str) -> pa.Array:
    messages: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for place, row in enumerate(rows):
        if row[direction] is None:
            continue  # the row says so already
        data = _encoded(row, types, direction)
        if data is not None:
            messages[row["apiVersion"]].append((place, data))
    kind = types.type_of(direction)
    parts, which = [pa.nulls(0, kind)], np.full(len(rows), -1, np.int64)
    count = 0
    for version, some in messages.items():
        cls = types.apis.message_class(types.api_key, direction, version)
        found = cls.decode_columns([data for _, data in some], version)
        parts.append(types.aligned(found, found.field("_error"), direction))
        which[[place for place, _ in some]] = count + np.arange(len(some))
        count += len(some)
    return pa.concat_arrays(parts).take(pa.array(which, pa.int64(), mask=which < 0))


def _encoded(row: dict[str, Any], types: ApiTypes, direction: str) -> bytes | None:
    """Return a logged body as bytes; where that cannot be, say so in the row."""
    key, version, apis = types.api_key, row["apiVersion"], types.apis
    if not is_known(key, version, direction, apis):
        _add_error(row, f"{direction}: version {version} is not known")
        return None
    try:
        body = apis.message_class(key, direction, version).from_json(
            with_records(json.loads(row[direction]), None), version
        )
        data: bytes = body.encode(version)
    except (KafkaframesError, TypeError) as error:
        _add_error(row, f"{direction}: {error}")
        return None
    if (key, direction) in WITH_RECORDS:
        _add_error(row, f"{direction}: a request log has the size of records only")
    return data


def _add_error(row: dict[str, Any], text: str) -> None:
    row["_error"] = text if row["_error"] is None else f"{row['_error']}; {text}"
