"""The batches do not depend on the sizes of the pieces in which rows are added."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.records.build import build_records
from kafkaframes.storage.log.batch_builder import BatchBuilder


@given(
    st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from([(2, "none"), (2, "lz4"), (1, "gzip"), (1, "none"), (0, "snappy")]),
    st.integers(60, 2000),
)
def test_batches_do_not_depend_on_how_rows_are_added(sizes, cuts, kind, batch_bytes):
    count = len(sizes)
    whole = pa.table(
        {
            "offset": list(range(5, 5 + 2 * count, 2)),
            "timestamp": list(range(count)),
            "value": [b"x" * size for size, _ in sizes],
            "timestampType": pa.array([int(is_append) for _, is_append in sizes], pa.int32()),
        }
    )
    options = {"record_format": kind[0], "codec": kind[1], "batch_bytes": batch_bytes}
    at_once, in_pieces = BatchBuilder(**options), BatchBuilder(**options)
    first = b"".join([*at_once.add(whole), *at_once.finish()])
    pieces = []
    for start, stop in pairwise([0, *sorted(min(cut_at, count) for cut_at in cuts), count]):
        pieces += in_pieces.add(whole.slice(start, stop - start))
    assert b"".join([*pieces, *in_pieces.finish()]) == first
    assert at_once.next_offset == in_pieces.next_offset == 5 + 2 * count - 1


def test_incomplete_batches_are_built_when_more_rows_are_added(monkeypatch):
    monkeypatch.setattr("kafkaframes.storage.log.batch_builder.MAX_BUFFERED_BYTES", 1000)
    columns = {"offset": list(range(400)), "value": [b"v" * 30] * 400}
    builder, pieces = BatchBuilder(batch_bytes=300), []
    for number in range(400):
        pieces += builder.add(pa.table(columns).slice(number, 1))
    assert len(pieces) > 5
    assert b"".join([*pieces, *builder.finish()]) == build_records(columns, batch_bytes=300)
