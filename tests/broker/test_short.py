"""The fast path answers byte for byte as the dispatcher does and leaves the same log, or leaves the request to it."""

from __future__ import annotations

import random
import struct
import tracemalloc
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.direct import START_MS

from kafkaframes.broker.apis import produce
from kafkaframes.broker.dispatch import fast_produce
from kafkaframes.broker.dispatch.dispatch import Dispatcher
from kafkaframes.broker.dispatch.fast_path import FastPath
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.requests.api import CloseConnection, DeferredResponse
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.security.access import AllowAllAuthorizer
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.broker.state.changes import finish_steps
from kafkaframes.broker.state.clock import Clock
from kafkaframes.broker.state.partitions import MAX_COPIED_RECORD_BYTES
from kafkaframes.broker.state.topics import Node, Nodes
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.records.build import build_end_transaction, build_records
from kafkaframes.storage.files import headers
from kafkaframes.storage.partition import appending
from kafkaframes.storage.partition.segment import FileRange

TOPIC_IDS = [f"{number:032x}" for number in range(1, 100)]
PRODUCE, FETCH = message("ProduceRequest"), message("FetchRequest")
PRODUCE_VERSIONS, FETCH_VERSIONS = range(14), range(4, 19)


def batch(count=1, *, value=b"v", **fields):
    columns = {"key": [b"k"] * count, "value": [value] * count, "timestamp": [START_MS + row for row in range(count)]}
    return build_records(columns, batch_bytes=1 << 24, **fields)


class OnlyOrders(AllowAllAuthorizer):
    """An authorizer that allows one topic."""

    def allows(self, session, operation, resource, name):
        return name == "orders"


class OnlyOthers(AllowAllAuthorizer):
    """An authorizer that allows all topics except one."""

    def allows(self, session, operation, resource, name):
        return name != "orders"


def new_broker(data_dir=None, *, access=None, **config):
    """Return a broker; each call gives the same topics, ids, records and clock."""
    from uuid import UUID

    ids = iter(TOPIC_IDS)
    state = open_broker(
        data_dir=data_dir,
        clock=Clock(source=lambda: START_MS, is_frozen=True),
        settings=BrokerSettings({key.replace("_", "."): str(value) for key, value in config.items()}),
        nodes=Nodes({1: Node(1), 2: Node(2)}),
        new_id=lambda: UUID(next(ids)),
        access=access,
    )
    state.create_topic("orders", 3)
    state.create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    state.create_topic("small", 1, {"max.message.bytes": "100"})
    state.create_topic("compact", 1, {"cleanup.policy": "compact"})
    for topic in state.topics.values():
        for partition in topic.partitions:
            partition.leader_id = 1
    state.topics["orders"].partitions[2].leader_id = 2
    log = state.topics["orders"].partitions[1].log
    for number in range(6):
        log.append_as_leader(batch(3, value=b"%d" % number * 100), leader_epoch=0, now_ms=START_MS)
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append_as_leader(batch(2, **producer), leader_epoch=0, now_ms=START_MS)
    end = build_end_transaction(0, commit=False, timestamp=START_MS, producer_id=7, producer_epoch=0)
    log.append_as_leader(end, leader_epoch=0, now_ms=START_MS, origin="COORDINATOR")
    log.update_high_watermark(log.log_end_offset)
    return state


def log_contents(state):
    """Return the bytes and the end offset of each log."""
    return {
        str(partition.topic_partition): (
            partition.log.log_end_offset,
            partition.log.high_watermark,
            partition.log.read(0, max_bytes=1 << 24, isolation="log_end").records,
        )
        for partition in state.partitions()
    }


class PairedBrokers:
    """Two brokers with the same history: one tries the fast path first, the other uses only the dispatcher."""

    def __init__(self, **how):
        data_dir = how.pop("data_dir", None)
        places = (None, None) if data_dir is None else (str(data_dir / "short"), str(data_dir / "long"))
        self.quick, self.plain = (new_broker(place, **how) for place in places)
        self.short = FastPath(Dispatcher(self.quick))
        self.dispatchers = Dispatcher(self.quick), Dispatcher(self.plain)

    def ask(self, frame, *, sends_files=False, session=None):
        """Send a frame to both brokers; return whether the fast path answered, and the answer."""
        session = session or Session(sends_files=sends_files)
        quick_answer = self.short(memoryview(frame), session)
        quick = (
            join_buffers(quick_answer)
            if quick_answer is not None
            else dispatcher_answer(self.dispatchers[0], frame, self.quick)
        )
        plain = dispatcher_answer(self.dispatchers[1], frame, self.plain)
        assert quick == plain
        assert log_contents(self.quick) == log_contents(self.plain)
        return quick_answer is not None, quick


def join_buffers(buffers):
    return b"".join(map(bytes, buffers))


def dispatcher_answer(dispatcher, frame, state):
    """Return the dispatcher's answer, None if there is no answer, or "closed" if the connection is closed."""
    try:
        request = dispatcher.decode_request(frame, Session())
        answer = dispatcher.answer(request)
        if isinstance(answer, DeferredResponse):
            if not answer.is_done:
                state.waits.advance(60)
            answer = answer.answer
    except CloseConnection:
        return "closed"
    return None if answer is None else join_buffers(dispatcher.encode(request, answer))


def produce_frame(version, topics, *, acks=-1, client_id="me", header_tags=(), **fields):
    rows = []
    for name, partitions in topics:
        partition_rows = [PRODUCE.PartitionProduceData(index=index, records=records) for index, records in partitions]
        rows.append(PRODUCE.TopicProduceData(**topic_field(name, version), partition_data=partition_rows))
    body = PRODUCE(acks=acks, timeout_ms=1000, topic_data=rows, **fields)
    return encode_request(body, version, correlation_id=9, client_id=client_id, header_tags=list(header_tags))


def topic_field(name, version, *, field="name"):
    """Return the field with the topic's name, or with its id from version 13 on."""
    from uuid import UUID

    if version < 13:
        return {field: name}
    topic_names = ["orders", "stamped", "small", "compact"]
    return {"topic_id": UUID(TOPIC_IDS[topic_names.index(name) + 1] if name in topic_names else TOPIC_IDS[50])}


def fetch_frame(version, topics, *, max_wait_ms=0, client_id="me", **fields):
    rows = []
    for name, partitions in topics:
        partition_rows = []
        for index, offset, *more in partitions:
            given_fields = {"partition_max_bytes": 1 << 20, **(more[0] if more else {})}
            known_fields = {key: value for key, value in given_fields.items() if exists(key, version)}
            partition_rows.append(FETCH.FetchPartition(partition=index, fetch_offset=offset, **known_fields))
        rows.append(FETCH.FetchTopic(**topic_field(name, version, field="topic"), partitions=partition_rows))
    given_fields = {"max_bytes": 1 << 20, "min_bytes": 1, "session_epoch": -1, **fields}
    known_fields = {key: value for key, value in given_fields.items() if exists(key, version)}
    return encode_request(
        FETCH(max_wait_ms=max_wait_ms, topics=rows, **known_fields), version, correlation_id=9, client_id=client_id
    )


def exists(key, version):
    first = {
        "session_epoch": 7,
        "session_id": 7,
        "current_leader_epoch": 9,
        "last_fetched_epoch": 12,
        "log_start_offset": 5,
    }
    first |= {"forgotten_topics_data": 7, "rack_id": 11}
    return version >= first.get(key, 0)


def build_records_for(version, count=2, **fields):
    """Return records in the format of a Produce version."""
    return batch(count, record_format=min(version, 4) // 2 if version < 3 else 2, **fields)


FAST_PRODUCE = {
    "one batch": lambda v: produce_frame(v, [("orders", [(0, build_records_for(v))])]),
    "one acknowledgement": lambda v: produce_frame(v, [("orders", [(0, build_records_for(v))])], acks=1),
    "two partitions and topics": lambda v: produce_frame(
        v,
        [
            ("orders", [(0, build_records_for(v)), (1, build_records_for(v))]),
            ("stamped", [(0, build_records_for(v, 1))]),
        ],
    ),
    "compressed": lambda v: produce_frame(v, [("orders", [(0, build_records_for(v, 50, codec="gzip"))])]),
    "no client": lambda v: produce_frame(v, [("orders", [(0, build_records_for(v))])], client_id=None),
    "too large": lambda v: produce_frame(
        v, [("orders", [(0, build_records_for(v))]), ("small", [(0, build_records_for(v, 30))])]
    ),
    "a record without a key in a compacted topic": lambda v: produce_frame(
        v,
        [("compact", [(0, build_records({"value": [b"x", b"y"]}, record_format=0 if v < 2 else 1 if v == 2 else 2))])],
    ),
    "damaged": lambda v: produce_frame(
        v, [("orders", [(0, build_records_for(v)[:-3] + b"xyz"), (1, build_records_for(v))])]
    ),
}
GENERAL_PRODUCE = {
    "a partition twice": lambda v: produce_frame(
        v, [("orders", [(0, build_records_for(v)), (0, build_records_for(v))])]
    ),
    "a topic twice": lambda v: produce_frame(
        v, [("orders", [(0, build_records_for(v))]), ("orders", [(1, build_records_for(v))])]
    ),
    "no acknowledgement": lambda v: produce_frame(v, [("orders", [(0, build_records_for(v))])], acks=0),
    "wrong acks": lambda v: produce_frame(v, [("orders", [(0, build_records_for(v))])], acks=2),
    "unknown topic": lambda v: produce_frame(
        v, [("orders", [(0, build_records_for(v))]), ("unknown", [(0, build_records_for(v))])]
    ),
    "unknown partition": lambda v: produce_frame(
        v, [("orders", [(0, build_records_for(v)), (9, build_records_for(v))])]
    ),
    "negative partition": lambda v: produce_frame(v, [("orders", [(-1, build_records_for(v))])]),
    "led elsewhere": lambda v: produce_frame(v, [("orders", [(0, build_records_for(v)), (2, build_records_for(v))])]),
    "no topics": lambda v: produce_frame(v, []),
    "no partitions": lambda v: produce_frame(v, [("orders", [])]),
    "null records": lambda v: produce_frame(v, [("orders", [(0, None)])]),
}


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_the_fast_path_answers_produce_as_the_dispatcher_does(version):
    pair = PairedBrokers()
    for name, make in FAST_PRODUCE.items():
        for _ in range(2):
            is_short, answer = pair.ask(make(version))
            assert is_short, name
            assert answer
    for name, make in GENERAL_PRODUCE.items():
        assert not pair.ask(make(version))[0], name


@pytest.mark.parametrize("version", [version for version in PRODUCE_VERSIONS if version >= 3])
def test_the_fast_path_checks_idempotent_and_malformed_batches(version):
    pair = PairedBrokers()
    producer_fields = {"producer_id": 3, "producer_epoch": 0}
    for sequence, is_right in ((0, True), (2, True), (2, True), (9, False)):
        records = batch(2, base_sequence=sequence, **producer_fields)
        is_short, _ = pair.ask(produce_frame(version, [("orders", [(0, records)])]))
        assert is_short, is_right
    two = batch(1) + batch(1)
    wrong = [two, two[:-1], b"", b"\x00" * 16, batch(2, record_format=1), batch(1)[:40]]
    wrong.append(batch(2, base_sequence=0, transactional=True, producer_id=8, producer_epoch=0))
    if version < 7:
        wrong.append(batch(9, codec="zstd"))
    for records in wrong:
        assert not pair.ask(produce_frame(version, [("orders", [(0, records)])]))[0]
    assert not pair.ask(produce_frame(version, [("orders", [(0, batch())])], transactional_id="mine"))[0]
    if version >= 9:
        assert not pair.ask(produce_frame(version, [("orders", [(0, batch())])], header_tags=[(7, b"x")]))[0]


FAST_FETCH = {
    "one partition": lambda v: fetch_frame(v, [("orders", [(1, 0)])]),
    "from the middle": lambda v: fetch_frame(v, [("orders", [(1, 7)])]),
    "little": lambda v: fetch_frame(v, [("orders", [(1, 4, {"partition_max_bytes": 1})])]),
    "two topics and partitions": lambda v: fetch_frame(v, [("orders", [(1, 3), (0, 0)]), ("stamped", [(0, 0)])]),
    "limited by the request's max bytes": lambda v: fetch_frame(
        v, [("stamped", [(0, 0)]), ("orders", [(1, 3), (0, 0)])], max_bytes=400
    ),
    "the end": lambda v: fetch_frame(v, [("orders", [(0, 0)])]),
    "committed, nothing there": lambda v: fetch_frame(v, [("orders", [(0, 0)])], isolation_level=1),
    "the right epoch": lambda v: fetch_frame(
        v, [("orders", [(1, 0, {"current_leader_epoch": 0, "last_fetched_epoch": 0})])]
    ),
    "enough at once": lambda v: fetch_frame(v, [("orders", [(1, 0)])], max_wait_ms=500, min_bytes=10),
    "nothing wanted": lambda v: fetch_frame(v, [("orders", [(0, 0)])], max_wait_ms=500, min_bytes=0),
    "a rack": lambda v: fetch_frame(v, [("orders", [(1, 0)])], rack_id="here"),
    "no client": lambda v: fetch_frame(v, [("orders", [(1, 0)])], client_id=None),
}
GENERAL_FETCH = {
    "a negative limit": (4, lambda v: fetch_frame(v, [("orders", [(1, 0, {"partition_max_bytes": -5})])])),
    "a negative size": (4, lambda v: fetch_frame(v, [("orders", [(1, 0)])], max_bytes=-1)),
    "an unknown isolation": (4, lambda v: fetch_frame(v, [("orders", [(1, 0)])], isolation_level=5)),
    "aborted transactions": (4, lambda v: fetch_frame(v, [("orders", [(1, 0)])], isolation_level=1)),
    "not enough": (4, lambda v: fetch_frame(v, [("orders", [(0, 0)])], max_wait_ms=50)),
    "no such offset": (4, lambda v: fetch_frame(v, [("orders", [(1, 900)])])),
    "unknown topic": (4, lambda v: fetch_frame(v, [("unknown", [(1, 0)])])),
    "unknown partition": (4, lambda v: fetch_frame(v, [("orders", [(1, 0), (7, 0)])])),
    "led elsewhere": (4, lambda v: fetch_frame(v, [("orders", [(2, 0)])])),
    "a topic twice": (4, lambda v: fetch_frame(v, [("orders", [(1, 0)]), ("orders", [(0, 0)])])),
    "a partition twice": (4, lambda v: fetch_frame(v, [("orders", [(1, 0), (1, 5)])])),
    "no topics": (4, lambda v: fetch_frame(v, [])),
    "no partitions": (4, lambda v: fetch_frame(v, [("orders", [])])),
    "a new session": (7, lambda v: fetch_frame(v, [("orders", [(1, 0)])], session_epoch=5, session_id=77)),
    "an old epoch": (9, lambda v: fetch_frame(v, [("orders", [(1, 0, {"current_leader_epoch": 4})])])),
    "logs that part": (12, lambda v: fetch_frame(v, [("orders", [(1, 0, {"last_fetched_epoch": 3})])])),
}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_the_fast_path_answers_fetch_as_the_dispatcher_does(version):
    pair = PairedBrokers()
    for name, make in FAST_FETCH.items():
        is_short, answer = pair.ask(make(version))
        assert is_short, name
        assert answer
    for name, (first, make) in GENERAL_FETCH.items():
        if version >= first:
            assert not pair.ask(make(version))[0], name


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_the_fast_path_sends_long_records_from_their_file(tmp_path, version):
    pair = PairedBrokers(data_dir=tmp_path)
    for state in (pair.quick, pair.plain):
        log = state.topics["orders"].partitions[0].log
        for number in range(4):
            log.append_as_leader(batch(5, value=b"%d" % number * 7000), leader_epoch=0, now_ms=START_MS)
        log.update_high_watermark(log.log_end_offset)
    frame = fetch_frame(version, [("orders", [(0, 0), (1, 0)])])
    assert pair.ask(frame, sends_files=True)[0]
    parts = pair.short(memoryview(frame), Session(sends_files=True))
    assert [len(part) for part in parts if isinstance(part, FileRange)] == [log.size_bytes]
    assert log.size_bytes > MAX_COPIED_RECORD_BYTES
    assert not any(isinstance(part, FileRange) for part in pair.short(memoryview(frame), Session()))
    pair.quick.logs.abandon()
    pair.plain.logs.abandon()


def test_unauthorized_requests_are_left_to_the_dispatcher():
    pair = PairedBrokers(access=OnlyOrders())
    assert pair.ask(produce_frame(9, [("orders", [(0, batch())])]))[0]
    assert not pair.ask(produce_frame(9, [("stamped", [(0, batch())])]))[0]
    assert pair.ask(fetch_frame(11, [("orders", [(1, 0)])]))[0]
    assert not pair.ask(fetch_frame(11, [("stamped", [(0, 0)])]))[0]
    session = Session(is_authenticated=False)
    assert pair.short(memoryview(fetch_frame(11, [("orders", [(1, 0)])])), session) is None


def test_the_fast_path_answers_until_the_session_expires():
    pair = PairedBrokers()
    session = Session(principal="User:alice", expires_ms=pair.quick.clock.now_ms + 10)
    frames = fetch_frame(11, [("orders", [(1, 0)])]), produce_frame(9, [("orders", [(0, batch())])])
    for frame in (*frames, frames[1]):  # the second Produce repeats the bytes of the first
        assert pair.ask(frame, session=session)[0]
    pair.quick.clock.advance(0.010)
    for frame in frames:
        assert pair.short(memoryview(frame), session) is None
        with pytest.raises(CloseConnection, match="session expired"):
            pair.dispatchers[0].answer(pair.dispatchers[0].decode_request(frame, session))


@pytest.mark.parametrize("version", [11, 18])
def test_a_fetch_with_a_preferred_read_replica_is_left_to_the_dispatcher(version):
    pair = PairedBrokers()
    frame = fetch_frame(version, [("orders", [(1, 0)])], rack_id="b")
    assert pair.ask(frame)[0]  # none of the nodes has a rack
    for state in (pair.quick, pair.plain):
        state.nodes.by_id[2].rack = "b"
    assert not pair.ask(frame)[0]


def test_other_requests_and_versions_are_left_to_the_dispatcher():
    pair = PairedBrokers()
    for frame in (b"", bytes(9), bytes(10), struct.pack(">hhih", 3, 9, 1, -1), struct.pack(">hhih", 0, 14, 1, -1)):
        assert pair.short(memoryview(frame), Session()) is None
    for version in range(4):
        assert pair.short(memoryview(fetch_frame(version, [("orders", [(1, 0)])])), Session()) is None
    internal = pair.quick.create_internal_topic("__consumer_offsets")
    assert internal.is_internal
    assert pair.short(memoryview(produce_frame(9, [("__consumer_offsets", [(0, batch())])])), Session()) is None


CASES = [(0, v, make) for v in PRODUCE_VERSIONS for make in FAST_PRODUCE.values()]
CASES += [(1, v, make) for v in FETCH_VERSIONS for make in FAST_FETCH.values()]


@pytest.mark.parametrize("part", range(4))
def test_the_fast_path_answers_mutated_requests_as_the_dispatcher_does(part):
    pair, rng = PairedBrokers(), random.Random(part)
    for _ in range(250):
        _, version, make = rng.choice(CASES)
        raw = bytearray(make(version))
        for _ in range(rng.choice((1, 1, 2, 6))):
            # mutations are more frequent near the start, where the lengths and counts are, than in the records
            raw[rng.randrange(8, min(len(raw), rng.choice((40, 90, len(raw)))))] = rng.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256))
            )
        if rng.random() < 0.3:
            raw = raw[: rng.randrange(len(raw))]
        elif rng.random() < 0.1:
            raw += b"behind"
        if len(raw) >= 10:
            pair.ask(bytes(raw))


@given(case=st.sampled_from(CASES), cut_size=st.integers(0, 400))
def test_truncated_requests_are_left_to_the_dispatcher(case, cut_size):
    _, version, make = case
    raw = make(version)
    assert EMPTY_BROKERS.short(memoryview(raw)[: max(len(raw) - 1 - cut_size, 0)], Session()) is None


EMPTY_BROKERS = PairedBrokers()


def build_repeated_request(version, records=None, **fields):
    """Return a request for one partition whose bytes are the same at each call, apart from the records."""
    return produce_frame(
        version, [("orders", [(0, build_records_for(version) if records is None else records)])], **fields
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_repeated_request_is_answered_as_the_first_time(version):
    pair, session = PairedBrokers(), Session()
    assert pair.ask(build_repeated_request(version), session=session)[0]
    position = session.records_at
    assert position > 0
    same = [
        build_records_for(version, count, value=b"v" * size) for count, size in ((1, 1), (1, 90), (3, 9000), (40, 600))
    ]
    for number, records in enumerate(same):
        again = bytearray(build_repeated_request(version, records))
        again[4:8] = number.to_bytes(4, "big")
        assert pair.short._repeats._known_requests.get(fast_produce._cache_key(bytes(again), position)) is not None
        assert pair.ask(bytes(again), session=session)[0]
    for name, make in (FAST_PRODUCE | GENERAL_PRODUCE).items():
        is_known, _ = pair.ask(make(version), session=session)
        assert is_known == (name in FAST_PRODUCE)
        assert pair.ask(build_repeated_request(version), session=session)[0]
    damaged_records = build_records_for(version)[:-3] + b"xyz"
    for records in (
        damaged_records,
        damaged_records[:-1],
        b"",
        build_records_for(version) * 2,
        batch(2, record_format=1),
        bytes(70),
    ):
        pair.ask(build_repeated_request(version, records), session=session)
    assert pair.ask(build_repeated_request(version), session=session)[0]


@pytest.mark.parametrize("again", [False, True], ids=["the first time", "answered from the remembered request"])
def test_the_fast_path_copies_records_once_and_reads_their_header_once(tmp_path, monkeypatch, again):
    state = new_broker(str(tmp_path))
    short, session = FastPath(Dispatcher(state)), Session()
    records = batch(value=random.Random(1).randbytes(900_000))
    frame = memoryview(bytearray(produce_frame(9, [("orders", [(0, records)])])))
    for _ in range(2 if again else 1):
        assert short(memoryview(produce_frame(9, [("orders", [(0, batch())])])), session) is not None
    read = []
    for name in ("read_first_header", "parse_header", "headers_from"):
        for module in (headers, produce, appending):
            original = getattr(module, name, None)
            if original is not None:
                monkeypatch.setattr(module, name, lambda *a, f=original, **k: read.append(f) or f(*a, **k))
    tracemalloc.start()
    assert short(frame, session) is not None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read) == 1
    assert len(records) < peak < 1.2 * len(records)
    assert state.topics["orders"].partitions[0].log.log_end_offset == (3 if again else 2)


def test_only_well_formed_single_partition_requests_are_remembered():
    pair, version = PairedBrokers(), 9
    both = [("orders", [(0, batch()), (1, batch())])]
    request_with_surplus = build_repeated_request(version) + build_repeated_request(version, batch(2))[14 + len("me") :]
    long = produce_frame(version, [("orders", [(0, batch())])], client_id="x" * fast_produce.MAX_HEAD_BYTES)
    for frame in (produce_frame(version, both), request_with_surplus, long):
        session = Session()
        assert pair.ask(frame, session=session)[0]
        assert session.records_at == 0


def test_a_repeated_request_is_checked_against_the_current_state():
    pair, session = PairedBrokers(), Session()
    ordinary = build_repeated_request(9)
    assert pair.ask(ordinary, session=session)[0]
    moved_session = Session(node_id=2)
    moved_session.records_at = session.records_at
    assert pair.short(memoryview(ordinary), moved_session) is None
    for state in (pair.quick, pair.plain):
        state.topics["orders"].partitions[0].leader_id = 2
    assert not pair.ask(ordinary, session=session)[0]
    for state in (pair.quick, pair.plain):
        state.topics["orders"].partitions[0].leader_id = 1
    assert pair.ask(ordinary, session=session)[0]
    for state in (pair.quick, pair.plain):
        state.access = OnlyOthers()
    assert not pair.ask(ordinary, session=session)[0]
    for state in (pair.quick, pair.plain):
        state.access = AllowAllAuthorizer()
        finish_steps(state.delete_topics_in_steps([state.topics["orders"]]))
    assert not pair.ask(ordinary, session=session)[0]
    for state in (pair.quick, pair.plain):
        state.create_topic("orders", 1)
        state.topics["orders"].partitions[0].leader_id = 1
    for _ in range(2):
        assert pair.ask(ordinary, session=session)[0]
    assert pair.quick.topics["orders"].partitions[0].log.log_end_offset == 4
    (request,) = pair.short._repeats._known_requests.values()
    assert request.topic.topic is pair.quick.topics["orders"]


def test_alternating_requests_are_each_remembered_once():
    pair, session = PairedBrokers(), Session()
    frames = [produce_frame(9, [(name, [(0, batch())])]) for name in ("orders", "stamped")]
    for _ in range(3):
        for frame in frames:
            assert pair.ask(frame, session=session)[0]
    assert len(pair.short._repeats._known_requests) == 2
    known_requests = list(pair.short._repeats._known_requests.values())
    assert pair.ask(frames[0], session=session)[0]
    assert [
        one is two for one, two in zip(known_requests, pair.short._repeats._known_requests.values(), strict=True)
    ] == [True] * 2


def test_the_number_of_remembered_requests_is_limited(monkeypatch):
    monkeypatch.setattr(fast_produce, "MAX_CACHED_REQUESTS", 3)
    pair, session = PairedBrokers(), Session()
    for number in range(10):
        assert pair.ask(build_repeated_request(9, client_id=f"client {number}"), session=session)[0]
        assert len(pair.short._repeats._known_requests) <= 3


@pytest.mark.parametrize("version", [2, 7, 9, 13])
@given(
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    cut_at=st.one_of(st.none(), st.integers(0, 400)),
)
def test_any_bytes_after_a_remembered_prefix_are_answered_as_by_the_dispatcher(version, changes, cut_at):
    pair, session = open_pair_with_request(version)
    frame = bytearray(build_repeated_request(version))
    for place, value in changes:
        if place < len(frame):
            frame[place] = value
    pair.ask(bytes(frame[:cut_at]), session=session)


@cache
def open_pair_with_request(version):
    pair, session = PairedBrokers(), Session()
    assert pair.ask(build_repeated_request(version), session=session)[0]
    return pair, session
