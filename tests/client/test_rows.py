"""Records as Python values, created one by one, equal to those of `to_pylist`, and the position after each."""

import asyncio
import subprocess
import sys
from itertools import islice

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncConsumer, Consumer, Producer, TopicPartition, fetched_batches
from kafkaframes.client.fetched_batches import ConsumerRecord, FetchedBatches, RecordIterator
from kafkaframes.errors import CorruptRecordError
from kafkaframes.records.build import build_records

NUMBERS_0 = TopicPartition("numbers", 0)
OPTIONAL_BYTES = st.none() | st.binary(max_size=5)
ROWS = st.lists(
    st.tuples(OPTIONAL_BYTES, OPTIONAL_BYTES, st.lists(st.tuples(st.text(max_size=2), OPTIONAL_BYTES), max_size=2)),
    min_size=1,
)


def build_iterator(rows) -> RecordIterator:
    columns = {"key": [row[0] for row in rows], "value": [row[1] for row in rows], "headers": [row[2] for row in rows]}
    columns["timestamp"] = list(range(1_000, 1_000 + len(rows)))
    (batch,) = FetchedBatches(NUMBERS_0, 0, build_records(columns, batch_bytes=1 << 20)).read()
    return RecordIterator(batch, NUMBERS_0)


@given(ROWS)
def test_each_record_equals_the_written_one(rows):
    expected_records = [
        ConsumerRecord("numbers", 0, offset, 1_000 + offset, key, value, tuple(headers))
        for offset, (key, value, headers) in enumerate(rows)
    ]
    assert list(build_iterator(rows)) == expected_records
    assert build_iterator(rows).take_records(len(rows) + 1) == expected_records


def test_records_of_sliced_columns_start_at_the_slice():
    records = build_iterator([(b"k%d" % n, b"v%d" % n, []) for n in range(5)])
    assert [record.value for record in islice(records, 1, 3)] == [b"v1", b"v2"]
    assert records.position == 3
    batch = next(
        FetchedBatches(NUMBERS_0, 0, build_records({"value": [b"a", None, b"ccc"], "key": ["x", "y", "z"]})).read()
    )
    (second, third) = RecordIterator(batch.slice(1), NUMBERS_0)
    assert (second.key, second.value, third.key, third.value) == (b"y", None, b"z", b"ccc")


def test_the_position_follows_the_taken_records_until_the_rest_is_dropped():
    records = build_iterator([(None, b"%d" % n, []) for n in range(4)])
    assert records.position == 0
    iterator = iter(records)
    next(iterator)
    assert (records.position, records.is_empty) == (1, False)
    records.take_records(1)
    assert records.position == 2
    records.drop_remaining()
    assert records.is_empty
    assert list(iterator) == []


@pytest.mark.parametrize("step", [1, 2, 3, 7, 8])
def test_positions_and_records_do_not_depend_on_the_step_size(monkeypatch, step):
    monkeypatch.setattr("kafkaframes.client.fetched_batches._ROWS_PER_GROUP", step)
    values = [(b"k%d" % n if n % 3 else None, b"%d" % n if n % 4 else None, []) for n in range(7)]
    records = build_iterator(values)
    for offset, (key, value, _) in enumerate(values):
        assert records.position == offset
        (record,) = records.take_records(1)
        assert (record.offset, record.key, record.value) == (offset, key, value)
        assert records.is_empty == (offset == 6)
    assert records.take_records(1) == []
    dropped_records = build_iterator(values)
    dropped_records.take_records(2)
    dropped_records.drop_remaining()
    assert list(dropped_records) == []


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        broker.create_topic("numbers")
        with Producer(broker.bootstrap_servers) as producer:
            producer.send_arrow(pa.table({"value": [b"%d" % n for n in range(3_000)]}), topic="numbers")
        yield broker.bootstrap_servers


def test_records_before_a_corrupt_batch_are_returned_after_its_error(servers, monkeypatch):
    read = FetchedBatches.read

    def read_damaged(*arguments, **options):
        yield from read(*arguments, **options)
        raise CorruptRecordError("damaged")

    monkeypatch.setattr(FetchedBatches, "read", read_damaged)
    with Consumer(servers, max_poll_records=3) as consumer:
        consumer.assign({NUMBERS_0: 0})
        with pytest.raises(CorruptRecordError):
            consumer.poll(60_000)
        assert [record.offset for record in consumer.poll(60_000)] == [0, 1, 2]


def test_iteration_continues_at_the_offset_of_a_seek(servers):
    with Consumer(servers) as consumer:
        consumer.assign({NUMBERS_0: 0})
        offsets = []
        for record in consumer:
            offsets.append(record.offset)
            if record.offset == 2 and len(offsets) < 5:
                consumer.seek(NUMBERS_0, 1)
            if record.offset == 5:
                break
        assert consumer.position(NUMBERS_0) == 6
        assert next(iter(consumer)).offset == 6
    assert offsets == [0, 1, 2, 1, 2, 3, 4, 5]


def test_other_tasks_run_while_buffered_records_are_returned(servers):
    async def run() -> tuple[int, int]:
        turns = seen_count = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with AsyncConsumer(servers) as consumer:
            await consumer.assign({NUMBERS_0: 0})
            await consumer.fetch_arrow(60_000, columns=("offset",), max_bytes=1)
            consumer.seek(NUMBERS_0, 0)
            task, before = asyncio.ensure_future(other()), 0
            async for record in consumer:
                before = turns if record.offset == 0 else before
                seen_count += 1
                if record.offset == 2_999:
                    break
            task.cancel()
        return seen_count, turns - before

    seen_count, turns = asyncio.run(run())
    assert seen_count == 3_000
    assert turns >= 2


CLIENT_CALLS = {
    "send with headers": "Producer(S).send('t', b'v', headers=[('h', None)]).result()",
    "poll": "c.assign(c.partitions_for('t')); assert c.poll(10_000)",
    "fetch_arrow": "c.assign(c.partitions_for('t')); assert c.fetch_arrow(10_000).num_rows",
}


@pytest.mark.parametrize("use", CLIENT_CALLS)
def test_pandas_is_not_imported(use):
    pytest.importorskip("pandas")
    if "poll" in use and not fetched_batches._HAS_FAST_TO_PYLIST:
        pytest.skip("pyarrow before 26 creates lists of bytes with pandas")
    with Broker() as broker:
        broker.create_topic("t")
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("t", "v", key="k").result()
        checks = "assert 'pandas' not in sys.modules"
        code = "import sys; from kafkaframes.client import *; S = sys.argv[1]"
        code += f"; c = Consumer(S, auto_offset_reset='earliest'); {CLIENT_CALLS[use]}; {checks}"
        command = [sys.executable, "-W", "ignore", "-c", code, broker.bootstrap_servers]
        subprocess.run(command, check=True, timeout=100)


@pytest.mark.parametrize("values", [[], [None, None], [b"", None, b"v" * 100], [b"a", b"bc"]])
def test_both_methods_to_create_lists_of_bytes_give_the_same_result(values, monkeypatch):
    column = pa.array([b"before", *values], pa.binary()).slice(1)
    for is_fast in (True, False):
        monkeypatch.setattr(fetched_batches, "_HAS_FAST_TO_PYLIST", is_fast)
        assert list(islice(fetched_batches._to_byte_strings(column), len(values))) == values
