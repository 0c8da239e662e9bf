"""Small pools of values by field name, with existing, missing, invalid, nil, empty and huge values."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.interop.random_differential.symbols import NIL_ID_TEXT, symbol, unknown_id, uuid_text

INT32, INT64 = 2**31 - 1, 2**63 - 1
NOW_MS = 1_700_000_000_000
TOPICS = ("~a", "~b", "~c")  # topics created at the start of an episode, with 2, 1 and 1 partitions; c is compacted
LATER_TOPICS = ("~d", "~e")  # topics that requests create and delete
WRONG_TOPICS = ("~none", "", "..", "a/b", "~" + "x" * 250, "~a.b", "~a_b")
GROUPS = ("~g", "~g", "~k", "~s")  # these are mostly a classic group, a consumer group and a share group
WRONG_GROUPS = ("~nobody", "")
TRANSACTIONS = ("~t", "~u")
MEMBERS = ("", "nobody", "m" * 300)


@dataclass
class RequestDraw:
    """The choices for a request: its group, transaction and topic.

    Attributes:
        oddness: the fraction of fields that are drawn from the pools of invalid values.
    """

    random: random.Random
    api: str
    version: int
    oddness: float

    def __post_init__(self) -> None:
        # A commit would create the group with the empty name, which all episodes share.
        self.group = self.odd_or(GROUPS, WRONG_GROUPS[:1] if self.api == "OffsetCommit" else WRONG_GROUPS)
        self.transaction = self.odd_or(TRANSACTIONS, ("~nobody", ""))
        self.topic, self.names_internal = "", False

    def pick(self, *values: Any) -> Any:
        """Return one of the values at random."""
        return self.random.choice(values)

    def odd_or(self, usual: tuple[Any, ...], odd: tuple[Any, ...]) -> Any:
        """Return a usual value, or rarely an invalid one."""
        return self.random.choice(odd if self.random.random() < self.oddness else usual)


Maker = Callable[[RequestDraw], Any]


def choice(*usual: Any, odd: tuple[Any, ...] = ()) -> Maker:
    """Return a function that draws one of ``usual``, or, with the probability ``oddness``, one of ``odd``."""
    return lambda draw: draw.odd_or(usual, odd) if odd else draw.pick(*usual)


INTERNAL = "__consumer_offsets"
_MAY_NAME_INTERNAL = frozenset(
    {
        *("Produce", "AddPartitionsToTxn", "DeleteRecords", "CreateTopics", "Metadata", "DescribeTopicPartitions"),
        *("DescribeConfigs", "OffsetCommit", "OffsetFetch", "OffsetDelete", "TxnOffsetCommit", "DescribeQuorum"),
        *("ConsumerGroupHeartbeat", "ListPartitionReassignments", "AlterReplicaLogDirs", "DescribeLogDirs"),
        *("ShareGroupHeartbeat", "ElectLeaders", "AlterPartitionReassignments"),
    }
)
# All episodes write to the internal topic, with different bytes and offsets on each broker, so requests use a missing
# partition.
_ASKS_CONTENT = frozenset({"Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DescribeProducers"})
# All episodes share the internal topic, so changes are only validated. DeleteTopics and WriteTxnMarkers do not have
# this option.
_CHANGES = frozenset({"CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs"})


def topic_name(draw: RequestDraw) -> Any:
    """Draw a topic's name."""
    internal = (INTERNAL,) if draw.api in _MAY_NAME_INTERNAL | _ASKS_CONTENT | _CHANGES else ()
    draw.topic = draw.odd_or(TOPICS * 3 + LATER_TOPICS, (*WRONG_TOPICS, *internal, "~none"))
    draw.names_internal |= draw.topic == INTERNAL
    return draw.topic


def partition(draw: RequestDraw) -> Any:
    """Draw a partition of the last drawn topic."""
    if draw.topic == INTERNAL and draw.api in _ASKS_CONTENT:
        return 99
    return draw.odd_or((0, 0, 0, 1), (1, 2, 99, -1, INT32))


def topic_id(draw: RequestDraw) -> Any:
    """Draw a topic's id."""
    known_id = symbol("topic", draw.pick(*TOPICS, *TOPICS, *LATER_TOPICS))
    return (
        known_id
        if draw.random.random() >= draw.oddness
        else draw.pick(uuid_text(NIL_ID_TEXT), uuid_text(unknown_id("")))
    )


def producer_id(draw: RequestDraw) -> Any:
    """Draw the producer id of the request's transaction."""
    known_id = symbol("producer", draw.transaction)
    return (
        known_id if draw.random.random() >= draw.oddness else draw.pick(-1, 0, symbol("producer", None), 987654321, -7)
    )


def producer_epoch(draw: RequestDraw) -> Any:
    """Draw the epoch of the request's transaction."""
    known_epoch = symbol("epoch", draw.transaction)
    if draw.random.random() >= draw.oddness:
        return known_epoch
    return draw.pick(-1, 0, 32767, symbol("epoch", draw.transaction, 1), symbol("epoch", draw.transaction, -1))


def member_id(draw: RequestDraw) -> Any:
    """Draw a member of the request's group."""
    return symbol("member", draw.group) if draw.random.random() >= draw.oddness else draw.pick(*MEMBERS)


def generation(draw: RequestDraw) -> Any:
    """Draw a generation, or a member's epoch."""
    known_generation = symbol("generation", draw.group)
    return known_generation if draw.random.random() >= draw.oddness else draw.pick(-1, 0, 1, -2, 99, INT32)


def records(draw: RequestDraw) -> Any:
    """Draw records in the version's format, rarely invalid ones."""
    magic = 2 if draw.version >= 3 else 1 if draw.version == 2 else 0
    count = draw.pick(1, 1, 2, 5)
    columns = {
        "key": [draw.pick("k", "l", "k", "m", None) for _ in range(count)],
        "value": [draw.pick("v", "w" * 20, "") for _ in range(count)],
        "timestamp": [NOW_MS + draw.pick(0, 5, 3, 1000) for _ in range(count)],
    }
    record_spec: dict[str, Any] = {"columns": columns, "record_format": magic}
    record_spec["codec"] = draw.pick("none", "none", "none", "gzip", "lz4", "snappy", *(["zstd"] if magic == 2 else []))
    if magic == 2 and draw.random.random() < 0.5:
        owner = draw.pick(None, draw.transaction, draw.transaction)
        record_spec["producer_id"] = symbol("producer", owner)
        record_spec["producer_epoch"] = symbol("epoch", owner)
        record_spec["base_sequence"] = draw.pick(0, 0, 0, 1, 2, 3, 5, 7)
        record_spec["transactional"] = owner is not None and draw.random.random() < 0.9
    wrong = draw.odd_or((None,), ("crc", "torn", "short", "empty", "twice", "format"))
    if wrong == "format":
        record_spec["record_format"] = draw.pick(0, 1, 2)
        if record_spec["record_format"] < 2:
            for key in ("producer_id", "producer_epoch", "base_sequence", "transactional"):
                record_spec.pop(key, None)
            record_spec["codec"] = "none"
    else:
        record_spec["wrong"] = wrong
    return symbol("records", record_spec)


_OFFSET = choice(0, 0, 1, 2, 3, odd=(-1, -2, 4, 5, 10, 1000, INT64))
_LEADER_EPOCH = choice(-1, 0, odd=(0, 1, 5, -2, INT32))
_TIMEOUT = choice(5_000, odd=(5_000, 30_000))
_TOPIC_SETTINGS = ("retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "compression.type")

BY_NAME: dict[str, Maker] = {
    "topic": topic_name,
    "topicName": topic_name,
    "topicNames": topic_name,
    "topicId": topic_id,
    "index": partition,
    "partition": partition,
    "partitionIndex": partition,
    "partitionIndexes": partition,
    "partitions": partition,
    "groupId": lambda draw: draw.group,
    "groups": lambda draw: draw.odd_or(GROUPS, WRONG_GROUPS),
    "groupIds": lambda draw: draw.odd_or(GROUPS, WRONG_GROUPS),
    "groupsNames": lambda draw: draw.odd_or(GROUPS, WRONG_GROUPS),
    "transactionalId": lambda draw: draw.transaction,
    "v3AndBelowTransactionalId": lambda draw: draw.transaction,
    "transactionalIds": lambda draw: draw.odd_or(TRANSACTIONS, ("~nobody", "")),
    "producerId": producer_id,
    "v3AndBelowProducerId": producer_id,
    "producerIdFilters": producer_id,
    "producerEpoch": producer_epoch,
    "v3AndBelowProducerEpoch": producer_epoch,
    "memberId": member_id,
    "memberEpoch": generation,
    "generationId": generation,
    "generationIdOrMemberEpoch": generation,
    "groupInstanceId": choice(None, odd=("i", "j", "")),
    "instanceId": choice(None, odd=("i", "j", "")),
    "records": records,
    "acks": choice(-1, 1, odd=(0, 2, -2)),
    "timeoutMs": _TIMEOUT,
    "maxWaitMs": choice(0, odd=(0, 1, 20)),
    "minBytes": choice(0, 1, odd=(0, -1, 100)),
    "maxBytes": choice(1 << 20, INT32, odd=(0, 1, 100, -1)),
    "partitionMaxBytes": choice(1 << 20, odd=(0, 1, 100, INT32, -1)),
    "isolationLevel": choice(0, 1, odd=(2,)),
    "sessionTimeoutMs": choice(60_000, odd=(1, 0, -1, INT32)),
    "rebalanceTimeoutMs": choice(60_000, odd=(60_000, 300_000)),
    "transactionTimeoutMs": choice(60_000, odd=(0, -1, INT32)),
    "replicaId": choice(-1, odd=(-2, -1)),
    "replicaEpoch": choice(-1),
    "currentLeaderEpoch": _LEADER_EPOCH,
    "leaderEpoch": choice(0, odd=(-1, 1, 5, -2)),
    "lastFetchedEpoch": choice(-1, odd=(0, 1, 5)),
    "committedLeaderEpoch": choice(-1, 0, odd=(5, -2)),
    "fetchOffset": _OFFSET,
    "logStartOffset": choice(-1, odd=(0, 5)),
    "committedOffset": choice(0, 1, 5, odd=(-1, INT64, 1000)),
    "committedMetadata": choice("", "m", None, odd=("x" * 5000,)),
    "offset": choice(0, 1, odd=(-1, -2, 1000, INT64)),
    "startOffset": choice(0, 1, odd=(-1, -2, 1000)),
    "timestamp": choice(-1, -2, NOW_MS, NOW_MS + 4, odd=(-3, -4, -5, -6, -7, 0, INT64, NOW_MS + 10**9)),
    "maxNumOffsets": choice(1, 5, odd=(0, -1)),
    "commitTimestamp": choice(-1),
    "retentionTimeMs": choice(-1, odd=(1_000_000,)),
    "key": lambda draw: draw.odd_or(GROUPS + TRANSACTIONS, (*WRONG_GROUPS, ":", "~s:x:0")),
    "coordinatorKeys": lambda draw: draw.odd_or(GROUPS + TRANSACTIONS, (*WRONG_GROUPS, ":", "~s:x:0")),
    "keyType": choice(0, 1, odd=(0, 1, 2, 3, -1)),
    "protocolType": choice("consumer", odd=("", "connect")),
    "protocolName": choice("range", odd=("", "x", None)),
    "metadata": choice("", "AAE=", odd=("",)),
    "assignment": choice("", "AAE="),
    "reason": choice(None, "r"),
    "mechanism": choice("PLAIN", "SCRAM-SHA-256", odd=("", "x")),
    "clientSoftwareName": choice("test", odd=("", "-", "a b")),
    "clientSoftwareVersion": choice("1.0", odd=("", "-")),
    "numPartitions": choice(1, 2, odd=(-1, 0, -2, 3)),
    "replicationFactor": choice(1, odd=(-1, 0, 2)),
    "brokerIds": choice(1, odd=(2, -1)),
    "replicas": choice(1, odd=(2, -1)),
    "count": choice(2, 3, odd=(0, -1, 1)),
    "validateOnly": lambda draw: draw.names_internal or draw.pick(False, False, True),
    "resourceType": choice(2, odd=(4, 8, 16, 32, 99, 0, 1)),
    "resourceTypes": choice(2, 16, 32, odd=(4, 8, 99, 0)),
    "resourceName": topic_name,
    "configurationKeys": choice(*_TOPIC_SETTINGS, odd=("", "no.such")),
    "configOperation": choice(0, 1, odd=(2, 3, 4, -1)),
    "path": choice("/no/such", ""),
    "userName": choice("~u"),
    "iterations": choice(4096, 8192, odd=(0, 1, 20000, -1)),
    "salt": choice("c2FsdA==", odd=("",)),
    "saltedPassword": choice("cGFzc3dvcmQ=", odd=("",)),
    "stateFilters": choice("Ongoing", "Empty", "CompleteCommit", odd=("", "x")),
    "statesFilter": choice("Stable", "Empty", odd=("", "x", "stable")),
    "typesFilter": choice("classic", "consumer", "share", odd=("", "x", "Classic")),
    "durationFilter": choice(-1, odd=(0, 10**9)),
    "transactionalIdPattern": choice(None, "~.*", odd=("", "(", "~t")),
    "patternTypeFilter": choice(3, 1, odd=(0, 2, 4, 9)),
    "resourceTypeFilter": choice(1, 2, odd=(0, 3, 9)),
    "resourcePatternType": choice(3, odd=(0, 1, 2, 4, 9)),
    "operation": choice(1, 3, odd=(0, 2, 99)),
    "permissionType": choice(1, 3, odd=(0, 2, 99)),
    "principal": choice("User:~u", odd=("", "x")),
    "host": choice("*", odd=("",)),
    "endpointType": choice(1, odd=(0, 2, 3)),
    "electionType": choice(0, 1, odd=(2, -1)),
    "responsePartitionLimit": choice(2000, 1, odd=(0, -1, 2)),
    "entityType": choice("user", "client-id", odd=("", "ip", "x")),
    "entityName": choice("~u", None, odd=("",)),
    "matchType": choice(0, 1, 2, odd=(3, -1)),
    "match": choice("~u", None, odd=("",)),
    "value": choice("1000"),
    "feature": choice("transaction.version", "group.version", odd=("", "none", "metadata.version", "share.version")),
    "maxVersionLevel": choice(99, odd=(-1, 32767)),
    "upgradeType": choice(1, odd=(0, 2, 3, 9)),
    "subscribedTopicNames": topic_name,
    "subscribedTopicRegex": choice(None, odd=("(", "")),
    "serverAssignor": choice(None, "uniform", odd=("range", "x", "")),
    "rackId": choice(None, "", odd=("r",)),
    "sessionId": lambda draw: draw.odd_or((0, 0, symbol("session", "")), (77, -1)),
    "sessionEpoch": lambda draw: draw.odd_or((-1, -1, 0, symbol("session-epoch", "")), (0, 1, 7, -2)),
    "shareSessionEpoch": choice(0, 1, odd=(-1, 2, 7)),
    "coordinatorEpoch": choice(0, odd=(-1, 5)),
    "transactionVersion": choice(0, 1, odd=(2, 9)),
    "enable2Pc": choice(False),
    "keepPreparedTxn": choice(False),
    "clusterId": choice(None),
    "nodeId": choice(-1),
    "firstOffset": choice(0, 1, odd=(-1, 5)),
    "lastOffset": choice(1, 2, odd=(-1, 0, 100)),
    "acknowledgeTypes": choice(1, 2, 3, odd=(0, 4, 9, -1)),
    "highWatermark": choice(INT64),
    "replicaDirectoryId": choice(uuid_text(NIL_ID_TEXT)),
    "authBytes": choice("", "AGEAYg=="),
    "nullableTopics": choice(None),
}

# Fields whose names are too general for ``BY_NAME``, by API and name.
BY_API: dict[str, dict[str, Maker]] = {
    "JoinGroup": {"name": choice("range", odd=("other",))},
    "CreateTopics": {"name": lambda draw: draw.odd_or(LATER_TOPICS, TOPICS + WRONG_TOPICS)},
    "DeleteTopics": {
        "name": lambda draw: draw.odd_or(LATER_TOPICS, TOPICS + WRONG_TOPICS),
        "topicNames": lambda draw: draw.odd_or(LATER_TOPICS, TOPICS + WRONG_TOPICS),
    },
    "DescribeUserScramCredentials": {"name": choice("~u", odd=("", "~nobody"))},
    "AlterUserScramCredentials": {"name": choice("~u", odd=("",)), "mechanism": choice(1, 2, odd=(0, 3, -1))},
    "AlterClientQuotas": {
        "key": choice("producer_byte_rate", "consumer_byte_rate", "request_percentage", odd=("", "x")),
        "value": choice(1000.0, 5.5, odd=(-1.0, 0.0)),
        "entityName": choice("~u", "~v", odd=("",)),
    },
    "WriteTxnMarkers": {
        "producerId": lambda draw: symbol("producer", draw.transaction),
        "producerEpoch": lambda draw: symbol("epoch", draw.transaction),
        "coordinatorEpoch": choice(0),
    },
    # Kafka reads a group's state concurrently with the fetch, so a fetch that does not wait may be answered before or
    # after.
    "ShareFetch": {
        "shareAcquireMode": choice(0, 1),
        "isRenewAck": choice(False),
        "maxWaitMs": choice(100, odd=(100, 50, 20)),
    },
    "ShareAcknowledge": {"isRenewAck": choice(False)},
    "Metadata": {"topicId": lambda draw: uuid_text(NIL_ID_TEXT) if draw.random.random() < 0.5 else topic_id(draw)},
}
SETTINGS: tuple[tuple[str, Any], ...] = (
    ("retention.ms", "1000000000"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("compression.type", "gzip"),
    ("max.message.bytes", "2000000"),
    ("segment.bytes", "2000000"),
)
ODD_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("retention.ms", "x"),
    ("retention.ms", ""),
    ("retention.ms", None),
    ("no.such", "1"),
    ("", "1"),
    ("cleanup.policy", ""),
    ("cleanup.policy", "x"),
    ("segment.bytes", "-1"),
    ("min.insync.replicas", "0"),
)
# Broker settings, which are only validated, because all episodes share them.
BROKER_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("log.retention.ms", "1000000000"),
    ("log.cleanup.policy", "compact"),
    ("compression.type", "gzip"),
    ("no.such", "1"),
    ("cleanup.policy", "compact"),
)
ODD_BROKER_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("log.retention.ms", "x"),
    ("log.retention.ms", ""),
    ("log.retention.ms", None),
    ("log.cleanup.policy", "x"),
    ("compression.type", "x"),
    ("node.id", "7"),
    ("process.roles", "broker"),
    ("", "1"),
)
