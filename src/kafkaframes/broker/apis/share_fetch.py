"""ShareFetch: a member of a share group is given records, and acknowledges earlier ones (KIP-932).

Version 0 was Kafka 4.0's early access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis import _share
from kafkaframes.broker.apis._groups import elsewhere
from kafkaframes.broker.apis._share import FINAL, INITIAL, Place
from kafkaframes.broker.changes import Steps
from kafkaframes.broker.errors import code_of
from kafkaframes.broker.fetching import Wait
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.store_reads import NotReadYetError, when_read
from kafkaframes.broker.topics import Partition
from kafkaframes.coordination.groups.share_partition import Acquired
from kafkaframes.coordination.groups.share_state import ShareSession
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.headers import headers_of
from kafkaframes.storage.partition.fetch import HIGH_WATERMARK

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ShareFetchRequest, ShareFetchResponse

    Request: TypeAlias = RequestOf[ShareFetchRequest, ShareFetchResponse]

_GROUP = 0
_PLACES_OF_A_TURN = 500
_Found = dict[Place, tuple[Partition | None, int]]
_Given = dict[Place, tuple[int, bytes, list[Acquired]]]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Take acknowledgements, then give records, at once or when there are some."""
    body = request.body
    code = elsewhere(request, broker, _GROUP, body.group_id or "")
    acknowledges = any(row.acknowledgement_batches for topic in body.topics for row in topic.partitions)
    is_wrong = body.group_id is None or not _share.is_member_id(body.member_id)
    if code == ErrorCode.NONE and (is_wrong or (acknowledges and body.share_session_epoch == INITIAL)):
        code = ErrorCode.INVALID_REQUEST
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    code, session = _share.enter(request, broker, may_begin=True)
    if session is None:
        return request.response(error_code=code)
    return broker.changes.beside(_answering(request, broker, session))


def _answering(request: Request, broker: BrokerState, session: ShareSession) -> Steps[Answer]:
    body, acknowledged = request.body, dict[Place, int]()
    rows = ((topic.topic_id, row) for topic in body.topics for row in topic.partitions)
    for number, (topic_id, row) in enumerate(rows, 1):
        place = topic_id, row.partition_index
        if row.acknowledgement_batches:
            acknowledged[place] = _share.acknowledge(request, broker, place, row.acknowledgement_batches)
        if not number % _PLACES_OF_A_TURN:
            yield
    if body.share_session_epoch == FINAL:
        _share.end(request, broker)
        return _answer(request, broker, {}, acknowledged)
    _update(session, request)
    found: _Found = {}
    for number, place in enumerate(list(session.places), 1):
        found[place] = _share.find(request, broker, place)
        if not number % _PLACES_OF_A_TURN:
            yield
    return when_read(broker, lambda: _give_or_wait(request, broker, found, acknowledged))


def _update(session: ShareSession, request: Request) -> None:
    for topic in request.body.topics:
        for row in topic.partitions:
            session.places[topic.topic_id, row.partition_index] = None
    for forgotten in request.body.forgotten_topics_data:
        for index in forgotten.partitions:
            session.places.pop((forgotten.topic_id, index), None)


def _give_or_wait(request: Request, broker: BrokerState, found: _Found, acknowledged: dict[Place, int]) -> Answer:
    there = {place: partition for place, (partition, _) in found.items() if partition is not None}
    failed = {place: (code, b"", list[Acquired]()) for place, (partition, code) in found.items() if partition is None}

    def attempt(is_last: bool) -> Any:
        given = _given(request, broker, there)
        if given or failed or is_last:
            return _answer(request, broker, {**given, **failed}, acknowledged)
        return None

    answer: Answer = attempt(request.body.max_wait_ms <= 0 or any(acknowledged.values()))
    if answer is not None:
        return answer
    return Wait(broker, list(there.values()), request.body.max_wait_ms, attempt).later


def _given(request: Request, broker: BrokerState, there: dict[Place, Partition]) -> _Given:
    """Acquire records, partition by partition, up to what the request takes."""
    body = request.body
    room, most = max(body.max_bytes, 1), body.max_records if body.max_records > 0 else 2**31 - 1
    given: _Given = {}
    for place, partition in there.items():
        if room <= 0 or most <= 0:
            break
        try:
            records, acquired = _of_partition(broker, body, place, partition, room, most)
        except NotReadYetError:
            if not given:
                raise  # nothing was acquired: the attempt runs again when its bytes are there
            break
        except KafkaframesError as error:
            given[place] = code_of(error), b"", []
            continue
        if acquired:
            given[place] = ErrorCode.NONE, records, acquired
            room -= len(records)
            most -= sum(one.last - one.first + 1 for one in acquired)
    return given


def _of_partition(
    broker: BrokerState, body: ShareFetchRequest, place: Place, partition: Partition, room: int, most: int
) -> tuple[bytes, list[Acquired]]:
    state = _share.state_of(broker, body.group_id or "", place, partition)
    log = partition.log
    while not state.is_full and (offset := state.next_fetch_offset) < log.high_watermark:
        data = log.read(offset, max_bytes=room, isolation=HIGH_WATERMARK, min_one_message=True).records
        runs, control, end = _runs(data, offset)
        if end <= offset:
            break
        state.skip(control)
        acquired = state.acquire(body.member_id or "", (one for run in runs for one in run), most)
        if acquired:
            return data, acquired
        if state.next_fetch_offset <= offset:
            break
    return b"", []


def _runs(data: bytes, offset: int) -> tuple[list[range], list[int], int]:
    """Return the offsets of batches with records, those that have none for a consumer, and where the data ends."""
    runs: list[range] = []
    control: list[int] = []
    position = offset
    for header in headers_of(data):
        control += range(position, max(header.base_offset, position))
        inside = range(max(header.base_offset, offset), header.last_offset + 1)
        if header.is_control:
            control += inside
        else:
            runs.append(inside)
        position = max(position, header.last_offset + 1)
    return runs, control, position


def _answer(request: Request, broker: BrokerState, given: _Given, acknowledged: dict[Place, int]) -> Answer:
    types = request.response
    by_topic: dict[Any, list[Any]] = {}
    for place in {**acknowledged, **given}:
        code, records, acquired = given.get(place, (ErrorCode.NONE, b"", []))
        row = types.PartitionData(
            partition_index=place[1],
            error_code=code,
            acknowledge_error_code=acknowledged.get(place, ErrorCode.NONE),
            records=records,
            acquired_records=[
                types.AcquiredRecords(first_offset=one.first, last_offset=one.last, delivery_count=one.deliveries)
                for one in acquired
            ],
        )
        by_topic.setdefault(place[0], []).append(row)
    topics = [types.ShareFetchableTopicResponse(topic_id=topic, partitions=rows) for topic, rows in by_topic.items()]
    lock_ms = broker.share_groups.lock_ms
    answer: Answer = request.response(acquisition_lock_timeout_ms=lock_ms, responses=topics)
    return answer


API = Api(
    name="ShareFetch",
    handle=handle,
    tier="T6",
    versions=(1, 2),
    behaviour=(
        "Records are locked for a member until it acknowledges them or the lock times out; then others get "
        "them, five times at most."
    ),
    notes={
        "v2+": "never more than MaxRecords, whatever the ShareAcquireMode; renewing locks (KIP-1222)",
    },
    gaps=("share.isolation.level is always read_uncommitted",),
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
)
