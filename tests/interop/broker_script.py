"""Send the same scripted requests to two brokers, and return the differences between their responses that are not
allowed.

A script is a list of steps: an API, a version, a body. The script itself creates its topics. Responses are compared as
Kafka's JSON, after values that differ between any two clusters (ids, ports, hosts, session epochs, texts) are made
equal. ``ALLOWED`` lists accepted differences, each with its reason.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.interop.random_differential.compare import decode_records

from kafkaframes.protocol.framing import FrameBuffer
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_response, encode_request
from kafkaframes.protocol.spec.catalog import find_api as catalog_api
from kafkaframes.records.build import build_records

NOW = 1_700_000_000_000
# Fields whose values differ between any two clusters, and texts.
CLUSTER_SPECIFIC_FIELDS = re.compile(
    r"(Host|Port|ClusterId|TopicId|ErrorMessage|BatchIndexErrorMessage|SessionId|LogDir|TotalBytes|UsableBytes"
    r"|ControllerId|NodeId|LeaderId|BrokerId|ThrottleTimeMs|LogAppendTimeMs|ReplicaNodes|IsrNodes|ProducerId"
    r"|CurrentLeader|NodeEndpoints|Rack|MemberId|UsableBytes|EligibleLeaderReplicas|LastKnownElr|PartitionSize|Leader"
    r"|ClientHost|MemberEpoch|LastTimestamp|CoordinatorEpoch|OffsetLag)$"
)


@dataclass
class RequestStep:
    """One request. ``late`` builds the body from earlier responses."""

    name: str
    version: int
    body: Any
    label: str = ""


@dataclass
class ResponseDifference:
    """A field in which two responses differ."""

    step: RequestStep
    path: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.step.name} v{self.step.version} {self.step.label}: {self.path}: {self.ours!r} != {self.theirs!r}"


@dataclass
class FrameClient:
    """A connection to one broker, reopened after it was closed."""

    port: int
    peer: socket.socket | None = None
    topic_ids: dict[str, Any] = field(default_factory=dict)

    def ask(self, name: str, version: int, body: Any, *, timeout: float = 20.0) -> Any:
        """Return the response's body, or "closed"."""
        frame = encode_request(body, version, correlation_id=1, client_id="differential")
        if self.peer is None:
            self.peer = socket.create_connection(("127.0.0.1", self.port), timeout)
        frames = FrameBuffer()
        try:
            self.peer.sendall(len(frame).to_bytes(4, "big") + frame)
            while (data := frames.next_frame()) is None:
                received_bytes = self.peer.recv(1 << 20)
                if not received_bytes:
                    self.close()
                    return "closed"
                frames.receive_data(received_bytes)
        except OSError as error:
            self.close()
            return "closed" if isinstance(error, ConnectionError) else f"{type(error).__name__}"
        return decode_response(data, catalog_api(name).key, version).body

    def close(self) -> None:
        if self.peer is not None:
            self.peer.close()
        self.peer = None

    def find_topics(self, version: int) -> None:
        """Fetch and store the ids of the topics."""
        answer = self.ask("Metadata", min(version, 12), message("MetadataRequest")(topics=None))
        self.topic_ids = {topic.name: topic.topic_id for topic in answer.topics}


def ranges(client: FrameClient) -> dict[str, tuple[int, int]]:
    """Return the versions that a broker serves, by API name."""
    answer = client.ask("ApiVersions", 0, message("ApiVersionsRequest")())
    version_ranges = {}
    for row in answer.api_keys:
        try:
            version_ranges[catalog_api(row.api_key).name] = (row.min_version, row.max_version)
        except Exception:  # an API that is not in the catalog
            continue
    return version_ranges


# The reasons of accepted differences, by API, path and label.
ALLOWED: dict[tuple[str, str, str], str] = {
    ("CreateTopics", r"configs\.length", ""): "releases have different settings",
    (
        "FindCoordinator",
        r"(?i)errorCode",
        "",
    ): "a new Kafka cluster creates internal topics first, and answers 15 until then",
    ("Fetch", r"records\.length", r"0, 1048576|1, 1048576|20, 65536"): (
        "down-conversion of a log with a zstd batch: Kafka returns one batch and stops (LazyDownConversionRecords "
        "converts by chunks); here all batches before the zstd batch are returned"
    ),
    ("AlterConfigs", "errorCode", "none"): "an invalid setting of an unknown topic: Kafka validates the setting first",
    ("ElectLeaders", "length", ""): "Kafka's own internal topics are among the topics",
}


def is_allowed(difference: ResponseDifference) -> bool:
    """Return whether a difference is accepted."""
    return any(
        difference.step.name == name and re.search(path, difference.path) and re.search(label, difference.step.label)
        for name, path, label in ALLOWED
    )


# ------------------------------------------------------------------------------------------------ comparing


def as_json(body: Any, version: int) -> Any:
    if isinstance(body, str):
        return body
    return decode_records(body.to_json(version, records="base64"))


def differences(step: RequestStep, ours: Any, theirs: Any, path: str = "$") -> Iterator[ResponseDifference]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            if not CLUSTER_SPECIFIC_FIELDS.search(key[:1].upper() + key[1:]):
                yield from differences(step, ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield ResponseDifference(step, f"{path}.length", len(ours), len(theirs))
            return
        for place, (one, other) in enumerate(zip(sort_rows(ours), sort_rows(theirs), strict=True)):
            yield from differences(step, one, other, f"{path}[{place}]")
    elif ours != theirs:
        yield ResponseDifference(step, path, ours, theirs)


def sort_rows(rows: list[Any]) -> list[Any]:
    """Return rows in an order that does not depend on a hash table."""

    def key(row: Any) -> str:
        if not isinstance(row, dict):
            return ""
        return str([row.get(name) for name in ("name", "topic", "partitionIndex", "index", "partition", "groupId")])

    return sorted(rows, key=key)


def play(steps: list[RequestStep], ours: FrameClient, theirs: FrameClient) -> tuple[list[ResponseDifference], int]:
    """Send each step to both brokers. Return the differences and the number of steps."""
    all_differences: list[ResponseDifference] = []
    for step in steps:
        answers = []
        for client in (ours, theirs):
            body = step.body(client) if isinstance(step.body, Callable) else step.body
            answers.append(as_json(client.ask(step.name, step.version, body), step.version))
        all_differences += differences(step, *answers)
    return all_differences, len(steps)


# ------------------------------------------------------------------------------------------------ the script


def versions(served_ranges: Mapping[str, tuple[int, int]], name: str) -> range:
    low, high = served_ranges.get(name, (1, 0))
    return range(low, high + 1)


def requests(name: str) -> Any:
    return message(f"{name}Request")


def topics_steps(served_ranges: Mapping[str, tuple[int, int]]) -> Iterator[RequestStep]:
    types = requests("CreateTopics")
    for version in versions(served_ranges, "CreateTopics"):
        for label, topic in (
            ("new", {"name": f"made-{version}", "num_partitions": 2, "replication_factor": 1}),
            ("again", {"name": f"made-{version}", "num_partitions": 2, "replication_factor": 1}),
            ("bad name", {"name": "a/b", "num_partitions": 1, "replication_factor": 1}),
            ("dots", {"name": "..", "num_partitions": 1, "replication_factor": 1}),
            ("no name", {"name": "", "num_partitions": 1, "replication_factor": 1}),
            ("no partitions", {"name": "p0", "num_partitions": 0, "replication_factor": 1}),
            ("no replicas", {"name": "r0", "num_partitions": 1, "replication_factor": 0}),
            (
                "bad config",
                {
                    "name": "c0",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [types.CreatableTopicConfig(name="retention.ms", value="soon")],
                },
            ),
            (
                "unknown config",
                {
                    "name": "c1",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [types.CreatableTopicConfig(name="no.such", value="1")],
                },
            ),
        ):
            yield RequestStep(
                "CreateTopics", version, types(topics=[types.CreatableTopic(**topic)], timeout_ms=10_000), label
            )
    types = requests("CreatePartitions")
    for version in versions(served_ranges, "CreatePartitions"):
        for count in (3 + version, 2, -1, 0):
            row = types.CreatePartitionsTopic(name="made-4", count=count, assignments=None)
            yield RequestStep("CreatePartitions", version, types(topics=[row], timeout_ms=10_000), f"to {count}")
        row = types.CreatePartitionsTopic(name="none", count=3, assignments=None)
        yield RequestStep("CreatePartitions", version, types(topics=[row], timeout_ms=10_000), "unknown")


def batches() -> list[tuple[str, int, bytes]]:
    """Return valid and invalid record sets as (name, format, bytes)."""
    record_sets = []
    columns = {"value": [b"a", b"bb", b"ccc"], "key": [b"k"] * 3, "timestamp": [NOW, NOW + 5, NOW + 3]}
    for magic in (0, 1, 2):
        for codec in ("none", "gzip", "snappy", "lz4") + (("zstd",) if magic == 2 else ()):
            record_sets.append(
                (f"format {magic} {codec}", magic, build_records(columns, record_format=magic, codec=codec))
            )
    good = build_records(columns)
    record_sets += [
        ("nothing", 2, b""),
        ("two batches", 2, good + good),
        ("crc", 2, good[:-1] + b"\xff"),
        ("base offset", 2, build_records(columns, base_offset=7)),
        ("torn", 2, good[:-5]),
        ("short", 2, good[:10]),
        ("no key", 2, build_records({"value": [b"x"]})),
        ("large", 2, build_records({"value": [bytes(1_100_000)]})),
        ("holes", 2, build_records({"value": [b"a", b"b"], "offset": [0, 4]})),
        ("holes gzip", 2, build_records({"value": [b"a", b"b"], "offset": [0, 4]}, codec="gzip")),
        ("holes 1", 1, build_records({"value": [b"a", b"b"], "offset": [0, 4]}, record_format=1, codec="gzip")),
        ("crc 1", 1, build_records(columns, record_format=1)[:-1] + b"\xff"),
        ("sequence without epoch", 2, build_records(columns, producer_id=3, producer_epoch=0, base_sequence=5)),
        ("control", 2, build_records(columns, control=True)),
    ]
    return record_sets


def produce_steps(served_ranges: Mapping[str, tuple[int, int]], topics: tuple[str, ...]) -> Iterator[RequestStep]:
    types = requests("Produce")
    for version in versions(served_ranges, "Produce"):
        for topic in topics:
            for label, magic, records in batches():
                if magic == 2 and version < 3 and "format" not in label:
                    continue
                yield RequestStep("Produce", version, _produce(types, version, topic, 0, records), f"{topic} {label}")
        for label, topic, partition, acks in (
            ("unknown topic", "none", 0, 1),
            ("unknown partition", topics[0], 99, 1),
            ("acks", topics[0], 0, 5),
        ):
            records = build_records({"value": [b"x"], "key": [b"k"]}, record_format=2 if version > 2 else version // 2)
            body = _produce(types, version, topic, partition, records, acks=acks)
            yield RequestStep("Produce", version, body, label)


def _produce(types: Any, version: int, topic: str, partition: int, records: bytes, *, acks: int = -1) -> Any:
    def make(client: FrameClient) -> Any:
        row = types.PartitionProduceData(index=partition, records=records)
        ids = {"name": topic}
        if version >= 13:
            ids = {"topic_id": client.topic_ids[topic]} if topic in client.topic_ids else {}
        return types(acks=acks, timeout_ms=5_000, topic_data=[types.TopicProduceData(**ids, partition_data=[row])])

    return make


def fetch_steps(served_ranges: Mapping[str, tuple[int, int]], topics: tuple[str, ...]) -> Iterator[RequestStep]:
    types = requests("Fetch")
    for version in versions(served_ranges, "Fetch"):
        for topic in topics:
            for offset, size, isolation in (
                (0, 1 << 20, 0),
                (1, 1 << 20, 0),
                (7, 300, 0),
                (2, 1, 0),
                (4, 0, 0),
                (20, 1 << 16, 1),
                (10_000_000, 100, 0),
                (-1, 100, 0),
            ):
                yield RequestStep(
                    "Fetch",
                    version,
                    _fetch(types, version, topic, offset, size, isolation=isolation),
                    f"{topic} at {offset}, {size} bytes",
                )
        yield RequestStep("Fetch", version, _fetch(types, version, "none", 0, 100), "unknown topic")
        yield RequestStep(
            "Fetch", version, _fetch(types, version, topics[0], 0, 100, partition=99), "unknown partition"
        )
        if version >= 9:
            for epoch in (0, 5):
                yield RequestStep(
                    "Fetch", version, _fetch(types, version, topics[0], 0, 100, epoch=epoch), f"epoch {epoch}"
                )
        if version >= 7:
            body = _fetch(types, version, topics[0], 0, 100, session=(77, 3))
            yield RequestStep("Fetch", version, body, "unknown session")


def _fetch(
    types: Any,
    version: int,
    topic: str,
    offset: int,
    size: int,
    *,
    isolation: int = 0,
    partition: int = 0,
    epoch: int = -1,
    session: tuple[int, int] = (0, -1),
) -> Any:
    def make(client: FrameClient) -> Any:
        epoch_field = {"current_leader_epoch": epoch} if version >= 9 else {}
        row = types.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size, **epoch_field)
        ids: dict[str, Any] = {"topic": topic}
        if version >= 13:
            ids = {"topic_id": client.topic_ids[topic]} if topic in client.topic_ids else {}
        fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0}
        if version >= 3:
            fields["max_bytes"] = 1 << 22
        if version >= 4:
            fields["isolation_level"] = isolation
        if version >= 7:
            fields["session_id"], fields["session_epoch"] = session
        return types(topics=[types.FetchTopic(**ids, partitions=[row])], **fields)

    return make


def offsets_steps(served_ranges: Mapping[str, tuple[int, int]], topics: tuple[str, ...]) -> Iterator[RequestStep]:
    types = requests("ListOffsets")
    for version in versions(served_ranges, "ListOffsets"):
        for topic, partition in (*((topic, 0) for topic in topics), ("none", 0), (topics[0], 99)):
            for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, NOW, NOW + 4, NOW + 5, NOW + 6, 2**62):
                for isolation in (0, 1) if version >= 2 else (0,):
                    row = types.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                    if version == 0:
                        row.max_num_offsets = 10
                    fields = {"isolation_level": isolation} if version >= 2 else {}
                    body = types(topics=[types.ListOffsetsTopic(name=topic, partitions=[row])], **fields)
                    yield RequestStep("ListOffsets", version, body, f"{topic} {timestamp} isolation {isolation}")
    types = requests("OffsetForLeaderEpoch")
    for version in versions(served_ranges, "OffsetForLeaderEpoch"):
        for topic, partition, epoch in ((topics[0], 0, 0), (topics[0], 0, 1), (topics[0], 0, -1), ("none", 0, 0)):
            row = types.OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)
            body = types(topics=[types.OffsetForLeaderTopic(topic=topic, partitions=[row])])
            yield RequestStep("OffsetForLeaderEpoch", version, body, f"{topic} epoch {epoch}")


def metadata_steps(served_ranges: Mapping[str, tuple[int, int]], topics: tuple[str, ...]) -> Iterator[RequestStep]:
    types = requests("Metadata")
    for version in versions(served_ranges, "Metadata"):
        for names in (topics, ("none",), ("a/b",)):
            rows = [types.MetadataRequestTopic(name=name) for name in names]
            fields = {"allow_auto_topic_creation": False} if version >= 4 else {}
            if version < 4 and names[0] not in topics:
                continue
            yield RequestStep("Metadata", version, types(topics=rows, **fields), f"{names}")
    for name in ("DescribeCluster", "DescribeTopicPartitions"):
        types = requests(name)
        for version in versions(served_ranges, name):
            fields = {"topics": [types.TopicRequest(name=topics[0])]} if name == "DescribeTopicPartitions" else {}
            yield RequestStep(name, version, types(**fields))
    types = requests("DescribeProducers")
    for version in versions(served_ranges, "DescribeProducers"):
        row = types.TopicRequest(name="none", partition_indexes=[0])
        yield RequestStep("DescribeProducers", version, types(topics=[row]), "unknown")
    types = requests("FindCoordinator")
    for version in versions(served_ranges, "FindCoordinator"):
        for kind in (0, 1) if version else (0,):
            fields = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
            fields |= {"key_type": kind} if version else {}
            yield RequestStep("FindCoordinator", version, types(**fields), f"kind {kind}")


def admin_steps(served_ranges: Mapping[str, tuple[int, int]], topics: tuple[str, ...]) -> Iterator[RequestStep]:
    types = requests("DeleteRecords")
    for version in versions(served_ranges, "DeleteRecords"):
        for topic, offset in ((topics[0], 2 + version), (topics[0], 10**7), (topics[0], -2), ("none", 0)):
            row = types.DeleteRecordsPartition(partition_index=0, offset=offset)
            body = types(topics=[types.DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=5000)
            yield RequestStep("DeleteRecords", version, body, f"{topic} to {offset}")


def config_steps(served_ranges: Mapping[str, tuple[int, int]], topics: tuple[str, ...]) -> Iterator[RequestStep]:
    types = requests("IncrementalAlterConfigs")
    for version in versions(served_ranges, "IncrementalAlterConfigs"):
        for kind, name, key, operation, value in (
            (2, topics[0], "retention.ms", 0, "1000000000"),
            (2, topics[0], "retention.ms", 1, None),
            (2, topics[0], "cleanup.policy", 2, "compact"),
            (2, topics[0], "cleanup.policy", 3, "compact"),
            (2, topics[0], "retention.ms", 2, "5"),
            (2, topics[0], "retention.ms", 0, "x"),
            (2, topics[0], "no.such", 0, "x"),
            (2, "none", "retention.ms", 0, "1"),
            (99, "x", "retention.ms", 0, "1"),
        ):
            row = types.AlterableConfig(name=key, config_operation=operation, value=value)
            body = types(resources=[types.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[row])])
            yield RequestStep("IncrementalAlterConfigs", version, body, f"{kind} {name} {key} {operation} {value}")
    types = requests("AlterConfigs")
    for version in versions(served_ranges, "AlterConfigs"):
        for name, key, value in ((topics[0], "segment.bytes", "2000000"), (topics[0], "x", "1"), ("none", "x", "1")):
            row = types.AlterableConfig(name=key, value=value)
            body = types(resources=[types.AlterConfigsResource(resource_type=2, resource_name=name, configs=[row])])
            yield RequestStep("AlterConfigs", version, body, f"{name} {key}")
    types = requests("DescribeConfigs")
    keys = ["retention.ms", "segment.bytes", "cleanup.policy", "max.message.bytes", "compression.type"]
    for version in versions(served_ranges, "DescribeConfigs"):
        for kind, name in ((2, topics[0]), (2, "none"), (99, "x")):
            row = types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            yield RequestStep("DescribeConfigs", version, types(resources=[row]), f"{kind} {name}")


def last_steps(served_ranges: Mapping[str, tuple[int, int]], topics: tuple[str, ...]) -> Iterator[RequestStep]:
    for name, fields in (
        ("ElectLeaders", {"topic_partitions": None, "timeout_ms": 1000}),
        ("ListPartitionReassignments", {"topics": None}),
        ("DescribeAcls", {"resource_type_filter": 1, "operation": 1, "permission_type": 1}),
        ("DescribeClientQuotas", {}),
        ("DescribeUserScramCredentials", {"users": None}),
        ("ListConfigResources", {"resource_types": [16]}),
        ("SaslHandshake", {"mechanism": "PLAIN"}),
        ("ListTransactions", {}),
    ):
        types = requests(name)
        for version in versions(served_ranges, name):
            given_fields = dict(fields)
            if name == "ListConfigResources" and version == 0:
                given_fields = {}
            yield RequestStep(name, version, types(**given_fields))
    types = requests("DeleteTopics")
    for version in versions(served_ranges, "DeleteTopics"):
        for name in (f"made-{version}", "none"):
            fields = {"topics": [types.DeleteTopicState(name=name)]} if version >= 6 else {"topic_names": [name]}
            yield RequestStep("DeleteTopics", version, types(timeout_ms=10_000, **fields), name)


_FIRST_OF_KAFKA_4 = 4
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recoded": {"compression.type": "gzip"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}


def play_script(ours: FrameClient, theirs: FrameClient) -> tuple[list[ResponseDifference], int]:
    """Send requests of all APIs and versions that both brokers serve.

    Return the differences and the number of requests per broker.
    """
    own, other = ranges(ours), ranges(theirs)
    served_ranges = {
        name: (max(own[name][0], other[name][0]), min(own[name][1], other[name][1])) for name in own if name in other
    }
    if (
        served_ranges["Fetch"][0] >= _FIRST_OF_KAFKA_4
    ):  # the broker advertises Produce 0 for librdkafka, and rejects it (KAFKA-18659)
        served_ranges["Produce"] = (3, served_ranges["Produce"][1])
    topics = dict(TOPICS)
    types = requests("CreateTopics")
    for client in (ours, theirs):
        rows = [
            types.CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[types.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in topics.items()
        ]
        answer = client.ask("CreateTopics", 4, types(topics=rows, timeout_ms=20_000))
        assert all(row.error_code == 0 for row in answer.topics), answer
        client.find_topics(other["Metadata"][1])
    names = tuple(topics)
    steps = [
        *topics_steps(served_ranges),
        *produce_steps(served_ranges, names),
        *fetch_steps(served_ranges, tuple(name for name in names if name != "stamped")),
        *offsets_steps(served_ranges, tuple(name for name in names if name != "stamped")),
        *metadata_steps(served_ranges, names),
        *admin_steps(served_ranges, names),
        *config_steps(served_ranges, names),
        *last_steps(served_ranges, names),
    ]
    return play(steps, ours, theirs)
