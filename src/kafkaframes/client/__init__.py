"""A client of Kafka's protocol: producer, consumer and admin, columns first; asyncio inside, plain classes around it.

``Producer``, ``Consumer`` and ``Admin`` for plain code, their ``Async`` twins on an event loop. Versions are
negotiated with each broker, as far back as 0.8.

Names are imported when they are first used: to read settings alone, as Spark does at each ``load()``, loads no client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaframes.client.admin import (
        AsyncAdmin,
        ConfigEntry,
        DelegationToken,
        GroupDescription,
        ListedGroup,
        MemberDescription,
        NewTopic,
    )
    from kafkaframes.client.administration.acls import AclBinding, AclFilter
    from kafkaframes.client.administration.cluster import (
        BrokerNode,
        ConfigResource,
        Endpoint,
        Features,
        FeatureUpdate,
        QuorumInfo,
        QuorumReplica,
        VersionRange,
    )
    from kafkaframes.client.administration.groups import (
        ShareGroupDescription,
        ShareGroupMember,
        ShareGroupOffset,
        StreamsGroupDescription,
        StreamsGroupMember,
        Subtopology,
        TaskId,
    )
    from kafkaframes.client.administration.replicas import (
        LogDirDescription,
        PartitionReassignment,
        Replica,
        ReplicaInfo,
    )
    from kafkaframes.client.administration.transactions import (
        FencedProducer,
        ProducerState,
        TransactionDescription,
        TransactionListing,
    )
    from kafkaframes.client.administration.users import (
        ANY_ENTITY,
        DEFAULT_ENTITY,
        QuotaEntity,
        QuotaMatch,
        ScramCredential,
        ScramCredentialInfo,
    )
    from kafkaframes.client.batches import Producer as ProducerIdentity
    from kafkaframes.client.batches import RecordMetadata, WrittenBatches
    from kafkaframes.client.consumer import AsyncConsumer
    from kafkaframes.client.fetched import ConsumerRecord, FetchedBatches
    from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
    from kafkaframes.client.interceptors import ProducerRecord
    from kafkaframes.client.metadata import Cluster, PartitionMetadata, TopicMetadata, TopicPartition
    from kafkaframes.client.metrics import MetricName
    from kafkaframes.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
    from kafkaframes.client.producer import AsyncProducer
    from kafkaframes.client.record_futures import RecordFuture
    from kafkaframes.client.share_consumer import AsyncShareConsumer, ShareRecord
    from kafkaframes.client.sync import Admin, Consumer, Producer, ShareConsumer

__all__ = [
    "ANY_ENTITY",
    "DEFAULT_ENTITY",
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AclBinding",
    "AclFilter",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "BrokerNode",
    "Cluster",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigResource",
    "Consumer",
    "ConsumerRecord",
    "DelegationToken",
    "Endpoint",
    "FeatureUpdate",
    "Features",
    "FencedProducer",
    "FetchedBatches",
    "GroupDescription",
    "GroupMember",
    "ListedGroup",
    "LogDirDescription",
    "MemberDescription",
    "MetricName",
    "NewTopic",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "PartitionReassignment",
    "Producer",
    "ProducerIdentity",
    "ProducerRecord",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaMatch",
    "RecordFuture",
    "RecordMetadata",
    "Replica",
    "ReplicaInfo",
    "ScramCredential",
    "ScramCredentialInfo",
    "ShareConsumer",
    "ShareGroupDescription",
    "ShareGroupMember",
    "ShareGroupOffset",
    "ShareRecord",
    "StreamsGroupDescription",
    "StreamsGroupMember",
    "Subtopology",
    "TaskId",
    "TopicMetadata",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
    "VersionRange",
    "WrittenBatches",
]

_MODULES = {
    "admin": (
        "AsyncAdmin",
        "ConfigEntry",
        "DelegationToken",
        "GroupDescription",
        "ListedGroup",
        "MemberDescription",
        "NewTopic",
    ),
    "administration.acls": ("AclBinding", "AclFilter"),
    "administration.users": (
        "ANY_ENTITY",
        "DEFAULT_ENTITY",
        "QuotaEntity",
        "QuotaMatch",
        "ScramCredential",
        "ScramCredentialInfo",
    ),
    "administration.replicas": ("LogDirDescription", "PartitionReassignment", "Replica", "ReplicaInfo"),
    "administration.cluster": (
        "BrokerNode",
        "ConfigResource",
        "Endpoint",
        "FeatureUpdate",
        "Features",
        "QuorumInfo",
        "QuorumReplica",
        "VersionRange",
    ),
    "administration.transactions": ("FencedProducer", "ProducerState", "TransactionDescription", "TransactionListing"),
    "administration.groups": (
        "ShareGroupDescription",
        "ShareGroupMember",
        "ShareGroupOffset",
        "StreamsGroupDescription",
        "StreamsGroupMember",
        "Subtopology",
        "TaskId",
    ),
    "batches": ("RecordMetadata", "WrittenBatches"),
    "consumer": ("AsyncConsumer",),
    "fetched": ("ConsumerRecord", "FetchedBatches"),
    "group_offsets": ("CommittedOffset", "GroupMember"),
    "interceptors": ("ProducerRecord",),
    "metadata": ("Cluster", "PartitionMetadata", "TopicMetadata", "TopicPartition"),
    "metrics": ("MetricName",),
    "offsets": ("EARLIEST", "LATEST", "MAX_TIMESTAMP", "OffsetAndTimestamp"),
    "producer": ("AsyncProducer",),
    "record_futures": ("RecordFuture",),
    "share_consumer": ("AsyncShareConsumer", "ShareRecord"),
    "sync": ("Admin", "Consumer", "Producer", "ProducerIdentity", "ShareConsumer"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
