"""Draw episodes about share groups (KIP-932), with two members, continuing sessions and acknowledgements of acquired
records.

Independent random requests almost never acquire a record. Here sessions continue with their epochs, and
acknowledgements contain symbols for acquired records, which each broker's ``Memory`` replaces by its own values. One
member is in the group, the other one only fetches, which Kafka allows: with two members, Kafka's hash tables decide
which one gets which partition.
"""

from __future__ import annotations

import random
from typing import Any

from tests.interop.random_differential.pools import NOW_MS
from tests.interop.random_differential.requests import RECONNECT, WAIT, RandomRequest
from tests.interop.random_differential.symbols import symbol

SHARE_GROUP = "~s"
MEMBER_IDS = ("member-1", "member-2")
PARTITIONS = (("~a", 0), ("~a", 1), ("~b", 0))
# members that fetch only one partition
SINGLE_PARTITION_MEMBERS = {("~a", 0): "alone-1", ("~a", 1): "alone-2", ("~b", 0): "alone-3"}
_STEPS = 40
_MAX_RECORDS = 500
_RENEW = 4
_FINAL_TYPES = [1, 1, 3, 0]
# Kafka may or may not acquire records in a fetch that the fetch itself releases
_ALL_TYPES = [*_FINAL_TYPES, 1, 2, 2, 2]
_WAIT_MS = 120  # shorter than the judge's timeout for a response


def share_episode(rng: random.Random) -> list[RandomRequest]:
    """Draw the requests of an episode."""
    requests = [*_topics(), _configure(rng), *_begin()]
    for _ in range(rng.randint(1, 4)):
        requests += _produce(rng)
    draws = (_fetch, _fetch, _fetch, _acknowledge, _acknowledge, _produce, _describe, _beat, _administer)
    for _ in range(_STEPS):
        requests += rng.choice(draws)(rng)
    return requests


def lock_episode() -> list[RandomRequest]:
    """Return an episode in which locks are renewed and time out, and records reach the delivery limit."""
    limits = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}
    words = _words_of("member-1", 2, 3, 1), _words_of("member-2", 4, 5, 4), _words_of("member-1", 0, 0, 2)
    first, again = (
        _fetch_request("member-1", 0, PARTITIONS[2:]),
        _fetch_request("member-1", _epoch_of("member-1"), PARTITIONS[2:]),
    )
    other_requests = (
        _fetch_request("member-2", 0, PARTITIONS[2:]),
        _fetch_request("member-2", _epoch_of("member-2"), PARTITIONS[2:]),
    )
    describe_request = RandomRequest(
        "DescribeShareGroupOffsets", 1, {"groups": [{"groupId": SHARE_GROUP, "topics": None}]}
    )
    late, half = RandomRequest(WAIT, 15_600, {}), RandomRequest(WAIT, 9_000, {})
    requests = [*_topics(), _configure_group(limits | {"share.delivery.count.limit": "3"}), *_begin()]
    requests += [
        _produce_request("~b", 0, 6),
        _produce_request("~b", 0, 4),
        first,
        words[0],
        other_requests[0],
        late,
        other_requests[1],
        describe_request,
    ]
    requests += [half, again, words[1], half, again, describe_request, again, again, words[2], late, again, again]
    return [*requests, describe_request]


def _words_of(member: str, first: int, last: int, word: int) -> RandomRequest:
    batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": [word]}
    row = {"partitionIndex": 0, "acknowledgementBatches": [batch]}
    body = {
        "groupId": SHARE_GROUP,
        "memberId": member,
        "shareSessionEpoch": _epoch_of(member),
        "isRenewAck": word == _RENEW,
    }
    return RandomRequest(
        "ShareAcknowledge", 2, body | {"topics": [{"topicId": symbol("topic", "~b"), "partitions": [row]}]}
    )


def _topics() -> list[RandomRequest]:
    topic_configs = [{"name": "retention.ms", "value": "-1"}]  # the records have timestamps of 2023
    rows = [
        {"name": name, "numPartitions": count, "replicationFactor": 1, "assignments": [], "configs": topic_configs}
        for name, count in (("~a", 2), ("~b", 1))
    ]
    return [RandomRequest("CreateTopics", 5, {"topics": rows, "timeoutMs": 20_000, "validateOnly": False})]


def _configure(rng: random.Random) -> RandomRequest:
    values = {"share.auto.offset.reset": "earliest", "share.isolation.level": rng.choice(("read_committed", ""))}
    values["share.delivery.count.limit"] = rng.choice(("2", "3", "5", "5", "10"))
    values["share.partition.max.record.locks"] = rng.choice(("100", "2000"))
    return _configure_group(values)


def _configure_group(values: dict[str, str]) -> RandomRequest:
    configs = [{"name": name, "configOperation": 0, "value": value} for name, value in values.items() if value]
    row = {"resourceType": 32, "resourceName": SHARE_GROUP, "configs": configs}
    return RandomRequest("IncrementalAlterConfigs", 1, {"resources": [row], "validateOnly": False})


def _begin() -> list[RandomRequest]:
    """Let the members join, and load each partition's state while it is still empty."""
    requests = [_heartbeat(MEMBER_IDS[0], 0), _heartbeat(MEMBER_IDS[0], None)]
    for partition in PARTITIONS:
        requests += [_fetch_request("warm", 0, [partition]), _fetch_request("warm", 0, [partition])]
    return [*requests, _fetch_request("warm", -1, [])]


def _heartbeat(member: str, epoch: Any, **changes: Any) -> RandomRequest:
    body = {
        "groupId": SHARE_GROUP,
        "memberId": member,
        "memberEpoch": symbol("generation", member) if epoch is None else epoch,
        "rackId": None,
        "subscribedTopicNames": ["~a", "~b"] if epoch == 0 else None,
    }
    return RandomRequest("ShareGroupHeartbeat", 1, body | changes)


def _fetch_request(
    member: str, epoch: Any, partitions: Any, *, words: bool = False, seed: int = 0, **changes: Any
) -> RandomRequest:
    topics = [
        {
            "topicId": symbol("topic", name),
            "partitions": [
                {
                    "partitionIndex": index,
                    "acknowledgementBatches": symbol("words", member, name, index, seed, _FINAL_TYPES) if words else [],
                }
                for owner, index in partitions
                if owner == name
            ],
        }
        for name in sorted({owner for owner, _ in partitions})
    ]
    body = {
        "groupId": SHARE_GROUP,
        "memberId": member,
        "shareSessionEpoch": epoch,
        "maxWaitMs": _WAIT_MS,
        "minBytes": 1,
        "maxBytes": 1 << 20,
        "maxRecords": 500,
        "batchSize": 500,
        "shareAcquireMode": 0,
        "isRenewAck": False,
        "topics": topics,
        "forgottenTopicsData": [],
    }
    return RandomRequest("ShareFetch", 2, body | changes)


def _epoch_of(member: str) -> Any:
    return symbol("share-epoch", member)


def _epoch(rng: random.Random, member: str) -> Any:
    return _epoch_of(member) if rng.random() < 0.9 else rng.choice((0, -1, 7))


def _fetch(rng: random.Random) -> list[RandomRequest]:
    member = rng.choice(MEMBER_IDS)
    changes = {
        "maxRecords": rng.choice((500, 500, 1, 3, 8, 0)),
        "batchSize": rng.choice((500, 500, 1, 4)),
        "shareAcquireMode": rng.choice((0, 0, 1)),
    }
    if rng.random() < 0.05:
        changes |= dict.fromkeys(("maxRecords", "maxWaitMs", "minBytes", "maxBytes"), 0) | {"isRenewAck": True}
    words, seed = rng.random() < 0.4, rng.randrange(1 << 30)
    partitions = sorted(rng.sample(PARTITIONS, rng.randint(1, 3)))
    # the first partition in a session depends on the records that Kafka has read
    if changes["maxRecords"] < _MAX_RECORDS:
        partitions = partitions[:1]
        member = SINGLE_PARTITION_MEMBERS[partitions[0]]
    return [_fetch_request(member, _epoch(rng, member), partitions, words=words, seed=seed, **changes)]


def _acknowledge(rng: random.Random) -> list[RandomRequest]:
    partition, seed = rng.choice(PARTITIONS), rng.randrange(1 << 30)
    member = rng.choice((*MEMBER_IDS, SINGLE_PARTITION_MEMBERS[partition]))
    topics = [
        {
            "topicId": symbol("topic", name),
            "partitions": [
                {
                    "partitionIndex": index,
                    "acknowledgementBatches": symbol("words", member, name, index, seed, _ALL_TYPES),
                }
            ],
        }
        for name, index in (partition,)
    ]
    body = {"groupId": SHARE_GROUP, "memberId": member, "shareSessionEpoch": _epoch(rng, member), "topics": topics}
    return [RandomRequest("ShareAcknowledge", 2, body | {"isRenewAck": rng.random() < 0.2})]


def _produce(rng: random.Random) -> list[RandomRequest]:
    topic, index = rng.choice(PARTITIONS)
    if rng.random() < 0.3:
        return _transaction(rng, topic, index)
    return [_produce_request(topic, index, rng.choice((1, 2, 5, 9, 20)))]


def _produce_request(topic: str, index: int, count: int, **producer: Any) -> RandomRequest:
    columns = {"key": [None] * count, "value": ["v"] * count, "timestamp": [NOW_MS] * count}
    records = symbol("records", {"columns": columns, "record_format": 2, "codec": "none"} | producer)
    row = {"name": topic, "partitionData": [{"index": index, "records": records}]}
    transaction = "~t" if producer else None
    return RandomRequest(
        "Produce", 9, {"transactionalId": transaction, "acks": -1, "timeoutMs": 5_000, "topicData": [row]}
    )


def _transaction(rng: random.Random, topic: str, index: int) -> list[RandomRequest]:
    owner = {"producerId": symbol("producer", "~t"), "producerEpoch": symbol("epoch", "~t")}
    init_fields = {"transactionalId": "~t", "transactionTimeoutMs": 60_000, "producerId": -1, "producerEpoch": -1}
    add_fields = {f"v3AndBelow{key[0].upper()}{key[1:]}": value for key, value in owner.items()}
    add_fields |= {"v3AndBelowTransactionalId": "~t", "v3AndBelowTopics": [{"name": topic, "partitions": [index]}]}
    producer = {"producer_id": owner["producerId"], "producer_epoch": owner["producerEpoch"], "base_sequence": 0}
    requests = [
        RandomRequest("InitProducerId", 3, init_fields),
        RandomRequest("AddPartitionsToTxn", 3, add_fields),
        _produce_request(topic, index, rng.choice((1, 3)), transactional=True, **producer),
    ]
    if rng.random() < 0.3:
        requests += _fetch(rng)  # fetch before the transaction ends
    return [*requests, RandomRequest("EndTxn", 3, owner | {"transactionalId": "~t", "committed": rng.random() < 0.5})]


def _describe(rng: random.Random) -> list[RandomRequest]:
    if rng.random() < 0.2:
        return [
            RandomRequest("ShareGroupDescribe", 1, {"groupIds": [SHARE_GROUP], "includeAuthorizedOperations": False})
        ]
    topics = rng.choice((None, [{"topicName": "~a", "partitions": [0, 1]}]))
    return [RandomRequest("DescribeShareGroupOffsets", 1, {"groups": [{"groupId": SHARE_GROUP, "topics": topics}]})]


def _beat(rng: random.Random) -> list[RandomRequest]:
    return [_heartbeat(MEMBER_IDS[0], rng.choice((None, None, None, 0, -1)))]


def _administer(rng: random.Random) -> list[RandomRequest]:
    """In rare cases, let all members leave, and alter or delete the group's offsets."""
    if rng.random() < 0.6:
        return []
    leave_requests = [
        *(_fetch_request(member, -1, []) for member in (*MEMBER_IDS, *SINGLE_PARTITION_MEMBERS.values())),
        _heartbeat(MEMBER_IDS[0], -1),
    ]
    row = {
        "topicName": "~a",
        "partitions": [{"partitionIndex": rng.choice((0, 1, 2)), "startOffset": rng.randint(-1, 9)}],
    }
    alter_request = RandomRequest("AlterShareGroupOffsets", 0, {"groupId": SHARE_GROUP, "topics": [row]})
    forget_request = RandomRequest(
        "DeleteShareGroupOffsets", 0, {"groupId": SHARE_GROUP, "topics": [{"topicName": "~a"}]}
    )
    delete_request = RandomRequest("DeleteGroups", 2, {"groupsNames": [SHARE_GROUP]})
    chosen_requests = rng.choice(([alter_request], [forget_request], [delete_request], [alter_request, forget_request]))
    # Kafka keeps a group's acquired records as long as a connection exists
    reconnect_request = RandomRequest(RECONNECT, 0, {})
    return [*leave_requests, reconnect_request, *chosen_requests, *_describe(rng), *_begin()]
