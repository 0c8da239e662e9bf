"""Compare two brokers: each API at each version is requested by clients with each permission.

A client is a SASL user with its own ACLs, such as a single permission, all permissions except one, some names or some
addresses. A super user first creates all users, ACLs, topics and groups. Then each user sends each request to both
brokers. Requests change as little as possible (``validate_only``, unknown members and transactions), so that one user's
requests do not affect the responses to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from tests.interop.broker_script import NOW, FrameClient, RequestStep, ResponseDifference, as_json, differences, ranges

from kafkaframes.broker.security.access import CLUSTER_RESOURCE_NAME, OPERATIONS, OPERATIONS_BY_RESOURCE_TYPE
from kafkaframes.broker.security.acls import ALL, ALLOW, DENY, LITERAL, PREFIXED, RESOURCE_TYPES
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records

TOPICS = ("open", "secret")
AUTHORIZATION_ERRORS = frozenset((29, 30, 31, 53))
_READY_SECONDS = 120
_ALREADY_EXISTS = 36
_MIN_BEATS, _MAX_BEATS = 10, 300
_PASSWORD = "pw"


# ------------------------------------------------------------------------------------------------ users


class UserAcl(NamedTuple):
    """An ACL of a user, for all resource names unless it specifies one."""

    resource: str
    operation: str = "ALL"
    permission: int = ALLOW
    name: str = ""
    pattern: int = LITERAL
    host: str = "*"


ALL_ACLS = tuple(UserAcl(resource) for resource in OPERATIONS_BY_RESOURCE_TYPE)
_ALL_EXCEPT_TOPICS = tuple(UserAcl(resource) for resource in OPERATIONS_BY_RESOURCE_TYPE if resource != "TOPIC")
PAIRS = tuple(
    (resource, operation) for resource, operations in OPERATIONS_BY_RESOURCE_TYPE.items() for operation in operations
)
USERS: dict[str, tuple[UserAcl, ...]] = {
    "nobody": (),
    "all": ALL_ACLS,
    **{f"only-{one}-{resource}": (UserAcl(resource, one),) for resource, one in PAIRS},
    **{f"all-but-{one}-{resource}": (*ALL_ACLS, UserAcl(resource, one, DENY)) for resource, one in PAIRS},
    "literal": (*_ALL_EXCEPT_TOPICS, UserAcl("TOPIC", name="open")),
    "prefixed": (*_ALL_EXCEPT_TOPICS, UserAcl("TOPIC", name="op", pattern=PREFIXED)),
    "deny-literal": (*ALL_ACLS, UserAcl("TOPIC", permission=DENY, name="secret")),
    "deny-prefixed": (*ALL_ACLS, UserAcl("TOPIC", permission=DENY, name="se", pattern=PREFIXED)),
    "makes-no-topics": (*ALL_ACLS, UserAcl("TOPIC", "CREATE", DENY), UserAcl("CLUSTER", "CREATE", DENY)),
    "read-one": (*_ALL_EXCEPT_TOPICS, UserAcl("TOPIC", "READ", name="open")),
    "write-one": (UserAcl("TOPIC", "WRITE", name="open"),),
    "write-none": (UserAcl("TOPIC", "WRITE", name="open"), UserAcl("TOPIC", "WRITE", DENY, "op", PREFIXED)),
    "group-and-topic": (UserAcl("GROUP", "READ"), UserAcl("TOPIC", "READ", name="open")),
    "elsewhere": tuple(rule._replace(host="10.9.9.9") for rule in ALL_ACLS),
    "here": tuple(rule._replace(host="127.0.0.1") for rule in ALL_ACLS),
    "denied-here": (
        *ALL_ACLS,
        UserAcl("TOPIC", "READ", DENY, host="127.0.0.1"),
        UserAcl("GROUP", "READ", DENY, host="::1"),
    ),
}


@dataclass
class SaslUser(FrameClient):
    """An authenticated client."""

    name: str = ""

    def ask(self, name: str, version: int, body: Any, *, timeout: float = 20.0) -> Any:
        if self.peer is None and self.name:
            signed, self.name = self.name, ""
            super().ask("SaslHandshake", 1, message("SaslHandshakeRequest")(mechanism="PLAIN"))
            token = f"\0{signed}\0{_PASSWORD}".encode()
            answer = super().ask("SaslAuthenticate", 1, message("SaslAuthenticateRequest")(auth_bytes=token))
            self.name = signed
            assert answer.error_code == 0, answer
        return super().ask(name, version, body, timeout=timeout)


def passwords() -> dict[str, str]:
    """Return the users' passwords."""
    return dict.fromkeys(USERS, _PASSWORD)


def rules(unknown_operations: Collection[str] = ()) -> Iterator[Any]:
    """Yield rows for CreateAcls, without operations that a release does not support."""
    creation_type = message("CreateAclsRequest").AclCreation
    for user, user_acls in USERS.items():
        for rule in user_acls:
            if rule.operation in unknown_operations:
                continue
            yield creation_type(
                resource_type=RESOURCE_TYPES[rule.resource],
                resource_name=rule.name or (CLUSTER_RESOURCE_NAME if rule.resource == "CLUSTER" else "*"),
                resource_pattern_type=rule.pattern,
                principal=f"User:{user}",
                host=rule.host,
                operation=ALL if rule.operation == "ALL" else OPERATIONS[rule.operation],
                permission_type=rule.permission,
            )


# Resources


@dataclass
class AccessControlledCluster:
    """One broker that checks ACLs, with a client of its super user and one of each other user."""

    admin: FrameClient
    users: dict[str, SaslUser]

    @classmethod
    def of(cls, plain_port: int, sasl_port: int) -> AccessControlledCluster:
        return cls(FrameClient(plain_port), {name: SaslUser(sasl_port, name=name) for name in USERS})

    def close(self) -> None:
        for client in (self.admin, *self.users.values()):
            client.close()

    def id(self, topic: str) -> UUID:
        return self.admin.topic_ids[topic]

    def request_as_super_user(self, api: str, version: int, *, ok: tuple[int, ...] = (0,), **fields: Any) -> Any:
        """Send a request of the super user, and retry while Kafka is still creating internal topics."""
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            answer = self.admin.ask(api, version, message(f"{api}Request")(**fields))
            code = getattr(answer, "error_code", 0) if not isinstance(answer, str) else -1
            if code in ok:
                return answer
            assert time.monotonic() < deadline, f"{api}: {answer}"
            time.sleep(0.2)

    def create_resources(self, unknown_operations: Collection[str] = ()) -> None:
        """Create topics, ACLs and groups."""
        creatable = message("CreateTopicsRequest").CreatableTopic
        keep = [message("CreateTopicsRequest").CreatableTopicConfig(name="retention.ms", value="-1")]
        rows = [creatable(name=name, num_partitions=2, replication_factor=1, configs=keep) for name in TOPICS]
        self.request_as_super_user("CreateTopics", 5, topics=rows, timeout_ms=30_000)
        answer = self.request_as_super_user("CreateAcls", 2, creations=list(rules(unknown_operations)))
        assert not (errors := {(row.error_code, row.error_message) for row in answer.results if row.error_code}), errors
        self.admin.find_topics(12)
        for kind, key in ((0, "g"), (1, "tx")):
            self.request_as_super_user("FindCoordinator", 3, key=key, key_type=kind)
        self._commit()
        self._join()
        self._begin()

    def _commit(self) -> None:
        types = message("OffsetCommitRequest")
        rows = [
            types.OffsetCommitRequestTopic(
                name=name, partitions=[types.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)]
            )
            for name in TOPICS
        ]
        fields = {"generation_id_or_member_epoch": -1, "topics": rows}
        while (
            self.request_as_super_user("OffsetCommit", 8, group_id="g-plain", **fields)
            .topics[0]
            .partitions[0]
            .error_code
        ):
            time.sleep(0.2)

    def _join(self) -> None:
        beat = {"rebalance_timeout_ms": 600_000, "topic_partitions": [], "subscribed_topic_names": list(TOPICS)}
        served_apis = ranges(self.admin)
        if "ConsumerGroupHeartbeat" in served_apis:
            newest = served_apis["ConsumerGroupHeartbeat"][1]
            self.request_as_super_user(
                "ConsumerGroupHeartbeat", newest, group_id="g-new", member_id=str(uuid4()), member_epoch=0, **beat
            )
        if "StreamsGroupHeartbeat" in served_apis:
            for group, log in (("g-streams", ""), ("g-streams-log", "tmp-log")):
                fields = streams_join_fields(TOPICS, log)
                self.request_as_super_user(
                    "StreamsGroupHeartbeat", 0, group_id=group, member_id="m", member_epoch=0, **fields
                )
        if "ShareGroupHeartbeat" not in served_apis:
            return
        for group in ("g-share", "g-share-left"):
            member = str(uuid4())
            self._wait_for_assignment(group, member)
        self.request_as_super_user("ShareGroupHeartbeat", 1, group_id=group, member_id=member, member_epoch=-1)

    def _wait_for_assignment(self, group: str, member: str) -> None:
        """Send heartbeats of a share group until its member has partitions, which Kafka must initialise first."""
        epoch, fields = 0, {"subscribed_topic_names": list(TOPICS)}
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            heartbeat_fields = {"group_id": group, "member_id": member, "member_epoch": epoch}
            answer = self.request_as_super_user("ShareGroupHeartbeat", 1, **heartbeat_fields, **fields)
            if answer.assignment is not None and len(answer.assignment.topic_partitions) == len(TOPICS):
                return
            assert time.monotonic() < deadline, answer
            epoch, fields = answer.member_epoch, {}
            time.sleep(0.2)

    def _begin(self) -> None:
        producer_answer = self.request_as_super_user(
            "InitProducerId", 4, transactional_id="tx-open", transaction_timeout_ms=800_000
        )
        topic = message("AddPartitionsToTxnRequest").AddPartitionsToTxnTopic
        self.request_as_super_user(
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id="tx-open",
            v3_and_below_producer_id=producer_answer.producer_id,
            v3_and_below_producer_epoch=producer_answer.producer_epoch,
            v3_and_below_topics=[topic(name=name, partitions=[0]) for name in TOPICS],
        )

    def wait_for_rules(self) -> None:
        """Wait until the last user's ACLs are in effect."""
        body = message("MetadataRequest")(topics=None)
        deadline = time.monotonic() + _READY_SECONDS
        while len(self.users["denied-here"].ask("Metadata", 8, body).topics) < len(TOPICS):
            assert time.monotonic() < deadline
            time.sleep(0.2)


# ------------------------------------------------------------------------------------------------ requests

Make = Callable[
    [AccessControlledCluster, int, str], Any
]  # a label must be unique among the requests of an API and version
ANY = ("open", "secret", "none")


class AccessCase(NamedTuple):
    """A request. ``label``: distinguishes the request from other requests of the API. ``only_rights``: compare only
    authorization errors.
    """

    make: Make
    label: str = ""
    first: int = 0
    only_rights: bool = False


def case(label: str = "", *, first: int = 0, only_rights: bool = False, **fields: Any) -> AccessCase:
    """Return a case with these fields; fields that a version lacks are dropped."""
    return AccessCase(lambda cluster, version, fresh: fields, label, first, only_rights)


def topics(api: str, struct: str, part: str, field_of_parts: str, *, topic: str = "name", **row: Any) -> Make:
    """Return a function that builds a request with one partition row for each topic."""
    types = message(f"{api}Request")

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        parts = [getattr(types, part)(**row)] if part else [0]
        return {"topics": [getattr(types, struct)(**{topic: name, field_of_parts: parts}) for name in ANY]}

    return make


def produce(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
    types = message("ProduceRequest")
    rows = []
    for name in TOPICS:
        records = build_records({"value": [b"x"], "timestamp": [NOW]}, record_format=2 if version > 2 else version // 2)
        topic_field = {"topic_id": cluster.id(name)} if version >= 13 else {"name": name}
        row = types.PartitionProduceData(index=0, records=records)
        rows.append(types.TopicProduceData(**topic_field, partition_data=[row]))
    return {"acks": 1, "timeout_ms": 5000, "topic_data": rows}


def produce_in_transaction(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
    produce_fields = produce(cluster, version, fresh)
    for topic in produce_fields["topic_data"]:
        topic.partition_data[0].records = build_records(
            {"value": [b"x"], "timestamp": [NOW]},
            producer_id=77,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    return produce_fields | {"transactional_id": "tx-none", "acks": -1}


def produce_without_id(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
    return produce_in_transaction(cluster, version, fresh) | {"transactional_id": None}


def fetch(replica: int) -> Make:
    types = message("FetchRequest")

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        row = types.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
        rows = [
            types.FetchTopic(**({"topic_id": cluster.id(name)} if version >= 13 else {"topic": name}), partitions=[row])
            for name in TOPICS
        ]
        fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100, "topics": rows, "session_epoch": -1}
        if version >= 15:
            return fields | {"replica_state": types.ReplicaState(replica_id=replica)}
        return fields | {"replica_id": replica}

    return make


def metadata(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
    row = message("MetadataRequest").MetadataRequestTopic
    ask = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    names = ANY if version >= 4 else TOPICS  # older versions always create missing topics
    return {"topics": [row(name=name) for name in names], "allow_auto_topic_creation": False} | ask


def metadata_by_id(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
    row = message("MetadataRequest").MetadataRequestTopic
    return {"topics": [row(name=None, topic_id=cluster.id(name)) for name in TOPICS]}


def metadata_that_creates(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
    return {"topics": [message("MetadataRequest").MetadataRequestTopic(name=f"tmp-{fresh}")]}


def commit_case(api: str, **more: Any) -> Make:
    types = message(f"{api}Request")
    struct = getattr(types, f"{api}RequestTopic")
    part = getattr(types, f"{api}RequestPartition")
    by_id_since = {"OffsetCommit": 10, "TxnOffsetCommit": 6}[api]

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        names = ANY if version < by_id_since else TOPICS
        rows = []
        for name in names:
            topic_field = {"topic_id": cluster.id(name)} if version >= by_id_since else {"name": name}
            rows.append(struct(**topic_field, partitions=[part(partition_index=0, committed_offset=3)]))
        return {"group_id": "g-plain", "topics": rows} | more

    return make


def offsets(names: tuple[str, ...] | None, group: str = "g-plain") -> Make:
    types = message("OffsetFetchRequest")

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        if version < 8:
            rows = [types.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in names or ()]
            return {"group_id": group, "topics": None if names is None else rows}
        rows = []
        for name in names or ():
            if version < 10 or name in TOPICS:
                topic_field = {"topic_id": cluster.id(name)} if version >= 10 else {"name": name}
                rows.append(types.OffsetFetchRequestTopics(**topic_field, partition_indexes=[0]))
        group_row = types.OffsetFetchRequestGroup(group_id=group, topics=None if names is None else rows)
        return {"groups": [group_row]}

    return make


def coordinator(kind: int, key: str) -> Make:
    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        keys = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
        return {"key_type": kind} | keys

    return make


def delete_topics(*, by_id: bool = False, unknown: bool = False) -> Make:
    """Delete a topic, which is created first if it does not exist."""

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        if by_id:
            state = message("DeleteTopicsRequest").DeleteTopicState
            return {"timeout_ms": 9000, "topics": [state(name=None, topic_id=cluster.admin.topic_ids["victim"])]}
        names = ["none"] if unknown else ["victim"]
        state = message("DeleteTopicsRequest").DeleteTopicState
        return {"timeout_ms": 9000} | (
            {"topics": [state(name=name) for name in names]} if version >= 6 else {"topic_names": names}
        )

    return make


def transaction(cluster: AccessControlledCluster, version: int, fresh: str, *, verify: bool = False) -> Any:
    types = message("AddPartitionsToTxnRequest")
    rows = [types.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in TOPICS]
    if version < 4:
        return {
            "v3_and_below_transactional_id": "tx-none",
            "v3_and_below_producer_id": 77,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": rows,
        }
    one = types.AddPartitionsToTxnTransaction(
        transactional_id="tx-none", producer_id=77, producer_epoch=0, verify_only=verify, topics=rows
    )
    return {"transactions": [one]}


def markers(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
    types = message("WriteTxnMarkersRequest")
    topic = types.WritableTxnMarkerTopic(name="none", partition_indexes=[0])
    marker = types.WritableTxnMarker(producer_id=77, producer_epoch=0, transaction_result=False, topics=[topic])
    return {"markers": [marker]}


RESOURCES = ((2, "open"), (2, "secret"), (2, "none"), (4, "1"), (4, ""), (8, "1"), (16, "metrics"), (32, "g-plain"))
_SETTING = {
    2: ("retention.ms", "1000000"),
    4: ("message.max.bytes", "2000000"),
    8: ("kafka.none", "INFO"),
    16: ("interval.ms", "60000"),
    32: ("consumer.session.timeout.ms", "50000"),
}


def describe_case(kind: int, name: str) -> AccessCase:
    row = message("DescribeConfigsRequest").DescribeConfigsResource
    one = row(resource_type=kind, resource_name=name, configuration_keys=["none"])
    return case(f"{kind} {name}", resources=[one], only_rights=kind in (8, 16))


def alter_case(api: str, kind: int, name: str) -> AccessCase:
    types = message(f"{api}Request")
    key, value = _SETTING[kind]
    row = types.AlterableConfig(name=key, value=value)
    one = types.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[row])
    # Another test compares config errors; for these requests, only the permissions are compared.
    return case(f"{kind} {name}", resources=[one], validate_only=True, only_rights=kind in (4, 8))


def heartbeat_case(api: str, *, pattern: str | None = None) -> Make:
    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        fields = {"group_id": f"tmp-{fresh}", "member_id": str(uuid4()), "member_epoch": 0}
        if api == "ConsumerGroupHeartbeat":
            fields |= {"rebalance_timeout_ms": 5000, "topic_partitions": []}
        if pattern is not None:
            return fields | {"subscribed_topic_regex": pattern}
        return fields | {"subscribed_topic_names": list(TOPICS)}

    return make


def streams_join_fields(sources: tuple[str, ...], log: str = "") -> dict[str, Any]:
    """Return the fields of a joining StreamsGroupHeartbeat, whose topology has source topics and a changelog."""
    types = message("StreamsGroupHeartbeatRequest")
    logs = [types.TopicInfo(name=log)] if log else []
    part = types.Subtopology(subtopology_id="0", source_topics=list(sources), state_changelog_topics=logs)
    nothing = {key: [] for key in ("active_tasks", "standby_tasks", "warmup_tasks", "client_tags")}
    topology = types.Topology(epoch=0, subtopologies=[part])
    return nothing | {"rebalance_timeout_ms": 600_000, "process_id": "p", "topology": topology}


def streams_heartbeat_case(sources: tuple[str, ...], *, has_log: bool = False) -> Make:
    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        log = f"tmp-{fresh}-log" if has_log else ""
        return {"group_id": f"tmp-{fresh}", "member_id": "m", "member_epoch": 0} | streams_join_fields(sources, log)

    return make


def share_fetch(api: str) -> Make:
    types = message(f"{api}Request")
    struct, part = (
        (types.FetchTopic, types.FetchPartition)
        if api == "ShareFetch"
        else (
            types.AcknowledgeTopic,
            types.AcknowledgePartition,
        )
    )

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        rows = [struct(topic_id=cluster.id(name), partitions=[part(partition_index=0)]) for name in TOPICS]
        fields: dict[str, Any] = {"group_id": "g-share", "member_id": str(uuid4()), "topics": rows}
        if api == "ShareFetch":
            fields |= {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100, "max_records": 1, "batch_size": 1}
        return fields | {"share_session_epoch": 0}

    return make


def share_offsets(api: str) -> Make:
    types = message(f"{api}Request")

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        if api == "DeleteShareGroupOffsets":
            rows = [types.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ANY]
            return {"group_id": "g-share-left", "topics": rows}
        part = types.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
        rows = [types.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[part]) for name in ANY]
        return {"group_id": "g-share-left", "topics": rows}

    return make


def share_described(names: tuple[str, ...] | None) -> Make:
    types = message("DescribeShareGroupOffsetsRequest")

    def make(cluster: AccessControlledCluster, version: int, fresh: str) -> Any:
        rows = [types.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in names or ()]
        group = types.DescribeShareGroupOffsetsRequestGroup(group_id="g-share", topics=None if names is None else rows)
        return {"groups": [group]}

    return make


def _rows(api: str, struct: str, **fields: Any) -> Any:
    return getattr(message(f"{api}Request"), struct)(**fields)


_OPERATIONS = {"include_authorized_operations": True}
_FILTER = {
    "resource_type_filter": 1,
    "pattern_type_filter": 3,
    "principal_filter": "User:literal",
    "operation": 1,
    "permission_type": 1,
}
CASES: Mapping[str, tuple[AccessCase, ...]] = {
    "Produce": (
        AccessCase(produce),
        AccessCase(produce_in_transaction, "transactional", first=3),
        AccessCase(produce_without_id, "no id", first=3),
    ),
    "Fetch": (AccessCase(fetch(-1)), AccessCase(fetch(5), "follower", only_rights=True)),
    "ListOffsets": (
        AccessCase(topics("ListOffsets", "ListOffsetsTopic", "ListOffsetsPartition", "partitions", timestamp=-1)),
    ),
    "Metadata": (
        case("all", first=1, topics=None),
        case("empty", topics=[]),
        AccessCase(metadata, "named"),
        AccessCase(metadata_by_id, "by id", first=12),
        AccessCase(metadata_that_creates, "creates", only_rights=True),
    ),
    "OffsetCommit": (AccessCase(commit_case("OffsetCommit", generation_id_or_member_epoch=-1)),),
    "OffsetFetch": (
        AccessCase(offsets(ANY)),
        AccessCase(offsets(None), "all", first=2),
        AccessCase(offsets(ANY, "none"), "no group"),
    ),
    "FindCoordinator": (
        AccessCase(coordinator(0, "g"), "group"),
        AccessCase(coordinator(1, "tx"), "transaction", first=1),
        AccessCase(coordinator(2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0"), "share", first=6, only_rights=True),
    ),
    "JoinGroup": (case(group_id="g-none", session_timeout_ms=1, protocol_type="consumer"),),
    "Heartbeat": (case(group_id="g-none", member_id="m"),),
    "LeaveGroup": (case(group_id="g-none", member_id="m"),),
    "SyncGroup": (case(group_id="g-none", member_id="m", protocol_type="consumer", protocol_name="range"),),
    "DescribeGroups": (case(groups=["g-plain", "none"], **_OPERATIONS),),
    "ListGroups": (case(),),
    "ApiVersions": (case(client_software_name="a", client_software_version="1", only_rights=True),),
    "CreateTopics": (
        case(
            topics=[
                _rows("CreateTopics", "CreatableTopic", name=name, num_partitions=1, replication_factor=1)
                for name in ("open", "opened", "new")
            ],
            timeout_ms=9000,
            validate_only=True,
        ),
    ),
    "DeleteTopics": (
        AccessCase(delete_topics(unknown=True), "unknown"),
        AccessCase(delete_topics(), "named"),
        AccessCase(delete_topics(by_id=True), "by id", first=6),
    ),
    "DeleteRecords": (
        AccessCase(
            topics("DeleteRecords", "DeleteRecordsTopic", "DeleteRecordsPartition", "partitions", offset=0),
        ),
    ),
    "InitProducerId": (
        case("plain", transactional_id=None),
        AccessCase(
            lambda cluster, version, fresh: {"transactional_id": f"t{fresh}", "transaction_timeout_ms": 60_000}, "tx"
        ),
    ),
    "OffsetForLeaderEpoch": (
        AccessCase(
            topics(
                "OffsetForLeaderEpoch",
                "OffsetForLeaderTopic",
                "OffsetForLeaderPartition",
                "partitions",
                topic="topic",
                leader_epoch=0,
            )
        ),
    ),
    "AddPartitionsToTxn": (
        AccessCase(transaction),
        AccessCase(lambda *arguments: transaction(*arguments, verify=True), "verify", first=4),
    ),
    "AddOffsetsToTxn": (case(transactional_id="tx-none", producer_id=77, group_id="g-plain"),),
    "EndTxn": (case(transactional_id="tx-none", producer_id=77),),
    "WriteTxnMarkers": (AccessCase(markers),),
    "TxnOffsetCommit": (AccessCase(commit_case("TxnOffsetCommit", transactional_id="tx-none", producer_id=77)),),
    "DescribeAcls": (case(**_FILTER),),
    "CreateAcls": (
        case(
            creations=[
                _rows(
                    "CreateAcls",
                    "AclCreation",
                    resource_type=2,
                    resource_name="ghost",
                    principal="User:ghost",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
    ),
    "DeleteAcls": (
        case(filters=[_rows("DeleteAcls", "DeleteAclsFilter", **(_FILTER | {"principal_filter": "User:phantom"}))]),
    ),
    "DescribeConfigs": tuple(describe_case(*one) for one in RESOURCES),
    "AlterConfigs": tuple(alter_case("AlterConfigs", *one) for one in RESOURCES),
    "IncrementalAlterConfigs": tuple(alter_case("IncrementalAlterConfigs", *one) for one in RESOURCES),
    "AlterReplicaLogDirs": (
        case(
            dirs=[
                _rows(
                    "AlterReplicaLogDirs",
                    "AlterReplicaLogDir",
                    path="/nowhere",
                    topics=[_rows("AlterReplicaLogDirs", "AlterReplicaLogDirTopic", name="open", partitions=[0])],
                )
            ]
        ),
    ),
    "DescribeLogDirs": (
        case(topics=[_rows("DescribeLogDirs", "DescribableLogDirTopic", topic="open", partitions=[0])]),
    ),
    "CreatePartitions": (
        case(
            topics=[
                _rows("CreatePartitions", "CreatePartitionsTopic", name=name, count=5, assignments=None) for name in ANY
            ],
            timeout_ms=9000,
            validate_only=True,
        ),
    ),
    "DeleteGroups": (case(groups_names=["none"]),),
    "ElectLeaders": (
        case(
            topic_partitions=[_rows("ElectLeaders", "TopicPartitions", topic="open", partitions=[0])], timeout_ms=9000
        ),
    ),
    "AlterPartitionReassignments": (
        case(
            topics=[
                _rows(
                    "AlterPartitionReassignments",
                    "ReassignableTopic",
                    name="none",
                    partitions=[
                        _rows("AlterPartitionReassignments", "ReassignablePartition", partition_index=0, replicas=[1])
                    ],
                )
            ],
            timeout_ms=9000,
        ),
    ),
    "ListPartitionReassignments": (case(topics=None, timeout_ms=9000),),
    "OffsetDelete": (
        AccessCase(
            lambda *given: (
                {"group_id": "g-plain"}
                | topics(
                    "OffsetDelete",
                    "OffsetDeleteRequestTopic",
                    "OffsetDeleteRequestPartition",
                    "partitions",
                    partition_index=1,
                )(*given)
            )
        ),
    ),
    "DescribeClientQuotas": (case(),),
    "AlterClientQuotas": (
        case(
            entries=[
                _rows(
                    "AlterClientQuotas",
                    "EntryData",
                    entity=[_rows("AlterClientQuotas", "EntityData", entity_type="user", entity_name="u")],
                    ops=[_rows("AlterClientQuotas", "OpData", key="consumer_byte_rate", value=1.0)],
                )
            ],
            validate_only=True,
        ),
    ),
    "DescribeUserScramCredentials": (case(users=[_rows("DescribeUserScramCredentials", "UserName", name="none")]),),
    "AlterUserScramCredentials": (
        case(
            deletions=[_rows("AlterUserScramCredentials", "ScramCredentialDeletion", name="none", mechanism=1)],
        ),
    ),
    "DescribeQuorum": (
        case(
            topics=[
                _rows(
                    "DescribeQuorum",
                    "TopicData",
                    topic_name="__cluster_metadata",
                    partitions=[_rows("DescribeQuorum", "PartitionData", partition_index=0)],
                )
            ],
            only_rights=True,
        ),
    ),
    "UpdateFeatures": (
        case(
            feature_updates=[_rows("UpdateFeatures", "FeatureUpdateKey", feature="none", max_version_level=1)],
            only_rights=True,
        ),
    ),
    "DescribeCluster": (case(include_cluster_authorized_operations=True),),
    "DescribeProducers": (
        AccessCase(
            lambda *given: {
                "topics": [_rows("DescribeProducers", "TopicRequest", name=name, partition_indexes=[0]) for name in ANY]
            }
        ),
    ),
    "DescribeTransactions": (case(transactional_ids=["tx-open", "none"], only_rights=True),),
    "ListTransactions": (case(state_filters=["Ongoing"]),),
    "ConsumerGroupHeartbeat": (
        AccessCase(heartbeat_case("ConsumerGroupHeartbeat")),
        AccessCase(heartbeat_case("ConsumerGroupHeartbeat", pattern="[o-s].*"), "pattern", first=1, only_rights=True),
    ),
    "ConsumerGroupDescribe": (case(group_ids=["g-new", "none"], **_OPERATIONS),),
    "ListConfigResources": (case(resource_types=[4], first=1), case("old", only_rights=True)),
    "DescribeTopicPartitions": (
        case("all", response_partition_limit=2000),
        case(
            "named",
            topics=[_rows("DescribeTopicPartitions", "TopicRequest", name=name) for name in ANY],
            response_partition_limit=2000,
        ),
    ),
    "StreamsGroupHeartbeat": (
        AccessCase(streams_heartbeat_case(TOPICS)),
        AccessCase(streams_heartbeat_case(("open",)), "one"),
        AccessCase(streams_heartbeat_case(ANY), "unknown"),
        AccessCase(streams_heartbeat_case(("open",), has_log=True), "creates"),
    ),
    "StreamsGroupDescribe": (case(group_ids=["g-streams", "g-streams-log", "none"], **_OPERATIONS),),
    "ShareGroupHeartbeat": (AccessCase(heartbeat_case("ShareGroupHeartbeat"), only_rights=True),),
    "ShareGroupDescribe": (case(group_ids=["g-share", "none"], only_rights=True, **_OPERATIONS),),
    "ShareFetch": (AccessCase(share_fetch("ShareFetch"), only_rights=True),),
    "ShareAcknowledge": (AccessCase(share_fetch("ShareAcknowledge"), only_rights=True),),
    "DescribeShareGroupOffsets": (
        AccessCase(share_described(ANY), only_rights=True),
        AccessCase(share_described(None), "all", only_rights=True),
    ),
    "AlterShareGroupOffsets": (AccessCase(share_offsets("AlterShareGroupOffsets"), only_rights=True),),
    "DeleteShareGroupOffsets": (AccessCase(share_offsets("DeleteShareGroupOffsets"), only_rights=True),),
}


# ------------------------------------------------------------------------------------------------ comparing


_RELEASE_SPECIFIC = ("configs",)  # fields of CreateTopics, whose configs have their own error for missing permissions


def plain(value: Any, cluster: AccessControlledCluster) -> Any:
    """Return a response's JSON with names instead of topic ids, without Kafka's internal topics and topics of
    earlier requests.
    """
    names = {str(id_): name for name, id_ in cluster.admin.topic_ids.items()}
    if isinstance(value, list):
        return sorted((plain(one, cluster) for one in value if not _is_made(one)), key=_order)
    if not isinstance(value, dict):
        return value
    rest = {key: plain(one, cluster) for key, one in value.items() if key not in ("topicId", *_RELEASE_SPECIFIC)}
    return rest | ({"topicOf": names.get(_uuid(value["topicId"]), "")} if "topicId" in value else {})


def _order(row: Any) -> str:
    keys = ("topicOf", "topicName", "resourceType", "resourceName")
    return str([row.get(key) for key in keys]) if isinstance(row, dict) else str(row)


def _uuid(text: Any) -> str:
    import base64

    try:
        return str(UUID(bytes=base64.urlsafe_b64decode(f"{text}==")))
    except ValueError:
        return str(text)


def _is_made(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    row_names = (row.get(key) or "" for key in ("name", "topicName", "groupId", "resourceName"))
    return any(name.startswith(("__", "tmp-")) for name in row_names if isinstance(name, str))


def authorization_errors(value: Any) -> list[Any]:
    """Return the authorization errors of a response, in order."""
    if isinstance(value, dict):
        own_error = [value["errorCode"]] if value.get("errorCode") in AUTHORIZATION_ERRORS else []
        return own_error + [code for key in sorted(value) for code in authorization_errors(value[key])]
    return [code for one in value for code in authorization_errors(one)] if isinstance(value, list) else []


def fields_at(api: str, version: int, fields: Mapping[str, Any]) -> Any:
    """Return a request with the fields that its version has."""
    request_message = message(f"{api}Request")
    known_fields = {
        field.snake_name for field in request_message.spec.struct.fields if field.versions.contains(version)
    }
    return request_message(**{key: value for key, value in fields.items() if key in known_fields})


def play(
    ours: AccessControlledCluster, theirs: AccessControlledCluster, apis: Collection[str] = tuple(CASES)
) -> tuple[list[ResponseDifference], int]:
    """Send every request of every user to both brokers. Return the differences and the number of requests."""
    own, other = ranges(ours.admin), ranges(theirs.admin)
    differences: list[ResponseDifference] = []
    count = 0
    for api, cases in ((api, CASES[api]) for api in apis if api in own and api in other):
        low, high = max(own[api][0], other[api][0]), min(own[api][1], other[api][1])
        for version in range(max(low, 3) if api == "Produce" else low, high + 1):
            for case in cases:
                for user in USERS if version >= case.first else ():
                    count += 1
                    differences += compare_answers(ours, theirs, user, api, version, case, str(count))
    return differences, count


def compare_answers(
    ours: AccessControlledCluster,
    theirs: AccessControlledCluster,
    user: str,
    api: str,
    version: int,
    one: AccessCase,
    fresh: str,
) -> list[ResponseDifference]:
    """Send one request to both brokers."""
    answers = []
    for cluster in (ours, theirs):
        if api == "DeleteTopics":
            restore(cluster)
        body = fields_at(api, version, one.make(cluster, version, fresh))
        answer = plain(as_json(cluster.users[user].ask(api, version, body), version), cluster)
        answers.append(authorization_errors(answer) if one.only_rights else answer)
    return list(differences(RequestStep(api, version, None, f"{one.label} {user}"), *answers))


def restore(cluster: AccessControlledCluster) -> None:
    """Recreate the topic that a request deletes, if it is missing."""
    types = message("CreateTopicsRequest")
    row = types.CreatableTopic(name="victim", num_partitions=1, replication_factor=1)
    (topic_row,) = cluster.request_as_super_user("CreateTopics", 7, topics=[row], timeout_ms=30_000).topics
    assert topic_row.error_code in (0, _ALREADY_EXISTS), topic_row
    if topic_row.error_code == 0:
        cluster.admin.topic_ids["victim"] = topic_row.topic_id


# ------------------------------------------------------------------------------------------------ patterns

PATTERN_USERS = (
    "all",
    "literal",
    "prefixed",
    "deny-literal",
    "deny-prefixed",
    "all-but-DESCRIBE-TOPIC",
    "only-READ-GROUP",
    "nobody",
)


def assigned_by_pattern(
    cluster: AccessControlledCluster, user: str, expected_topics: set[str] | None = None
) -> set[str]:
    """Return the topics that a subscription by regular expression assigns to a user.

    Args:
        expected_topics: the other broker's assignment; wait for it, because patterns are resolved after the response.
    """
    fields = {"group_id": f"tmp-pattern-{user}", "member_id": str(uuid4()), "member_epoch": 0}
    types = message("ConsumerGroupHeartbeatRequest")
    first = {"rebalance_timeout_ms": 5000, "topic_partitions": [], "subscribed_topic_regex": "(open|secret)"}
    names = {id_: name for name, id_ in cluster.admin.topic_ids.items()}
    assigned_topics: set[str] = set()
    owned_partitions: list[Any] = []
    for number in range(_MAX_BEATS):
        full = first | {"topic_partitions": owned_partitions}
        answer = cluster.users[user].ask("ConsumerGroupHeartbeat", 1, types(**fields, **full))
        if answer.error_code:
            return {f"error {answer.error_code}"}
        fields["member_epoch"] = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            owned_partitions = [types.TopicPartitions(topic_id=row.topic_id, partitions=row.partitions) for row in rows]
            assigned_topics = {names[row.topic_id] for row in rows}
        if number >= _MIN_BEATS and expected_topics in (None, assigned_topics):
            return assigned_topics
        time.sleep(0.2)
    return assigned_topics
