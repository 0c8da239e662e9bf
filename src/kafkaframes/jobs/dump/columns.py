"""The columns of a chunk's batches and records, named as the fields of the truth files, for the lines of any format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.jobs.dump.chunks import keys_of, values_of
from kafkaframes.records import scan
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.layout import DELETE_HORIZON
from kafkaframes.records.scan import Ints

Columns = Mapping[str, Any]
NO_SEQUENCE = -1
_MOST = 2**31 - 1


def batch_columns(chunk: Decoded) -> dict[str, Any]:
    """Return one value a batch for every field of a batch; absolute positions."""
    batches = chunk.batches
    magics, attributes = batches.column("magic"), batches.column("attributes")
    modern = batches.is_v2
    base_offsets, last_offsets = chunk.base_offsets, batches.column("last_offset")
    base_sequences = batches.column("base_sequence")
    return {
        "position": batches.column("position") + chunk.base,
        "size": batches.column("size"),
        "magic": magics,
        "valid": chunk.crc_ok,
        "crc": batches.column("crc"),
        "base_offset": base_offsets,
        "last_offset": last_offsets,
        "codec": batches.codecs,
        "ts_type": scan.timestamp_types(magics, attributes) + 1,
        "max_ts": batches.column("max_timestamp"),
        "producer_id": batches.column("producer_id"),
        "producer_epoch": batches.column("producer_epoch"),
        "base_sequence": base_sequences,
        "last_sequence": sequences(base_sequences, last_offsets - base_offsets),
        "leader_epoch": batches.column("leader_epoch"),
        "transactional": batches.is_transactional,
        "control": chunk.batches.is_control,
        "delete_horizon": _horizons(batches.flag(DELETE_HORIZON), batches.column("base_timestamp")),
        "base_ts": batches.column("base_timestamp"),
        "count": np.where(modern, batches.column("count"), chunk.reached),
    }


def record_columns(chunk: Decoded) -> dict[str, Any]:
    """Return one value a record: offset, timestamp and its type, sequence, key and value with their sizes."""
    index, batches = chunk.index, chunk.batches
    types = scan.timestamp_types(batches.column("magic"), batches.column("attributes")) + 1
    base_sequences = batches.column("base_sequence")[chunk.owners]
    deltas = index.offsets - batches.column("base_offset")[chunk.owners]
    return {
        "offset": index.offsets,
        "timestamp": index.timestamps,
        "ts_type": types[chunk.owners],
        "sequence": np.where(base_sequences >= 0, sequences(base_sequences, deltas), NO_SEQUENCE),
        "key": keys_of(chunk),
        "value": values_of(chunk),
        "key_size": np.maximum(index.key_size, -1),
        "value_size": np.maximum(index.value_size, -1),
    }


def sequences(base_sequences: Ints, deltas: Ints) -> Ints:
    """Return the sequences ``deltas`` after others, in Java's ints: they wrap from 2^31-1 to 0; none stays none.

    >>> sequences(np.array([2**31 - 1, 5, -1]), np.array([1, 2, 3])).tolist()
    [0, 7, -1]
    """
    steps = _int32(deltas)
    beyond = base_sequences > _int32(_MOST - steps)
    moved = np.where(beyond, steps - (_MOST - base_sequences) - 1, base_sequences + steps)
    return np.where(base_sequences == NO_SEQUENCE, NO_SEQUENCE, _int32(moved))


def _int32(values: Ints) -> Ints:
    wrapped: Ints = (values + 2**31) % 2**32 - 2**31
    return wrapped


def _horizons(has_one: npt.NDArray[np.bool_], base_timestamps: Ints) -> pa.Array:
    """Return the delete horizons as text, null where a batch has none."""
    if not has_one.any():  # nearly always; and a mask makes pyarrow import pandas, if that is installed
        return pa.nulls(len(has_one), pa.string())
    return pa.array(base_timestamps, mask=~has_one).cast(pa.string())


def rows_of(columns: Columns, first: int, stop: int) -> dict[str, Any]:
    """Return the rows ``first`` to ``stop`` of some columns, without copying."""
    return {name: column[first:stop] for name, column in columns.items()}
