"""Columns of malicious input: limited memory, linear time, and no Python call per message."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.messages import columns as front
from kafkaframes.protocol.spec.load import load_message

METADATA = message("MetadataResponse")
HEARTBEAT = message("HeartbeatRequest")


def _measure_peak_bytes(run):
    """Return the peak memory of numpy and Arrow above the start."""
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak + pool.bytes_allocated() - before


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("00000000" + "ffffffff07"),  # 2^31 - 1 brokers
        bytes.fromhex("00000000" + "01" + "ffffffff7f"),  # a cluster id with a negative length
        bytes.fromhex("00000000" + "01" + "00" + "00000000" + "808080800f"),
        bytes.fromhex("00000000" + "01" + "00" + "00000000" + "01" + "0000" + "ffffffff07"),  # 2^31 - 1 tags
        bytes.fromhex("00000000" + "01" + "00" + "00000000" + "01" + "0000" + "01" + "05" + "ffffffff07"),
        b"\xff" * 64,
    ],
)
def test_stated_sizes_of_gigabytes_allocate_nothing(data):
    columns = METADATA.decode_columns([data], 13)
    assert columns.field("_error")[0].as_py()
    assert _measure_peak_bytes(lambda: METADATA.decode_columns([data], 13)) < 2_000_000


def test_counts_are_limited_even_for_structs_without_bytes():
    """Only elements of zero bytes can be more numerous than the bytes. Such elements have no columns, so they use no
    memory.
    """
    spec = load_message(
        """{"name": "Nothing", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": [
        {"name": "Lists", "type": "[]Inner", "versions": "0", "fields": [
        {"name": "Items", "type": "[]Empty", "versions": "0", "fields": []}]}]}"""
    )
    cls = class_of(spec)
    lists = 20_000
    data = lists.to_bytes(4, "big") + b"".join((4 * (lists - 1 - k)).to_bytes(4, "big") for k in range(lists))
    start = time.thread_time()
    front.decode_columns(cls.codec(0).plan, [data, data[:3], (1).to_bytes(4, "big") + bytes(4)])
    assert time.thread_time() - start < 1
    columns = front.decode_columns(cls.codec(0).plan, [data[:3], (1).to_bytes(4, "big") + bytes(4)])
    assert columns.field("_error").is_valid().to_pylist() == [True, False]


@given(st.lists(st.binary(max_size=300), max_size=30), st.sampled_from(["reference", "strict"]))
def test_any_bytes_are_a_row_or_an_error(messages, mode):
    columns = METADATA.decode_columns(messages, 13, mode=mode)
    columns.validate(full=True)
    assert len(columns) == len(messages)


def test_every_truncated_message_is_an_error():
    data = METADATA.from_json(
        {
            "throttleTimeMs": 1, "clusterId": "c", "controllerId": 1, "errorCode": 0,
            "brokers": [{"nodeId": 1, "host": "h", "port": 9092, "rack": None}],
            "topics": [{
                "errorCode": 0, "name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA", "isInternal": False,
                "topicAuthorizedOperations": 0, "partitions": [{
                    "errorCode": 0, "partitionIndex": 0, "leaderId": 1, "leaderEpoch": 1, "replicaNodes": [1, 2],
                    "isrNodes": [1], "offlineReplicas": [2]}]}],
        },
        13,
    ).encode(13)  # fmt: skip
    errors = METADATA.decode_columns([data[:size] for size in range(len(data) + 1)], 13).field("_error")
    assert errors.is_valid().to_pylist() == [True] * len(data) + [False]


def test_growing_columns_keep_every_row():
    """The shape of the messages changes in the middle of 10 MB, so the first size estimate is wrong for each column."""
    small = HEARTBEAT(group_id="g", member_id="m").encode(4)
    large = HEARTBEAT(group_id="g" * 300, member_id="m" * 3000, group_instance_id="i" * 700).encode(4)
    messages = [small] * 50_000 + [b"\x00"] + [large] * 2_000
    columns = HEARTBEAT.decode_columns(messages, 4)
    columns.validate(full=True)
    assert columns.field("_error").null_count == len(messages) - 1
    assert HEARTBEAT.encode_columns(columns.filter(columns.field("_error").is_null()), 4).to_pylist() == (
        [small] * 50_000 + [large] * 2_000
    )


def test_invalid_utf8_is_replaced_like_in_java():
    data = bytearray(HEARTBEAT(group_id="abcdef", member_id="m").encode(4))
    data[2:5] = b"\xed\xa0\x80"
    assert HEARTBEAT.decode_columns([bytes(data)], 4)[0].as_py()["groupId"] == "a�ef"
    assert "UTF-8" in HEARTBEAT.decode_columns([bytes(data)], 4, mode="strict")[0].as_py()["_error"]


def test_no_python_call_per_message():
    data = METADATA().encode(13)

    def count_calls(count):
        messages, call_count = pa.array([data] * count), 0

        def count_one(frame, event, arg):
            nonlocal call_count
            call_count += event == "call"

        gc.collect()
        gc.disable()  # the collector would call callbacks for garbage of other tests
        sys.setprofile(count_one)
        try:
            columns = METADATA.decode_columns(messages, 13)
            METADATA.encode_columns(columns, 13)
        finally:
            sys.setprofile(None)
            gc.enable()
        return call_count

    count_calls(2)
    assert count_calls(10_000) < count_calls(20) + 200  # a few more if the arena grows or straight-line code is loaded


def test_threads_can_decode_the_same_message_concurrently():
    batches = [[HEARTBEAT(group_id=str(k), member_id="m" * k).encode(4)] * (k + 1) for k in range(200)]
    with ThreadPoolExecutor(4) as pool:
        decoded_lists = list(
            pool.map(lambda batch: HEARTBEAT.decode_columns(batch, 4).field("groupId").to_pylist(), batches)
        )
    assert decoded_lists == [[str(k)] * (k + 1) for k in range(200)]


def test_decoding_tags_takes_linear_time():
    def seconds(partitions):
        tags = [{"tag": 100 + k, "data": b"x" * 50} for k in range(20)]
        topics = [{"partitions": [{"_unknown_tags": tags}] * partitions}]
        data = METADATA.encode_columns(pa.array([{"topics": topics}]), 13)
        times = []
        for _ in range(5):
            start = time.thread_time()
            METADATA.decode_columns(data, 13)
            times.append(time.thread_time() - start)
        return min(times)

    seconds(10)
    assert seconds(16_000) < 40 * seconds(1_600) + 0.01  # ten times the data; quadratic would be 100


def test_more_than_2_gib_in_one_call_is_rejected_before_allocation():
    offsets = pa.py_buffer(np.array([0, 1 << 31], np.int64))
    huge = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(np.zeros(1 << 31, np.uint8))])
    with pytest.raises(OptionError, match="2 GiB"):
        HEARTBEAT.decode_columns(huge, 4)
