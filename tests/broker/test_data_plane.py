"""Produce, Fetch, ListOffsets and related APIs, at every version and in every format."""

from __future__ import annotations

import pytest
from tests.records.append.append_sets import end_after_last_record

from kafkaframes import verify_log
from kafkaframes.broker.apis.produce import append_to_partition, read_sent_records
from kafkaframes.broker.requests.api import CloseConnection, DeferredResponse
from kafkaframes.broker.state.changes import finish_steps
from kafkaframes.broker.state.partitions import get_max_magic
from kafkaframes.errors import ErrorCode
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_end_transaction, build_records

NOW_MS = 1_700_000_000_000
PRODUCE_VERSIONS = range(14)
FETCH_VERSIONS = range(19)


def batch(*values, magic=2, codec="none", base_offset=0, **fields):
    columns = {"value": list(values), "timestamp": [NOW_MS - 1000 + place for place in range(len(values))]}
    return build_records(columns, record_format=magic, codec=codec, base_offset=base_offset, **fields)


def values_of(records):
    return [record.value for batch in read_batches(records) for record in batch.records]


def offsets_of(records):
    return [record.offset for batch in read_batches(records) for record in batch.records]


def magics_of(records):
    return {batch.magic for batch in read_batches(records)}


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_each_produce_version_appends_its_record_format(client, version, codec):
    client.create()
    magic = get_max_magic(min(version + (version == 3), 4)) if version < 3 else 2
    for first in (0, 3):
        row = client.produce(batch(b"a", b"b", b"c", magic=magic, codec=codec), version=version)
        assert (row.error_code, row.base_offset) == (0, first)
    read = client.fetch(1)
    assert values_of(read.records)[-5:] == [b"b", b"c", b"a", b"b", b"c"]
    assert magics_of(read.records) == {2}  # the log's format
    assert read.high_watermark == read.last_stable_offset == 6


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_each_fetch_version_returns_a_record_format_that_it_supports(client, version, codec):
    client.create()
    client.produce(batch(b"a", b"b", codec=codec))
    row = client.fetch(0, version=version)
    assert row.error_code == 0
    assert values_of(row.records) == [b"a", b"b"]
    assert magics_of(row.records) == {get_max_magic(version)}
    assert offsets_of(row.records) == [0, 1]
    lost_count = client.state.counters["lost timestamps"]
    assert lost_count == (2 if version < 2 else 0)


@pytest.mark.parametrize(("setting", "magic"), [("0.9.0", 0), ("0.10.0", 1), ("0.11.0", 2)])
def test_a_topic_is_written_in_its_format_version(client, setting, magic):
    client.create(message_format_version=setting)
    for sent_magic in (0, 1, 2):
        version = {0: 1, 1: 2, 2: 9}[sent_magic]
        assert client.produce(batch(b"x", magic=sent_magic, codec="gzip"), version=version).error_code == 0
    assert magics_of(client.fetch(0).records) == {magic}
    assert values_of(client.fetch(0).records) == [b"x"] * 3


@pytest.mark.parametrize(
    ("records", "version", "name"),
    [
        (b"", 9, "INVALID_RECORD"),
        (batch(b"a", magic=1), 9, "INVALID_RECORD"),
        (batch(b"a") + batch(b"b"), 9, "INVALID_RECORD"),
        (batch(b"a", codec="zstd"), 6, "UNSUPPORTED_COMPRESSION_TYPE"),
        (batch(b"a")[:-1] + b"\xff", 9, "CORRUPT_MESSAGE"),
        (batch(b"a", magic=0)[:-1] + b"\xff", 1, "CORRUPT_MESSAGE"),
        (batch(b"a", base_offset=5), 9, "INVALID_RECORD"),
        (batch(b"a" * 2_000_000), 9, "MESSAGE_TOO_LARGE"),
    ],
)
def test_invalid_records_are_rejected_and_nothing_is_written(client, records, version, name):
    client.create()
    row = client.produce(records, version=version)
    assert row.error_code == ErrorCode[name]
    assert row.base_offset == -1
    assert client.fetch(0).high_watermark == 0


def test_a_compacted_topic_reports_the_records_without_a_key(client):
    client.create(cleanup_policy="compact")
    row = client.produce(batch(b"a", b"b"), version=8)
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [0, 1]


def test_acks_0_gets_no_answer_and_an_error_closes_the_connection(client):
    client.create()
    assert client.produce(batch(b"a"), acks=0) is None
    assert client.fetch(0).high_watermark == 1
    with pytest.raises(CloseConnection):
        client.produce(batch(b"a")[:-1], acks=0)
    assert client.produce(batch(b"a"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_log_append_time_is_answered_and_written(client):
    client.create(message_timestamp_type="LogAppendTime")
    assert client.produce(batch(b"a")).log_append_time_ms == client.state.clock.now_ms
    (only,) = read_batches(client.fetch(0).records)
    assert only.records[0].timestamp == client.state.clock.now_ms


def test_a_retry_of_an_idempotent_producer_returns_the_original_offsets(client):
    client.create()
    answer = client.ask("InitProducerId", 3, transactional_id=None)
    fields = {"producer_id": answer.producer_id, "producer_epoch": 0}
    assert [client.produce(batch(b"x", base_sequence=n, **fields)).base_offset for n in range(6)] == list(range(6))
    assert client.produce(batch(b"x", base_sequence=2, **fields)).base_offset == 2
    assert client.produce(batch(b"x", base_sequence=9, **fields)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.fetch(0).high_watermark == 6


def test_producer_ids_are_unique_even_after_a_crash(make_client, tmp_path):
    producer_ids = []
    for _ in range(3):
        client = make_client(data_dir=str(tmp_path))
        producer_ids += [client.ask("InitProducerId", 1, transactional_id=None).producer_id for _ in range(3)]
        client.state.logs.abandon()
    assert len(set(producer_ids)) == 9


def test_a_long_poll_waits_for_min_bytes_but_not_longer_than_max_wait(client):
    client.create()
    client.produce(batch(b"a"))
    size = len(client.fetch(0).records)
    waiting = client.send("Fetch", 11, body=client.fetch_request(0, min_bytes=size + 1, max_wait_ms=500))
    assert isinstance(waiting, DeferredResponse)
    assert not waiting.is_done
    client.produce(batch(b"b"))
    assert waiting.is_done
    assert values_of(waiting.answer.responses[0].partitions[0].records) == [b"a", b"b"]
    waiting = client.send("Fetch", 11, body=client.fetch_request(2, max_wait_ms=500))
    client.state.waits.advance(0.4)
    assert not waiting.is_done
    client.state.waits.advance(0.2)
    assert waiting.is_done
    assert not client.state.topics["orders"].partitions[0].waiting
    waiting = client.send("Fetch", 11, body=client.fetch_request(2, max_wait_ms=500))
    waiting.abandon()
    assert not client.state.topics["orders"].partitions[0].waiting


def test_a_long_poll_ends_when_its_topic_is_deleted(client):
    topic = client.create()
    waiting = client.send("Fetch", 11, body=client.fetch_request(0, max_wait_ms=60_000))
    finish_steps(client.state.delete_topics_in_steps([topic]))
    assert waiting.answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [1, 2, 3, 11])
def test_the_first_batch_is_complete_since_fetch_version_3_and_truncated_before(client, version):
    client.create(message_format_version="0.9.0" if version < 3 else "3.0-IV1")
    sent_batch = batch(b"a" * 1000, magic=0 if version < 3 else 2)
    client.produce(sent_batch, version=1 if version < 3 else 9)
    records = client.fetch(0, version=version, size=100).records
    if version < 3:
        assert len(records) == 100
    else:
        assert values_of(records) == [b"a" * 1000]


def test_offsets_out_of_range_and_wrong_leader_epochs_are_errors(client):
    client.create()
    client.produce(batch(b"a"))
    assert client.fetch(2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.fetch(0, current_leader_epoch=7).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    partition = client.state.topics["orders"].partitions[0]
    client.state.move_leader(partition, 1)
    assert client.fetch(0, current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert client.fetch(0, current_leader_epoch=1).error_code == 0
    partition.leader_id = 2
    assert client.fetch(0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert client.produce(batch(b"a")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_read_committed_ends_at_the_open_transaction_and_lists_aborted_transactions(client):
    client.create()
    partition = client.state.topics["orders"].partitions[0]
    fields = {"producer_id": 5, "producer_epoch": 0, "transactional": True, "base_sequence": 0}
    client.produce(batch(b"plain"))
    append_to_partition(client.state, partition, read_sent_records(batch(b"doomed", **fields)), acks=-1)
    row = client.fetch(0, isolation_level=1)
    assert (row.high_watermark, row.last_stable_offset, offsets_of(row.records)) == (2, 1, [0])
    client.state.internal.write_marker(partition, commit=False, producer_id=5, producer_epoch=0)
    row = client.fetch(0, isolation_level=1)
    assert row.last_stable_offset == 3
    assert [(transaction.producer_id, transaction.first_offset) for transaction in row.aborted_transactions] == [(5, 1)]
    assert client.fetch(0, isolation_level=0).aborted_transactions is None
    # such a marker can also be built without a broker
    assert build_end_transaction(0, commit=False, timestamp=0, producer_id=5, producer_epoch=0)


def test_an_old_consumer_sees_no_control_batches(client):
    client.create()
    fields = {"producer_id": 5, "producer_epoch": 0, "transactional": True, "base_sequence": 0}
    partition = client.state.topics["orders"].partitions[0]
    append_to_partition(client.state, partition, read_sent_records(batch(b"x", **fields)), acks=-1)
    client.state.internal.write_marker(partition, commit=True, producer_id=5, producer_epoch=0)
    assert values_of(client.fetch(0, version=0).records) == [b"x"]
    assert client.state.counters["lost control batches"] == 1


def test_down_conversion_can_be_forbidden(client):
    client.create(message_downconversion_enable="false")
    client.produce(batch(b"x"))
    assert client.fetch(0, version=2).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.fetch(0, version=4).error_code == 0


# ------------------------------------------------------------------------------------------------ sessions


def fetch_in_session(client, epoch, session_id=0, *, partitions=((0, 0),), forgotten_partitions=(), version=12):
    types = client.types("Fetch")
    rows = [
        types.FetchPartition(partition=n, fetch_offset=fetch_offset, partition_max_bytes=1 << 20)
        for n, fetch_offset in partitions
    ]
    forgotten_topics = (
        [types.ForgottenTopic(topic="orders", partitions=list(forgotten_partitions))] if forgotten_partitions else []
    )
    return client.ask(
        "Fetch",
        version,
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[types.FetchTopic(topic="orders", partitions=rows)] if rows else [],
        forgotten_topics_data=forgotten_topics,
    )


def partition_indexes(answer):
    return [row.partition_index for topic in answer.responses for row in topic.partitions]


def test_an_incremental_fetch_returns_only_changed_partitions(client):
    client.create(partitions=3)
    first = fetch_in_session(client, 0, partitions=((0, 0), (1, 0), (2, 0)))
    assert first.session_id
    assert partition_indexes(first) == [0, 1, 2]
    assert partition_indexes(fetch_in_session(client, 1, first.session_id, partitions=())) == []
    client.produce(batch(b"x"), partition=1)
    second = fetch_in_session(client, 2, first.session_id, partitions=())
    assert partition_indexes(second) == [1]
    assert partition_indexes(fetch_in_session(client, 3, first.session_id, partitions=((1, 1),))) == []
    client.produce(batch(b"x"), partition=1)
    assert (
        partition_indexes(fetch_in_session(client, 4, first.session_id, partitions=(), forgotten_partitions=(1,))) == []
    )


def test_invalid_fetch_sessions_are_rejected_with_specific_errors(client):
    client.create()
    first = fetch_in_session(client, 0)
    assert fetch_in_session(client, 5, first.session_id).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetch_in_session(client, 1, 12345).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    types = client.types("Fetch")
    request = types(session_id=first.session_id, session_epoch=1, max_wait_ms=0)
    assert client.ask("Fetch", 13, body=request).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert fetch_in_session(client, -1, first.session_id).error_code == 0
    assert len(client.state.fetch_sessions) == 0


def test_fetch_sessions_are_limited_and_the_oldest_is_evicted(make_client):
    client = make_client(config={"max.incremental.fetch.session.cache.slots": "2"})
    client.create()
    ids = [fetch_in_session(client, 0).session_id for _ in range(3)]
    assert len(client.state.fetch_sessions) == 2
    assert fetch_in_session(client, 1, ids[0]).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetch_in_session(client, 1, ids[2]).error_code == 0


# ------------------------------------------------------------------------------------------------ offsets


def list_offsets(client, timestamp, version=7, isolation=0):
    types = client.types("ListOffsets")
    row = types.ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=5 if version == 0 else 1)
    topics = [types.ListOffsetsTopic(name="orders", partitions=[row])]
    fields = {"isolation_level": isolation} if version >= 2 else {}
    return client.ask("ListOffsets", version, topics=topics, **fields).topics[0].partitions[0]


def test_list_offsets_by_timestamp_and_by_special_timestamps(client):
    client.create()
    client.produce(batch(b"a", b"b", b"c"))
    assert [list_offsets(client, t).offset for t in (-1, -2, NOW_MS - 999, NOW_MS)] == [3, 0, 1, -1]
    assert list_offsets(client, NOW_MS).error_code == 0
    assert (list_offsets(client, -3).offset, list_offsets(client, -3).timestamp) == (2, NOW_MS - 998)
    assert list_offsets(client, -3, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offsets(client, -1, version=0).old_style_offsets == [3, 0]
    assert list_offsets(client, -4, version=8).offset == 0
    assert list_offsets(client, -5, version=9).offset == -1


def test_offset_for_leader_epoch_returns_the_end_of_an_epoch(client):
    client.create()
    partition = client.state.topics["orders"].partitions[0]
    client.produce(batch(b"a", b"b"))
    client.state.move_leader(partition, 1)
    client.produce(batch(b"c"))
    types = client.types("OffsetForLeaderEpoch")

    def end(epoch):
        row = types.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        topics = [types.OffsetForLeaderTopic(topic="orders", partitions=[row])]
        partition = client.ask("OffsetForLeaderEpoch", 3, topics=topics).topics[0].partitions[0]
        return partition.leader_epoch, partition.end_offset

    assert [end(epoch) for epoch in (0, 1, 2)] == [(0, 2), (1, 3), (-1, -1)]


@pytest.mark.parametrize(
    ("setting", "magic", "offsets", "error"),
    [
        ("kafka", 1, [0, 1], 0),
        ("kafka", 2, None, 87),
        ("reject", 1, None, 87),
        ("reject", 2, None, 87),
        ("reassign", 1, [0, 1], 0),
        ("reassign", 2, [0, 1], 0),
        ("keep", 1, [3, 7], 0),
        ("keep", 2, [3, 7], 0),
    ],
)
def test_record_sets_with_offset_gaps_are_accepted_only_if_the_topic_allows_them(
    client, setting, magic, offsets, error
):
    version = {1: "0.10.0", 2: "3.0"}[magic]
    client.create(kafkaframes_on_noncontiguous=setting, message_format_version=version)
    holes = build_records({"value": [b"a", b"b"], "offset": [3, 7]}, record_format=magic, codec="gzip")
    if setting not in ("keep", "reassign") and magic == 2:
        holes = bytes(8) + holes[8:]  # a client's batch has base offset 0
    row = client.produce(holes, version=2 if magic == 1 else 9)
    assert row.error_code == error
    if offsets is not None:
        records = client.fetch(0, version=11).records
        assert offsets_of(records) == offsets
        if setting == "keep":
            assert records[21:] == holes[21:]  # the batch was not decompressed and recompressed
            assert client.state.counters["recompressed_bytes"] == 0


@pytest.mark.parametrize("setting", ["reassign", "reject", "keep"])
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_batches_that_end_with_an_offset_gap_lose_no_record(make_client, tmp_path, setting, codec):
    """Compaction produces batches with offset gaps.

    Accepted batches can be fetched, and the log directory passes verification.
    """
    records = build_records({"value": [b"a", b"b", b"c"], "offset": [0, 1, 2]}, codec=codec)
    client = make_client(data_dir=str(tmp_path))
    client.create(kafkaframes_on_noncontiguous=setting)
    errors = [client.produce(end_after_last_record(records, 3)).error_code, client.produce(records).error_code]
    assert errors == {"reject": [87, 0], "keep": [0, 87], "reassign": [0, 0]}[setting]
    assert offsets_of(client.fetch(0, version=11).records) == list(range(3 * errors.count(0)))
    client.state.logs.close(now_ms=client.state.clock.now_ms)
    assert verify_log(tmp_path, deep=True).report.is_sound


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("offset", [-3, -(2**63), 2**63 - 1])
def test_invalid_record_offsets_are_rejected_by_a_topic_that_keeps_offsets(client, magic, offset):
    client.create(kafkaframes_on_noncontiguous="keep", message_format_version={1: "0.10.0", 2: "3.0"}[magic])
    sent_batch = build_records({"value": [b"a"]}, record_format=magic)
    row = client.produce(offset.to_bytes(8, "big", signed=True) + sent_batch[8:], version=2 if magic == 1 else 9)
    assert row.error_code == ErrorCode.INVALID_RECORD
    if magic == 2:  # Produce version 2 does not have a field for an error message
        reason = "offsets start at 0" if offset < 0 else f"the largest offset is {2**63 - 2}"
        assert row.error_message == f"offsets {offset} to {offset}: {reason}"
