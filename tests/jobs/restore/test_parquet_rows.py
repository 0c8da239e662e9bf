"""Rows of Parquet are read in batches of limited bytes: repeated values are small in the file and large in memory."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkaframes.jobs.restore.parquet import restore_parquet
from kafkaframes.jobs.restore.parquet_rows import MAX_BATCH_BYTES, read_rows
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.scan.functions import scan_log
from kafkaframes.storage.files.names import TopicPartition

ROWS = 2_000
MEGABYTE = b"x" * 1_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BUDGET = 64 << 20


def write(path, *, values, headers=None, topics=None, row_group_size=None, **options):
    """Write rows with dictionaries in memory, so that the test itself does not need the memory that it measures."""
    columns = {
        "topic": topics or ["t"] * len(values),
        "partition": pa.array([0] * len(values), pa.int32()),
        "offset": pa.array(range(len(values)), pa.int64()),
        "value": values,
    }
    if headers is not None:
        columns["headers"] = headers
    pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=row_group_size, **options)
    return str(path)


def repeated_values(value, count=ROWS):
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value], pa.binary()))


def peak_of(path, **options):
    """Read all rows. Return the number of rows, the size of the largest batch, and the peak of Arrow's memory."""
    pool = pa.default_memory_pool()
    before, peak, rows, largest = pool.bytes_allocated(), 0, 0, 0
    for batch in read_rows(path, ("offset", "key", "value", "headers"), budget_bytes=BUDGET, **options):
        rows, largest = rows + batch.num_rows, max(largest, batch.nbytes)
        peak = max(peak, pool.bytes_allocated() - before)
        assert not any(pa.types.is_dictionary(kind) for kind in batch.schema.types)
    return rows, largest, peak


@pytest.mark.parametrize("of", [None, TopicPartition("t", 0)], ids=["hive", "columns"])
def test_a_dictionary_value_of_one_megabyte_is_not_multiplied(tmp_path, of):
    path = write(tmp_path / "a.parquet", values=repeated_values(MEGABYTE))
    rows, largest, peak = peak_of(path, topic_partition=of)
    assert (rows, largest <= MAX_BATCH_BYTES, peak < BUDGET) == (ROWS, True, True)


def test_a_repeated_header_is_not_multiplied(tmp_path):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.dictionary(pa.int32(), pa.binary()))]))
    pairs = pa.StructArray.from_arrays([pa.array(["h"] * ROWS), repeated_values(MEGABYTE)], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), pairs).cast(kind)
    path = write(tmp_path / "a.parquet", values=pa.array([b"v"] * ROWS), headers=headers)
    rows, largest, peak = peak_of(path)
    assert (rows, largest <= MAX_BATCH_BYTES, peak < BUDGET) == (ROWS, True, True)


def test_values_of_every_size_and_nulls_are_unchanged(tmp_path):
    values = [None, b"", b"a" * 5_000_000, *(b"%d" % number * 50_000 for number in range(300)), None, b"z"]
    headers = [None, [], [{"key": "h", "value": None}], *[[{"key": "n", "value": b"%d" % n}] for n in range(302)]]
    path = write(tmp_path / "a.parquet", values=pa.array(values, pa.binary()), headers=pa.array(headers, HEADERS))
    batches = list(read_rows(path, ("offset", "value", "headers"), budget_bytes=BUDGET))
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == values
    assert [value for batch in batches for value in batch.column("headers").to_pylist()] == headers
    assert [at for batch in batches for at in batch.column("offset").to_pylist()] == list(range(len(values)))
    assert max(batch.nbytes for batch in batches) < 2 * MAX_BATCH_BYTES


def test_a_row_group_of_gigabytes_is_read_in_small_batches(tmp_path):
    """Each value is different, so that the column is larger than its share of the budget."""
    values = pa.array([b"%06d" % number * 20_000 for number in range(400)], pa.binary())
    path = write(tmp_path / "a.parquet", values=values, use_dictionary=False)
    rows, largest, peak = peak_of(path)
    assert (rows, largest <= MAX_BATCH_BYTES, peak < BUDGET) == (400, True, True)


def test_only_the_rows_of_the_partition_are_read(tmp_path):
    topics = ["a"] * 50 + ["t"] * 30 + ["b"] * 20 + ["t"] * 10
    path = write(tmp_path / "a.parquet", values=pa.array([b"v"] * 110), topics=topics, row_group_size=25)
    batches = read_rows(path, ("offset",), budget_bytes=BUDGET, topic_partition=TopicPartition("t", 0))
    offsets = [at for batch in batches for at in batch.column("offset").to_pylist()]
    assert offsets == [*range(50, 80), *range(100, 110)]


def test_a_partition_is_restored_from_it(tmp_path):
    path = write(tmp_path / "a.parquet", values=repeated_values(MEGABYTE, 300))
    settings = RestoreSettings(codec="zstd", batch_bytes=1 << 20)
    restore_parquet(path, tmp_path / "new", settings, now_ms=1, new_id=lambda: "AAAAAAAAAAAAAAAAAAAAAQ")
    batches = scan_log(tmp_path / "new", topics="t").select("value").to_batches()
    assert sum(batch.column("value").to_pylist().count(MEGABYTE) for batch in batches) == 300
