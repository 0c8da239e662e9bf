"""A damaged chunk of a tiered store, with another copy of the partition: it is reported, never lost silently."""

from pathlib import Path

import pytest
from tests.spark.test_tiered import upload
from tests.storage.tiered.store import TieredStore

import kafkaframes
from kafkaframes.errors import KafkaframesError
from kafkaframes.records.build import build_records


@pytest.fixture(params=["merge", "all"])
def replicas(request):
    return request.param


@pytest.fixture
def copies(tmp_path, replicas):
    """A store of offsets 0 to 1,999 with a damaged chunk, and the disks of two brokers with 2,000 to 2,099."""
    store = TieredStore(tmp_path / "store", chunk_size=10_000, compress=True)
    path = Path(f"{upload(store, tmp_path, 0)}.log")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    local = [tmp_path / disk / "orders-0" / f"{2000:020}.log" for disk in ("one", "two")]
    for segment in local:
        segment.parent.mkdir(parents=True)
        segment.write_bytes(build_records([{"value": b"x"}] * 100, base_offset=2000, leader_epoch=0))
    return [str(one) for one in (path, *local[: 2 if replicas == "merge" else 1])]


def test_a_damaged_chunk_is_reported_and_the_rest_is_read(copies, replicas):
    batches = kafkaframes.read_records(copies, columns=["offset"], replicas=replicas)
    offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    missing = sorted(set(range(2100)) - set(offsets))
    assert 0 < len(missing) < 400
    assert offsets == sorted(set(offsets))
    assert batches.errors
    assert all("cannot be read" in error.reason for error in batches.errors)


def test_a_damaged_chunk_fails_a_read_in_failfast_mode(copies, replicas):
    with pytest.raises(KafkaframesError, match="cannot be read"):
        list(kafkaframes.read_records(copies, on_damage="fail", replicas=replicas))
