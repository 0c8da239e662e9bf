"""OffsetCommit: a group's offsets are written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, OffsetRows, elsewhere, error_of, refused_offsets
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.membership import Committer
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import OffsetCommitRequest, OffsetCommitResponse

    Request: TypeAlias = RequestOf[OffsetCommitRequest, OffsetCommitResponse]

_FIRST_WITH_EPOCHS = 9
_FIRST_WITH_IDS = 10


def handle(request: Request, broker: BrokerState) -> Answer:
    """Commit what can be committed."""
    rows = OffsetRows(request, broker, by_id_since=_FIRST_WITH_IDS)
    return rows.answered(lambda: _answer(request, broker, rows))


def _answer(request: Request, broker: BrokerState, rows: OffsetRows) -> Answer:
    body = request.body
    code = elsewhere(request, broker, GROUP, body.group_id)
    done: dict[TopicPartition, int] | int = code
    if code == ErrorCode.NONE:
        who = Committer(
            body.group_id,
            body.member_id,
            body.group_instance_id,
            body.generation_id_or_member_epoch,
            knows_epochs=request.version >= _FIRST_WITH_EPOCHS,
        )
        try:
            if rows.offsets:
                done = broker.groups.commit(who, rows.offsets, retention_ms=body.retention_time_ms)
        except KafkaframesError as error:
            done = error_of(error)
    types = request.response
    return request.response(
        topics=rows.answer(types.OffsetCommitResponseTopic, types.OffsetCommitResponsePartition, done)
    )


def _refuse(request: Request, code: int) -> Answer:
    types = request.response
    return request.response(
        topics=refused_offsets(request, types.OffsetCommitResponseTopic, types.OffsetCommitResponsePartition, code)
    )


API = Api(
    name="OffsetCommit",
    handle=handle,
    tier="T1",
    behaviour="Offsets and metadata are in the log before the answer; replayed after a restart.",
    notes={
        "v0": "Kafka wrote these to ZooKeeper; here they are like the others",
        "v1+": "member and generation are checked; -1 and no member id may commit while the group is empty",
        "v2-v4": "the client's own retention is kept",
        "v6+": "leader epochs",
        "v7+": "static members",
        "v9+": "member epochs (KIP-848)",
        "v10+": "topic ids",
    },
    gaps=("the commit time of a v1 client is replaced by the broker's",),
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
    refuse=_refuse,
)
