"""The computed sizes of records in three formats equal the sizes of their encoded bytes."""

import random

import pytest
from tests.records import mutations

import kafkaframes
from kafkaframes.jobs.analyze.records import RecordSizes
from kafkaframes.records.scan import as_array, scan_all


def rows(seed, *, headers=True):
    choose = random.Random(seed)
    count = choose.choice((1, 5, 200))
    columns = {
        "key": [mutations.choose_bytes(choose) for _ in range(count)],
        "value": [mutations.choose_bytes(choose) for _ in range(count)],
        "timestamp": [choose.choice((1000, 1063, 1064, 9000, 10**12)) for _ in range(count)],
    }
    if headers:
        columns["headers"] = [choose.choice(([], [("a", b"1"), ("trace", None)])) for _ in range(count)]
    return columns


def measure_records(data):
    sizes = RecordSizes()
    sizes.add_batches(as_array(data), scan_all(as_array(data)))
    return sizes


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("seed", range(6))
def test_the_fields_add_up_to_the_encoded_size(seed, codec):
    columns = rows(seed)
    sizes = measure_records(kafkaframes.build_records(columns, codec=codec, batch_records=50))
    assert sizes.totals[2] == len(kafkaframes.build_records(columns, batch_records=50, batch_bytes=1 << 24))
    without = {name: column for name, column in columns.items() if name != "headers"}
    for record_format in (0, 1):
        assert sizes.totals[record_format] == len(kafkaframes.build_records(without, record_format=record_format))
    assert sizes.records == len(columns["key"])


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("record_format", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_records_of_older_formats_are_measured_as_format_2(seed, record_format, codec):
    """Messages are joined as a conversion joins them: a compressed set becomes a batch, as do messages below 16 KiB."""
    columns = rows(seed, headers=False)
    if record_format == 0:
        columns["timestamp"] = [-1] * len(columns["key"])
    old = kafkaframes.build_records(columns, record_format=record_format, codec=codec, batch_bytes=1 << 24)
    sizes = measure_records(old)
    assert sizes.totals[2] == len(kafkaframes.build_records(columns, batch_bytes=1 << 24))
    assert sizes.totals[record_format] == len(kafkaframes.build_records(columns, record_format=record_format))
    assert (sizes.records, sizes.batches, sizes.left_out) == (len(columns["key"]), 1, 0)


def test_messages_without_compression_are_joined_to_batches_of_16_kib():
    old = kafkaframes.build_records({"value": [b"v" * 966] * 64}, record_format=1)  # 1,000 bytes each
    assert (measure_records(old).batches, measure_records(old).records) == (4, 64)


def test_unmeasurable_batches_are_skipped():
    old = kafkaframes.build_records(
        {"value": [b"v"], "timestamp": [5]}, record_format=1, timestamp_type="LogAppendTime"
    )
    damaged_batch = mutations.build_batch_v2(b"\x7f", count=1)
    append_time_batch = kafkaframes.build_records(rows(1), timestamp_type="LogAppendTime")
    sizes = measure_records(old + damaged_batch + append_time_batch + kafkaframes.build_records({"value": [b"v"]}))
    assert (sizes.batches, sizes.records, sizes.left_out) == (1, 1, 3)
