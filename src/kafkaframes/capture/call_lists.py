"""Columns of calls that are lists: error codes with their paths, and summaries of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kafkaframes.capture.bodies import ErrorCodes
from kafkaframes.capture.columns import ERRORS, RECORDS, SET
from kafkaframes.capture.packets import Ints
from kafkaframes.records.layout import CODECS


def error_column(found: Sequence[ErrorCodes], valid: Any) -> pa.Array:
    """Return the column of errors; those of a call in the order in which they were found."""
    rows = np.concatenate([np.zeros(0, np.int64), *(one.rows for one in found)])
    order = np.argsort(rows, kind="stable")
    paths = pa.concat_arrays([pa.nulls(0, pa.string()), *(one.paths for one in found)])
    codes = np.concatenate([np.zeros(0, np.int32), *(one.codes for one in found)])
    structs = pa.StructArray.from_arrays(
        [paths.take(pa.array(order)), pa.array(codes[order], pa.int32())], fields=list(ERRORS.value_type)
    )
    offsets = np.zeros(len(valid) + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=len(valid)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=ERRORS, mask=pa.array(~valid, pa.bool_()))


def summary_column(count: int, places: list[Ints], counts: list[Ints], cuts: Ints, valid: Any) -> pa.Array:
    """Return the column of records, made of columns."""
    owners = np.concatenate([np.zeros(0, np.int64), *places])
    table = np.concatenate([np.zeros((0, 72), np.int64), *counts]).reshape(-1, 24, 3)
    order = np.argsort(owners, kind="stable")
    owners, table = owners[order], table[order]
    which, kinds = np.nonzero(table[:, :, 0])
    sets = pa.StructArray.from_arrays(
        [
            pa.array(kinds // 8, pa.int32()),
            pa.array([*CODECS, *(f"unknown {n}" for n in (5, 6, 7))], pa.string()).take(
                pa.array(kinds % 8, pa.int64())
            ),
            *(pa.array(np.ascontiguousarray(table[which, kinds, place]), pa.int64()) for place in range(3)),
        ],
        fields=list(SET),
    )
    offsets = np.zeros(count + 1, np.int64)
    np.add.at(offsets, owners[which] + 1, 1)
    lists = pa.ListArray.from_arrays(pa.array(np.cumsum(offsets), pa.int32()), sets, type=RECORDS.field("sets").type)
    return pa.StructArray.from_arrays(
        [lists, pa.array(cuts, pa.int32())], fields=list(RECORDS), mask=pa.array(~valid, pa.bool_())
    )
