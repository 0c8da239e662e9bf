"""Clients of Kafka's protocol: producer, consumers and admin, for records and for Arrow tables.

``Producer``, ``Consumer``, ``ShareConsumer`` and ``Admin`` are synchronous. The ``Async`` twin of each client runs on
an event loop. API versions are negotiated with each broker, from Kafka 0.8 on.

Classes are imported when they are first used. A program that only reads settings, such as Spark at each ``load()``,
therefore imports no client.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.client.admin import (
        AsyncAdmin,
        ConfigEntry,
        ConfigSynonym,
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
    from kafkaframes.client.batches import ProducerIdentity, RecordMetadata, WrittenBatches
    from kafkaframes.client.consumer import AsyncConsumer
    from kafkaframes.client.fetched_batches import ConsumerRecord, FetchedBatches
    from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
    from kafkaframes.client.interceptors import ProducerRecord
    from kafkaframes.client.metadata import Cluster, Node, PartitionMetadata, TopicMetadata, TopicPartition
    from kafkaframes.client.metrics import MetricName
    from kafkaframes.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
    from kafkaframes.client.options import ClientOptions, ConsumerOptions, ProducerOptions, ShareConsumerOptions
    from kafkaframes.client.producer import AsyncProducer
    from kafkaframes.client.record_futures import RecordFuture
    from kafkaframes.client.share_consumer import AsyncShareConsumer, ShareRecord
    from kafkaframes.client.sync import Admin, Consumer, Producer
    from kafkaframes.client.sync_share import ShareConsumer

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
    "ClientOptions",
    "Cluster",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "Consumer",
    "ConsumerOptions",
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
    "Node",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "PartitionReassignment",
    "Producer",
    "ProducerIdentity",
    "ProducerOptions",
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
    "ShareConsumerOptions",
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

_NAMES_BY_MODULE = {
    "admin": (
        "AsyncAdmin",
        "ConfigEntry",
        "ConfigSynonym",
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
    "batches": ("ProducerIdentity", "RecordMetadata", "WrittenBatches"),
    "consumer": ("AsyncConsumer",),
    "fetched_batches": ("ConsumerRecord", "FetchedBatches"),
    "group_offsets": ("CommittedOffset", "GroupMember"),
    "interceptors": ("ProducerRecord",),
    "metadata": ("Cluster", "Node", "PartitionMetadata", "TopicMetadata", "TopicPartition"),
    "metrics": ("MetricName",),
    "offsets": ("EARLIEST", "LATEST", "MAX_TIMESTAMP", "OffsetAndTimestamp"),
    "options": ("ClientOptions", "ConsumerOptions", "ProducerOptions", "ShareConsumerOptions"),
    "producer": ("AsyncProducer",),
    "record_futures": ("RecordFuture",),
    "share_consumer": ("AsyncShareConsumer", "ShareRecord"),
    "sync": ("Admin", "Consumer", "Producer"),
    "sync_share": ("ShareConsumer",),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
