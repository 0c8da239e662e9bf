"""Copies in brokers that assign new offsets: which batches are copied, which are decoded, and the offset mapping."""

import numpy as np
import pytest
from tests.jobs.mirror.worlds import TIMES, fill, rows_of, run_mirror, table

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, FetchedBatches, Producer, TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode, LogDirError
from kafkaframes.jobs.mirror.mapping import (
    OffsetMapping,
    begin_writing,
    clear_transaction,
    lock_topic,
    read_mapping,
    renumber_fetched_batches,
)
from kafkaframes.records.build import build_empty_batch, build_end_transaction, build_records
from kafkaframes.records.layout import TRANSACTIONAL
from kafkaframes.records.scan import check_crcs, scan_all

PARTITION = TopicPartition("t", 0)


def rows(first: int, count: int = 3, *, step: int = 1) -> dict:
    numbers = range(first, first + count * step, step)
    return {
        "offset": list(numbers),
        "key": [b"k"] * count,
        "value": [b"%d" % number for number in numbers],
        "timestamp": [TIMES + number for number in numbers],
    }


def renumber_batches(data: bytes, start: int = 0, aborted_transactions=None):
    fetched_batches = FetchedBatches(PARTITION, start, data, aborted_transactions=aborted_transactions)
    return renumber_fetched_batches(fetched_batches, start, np.zeros(len(fetched_batches.batches), bool))


def values_of(pieces) -> list:
    values = []
    for piece in pieces:
        for columns in FetchedBatches(PARTITION, 0, piece).read(("value",)):
            values += columns.column(0).to_pylist()
    return values


def test_a_plain_batch_is_copied_unchanged():
    data = build_records(rows(100), codec="zstd", leader_epoch=7)
    new_batches = renumber_batches(data, 100)
    assert new_batches.batches == [bytes(8) + data[8:]]
    assert new_batches.assign_target_offsets(0).tolist() == [[100, 0, 3]]
    assert not new_batches.decoded_batches


def test_producer_transaction_and_delete_horizon_are_cleared_and_the_crc_matches():
    options = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 9, "transactional": True}
    data = build_records(rows(10), codec="lz4", delete_horizon_ms=TIMES, **options)
    piece = clear_transaction(data)
    header = scan_all(piece)
    assert check_crcs(piece, header).tolist() == [1]
    values = {name: int(header.column(name)[0]) for name in ("producer_id", "producer_epoch", "base_sequence")}
    assert values == {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    assert int(header.column("attributes")[0]) & (TRANSACTIONAL | 0x40) == 0
    assert piece[61:] == data[61:]
    times = [
        one.column(0).cast("int64").to_pylist() for one in FetchedBatches(PARTITION, 0, piece).read(("timestamp",))
    ]
    assert times == [[TIMES + 10, TIMES + 11, TIMES + 12]]


def test_records_invisible_to_read_committed_consumers_are_skipped_and_counted():
    mine = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    aborted_batch = build_records(rows(0), base_sequence=0, **mine)
    kept_batch = build_records(rows(4), base_sequence=3, **mine)
    data = (
        aborted_batch
        + build_end_transaction(3, commit=False, timestamp=1, producer_id=5, producer_epoch=0)
        + kept_batch
        + build_end_transaction(7, commit=True, timestamp=1, producer_id=5, producer_epoch=0)
        + build_empty_batch(8, 9)
    )
    new_batches = renumber_batches(data, aborted_transactions=[(5, 0)])
    assert values_of(new_batches.batches) == [b"4", b"5", b"6"]
    assert new_batches.left_out == {"aborted": 3, "transaction markers": 2}
    assert new_batches.batches_left_out == {"aborted": 1, "transaction markers": 2, "empty batches": 1}
    assert new_batches.assign_target_offsets(20).tolist() == [[4, 20, 3]]


@pytest.mark.parametrize("record_format", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_old_formats_are_converted(record_format, codec):
    data = build_records(rows(10), record_format=record_format, codec=codec)
    new_batches = renumber_batches(data, 11)
    assert values_of(new_batches.batches) == [b"11", b"12"]
    assert (scan_all(new_batches.batches[0]).column("magic") == 2).all()
    assert new_batches.assign_target_offsets(0).tolist() == [[11, 0, 2]]
    assert list(new_batches.decoded_batches) == ["format 0 or 1"]


@pytest.mark.parametrize(
    ("data", "start", "reason", "runs"),
    [
        (build_records(rows(10, 3, step=2)), 0, "offsets with holes", [[10, 0, 1], [12, 1, 1], [14, 2, 1]]),
        (build_records(rows(10)), 11, "begins too early", [[11, 0, 2]]),
        (build_records(rows(10), timestamp_type="LogAppendTime"), 0, "log append time", [[10, 0, 3]]),
    ],
    ids=["holes", "cut", "append time"],
)
def test_batches_that_must_be_decoded_are_decoded_and_counted(data, start, reason, runs):
    new_batches = renumber_batches(data, start)
    opened_count = new_batches.decoded_batches.total()
    assert set(new_batches.decoded_batches) == {reason}
    assert opened_count == len(scan_all(data))
    assert new_batches.assign_target_offsets(0).tolist() == runs
    whole = b"".join(new_batches.batches)
    assert (scan_all(whole).column("attributes") == 0).all()


def test_after_a_kill_the_mapping_keeps_only_lines_of_written_batches(tmp_path):
    path = str(tmp_path / "state" / "t-0.offsets")
    mapping = begin_writing(read_mapping(path, "a b", target_end=0), path, "a b")
    mapping.add_runs(np.array([[10, 0, 5], [20, 5, 4]]))
    mapping.advance_source(30)
    mapping.add_runs(np.array([[30, 9, 2]]))
    mapping.close()
    with open(path, "ab") as file:
        file.write(b"40 11 7")  # torn
    assert read_mapping(path, "a b", target_end=11).next_source_offset == 32
    assert read_mapping(path, "a b", target_end=9).next_source_offset == 30
    middle = read_mapping(path, "a b", target_end=7)
    assert (middle.next_source_offset, middle.next_target_offset, middle.translate_offset(23)) == (22, 7, 7)
    assert read_mapping(path, "a b", target_end=0).next_source_offset == -1
    with pytest.raises(LogDirError, match="the mapping ends at 11: another program has written to the copy"):
        read_mapping(path, "a b", target_end=12)
    with pytest.raises(LogDirError, match="is a mapping of other topics"):
        read_mapping(path, "a c", target_end=9)
    (tmp_path / "state" / "t-0.offsets").write_bytes(b"kafkaframes mirror 1 a b\n1 2\n")
    with pytest.raises(LogDirError, match="is not a mapping of offsets"):
        read_mapping(path, "a b", target_end=0)


def test_an_empty_mapping_translates_to_the_start_offset():
    assert OffsetMapping().translate_offset(17) == 0


@pytest.fixture
def filled_brokers(tmp_path):
    with Broker() as a, Broker() as b:
        fill(a)
        yield a, b, {"offsets": "reassign", "state_dir": str(tmp_path / "state")}


TOPICS = ("plain", "format-0", "format-1", "money", "stamped")


def without_offsets(rows_by_partition):
    return {number: [row[1:] for row in several] for number, several in rows_by_partition.items()}


def test_read_committed_consumers_see_the_same_records_in_order(filled_brokers):
    a, b, settings = filled_brokers
    report = run_mirror(a.bootstrap_servers, b.bootstrap_servers, **settings)
    for topic in TOPICS:
        before, after = rows_of(a.bootstrap_servers, topic), rows_of(b.bootstrap_servers, topic)
        assert without_offsets(before) == without_offsets(after)
        assert all([row[0] for row in rows] == list(range(len(rows))) for rows in after.values())
    assert report.configs_left == {"stamped": ["message.timestamp.type"]}
    assert "left out (aborted)" in str(report)
    assert "opened: " in str(report)


def test_the_next_record_of_a_group_is_the_same(filled_brokers):
    a, b, settings = filled_brokers
    place = TopicPartition("money", 0)
    with Admin(a.bootstrap_servers) as source, Admin(b.bootstrap_servers) as target:
        end = source.list_offsets({place: -1})[place]
        for offset in range(end + 1):
            source.alter_group_offsets(f"g{offset}", {place: offset})
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("money",), **settings)
        before, after = (rows_of(one.bootstrap_servers, "money")[0] for one in (a, b))
        for offset in range(end + 1):
            there = target.group_offsets(f"g{offset}")[place].offset
            assert [row[1:] for row in after if row[0] >= there] == [row[1:] for row in before if row[0] >= offset]


@pytest.mark.parametrize("fault", ["drop_reply", "close"])
@pytest.mark.parametrize("kind", ["keep", "reassign"])
def test_lost_responses_and_connections_lose_and_duplicate_nothing(tmp_path, fault, kind):
    with Broker() as a, Broker() as b:
        fill(a)
        rules = [getattr(b.on("Produce", client_id="kafkaframes").after(skip), fault)().once() for skip in (0, 2, 5)]
        settings = {"state_dir": str(tmp_path / "state")}
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("plain", "money"), offsets=kind, **settings)
        assert all(rule.count for rule in rules)
        for topic in ("plain", "money"):
            before, after = rows_of(a.bootstrap_servers, topic), rows_of(b.bootstrap_servers, topic)
            assert without_offsets(before) == without_offsets(after)


def test_a_second_writer_to_the_copy_is_an_error(filled_brokers):
    a, b, settings = filled_brokers
    run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("plain",), **settings)
    with Producer(b.bootstrap_servers) as producer:
        producer.send("plain", b"foreign", partition=0).result()
    with pytest.raises(LogDirError, match="another program has written to the copy"):
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("plain",), **settings)


def test_a_second_writer_during_the_copy_is_detected(filled_brokers):
    a, b, settings = filled_brokers

    def intrude(request):
        log = b._state.topics["plain"].partitions[0].log  # on the broker's own thread, between two requests
        log.append_as_leader(build_records({"value": [b"foreign"]}), leader_epoch=0, now_ms=TIMES)

    with (
        b.on("Produce", topic="plain", partition=0).call(intrude).once(),
        pytest.raises(
            BrokerError, match="plain-0 of the target continues at offset 1, not at 0: another program writes to it"
        ),
    ):
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("plain",), **settings)


def test_records_after_an_open_transaction_are_copied_after_its_end(filled_brokers):
    a, b, settings = filled_brokers
    with Producer(a.bootstrap_servers, transactional_id="open") as producer:
        producer.begin_transaction()
        producer.send_arrow(table(5), topic="stamped")
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("stamped",), **settings)
        assert len(rows_of(b.bootstrap_servers, "stamped")[0]) == 50
        producer.commit_transaction()
    run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("stamped",), **settings)
    assert len(rows_of(b.bootstrap_servers, "stamped")[0]) == 55
    with Consumer(b.bootstrap_servers) as consumer:
        assert consumer.end_offsets([TopicPartition("stamped", 0)]) == {TopicPartition("stamped", 0): 55}


def test_a_directory_without_topic_ids_is_continued(tmp_path):
    with Broker() as b:
        settings = {"offsets": "reassign", "state_dir": str(tmp_path / "state")}
        run_mirror("tests/data/logs/zk-0102-v1", b.bootstrap_servers, **settings)
        again = run_mirror("tests/data/logs/zk-0102-v1", b.bootstrap_servers, **settings)
        assert all(partition.resumed and not partition.batches_written for partition in again.partitions)


def test_a_new_topic_that_the_broker_does_not_know_yet_is_waited_for(filled_brokers):
    a, b, settings = filled_brokers
    create_requests = b.on("CreateTopics").call(lambda request: None)
    late = b.on("Metadata", where=lambda request: bool(create_requests.count)).answer(without_topics).times(2)
    run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("stamped",), **settings)
    assert late.count
    assert len(rows_of(b.bootstrap_servers, "stamped")[0]) == 50


def without_topics(request):
    """Answer Metadata like a broker that does not know a new topic yet."""
    types = request.response
    topics = [
        types.MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=topic.name)
        for topic in request.body.topics or ()
    ]
    return request.response(cluster_id="c", controller_id=-1, brokers=[], topics=topics)


@pytest.mark.parametrize("kind", ["keep", "reassign"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_above_the_limit_of_the_target_is_split_and_counted(tmp_path, kind, codec):
    """KIP-126 for a copy: MirrorMaker's producer splits a batch that is too large (KAFKA-3995)."""
    values = [bytes([number]) * 3 + np.random.default_rng(number).bytes(400) for number in range(30)]
    with Broker() as a, Broker() as b:
        a.create_topic("large")
        b.create_topic("large", max_message_bytes=2_000)
        with Producer(a.bootstrap_servers, batch_size=100_000, linger_ms=1_000, compression_type=codec) as producer:
            futures = [producer.send("large", value, headers={"n": b"%d" % i}) for i, value in enumerate(values)]
            producer.flush()
            assert [future.result().offset for future in futures] == list(range(30))
        settings = {"state_dir": str(tmp_path / "state")}
        report = run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("large",), offsets=kind, **settings)
        assert rows_of(a.bootstrap_servers, "large") == rows_of(b.bootstrap_servers, "large")
        assert len(rows_of(b.bootstrap_servers, "large")[0]) == 30
        (part,) = report.partitions
        assert part.opened["larger than the target accepts"] == 1
        assert part.batches_written == part.rebuilt > 7


@pytest.mark.parametrize("index", [b"", None], ids=["empty", "missing"])
def test_markers_of_a_directory_determine_aborted_transactions(tmp_path, index):
    """After a clean shutdown, a broker trusts its transaction index: Kafka, and our broker that serves this
    directory.
    """
    from kafkaframes.records.build import build_end_transaction, build_records

    def data(base, producer, value):
        options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        return bytes(build_records({"value": [value], "timestamp": [1]}, base_offset=base, **options))

    def end(base, producer, *, commit):
        return bytes(build_end_transaction(base, commit=commit, timestamp=1, producer_id=producer, producer_epoch=0))

    partition = tmp_path / "log" / "t-0"
    partition.mkdir(parents=True)
    batches = [data(0, 1, b"no"), end(1, 1, commit=False), data(2, 2, b"yes"), end(3, 2, commit=True), data(4, 3, b"?")]
    (partition / f"{0:020}.log").write_bytes(b"".join(batches))
    (partition / f"{0:020}.index").touch()
    (partition / f"{0:020}.timeindex").touch()
    if index is not None:
        (partition / f"{0:020}.txnindex").write_bytes(index)
    (tmp_path / "log" / ".kafka_cleanshutdown").touch()
    with Broker() as target:
        report = run_mirror(
            tmp_path / "log", target.bootstrap_servers, offsets="reassign", state_dir=str(tmp_path / "state")
        )
        assert [record.value for record in target.records("t")] == [b"yes"]
    (line,) = report.not_read
    assert "producer 3 has been open since offset 4" in line


@pytest.mark.parametrize("kind", ["keep", "reassign"])
def test_a_record_above_the_limit_of_the_target_is_named_and_copied_after_the_limit_is_raised(tmp_path, kind):
    """strimzi/strimzi-kafka-operator#5933, #11037: the limit is a broker's default, which is not copied."""
    with Broker(config={"message.max.bytes": 5_000_000}) as a, Broker(config={"message.max.bytes": 100_000}) as b:
        for value in (b"small", b"x" * 400_000, b"after"):
            a.append("t", [{"value": value}])
        options = {"offsets": kind, "state_dir": str(tmp_path)}
        with pytest.raises(BrokerError, match=r"the batch at offset 1 of the copy of t-0 has 400,072 bytes") as failure:
            run_mirror(a.bootstrap_servers, b.bootstrap_servers, **options)
        assert failure.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert "increase `max.message.bytes` of the target's topic" in str(failure.value)
        b.configure_topic("t", **{"max.message.bytes": 1_000_000})
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, **options)
        assert rows_of(b.bootstrap_servers, "t", offsets=False) == rows_of(a.bootstrap_servers, "t", offsets=False)


def test_a_second_mirror_of_a_topic_with_the_same_state_is_rejected(tmp_path):
    """Both mirrors would append the same records before one of them notices the other."""
    with Broker() as a, Broker() as b:
        for topic in ("t", "other"):
            a.append(topic, [{"value": b"v"}])
        options = {"offsets": "reassign", "state_dir": str(tmp_path)}
        release = lock_topic(str(tmp_path), "t")
        with pytest.raises(LogDirError, match="another mirror of topic t uses this `state_dir`"):
            run_mirror(a.bootstrap_servers, b.bootstrap_servers, **options)
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("other",), **options)
        release()
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, **options)
        assert [record.value for record in b.records("t")] == [b"v"]


def test_the_longest_topic_names_have_mappings(tmp_path):
    """A topic name has up to 249 characters, and a file name up to 255."""
    names = ["x" * 249, "x" * 248 + "y"]
    with Broker() as a, Broker() as b:
        for name in names:
            a.append(name, [{"value": name[-1:].encode()}])
        for written in (2, 0):
            report = run_mirror(a.bootstrap_servers, b.bootstrap_servers, offsets="reassign", state_dir=str(tmp_path))
            assert sum(partition.records_written for partition in report.partitions) == written
        assert [b.records(name)[0].value for name in names] == [b"x", b"y"]


@pytest.mark.parametrize("content", [None, b"", b"\0\1"])
def test_a_lost_mapping_is_named(tmp_path, content):
    with Broker() as a, Broker() as b:
        a.append("t", [{"value": b"v"}])
        options = {"offsets": "reassign", "state_dir": str(tmp_path)}
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, **options)
        mapping = tmp_path / "t-0.offsets"
        mapping.unlink() if content is None else mapping.write_bytes(content)
        with pytest.raises(LogDirError, match="ends at 0: the mapping is missing or empty, so `state_dir` may be that"):
            run_mirror(a.bootstrap_servers, b.bootstrap_servers, **options)


def test_a_state_directory_that_is_a_file_is_an_error_with_the_path(tmp_path):
    (tmp_path / "state").touch()
    with Broker() as a, Broker() as b:
        a.append("t", [{"value": b"v"}])
        with pytest.raises(LogDirError, match=r"cannot be written: .*state"):
            run_mirror(a.bootstrap_servers, b.bootstrap_servers, offsets="reassign", state_dir=str(tmp_path / "state"))
