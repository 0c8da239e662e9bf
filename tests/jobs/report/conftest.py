"""The directories of a small cluster with every feature that a report shows, built from our own batches."""

import numpy as np
import pytest

import kafkaframes
from kafkaframes.jobs.report.survey import make_report
from kafkaframes.storage.log.discover import discover

START = 1_795_000_000_000
HOSTILE = "<img src=x onerror=alert(1)>&\"'"
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"
MARKER = b"\0\0\0\0\0\1"


def write_segment(directory, raw, base_offset=0):
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(raw)
    return path


def rows(count, *, first=0, keys=10, size=100, start=START, step=60_000):
    rng = np.random.default_rng(count + first)
    return [
        {
            "key": None if keys is None else b"key %d" % rng.integers(0, keys),
            "value": rng.bytes(int(rng.integers(1, 2 * size))),
            "timestamp": start + step * number,
            "offset": first + number,
        }
        for number in range(count)
    ]


def transactions():
    """Three transactions of one producer: committed after 5 s, aborted after 1 s, open; and a marker without data."""
    batch_bytes, offset = b"", 0
    for seconds, kind in ((5, COMMIT), (1, ABORT), (None, None)):
        own = {"producer_id": 77, "producer_epoch": 2, "transactional": True}
        for _ in range(2):  # two batches, one transaction
            batch_bytes += kafkaframes.build_records(rows(2, first=offset, step=0), base_offset=offset, **own)
            offset += 2
        if kind is not None:
            end_marker = [{"key": kind, "value": MARKER, "timestamp": START + 1000 * seconds, "offset": offset}]
            batch_bytes += kafkaframes.build_records(end_marker, control=True, base_offset=offset, **own)
            offset += 1
    other = [{"key": COMMIT, "value": MARKER, "timestamp": START, "offset": offset}]
    own = {"producer_id": 78, "producer_epoch": 0, "transactional": True, "control": True}
    return batch_bytes + kafkaframes.build_records(other, base_offset=offset, **own)


def meta(directory, node):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=Z3uVg1m1RkyYk7c0bQxT2A\n")


@pytest.fixture
def cluster(tmp_path):
    """Two brokers' directories in one folder."""
    one, two = tmp_path / "broker-1", tmp_path / "broker-2"
    meta(one, 1), meta(two, 2)
    build = kafkaframes.build_records
    orders = build(rows(400), codec="zstd", batch_bytes=2000)
    for directory in (one, two):
        write_segment(directory / "orders-0", orders)
        write_segment(directory / "orders-1", build(rows(300, keys=1000), codec="lz4"))
    write_segment(one / "old-0", build(rows(50, keys=None), record_format=0, codec="gzip"))
    write_segment(one / "old-1", build(rows(50, keys=None), record_format=1, codec="snappy"))
    write_segment(one / "payments-0", transactions())
    write_segment(one / f"{HOSTILE.replace('/', '')}-0", build(rows(5)))
    write_segment(one / "gone-0.3a400b54ac4a47ee86e55390ecea333b-delete", build(rows(5)))
    (one / "empty-0").mkdir()
    (one / "empty-0" / "partition.metadata").write_text("version: 0\ntopic_id: Yne-gvsoSAKvPkKiJWjLNA")
    return tmp_path


@pytest.fixture
def report_of():
    """Return the report of paths."""

    def make(*paths, **settings):
        path_names = [str(path) for path in paths]
        return make_report(discover(path_names), paths=path_names, version="0.0", generated_at=START, **settings)

    return make
