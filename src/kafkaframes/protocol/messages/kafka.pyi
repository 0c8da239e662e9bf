"""Written by `kafkaframes spec stubs` from the catalog; do not edit."""

from collections.abc import Iterable
from typing import Literal, overload
from uuid import UUID

from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.structs import Struct
from kafkaframes.protocol.messages.registry import Specs
from kafkaframes.wire.parts import Part

_Tags = Iterable[tuple[int, bytes]]

class AbortTransactionRecord(Message):
    reason: str | None
    def __init__(self, *, reason: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class AbortedTxn(Message):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    def __init__(self, *, producer_id: int = ..., first_offset: int = ..., last_offset: int = ..., last_stable_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...

class AccessControlEntryRecord(Message):
    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(self, *, id: UUID = ..., resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ..., unknown_tags: _Tags = ...) -> None: ...

class AccessControlRecord(Message):
    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(self, *, resource_type: int = ..., resource_name: str | None = ..., pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ..., unknown_tags: _Tags = ...) -> None: ...

class AddOffsetsToTxnRequest(Message):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    def __init__(self, *, transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...

class AddPartitionsToTxnRequest(Message):
    class AddPartitionsToTxnTopic(Struct):
        name: str
        partitions: list[int]
        def __init__(self, *, name: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
        def __init__(self, *, transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., verify_only: bool = ..., topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ..., unknown_tags: _Tags = ...) -> None: ...
    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
    def __init__(self, *, transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ..., v3_and_below_transactional_id: str = ..., v3_and_below_producer_id: int = ..., v3_and_below_producer_epoch: int = ..., v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class AddPartitionsToTxnResponse(Message):
    class AddPartitionsToTxnTopicResult(Struct):
        name: str
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]
        def __init__(self, *, name: str = ..., results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int
        partition_error_code: int
        def __init__(self, *, partition_index: int = ..., partition_error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class AddPartitionsToTxnResult(Struct):
        transactional_id: str
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
        def __init__(self, *, transactional_id: str = ..., topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ..., results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class AddRaftVoterRequest(Message):
    class Listener(Struct):
        name: str
        host: str
        port: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: UUID
    listeners: list[AddRaftVoterRequest.Listener]
    ack_when_committed: bool
    def __init__(self, *, cluster_id: str | None = ..., timeout_ms: int = ..., voter_id: int = ..., voter_directory_id: UUID = ..., listeners: list[AddRaftVoterRequest.Listener] = ..., ack_when_committed: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class AddRaftVoterResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class AllocateProducerIdsRequest(Message):
    broker_id: int
    broker_epoch: int
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id_start: int
    producer_id_len: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., producer_id_start: int = ..., producer_id_len: int = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterClientQuotasRequest(Message):
    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData]
        ops: list[AlterClientQuotasRequest.OpData]
        def __init__(self, *, entity: list[AlterClientQuotasRequest.EntityData] = ..., ops: list[AlterClientQuotasRequest.OpData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, entity_type: str = ..., entity_name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class OpData(Struct):
        key: str
        value: float
        remove: bool
        def __init__(self, *, key: str = ..., value: float = ..., remove: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    entries: list[AlterClientQuotasRequest.EntryData]
    validate_only: bool
    def __init__(self, *, entries: list[AlterClientQuotasRequest.EntryData] = ..., validate_only: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterClientQuotasResponse(Message):
    class EntryData(Struct):
        error_code: int
        error_message: str | None
        entity: list[AlterClientQuotasResponse.EntityData]
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., entity: list[AlterClientQuotasResponse.EntityData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, entity_type: str = ..., entity_name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    entries: list[AlterClientQuotasResponse.EntryData]
    def __init__(self, *, throttle_time_ms: int = ..., entries: list[AlterClientQuotasResponse.EntryData] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterConfigsRequest(Message):
    class AlterConfigsResource(Struct):
        resource_type: int
        resource_name: str
        configs: list[AlterConfigsRequest.AlterableConfig]
        def __init__(self, *, resource_type: int = ..., resource_name: str = ..., configs: list[AlterConfigsRequest.AlterableConfig] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AlterableConfig(Struct):
        name: str
        value: str | None
        def __init__(self, *, name: str = ..., value: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    resources: list[AlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(self, *, resources: list[AlterConfigsRequest.AlterConfigsResource] = ..., validate_only: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(self, *, throttle_time_ms: int = ..., responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterIsrRequest(Message):
    class TopicData(Struct):
        name: str
        partitions: list[AlterIsrRequest.PartitionData]
        def __init__(self, *, name: str = ..., partitions: list[AlterIsrRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        leader_epoch: int
        new_isr: list[int]
        current_isr_version: int
        def __init__(self, *, partition_index: int = ..., leader_epoch: int = ..., new_isr: list[int] = ..., current_isr_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    broker_id: int
    broker_epoch: int
    topics: list[AlterIsrRequest.TopicData]
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., topics: list[AlterIsrRequest.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterIsrResponse(Message):
    class TopicData(Struct):
        name: str
        partitions: list[AlterIsrResponse.PartitionData]
        def __init__(self, *, name: str = ..., partitions: list[AlterIsrResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        isr: list[int]
        current_isr_version: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ..., isr: list[int] = ..., current_isr_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    topics: list[AlterIsrResponse.TopicData]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., topics: list[AlterIsrResponse.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterPartitionReassignmentsRequest(Message):
    class ReassignableTopic(Struct):
        name: str
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition]
        def __init__(self, *, name: str = ..., partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ReassignablePartition(Struct):
        partition_index: int
        replicas: list[int] | None
        def __init__(self, *, partition_index: int = ..., replicas: list[int] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    timeout_ms: int
    allow_replication_factor_change: bool
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic]
    def __init__(self, *, timeout_ms: int = ..., allow_replication_factor_change: bool = ..., topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterPartitionReassignmentsResponse(Message):
    class ReassignableTopicResponse(Struct):
        name: str
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]
        def __init__(self, *, name: str = ..., partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ReassignablePartitionResponse(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse]
    def __init__(self, *, throttle_time_ms: int = ..., allow_replication_factor_change: bool = ..., error_code: int = ..., error_message: str | None = ..., responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterPartitionRequest(Message):
    class TopicData(Struct):
        topic_name: str
        topic_id: UUID
        partitions: list[AlterPartitionRequest.PartitionData]
        def __init__(self, *, topic_name: str = ..., topic_id: UUID = ..., partitions: list[AlterPartitionRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        leader_epoch: int
        new_isr: list[int]
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(self, *, partition_index: int = ..., leader_epoch: int = ..., new_isr: list[int] = ..., new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = ..., leader_recovery_state: int = ..., partition_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class BrokerState(Struct):
        broker_id: int
        broker_epoch: int
        def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    broker_id: int
    broker_epoch: int
    topics: list[AlterPartitionRequest.TopicData]
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., topics: list[AlterPartitionRequest.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterPartitionResponse(Message):
    class TopicData(Struct):
        topic_name: str
        topic_id: UUID
        partitions: list[AlterPartitionResponse.PartitionData]
        def __init__(self, *, topic_name: str = ..., topic_id: UUID = ..., partitions: list[AlterPartitionResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        isr: list[int]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ..., isr: list[int] = ..., leader_recovery_state: int = ..., partition_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    topics: list[AlterPartitionResponse.TopicData]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., topics: list[AlterPartitionResponse.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterReplicaLogDirsRequest(Message):
    class AlterReplicaLogDir(Struct):
        path: str
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic]
        def __init__(self, *, path: str = ..., topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AlterReplicaLogDirTopic(Struct):
        name: str
        partitions: list[int]
        def __init__(self, *, name: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir]
    def __init__(self, *, dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterReplicaLogDirsResponse(Message):
    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]
        def __init__(self, *, topic_name: str = ..., partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int
        error_code: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult]
    def __init__(self, *, throttle_time_ms: int = ..., results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterShareGroupOffsetsRequest(Message):
    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition]
        def __init__(self, *, topic_name: str = ..., partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int
        start_offset: int
        def __init__(self, *, partition_index: int = ..., start_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic]
    def __init__(self, *, group_id: str = ..., topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterShareGroupOffsetsResponse(Message):
    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str
        topic_id: UUID
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition]
        def __init__(self, *, topic_name: str = ..., topic_id: UUID = ..., partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterUserScramCredentialsRequest(Message):
    class ScramCredentialDeletion(Struct):
        name: str
        mechanism: int
        def __init__(self, *, name: str = ..., mechanism: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class ScramCredentialUpsertion(Struct):
        name: str
        mechanism: int
        iterations: int
        salt: bytes
        salted_password: bytes
        def __init__(self, *, name: str = ..., mechanism: int = ..., iterations: int = ..., salt: bytes = ..., salted_password: bytes = ..., unknown_tags: _Tags = ...) -> None: ...
    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion]
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion]
    def __init__(self, *, deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ..., upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ..., unknown_tags: _Tags = ...) -> None: ...

class AlterUserScramCredentialsResponse(Message):
    class AlterUserScramCredentialsResult(Struct):
        user: str
        error_code: int
        error_message: str | None
        def __init__(self, *, user: str = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]
    def __init__(self, *, throttle_time_ms: int = ..., results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class ApiVersionsRequest(Message):
    client_software_name: str
    client_software_version: str
    cluster_id: str | None
    node_id: int
    def __init__(self, *, client_software_name: str = ..., client_software_version: str = ..., cluster_id: str | None = ..., node_id: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ApiVersionsResponse(Message):
    class ApiVersion(Struct):
        api_key: int
        min_version: int
        max_version: int
        def __init__(self, *, api_key: int = ..., min_version: int = ..., max_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class SupportedFeatureKey(Struct):
        name: str
        min_version: int
        max_version: int
        def __init__(self, *, name: str = ..., min_version: int = ..., max_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class FinalizedFeatureKey(Struct):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(self, *, name: str = ..., max_version_level: int = ..., min_version_level: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    api_keys: list[ApiVersionsResponse.ApiVersion]
    throttle_time_ms: int
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey]
    zk_migration_ready: bool
    def __init__(self, *, error_code: int = ..., api_keys: list[ApiVersionsResponse.ApiVersion] = ..., throttle_time_ms: int = ..., supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ..., finalized_features_epoch: int = ..., finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ..., zk_migration_ready: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class AssignReplicasToDirsRequest(Message):
    class DirectoryData(Struct):
        id: UUID
        topics: list[AssignReplicasToDirsRequest.TopicData]
        def __init__(self, *, id: UUID = ..., topics: list[AssignReplicasToDirsRequest.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicData(Struct):
        topic_id: UUID
        partitions: list[AssignReplicasToDirsRequest.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[AssignReplicasToDirsRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        def __init__(self, *, partition_index: int = ..., unknown_tags: _Tags = ...) -> None: ...
    broker_id: int
    broker_epoch: int
    directories: list[AssignReplicasToDirsRequest.DirectoryData]
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., directories: list[AssignReplicasToDirsRequest.DirectoryData] = ..., unknown_tags: _Tags = ...) -> None: ...

class AssignReplicasToDirsResponse(Message):
    class DirectoryData(Struct):
        id: UUID
        topics: list[AssignReplicasToDirsResponse.TopicData]
        def __init__(self, *, id: UUID = ..., topics: list[AssignReplicasToDirsResponse.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicData(Struct):
        topic_id: UUID
        partitions: list[AssignReplicasToDirsResponse.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[AssignReplicasToDirsResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    directories: list[AssignReplicasToDirsResponse.DirectoryData]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., directories: list[AssignReplicasToDirsResponse.DirectoryData] = ..., unknown_tags: _Tags = ...) -> None: ...

class BeginQuorumEpochRequest(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[BeginQuorumEpochRequest.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[BeginQuorumEpochRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        voter_directory_id: UUID
        leader_id: int
        leader_epoch: int
        def __init__(self, *, partition_index: int = ..., voter_directory_id: UUID = ..., leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderEndpoint(Struct):
        name: str
        host: str
        port: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str | None
    voter_id: int
    topics: list[BeginQuorumEpochRequest.TopicData]
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint]
    def __init__(self, *, cluster_id: str | None = ..., voter_id: int = ..., topics: list[BeginQuorumEpochRequest.TopicData] = ..., leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class BeginQuorumEpochResponse(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[BeginQuorumEpochResponse.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[BeginQuorumEpochResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    topics: list[BeginQuorumEpochResponse.TopicData]
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint]
    def __init__(self, *, error_code: int = ..., topics: list[BeginQuorumEpochResponse.TopicData] = ..., node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class BeginTransactionRecord(Message):
    name: str | None
    def __init__(self, *, name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class BrokerHeartbeatRequest(Message):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[UUID]
    cordoned_log_dirs: list[UUID] | None
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., current_metadata_offset: int = ..., want_fence: bool = ..., want_shut_down: bool = ..., offline_log_dirs: list[UUID] = ..., cordoned_log_dirs: list[UUID] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., is_caught_up: bool = ..., is_fenced: bool = ..., should_shut_down: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class BrokerRegistrationChangeRecord(Message):
    broker_id: int
    broker_epoch: int
    fenced: int
    in_controlled_shutdown: int
    log_dirs: list[UUID]
    cordoned_log_dirs: list[UUID] | None
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., fenced: int = ..., in_controlled_shutdown: int = ..., log_dirs: list[UUID] = ..., cordoned_log_dirs: list[UUID] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class BrokerRegistrationRequest(Message):
    class Listener(Struct):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class Feature(Struct):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, name: str = ..., min_supported_version: int = ..., max_supported_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: list[BrokerRegistrationRequest.Listener]
    features: list[BrokerRegistrationRequest.Feature]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: list[UUID]
    previous_broker_epoch: int
    def __init__(self, *, broker_id: int = ..., cluster_id: str = ..., incarnation_id: UUID = ..., listeners: list[BrokerRegistrationRequest.Listener] = ..., features: list[BrokerRegistrationRequest.Feature] = ..., rack: str | None = ..., is_migrating_zk_broker: bool = ..., log_dirs: list[UUID] = ..., previous_broker_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class BrokerRegistrationResponse(Message):
    throttle_time_ms: int
    error_code: int
    broker_epoch: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., broker_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ClearElrRecord(Message):
    topic_name: str
    def __init__(self, *, topic_name: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ClientQuotaRecord(Message):
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, entity_type: str = ..., entity_name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    entity: list[ClientQuotaRecord.EntityData]
    key: str
    value: float
    remove: bool
    def __init__(self, *, entity: list[ClientQuotaRecord.EntityData] = ..., key: str = ..., value: float = ..., remove: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class ConfigRecord(Message):
    resource_type: int
    resource_name: str
    name: str
    value: str | None
    def __init__(self, *, resource_type: int = ..., resource_name: str = ..., name: str = ..., value: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupCurrentMemberAssignmentValue(Message):
    class TopicPartitions(Struct):
        topic_id: UUID
        partitions: list[int]
        assignment_epochs: list[int] | None
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., assignment_epochs: list[int] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(self, *, member_epoch: int = ..., previous_member_epoch: int = ..., state: int = ..., assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ..., partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, *, group_ids: list[str] = ..., include_authorized_operations: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupDescribeResponse(Message):
    class TopicPartitions(Struct):
        topic_id: UUID
        topic_name: str
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., topic_name: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions]
        def __init__(self, *, topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ConsumerGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., assignor_name: str = ..., members: list[ConsumerGroupDescribeResponse.Member] = ..., authorized_operations: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class Member(Struct):
        member_id: str
        instance_id: str | None
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        subscribed_topic_regex: str | None
        assignment: ConsumerGroupDescribeResponse.Assignment
        target_assignment: ConsumerGroupDescribeResponse.Assignment
        member_type: int
        def __init__(self, *, member_id: str = ..., instance_id: str | None = ..., rack_id: str | None = ..., member_epoch: int = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., subscribed_topic_regex: str | None = ..., assignment: ConsumerGroupDescribeResponse.Assignment = ..., target_assignment: ConsumerGroupDescribeResponse.Assignment = ..., member_type: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup]
    def __init__(self, *, throttle_time_ms: int = ..., groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupHeartbeatRequest(Message):
    class TopicPartitions(Struct):
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None
    def __init__(self, *, group_id: str = ..., member_id: str = ..., member_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., rebalance_timeout_ms: int = ..., subscribed_topic_names: list[str] | None = ..., subscribed_topic_regex: str | None = ..., server_assignor: str | None = ..., topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupHeartbeatResponse(Message):
    class TopicPartitions(Struct):
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions]
        def __init__(self, *, topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str | None = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., assignment: ConsumerGroupHeartbeatResponse.Assignment | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupMemberMetadataValue(Message):
    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol]
        def __init__(self, *, session_timeout_ms: int = ..., supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ClassicProtocol(Struct):
        name: str
        metadata: bytes
        def __init__(self, *, name: str = ..., metadata: bytes = ..., unknown_tags: _Tags = ...) -> None: ...
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None
    def __init__(self, *, instance_id: str | None = ..., rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., subscribed_topic_regex: str | None = ..., rebalance_timeout_ms: int = ..., server_assignor: str | None = ..., classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupMetadataValue(Message):
    epoch: int
    metadata_hash: int
    def __init__(self, *, epoch: int = ..., metadata_hash: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupPartitionMetadataValue(Message):
    class TopicMetadata(Struct):
        topic_id: UUID
        topic_name: str
        num_partitions: int
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata]
        def __init__(self, *, topic_id: UUID = ..., topic_name: str = ..., num_partitions: int = ..., partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionMetadata(Struct):
        partition: int
        racks: list[str]
        def __init__(self, *, partition: int = ..., racks: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata]
    def __init__(self, *, topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupRegularExpressionKey(Message):
    group_id: str
    regular_expression: str
    def __init__(self, *, group_id: str = ..., regular_expression: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str]
    version: int
    timestamp: int
    def __init__(self, *, topics: list[str] = ..., version: int = ..., timestamp: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Struct):
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(self, *, topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(self, *, assignment_epoch: int = ..., assignment_timestamp: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerProtocolAssignment(Message):
    class TopicPartition(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, *, topic: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition]
    user_data: bytes | None
    def __init__(self, *, assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = ..., user_data: bytes | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ConsumerProtocolSubscription(Message):
    class TopicPartition(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, *, topic: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[str]
    user_data: bytes | None
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition]
    generation_id: int
    rack_id: str | None
    def __init__(self, *, topics: list[str] = ..., user_data: bytes | None = ..., owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = ..., generation_id: int = ..., rack_id: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ControlRecordTypeSchema(Message):
    type: int
    def __init__(self, *, type: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ControlledShutdownRequest(Message):
    broker_id: int
    broker_epoch: int
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ControlledShutdownResponse(Message):
    class RemainingPartition(Struct):
        topic_name: str
        partition_index: int
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition]
    def __init__(self, *, error_code: int = ..., remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = ..., unknown_tags: _Tags = ...) -> None: ...

class ControllerRegistrationRequest(Message):
    class Listener(Struct):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class Feature(Struct):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, name: str = ..., min_supported_version: int = ..., max_supported_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    listeners: list[ControllerRegistrationRequest.Listener]
    features: list[ControllerRegistrationRequest.Feature]
    def __init__(self, *, controller_id: int = ..., incarnation_id: UUID = ..., zk_migration_ready: bool = ..., listeners: list[ControllerRegistrationRequest.Listener] = ..., features: list[ControllerRegistrationRequest.Feature] = ..., unknown_tags: _Tags = ...) -> None: ...

class ControllerRegistrationResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class CreateAclsRequest(Message):
    class AclCreation(Struct):
        resource_type: int
        resource_name: str
        resource_pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, *, resource_type: int = ..., resource_name: str = ..., resource_pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ..., unknown_tags: _Tags = ...) -> None: ...
    creations: list[CreateAclsRequest.AclCreation]
    def __init__(self, *, creations: list[CreateAclsRequest.AclCreation] = ..., unknown_tags: _Tags = ...) -> None: ...

class CreateAclsResponse(Message):
    class AclCreationResult(Struct):
        error_code: int
        error_message: str | None
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    results: list[CreateAclsResponse.AclCreationResult]
    def __init__(self, *, throttle_time_ms: int = ..., results: list[CreateAclsResponse.AclCreationResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class CreateDelegationTokenRequest(Message):
    class CreatableRenewers(Struct):
        principal_type: str
        principal_name: str
        def __init__(self, *, principal_type: str = ..., principal_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers]
    max_lifetime_ms: int
    def __init__(self, *, owner_principal_type: str | None = ..., owner_principal_name: str | None = ..., renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = ..., max_lifetime_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class CreateDelegationTokenResponse(Message):
    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: bytes
    throttle_time_ms: int
    def __init__(self, *, error_code: int = ..., principal_type: str = ..., principal_name: str = ..., token_requester_principal_type: str = ..., token_requester_principal_name: str = ..., issue_timestamp_ms: int = ..., expiry_timestamp_ms: int = ..., max_timestamp_ms: int = ..., token_id: str = ..., hmac: bytes = ..., throttle_time_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class CreatePartitionsRequest(Message):
    class CreatePartitionsTopic(Struct):
        name: str
        count: int
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None
        def __init__(self, *, name: str = ..., count: int = ..., assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int]
        def __init__(self, *, broker_ids: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[CreatePartitionsRequest.CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(self, *, topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ..., timeout_ms: int = ..., validate_only: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class CreatePartitionsResponse(Message):
    class CreatePartitionsTopicResult(Struct):
        name: str
        error_code: int
        error_message: str | None
        def __init__(self, *, name: str = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult]
    def __init__(self, *, throttle_time_ms: int = ..., results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class CreateTopicsRequest(Message):
    class CreatableTopic(Struct):
        name: str
        num_partitions: int
        replication_factor: int
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment]
        configs: list[CreateTopicsRequest.CreatableTopicConfig]
        def __init__(self, *, name: str = ..., num_partitions: int = ..., replication_factor: int = ..., assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ..., configs: list[CreateTopicsRequest.CreatableTopicConfig] = ..., unknown_tags: _Tags = ...) -> None: ...
    class CreatableReplicaAssignment(Struct):
        partition_index: int
        broker_ids: list[int]
        def __init__(self, *, partition_index: int = ..., broker_ids: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class CreatableTopicConfig(Struct):
        name: str
        value: str | None
        def __init__(self, *, name: str = ..., value: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[CreateTopicsRequest.CreatableTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(self, *, topics: list[CreateTopicsRequest.CreatableTopic] = ..., timeout_ms: int = ..., validate_only: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class CreateTopicsResponse(Message):
    class CreatableTopicResult(Struct):
        name: str
        topic_id: UUID
        error_code: int
        error_message: str | None
        topic_config_error_code: int
        num_partitions: int
        replication_factor: int
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., error_code: int = ..., error_message: str | None = ..., topic_config_error_code: int = ..., num_partitions: int = ..., replication_factor: int = ..., configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class CreatableTopicConfigs(Struct):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        def __init__(self, *, name: str = ..., value: str | None = ..., read_only: bool = ..., config_source: int = ..., is_sensitive: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[CreateTopicsResponse.CreatableTopicResult]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[CreateTopicsResponse.CreatableTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DefaultPrincipalData(Message):
    type: str
    name: str
    token_authenticated: bool
    def __init__(self, *, type: str = ..., name: str = ..., token_authenticated: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class DelegationTokenRecord(Message):
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str
    def __init__(self, *, owner: str = ..., requester: str = ..., renewers: list[str] = ..., issue_timestamp: int = ..., max_timestamp: int = ..., expiration_timestamp: int = ..., token_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteAclsRequest(Message):
    class DeleteAclsFilter(Struct):
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int
        def __init__(self, *, resource_type_filter: int = ..., resource_name_filter: str | None = ..., pattern_type_filter: int = ..., principal_filter: str | None = ..., host_filter: str | None = ..., operation: int = ..., permission_type: int = ..., unknown_tags: _Tags = ...) -> None: ...
    filters: list[DeleteAclsRequest.DeleteAclsFilter]
    def __init__(self, *, filters: list[DeleteAclsRequest.DeleteAclsFilter] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteAclsResponse(Message):
    class DeleteAclsFilterResult(Struct):
        error_code: int
        error_message: str | None
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl]
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DeleteAclsMatchingAcl(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult]
    def __init__(self, *, throttle_time_ms: int = ..., filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteGroupsRequest(Message):
    groups_names: list[str]
    def __init__(self, *, groups_names: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteGroupsResponse(Message):
    class DeletableGroupResult(Struct):
        group_id: str
        error_code: int
        error_message: str | None
        def __init__(self, *, group_id: str = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    results: list[DeleteGroupsResponse.DeletableGroupResult]
    def __init__(self, *, throttle_time_ms: int = ..., results: list[DeleteGroupsResponse.DeletableGroupResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteRecordsRequest(Message):
    class DeleteRecordsTopic(Struct):
        name: str
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition]
        def __init__(self, *, name: str = ..., partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DeleteRecordsPartition(Struct):
        partition_index: int
        offset: int
        def __init__(self, *, partition_index: int = ..., offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[DeleteRecordsRequest.DeleteRecordsTopic]
    timeout_ms: int
    def __init__(self, *, topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ..., timeout_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteRecordsResponse(Message):
    class DeleteRecordsTopicResult(Struct):
        name: str
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult]
        def __init__(self, *, name: str = ..., partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DeleteRecordsPartitionResult(Struct):
        partition_index: int
        low_watermark: int
        error_code: int
        def __init__(self, *, partition_index: int = ..., low_watermark: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteShareGroupOffsetsRequest(Message):
    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str
        def __init__(self, *, topic_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic]
    def __init__(self, *, group_id: str = ..., topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteShareGroupOffsetsResponse(Message):
    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str
        topic_id: UUID
        error_code: int
        error_message: str | None
        def __init__(self, *, topic_name: str = ..., topic_id: UUID = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteShareGroupStateRequest(Message):
    class DeleteStateData(Struct):
        topic_id: UUID
        partitions: list[DeleteShareGroupStateRequest.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[DeleteShareGroupStateRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        def __init__(self, *, partition: int = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupStateRequest.DeleteStateData]
    def __init__(self, *, group_id: str = ..., topics: list[DeleteShareGroupStateRequest.DeleteStateData] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteShareGroupStateResponse(Message):
    class DeleteStateResult(Struct):
        topic_id: UUID
        partitions: list[DeleteShareGroupStateResponse.PartitionResult]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[DeleteShareGroupStateResponse.PartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    results: list[DeleteShareGroupStateResponse.DeleteStateResult]
    def __init__(self, *, results: list[DeleteShareGroupStateResponse.DeleteStateResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteTopicsRequest(Message):
    class DeleteTopicState(Struct):
        name: str | None
        topic_id: UUID
        def __init__(self, *, name: str | None = ..., topic_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[DeleteTopicsRequest.DeleteTopicState]
    topic_names: list[str]
    timeout_ms: int
    def __init__(self, *, topics: list[DeleteTopicsRequest.DeleteTopicState] = ..., topic_names: list[str] = ..., timeout_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class DeleteTopicsResponse(Message):
    class DeletableTopicResult(Struct):
        name: str | None
        topic_id: UUID
        error_code: int
        error_message: str | None
        def __init__(self, *, name: str | None = ..., topic_id: UUID = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    responses: list[DeleteTopicsResponse.DeletableTopicResult]
    def __init__(self, *, throttle_time_ms: int = ..., responses: list[DeleteTopicsResponse.DeletableTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeAclsRequest(Message):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    def __init__(self, *, resource_type_filter: int = ..., resource_name_filter: str | None = ..., pattern_type_filter: int = ..., principal_filter: str | None = ..., host_filter: str | None = ..., operation: int = ..., permission_type: int = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeAclsResponse(Message):
    class DescribeAclsResource(Struct):
        resource_type: int
        resource_name: str
        pattern_type: int
        acls: list[DescribeAclsResponse.AclDescription]
        def __init__(self, *, resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., acls: list[DescribeAclsResponse.AclDescription] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AclDescription(Struct):
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, *, principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: list[DescribeAclsResponse.DescribeAclsResource]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., resources: list[DescribeAclsResponse.DescribeAclsResource] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeClientQuotasRequest(Message):
    class ComponentData(Struct):
        entity_type: str
        match_type: int
        match: str | None
        def __init__(self, *, entity_type: str = ..., match_type: int = ..., match: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    components: list[DescribeClientQuotasRequest.ComponentData]
    strict: bool
    def __init__(self, *, components: list[DescribeClientQuotasRequest.ComponentData] = ..., strict: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeClientQuotasResponse(Message):
    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData]
        values: list[DescribeClientQuotasResponse.ValueData]
        def __init__(self, *, entity: list[DescribeClientQuotasResponse.EntityData] = ..., values: list[DescribeClientQuotasResponse.ValueData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, entity_type: str = ..., entity_name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class ValueData(Struct):
        key: str
        value: float
        def __init__(self, *, key: str = ..., value: float = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: list[DescribeClientQuotasResponse.EntryData] | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., entries: list[DescribeClientQuotasResponse.EntryData] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool
    def __init__(self, *, include_cluster_authorized_operations: bool = ..., endpoint_type: int = ..., include_fenced_brokers: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeClusterResponse(Message):
    class DescribeClusterBroker(Struct):
        broker_id: int
        host: str
        port: int
        rack: str | None
        is_fenced: bool
        def __init__(self, *, broker_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., is_fenced: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: list[DescribeClusterResponse.DescribeClusterBroker]
    cluster_authorized_operations: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., endpoint_type: int = ..., cluster_id: str = ..., controller_id: int = ..., brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ..., cluster_authorized_operations: int = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeConfigsRequest(Message):
    class DescribeConfigsResource(Struct):
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None
        def __init__(self, *, resource_type: int = ..., resource_name: str = ..., configuration_keys: list[str] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    resources: list[DescribeConfigsRequest.DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool
    def __init__(self, *, resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ..., include_synonyms: bool = ..., include_documentation: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeConfigsResponse(Message):
    class DescribeConfigsResult(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult]
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeConfigsResourceResult(Struct):
        name: str
        value: str | None
        read_only: bool
        is_default: bool
        config_source: int
        is_sensitive: bool
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym]
        config_type: int
        documentation: str | None
        def __init__(self, *, name: str = ..., value: str | None = ..., read_only: bool = ..., is_default: bool = ..., config_source: int = ..., is_sensitive: bool = ..., synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ..., config_type: int = ..., documentation: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeConfigsSynonym(Struct):
        name: str
        value: str | None
        source: int
        def __init__(self, *, name: str = ..., value: str | None = ..., source: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    results: list[DescribeConfigsResponse.DescribeConfigsResult]
    def __init__(self, *, throttle_time_ms: int = ..., results: list[DescribeConfigsResponse.DescribeConfigsResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeDelegationTokenRequest(Message):
    class DescribeDelegationTokenOwner(Struct):
        principal_type: str
        principal_name: str
        def __init__(self, *, principal_type: str = ..., principal_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None
    def __init__(self, *, owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeDelegationTokenResponse(Message):
    class DescribedDelegationToken(Struct):
        principal_type: str
        principal_name: str
        token_requester_principal_type: str
        token_requester_principal_name: str
        issue_timestamp: int
        expiry_timestamp: int
        max_timestamp: int
        token_id: str
        hmac: bytes
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer]
        def __init__(self, *, principal_type: str = ..., principal_name: str = ..., token_requester_principal_type: str = ..., token_requester_principal_name: str = ..., issue_timestamp: int = ..., expiry_timestamp: int = ..., max_timestamp: int = ..., token_id: str = ..., hmac: bytes = ..., renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str
        principal_name: str
        def __init__(self, *, principal_type: str = ..., principal_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken]
    throttle_time_ms: int
    def __init__(self, *, error_code: int = ..., tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = ..., throttle_time_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeGroupsRequest(Message):
    groups: list[str]
    include_authorized_operations: bool
    def __init__(self, *, groups: list[str] = ..., include_authorized_operations: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeGroupsResponse(Message):
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: list[DescribeGroupsResponse.DescribedGroupMember]
        authorized_operations: int
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., protocol_type: str = ..., protocol_data: str = ..., members: list[DescribeGroupsResponse.DescribedGroupMember] = ..., authorized_operations: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribedGroupMember(Struct):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        member_metadata: bytes
        member_assignment: bytes
        def __init__(self, *, member_id: str = ..., group_instance_id: str | None = ..., client_id: str = ..., client_host: str = ..., member_metadata: bytes = ..., member_assignment: bytes = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeGroupsResponse.DescribedGroup]
    def __init__(self, *, throttle_time_ms: int = ..., groups: list[DescribeGroupsResponse.DescribedGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeLogDirsRequest(Message):
    class DescribableLogDirTopic(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, *, topic: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None
    def __init__(self, *, topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeLogDirsResponse(Message):
    class DescribeLogDirsResult(Struct):
        error_code: int
        log_dir: str
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic]
        total_bytes: int
        usable_bytes: int
        is_cordoned: bool
        def __init__(self, *, error_code: int = ..., log_dir: str = ..., topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ..., total_bytes: int = ..., usable_bytes: int = ..., is_cordoned: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeLogDirsTopic(Struct):
        name: str
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition]
        def __init__(self, *, name: str = ..., partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeLogDirsPartition(Struct):
        partition_index: int
        partition_size: int
        offset_lag: int
        is_future_key: bool
        def __init__(self, *, partition_index: int = ..., partition_size: int = ..., offset_lag: int = ..., is_future_key: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeProducersRequest(Message):
    class TopicRequest(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, name: str = ..., partition_indexes: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[DescribeProducersRequest.TopicRequest]
    def __init__(self, *, topics: list[DescribeProducersRequest.TopicRequest] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeProducersResponse(Message):
    class TopicResponse(Struct):
        name: str
        partitions: list[DescribeProducersResponse.PartitionResponse]
        def __init__(self, *, name: str = ..., partitions: list[DescribeProducersResponse.PartitionResponse] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResponse(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        active_producers: list[DescribeProducersResponse.ProducerState]
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., active_producers: list[DescribeProducersResponse.ProducerState] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ProducerState(Struct):
        producer_id: int
        producer_epoch: int
        last_sequence: int
        last_timestamp: int
        coordinator_epoch: int
        current_txn_start_offset: int
        def __init__(self, *, producer_id: int = ..., producer_epoch: int = ..., last_sequence: int = ..., last_timestamp: int = ..., coordinator_epoch: int = ..., current_txn_start_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeProducersResponse.TopicResponse]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[DescribeProducersResponse.TopicResponse] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeQuorumRequest(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[DescribeQuorumRequest.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[DescribeQuorumRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        def __init__(self, *, partition_index: int = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[DescribeQuorumRequest.TopicData]
    def __init__(self, *, topics: list[DescribeQuorumRequest.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeQuorumResponse(Message):
    class ReplicaState(Struct):
        replica_id: int
        replica_directory_id: UUID
        log_end_offset: int
        last_fetch_timestamp: int
        last_caught_up_timestamp: int
        def __init__(self, *, replica_id: int = ..., replica_directory_id: UUID = ..., log_end_offset: int = ..., last_fetch_timestamp: int = ..., last_caught_up_timestamp: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicData(Struct):
        topic_name: str
        partitions: list[DescribeQuorumResponse.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[DescribeQuorumResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        leader_id: int
        leader_epoch: int
        high_watermark: int
        current_voters: list[DescribeQuorumResponse.ReplicaState]
        observers: list[DescribeQuorumResponse.ReplicaState]
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., leader_id: int = ..., leader_epoch: int = ..., high_watermark: int = ..., current_voters: list[DescribeQuorumResponse.ReplicaState] = ..., observers: list[DescribeQuorumResponse.ReplicaState] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Node(Struct):
        node_id: int
        listeners: list[DescribeQuorumResponse.Listener]
        def __init__(self, *, node_id: int = ..., listeners: list[DescribeQuorumResponse.Listener] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Listener(Struct):
        name: str
        host: str
        port: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    error_message: str | None
    topics: list[DescribeQuorumResponse.TopicData]
    nodes: list[DescribeQuorumResponse.Node]
    def __init__(self, *, error_code: int = ..., error_message: str | None = ..., topics: list[DescribeQuorumResponse.TopicData] = ..., nodes: list[DescribeQuorumResponse.Node] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeShareGroupOffsetsRequest(Message):
    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None
        def __init__(self, *, group_id: str = ..., topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str
        partitions: list[int]
        def __init__(self, *, topic_name: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup]
    def __init__(self, *, groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeShareGroupOffsetsResponse(Message):
    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic]
        error_code: int
        error_message: str | None
        def __init__(self, *, group_id: str = ..., topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str
        topic_id: UUID
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition]
        def __init__(self, *, topic_name: str = ..., topic_id: UUID = ..., partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int
        start_offset: int
        leader_epoch: int
        lag: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition_index: int = ..., start_offset: int = ..., leader_epoch: int = ..., lag: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup]
    def __init__(self, *, throttle_time_ms: int = ..., groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeTopicPartitionsRequest(Message):
    class TopicRequest(Struct):
        name: str
        def __init__(self, *, name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    class Cursor(Struct):
        topic_name: str
        partition_index: int
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[DescribeTopicPartitionsRequest.TopicRequest]
    response_partition_limit: int
    cursor: DescribeTopicPartitionsRequest.Cursor | None
    def __init__(self, *, topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ..., response_partition_limit: int = ..., cursor: DescribeTopicPartitionsRequest.Cursor | None = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeTopicPartitionsResponse(Message):
    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int
        name: str | None
        topic_id: UUID
        is_internal: bool
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition]
        topic_authorized_operations: int
        def __init__(self, *, error_code: int = ..., name: str | None = ..., topic_id: UUID = ..., is_internal: bool = ..., partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = ..., topic_authorized_operations: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        eligible_leader_replicas: list[int] | None
        last_known_elr: list[int] | None
        offline_replicas: list[int]
        def __init__(self, *, error_code: int = ..., partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., replica_nodes: list[int] = ..., isr_nodes: list[int] = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ..., offline_replicas: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Cursor(Struct):
        topic_name: str
        partition_index: int
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = ..., next_cursor: DescribeTopicPartitionsResponse.Cursor | None = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeTransactionsRequest(Message):
    transactional_ids: list[str]
    def __init__(self, *, transactional_ids: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeTransactionsResponse(Message):
    class TransactionState(Struct):
        error_code: int
        transactional_id: str
        transaction_state: str
        transaction_timeout_ms: int
        transaction_start_time_ms: int
        producer_id: int
        producer_epoch: int
        topics: list[DescribeTransactionsResponse.TopicData]
        def __init__(self, *, error_code: int = ..., transactional_id: str = ..., transaction_state: str = ..., transaction_timeout_ms: int = ..., transaction_start_time_ms: int = ..., producer_id: int = ..., producer_epoch: int = ..., topics: list[DescribeTransactionsResponse.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicData(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, *, topic: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    transaction_states: list[DescribeTransactionsResponse.TransactionState]
    def __init__(self, *, throttle_time_ms: int = ..., transaction_states: list[DescribeTransactionsResponse.TransactionState] = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeUserScramCredentialsRequest(Message):
    class UserName(Struct):
        name: str
        def __init__(self, *, name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    users: list[DescribeUserScramCredentialsRequest.UserName] | None
    def __init__(self, *, users: list[DescribeUserScramCredentialsRequest.UserName] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class DescribeUserScramCredentialsResponse(Message):
    class DescribeUserScramCredentialsResult(Struct):
        user: str
        error_code: int
        error_message: str | None
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo]
        def __init__(self, *, user: str = ..., error_code: int = ..., error_message: str | None = ..., credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ..., unknown_tags: _Tags = ...) -> None: ...
    class CredentialInfo(Struct):
        mechanism: int
        iterations: int
        def __init__(self, *, mechanism: int = ..., iterations: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class ElectLeadersRequest(Message):
    class TopicPartitions(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, *, topic: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    election_type: int
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None
    timeout_ms: int
    def __init__(self, *, election_type: int = ..., topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ..., timeout_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ElectLeadersResponse(Message):
    class ReplicaElectionResult(Struct):
        topic: str
        partition_result: list[ElectLeadersResponse.PartitionResult]
        def __init__(self, *, topic: str = ..., partition_result: list[ElectLeadersResponse.PartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResult(Struct):
        partition_id: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition_id: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class ElectPreferredLeadersRequest(Message):
    class TopicPartitions(Struct):
        topic: str
        partition_id: list[int]
        def __init__(self, *, topic: str = ..., partition_id: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    topic_partitions: list[ElectPreferredLeadersRequest.TopicPartitions] | None
    timeout_ms: int
    def __init__(self, *, topic_partitions: list[ElectPreferredLeadersRequest.TopicPartitions] | None = ..., timeout_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ElectPreferredLeadersResponse(Message):
    class ReplicaElectionResult(Struct):
        topic: str
        partition_result: list[ElectPreferredLeadersResponse.PartitionResult]
        def __init__(self, *, topic: str = ..., partition_result: list[ElectPreferredLeadersResponse.PartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResult(Struct):
        partition_id: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition_id: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    replica_election_results: list[ElectPreferredLeadersResponse.ReplicaElectionResult]
    def __init__(self, *, throttle_time_ms: int = ..., replica_election_results: list[ElectPreferredLeadersResponse.ReplicaElectionResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class EndQuorumEpochRequest(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[EndQuorumEpochRequest.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[EndQuorumEpochRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        leader_id: int
        leader_epoch: int
        preferred_successors: list[int]
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo]
        def __init__(self, *, partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., preferred_successors: list[int] = ..., preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ReplicaInfo(Struct):
        candidate_id: int
        candidate_directory_id: UUID
        def __init__(self, *, candidate_id: int = ..., candidate_directory_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderEndpoint(Struct):
        name: str
        host: str
        port: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str | None
    topics: list[EndQuorumEpochRequest.TopicData]
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint]
    def __init__(self, *, cluster_id: str | None = ..., topics: list[EndQuorumEpochRequest.TopicData] = ..., leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class EndQuorumEpochResponse(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[EndQuorumEpochResponse.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[EndQuorumEpochResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    topics: list[EndQuorumEpochResponse.TopicData]
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint]
    def __init__(self, *, error_code: int = ..., topics: list[EndQuorumEpochResponse.TopicData] = ..., node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class EndTransactionRecord(Message):
    def __init__(self, *, unknown_tags: _Tags = ...) -> None: ...

class EndTxnMarker(Message):
    coordinator_epoch: int
    def __init__(self, *, coordinator_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class EndTxnRequest(Message):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(self, *, transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., committed: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class EndTxnResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., producer_id: int = ..., producer_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class EnvelopeRequest(Message):
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes
    def __init__(self, *, request_data: bytes = ..., request_principal: bytes | None = ..., client_host_address: bytes = ..., unknown_tags: _Tags = ...) -> None: ...

class EnvelopeResponse(Message):
    response_data: bytes | None
    error_code: int
    def __init__(self, *, response_data: bytes | None = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ExpireDelegationTokenRequest(Message):
    hmac: bytes
    expiry_time_period_ms: int
    def __init__(self, *, hmac: bytes = ..., expiry_time_period_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ExpireDelegationTokenResponse(Message):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(self, *, error_code: int = ..., expiry_timestamp_ms: int = ..., throttle_time_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class FeatureLevelRecord(Message):
    name: str
    feature_level: int
    def __init__(self, *, name: str = ..., feature_level: int = ..., unknown_tags: _Tags = ...) -> None: ...

class FenceBrokerRecord(Message):
    id: int
    epoch: int
    def __init__(self, *, id: int = ..., epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class FetchRequest(Message):
    class ReplicaState(Struct):
        replica_id: int
        replica_epoch: int
        def __init__(self, *, replica_id: int = ..., replica_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class FetchTopic(Struct):
        topic: str
        topic_id: UUID
        partitions: list[FetchRequest.FetchPartition]
        def __init__(self, *, topic: str = ..., topic_id: UUID = ..., partitions: list[FetchRequest.FetchPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class FetchPartition(Struct):
        partition: int
        current_leader_epoch: int
        fetch_offset: int
        last_fetched_epoch: int
        log_start_offset: int
        partition_max_bytes: int
        replica_directory_id: UUID
        high_watermark: int
        def __init__(self, *, partition: int = ..., current_leader_epoch: int = ..., fetch_offset: int = ..., last_fetched_epoch: int = ..., log_start_offset: int = ..., partition_max_bytes: int = ..., replica_directory_id: UUID = ..., high_watermark: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class ForgottenTopic(Struct):
        topic: str
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic: str = ..., topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str | None
    replica_id: int
    replica_state: FetchRequest.ReplicaState
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten_topics_data: list[FetchRequest.ForgottenTopic]
    rack_id: str
    def __init__(self, *, cluster_id: str | None = ..., replica_id: int = ..., replica_state: FetchRequest.ReplicaState = ..., max_wait_ms: int = ..., min_bytes: int = ..., max_bytes: int = ..., isolation_level: int = ..., session_id: int = ..., session_epoch: int = ..., topics: list[FetchRequest.FetchTopic] = ..., forgotten_topics_data: list[FetchRequest.ForgottenTopic] = ..., rack_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class FetchResponse(Message):
    class FetchableTopicResponse(Struct):
        topic: str
        topic_id: UUID
        partitions: list[FetchResponse.PartitionData]
        def __init__(self, *, topic: str = ..., topic_id: UUID = ..., partitions: list[FetchResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        high_watermark: int
        last_stable_offset: int
        log_start_offset: int
        diverging_epoch: FetchResponse.EpochEndOffset
        current_leader: FetchResponse.LeaderIdAndEpoch
        snapshot_id: FetchResponse.SnapshotId
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None
        preferred_read_replica: int
        records: bytes | None
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., high_watermark: int = ..., last_stable_offset: int = ..., log_start_offset: int = ..., diverging_epoch: FetchResponse.EpochEndOffset = ..., current_leader: FetchResponse.LeaderIdAndEpoch = ..., snapshot_id: FetchResponse.SnapshotId = ..., aborted_transactions: list[FetchResponse.AbortedTransaction] | None = ..., preferred_read_replica: int = ..., records: bytes | None | Part = ..., unknown_tags: _Tags = ...) -> None: ...
    class EpochEndOffset(Struct):
        epoch: int
        end_offset: int
        def __init__(self, *, epoch: int = ..., end_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class SnapshotId(Struct):
        end_offset: int
        epoch: int
        def __init__(self, *, end_offset: int = ..., epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class AbortedTransaction(Struct):
        producer_id: int
        first_offset: int
        def __init__(self, *, producer_id: int = ..., first_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: list[FetchResponse.FetchableTopicResponse]
    node_endpoints: list[FetchResponse.NodeEndpoint]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., session_id: int = ..., responses: list[FetchResponse.FetchableTopicResponse] = ..., node_endpoints: list[FetchResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class FetchSnapshotRequest(Message):
    class TopicSnapshot(Struct):
        name: str
        partitions: list[FetchSnapshotRequest.PartitionSnapshot]
        def __init__(self, *, name: str = ..., partitions: list[FetchSnapshotRequest.PartitionSnapshot] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionSnapshot(Struct):
        partition: int
        current_leader_epoch: int
        snapshot_id: FetchSnapshotRequest.SnapshotId
        position: int
        replica_directory_id: UUID
        def __init__(self, *, partition: int = ..., current_leader_epoch: int = ..., snapshot_id: FetchSnapshotRequest.SnapshotId = ..., position: int = ..., replica_directory_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...
    class SnapshotId(Struct):
        end_offset: int
        epoch: int
        def __init__(self, *, end_offset: int = ..., epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: list[FetchSnapshotRequest.TopicSnapshot]
    def __init__(self, *, cluster_id: str | None = ..., replica_id: int = ..., max_bytes: int = ..., topics: list[FetchSnapshotRequest.TopicSnapshot] = ..., unknown_tags: _Tags = ...) -> None: ...

class FetchSnapshotResponse(Message):
    class TopicSnapshot(Struct):
        name: str
        partitions: list[FetchSnapshotResponse.PartitionSnapshot]
        def __init__(self, *, name: str = ..., partitions: list[FetchSnapshotResponse.PartitionSnapshot] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionSnapshot(Struct):
        index: int
        error_code: int
        snapshot_id: FetchSnapshotResponse.SnapshotId
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch
        size_: int
        position: int
        unaligned_records: bytes | None
        def __init__(self, *, index: int = ..., error_code: int = ..., snapshot_id: FetchSnapshotResponse.SnapshotId = ..., current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = ..., size_: int = ..., position: int = ..., unaligned_records: bytes | None | Part = ..., unknown_tags: _Tags = ...) -> None: ...
    class SnapshotId(Struct):
        end_offset: int
        epoch: int
        def __init__(self, *, end_offset: int = ..., epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    topics: list[FetchSnapshotResponse.TopicSnapshot]
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., topics: list[FetchSnapshotResponse.TopicSnapshot] = ..., node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class FindCoordinatorRequest(Message):
    key: str
    key_type: int
    coordinator_keys: list[str]
    def __init__(self, *, key: str = ..., key_type: int = ..., coordinator_keys: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...

class FindCoordinatorResponse(Message):
    class Coordinator(Struct):
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None
        def __init__(self, *, key: str = ..., node_id: int = ..., host: str = ..., port: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: list[FindCoordinatorResponse.Coordinator]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., node_id: int = ..., host: str = ..., port: int = ..., coordinators: list[FindCoordinatorResponse.Coordinator] = ..., unknown_tags: _Tags = ...) -> None: ...

class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: UUID
    def __init__(self, *, client_instance_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...

class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int
    error_code: int
    client_instance_id: UUID
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., client_instance_id: UUID = ..., subscription_id: int = ..., accepted_compression_types: list[int] = ..., push_interval_ms: int = ..., telemetry_max_bytes: int = ..., delta_temporality: bool = ..., requested_metrics: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...

class GroupMetadataKey(Message):
    group: str
    def __init__(self, *, group: str = ..., unknown_tags: _Tags = ...) -> None: ...

class GroupMetadataValue(Message):
    class MemberMetadata(Struct):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        rebalance_timeout: int
        session_timeout: int
        subscription: bytes
        assignment: bytes
        def __init__(self, *, member_id: str = ..., group_instance_id: str | None = ..., client_id: str = ..., client_host: str = ..., rebalance_timeout: int = ..., session_timeout: int = ..., subscription: bytes = ..., assignment: bytes = ..., unknown_tags: _Tags = ...) -> None: ...
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: list[GroupMetadataValue.MemberMetadata]
    def __init__(self, *, protocol_type: str = ..., generation: int = ..., protocol: str | None = ..., leader: str | None = ..., current_state_timestamp: int = ..., members: list[GroupMetadataValue.MemberMetadata] = ..., unknown_tags: _Tags = ...) -> None: ...

class HeartbeatRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    def __init__(self, *, group_id: str = ..., generation_id: int = ..., member_id: str = ..., group_instance_id: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class HeartbeatResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...

class IncrementalAlterConfigsRequest(Message):
    class AlterConfigsResource(Struct):
        resource_type: int
        resource_name: str
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig]
        def __init__(self, *, resource_type: int = ..., resource_name: str = ..., configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AlterableConfig(Struct):
        name: str
        config_operation: int
        value: str | None
        def __init__(self, *, name: str = ..., config_operation: int = ..., value: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(self, *, resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ..., validate_only: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class IncrementalAlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(self, *, throttle_time_ms: int = ..., responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ..., unknown_tags: _Tags = ...) -> None: ...

class InitProducerIdRequest(Message):
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable2_pc: bool
    keep_prepared_txn: bool
    def __init__(self, *, transactional_id: str | None = ..., transaction_timeout_ms: int = ..., producer_id: int = ..., producer_epoch: int = ..., enable2_pc: bool = ..., keep_prepared_txn: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class InitProducerIdResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., producer_id: int = ..., producer_epoch: int = ..., ongoing_txn_producer_id: int = ..., ongoing_txn_producer_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class InitializeShareGroupStateRequest(Message):
    class InitializeStateData(Struct):
        topic_id: UUID
        partitions: list[InitializeShareGroupStateRequest.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[InitializeShareGroupStateRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        state_epoch: int
        start_offset: int
        def __init__(self, *, partition: int = ..., state_epoch: int = ..., start_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[InitializeShareGroupStateRequest.InitializeStateData]
    def __init__(self, *, group_id: str = ..., topics: list[InitializeShareGroupStateRequest.InitializeStateData] = ..., unknown_tags: _Tags = ...) -> None: ...

class InitializeShareGroupStateResponse(Message):
    class InitializeStateResult(Struct):
        topic_id: UUID
        partitions: list[InitializeShareGroupStateResponse.PartitionResult]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[InitializeShareGroupStateResponse.PartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    results: list[InitializeShareGroupStateResponse.InitializeStateResult]
    def __init__(self, *, results: list[InitializeShareGroupStateResponse.InitializeStateResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class JoinGroupRequest(Message):
    class JoinGroupRequestProtocol(Struct):
        name: str
        metadata: bytes
        def __init__(self, *, name: str = ..., metadata: bytes = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol]
    reason: str | None
    def __init__(self, *, group_id: str = ..., session_timeout_ms: int = ..., rebalance_timeout_ms: int = ..., member_id: str = ..., group_instance_id: str | None = ..., protocol_type: str = ..., protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = ..., reason: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class JoinGroupResponse(Message):
    class JoinGroupResponseMember(Struct):
        member_id: str
        group_instance_id: str | None
        metadata: bytes
        def __init__(self, *, member_id: str = ..., group_instance_id: str | None = ..., metadata: bytes = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: list[JoinGroupResponse.JoinGroupResponseMember]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., generation_id: int = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., leader: str = ..., skip_assignment: bool = ..., member_id: str = ..., members: list[JoinGroupResponse.JoinGroupResponseMember] = ..., unknown_tags: _Tags = ...) -> None: ...

class KRaftVersionRecord(Message):
    version: int
    kraft_version: int
    def __init__(self, *, version: int = ..., kraft_version: int = ..., unknown_tags: _Tags = ...) -> None: ...

class LeaderAndIsrRequest(Message):
    class LeaderAndIsrPartitionState(Struct):
        topic_name: str
        partition_index: int
        controller_epoch: int
        leader: int
        leader_epoch: int
        isr: list[int]
        partition_epoch: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        is_new: bool
        leader_recovery_state: int
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., controller_epoch: int = ..., leader: int = ..., leader_epoch: int = ..., isr: list[int] = ..., partition_epoch: int = ..., replicas: list[int] = ..., adding_replicas: list[int] = ..., removing_replicas: list[int] = ..., is_new: bool = ..., leader_recovery_state: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderAndIsrTopicState(Struct):
        topic_name: str
        topic_id: UUID
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState]
        def __init__(self, *, topic_name: str = ..., topic_id: UUID = ..., partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderAndIsrLiveLeader(Struct):
        broker_id: int
        host_name: str
        port: int
        def __init__(self, *, broker_id: int = ..., host_name: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    controller_id: int
    is_kraft_controller: bool
    controller_epoch: int
    broker_epoch: int
    type: int
    ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState]
    topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState]
    live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader]
    def __init__(self, *, controller_id: int = ..., is_kraft_controller: bool = ..., controller_epoch: int = ..., broker_epoch: int = ..., type: int = ..., ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = ..., topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState] = ..., live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = ..., unknown_tags: _Tags = ...) -> None: ...

class LeaderAndIsrResponse(Message):
    class LeaderAndIsrPartitionError(Struct):
        topic_name: str
        partition_index: int
        error_code: int
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderAndIsrTopicError(Struct):
        topic_id: UUID
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError]
        def __init__(self, *, topic_id: UUID = ..., partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError]
    topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError]
    def __init__(self, *, error_code: int = ..., partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = ..., topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError] = ..., unknown_tags: _Tags = ...) -> None: ...

class LeaderChangeMessage(Message):
    class Voter(Struct):
        voter_id: int
        voter_directory_id: UUID
        def __init__(self, *, voter_id: int = ..., voter_directory_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...
    version: int
    leader_id: int
    voters: list[LeaderChangeMessage.Voter]
    granting_voters: list[LeaderChangeMessage.Voter]
    def __init__(self, *, version: int = ..., leader_id: int = ..., voters: list[LeaderChangeMessage.Voter] = ..., granting_voters: list[LeaderChangeMessage.Voter] = ..., unknown_tags: _Tags = ...) -> None: ...

class LeaveGroupRequest(Message):
    class MemberIdentity(Struct):
        member_id: str
        group_instance_id: str | None
        reason: str | None
        def __init__(self, *, member_id: str = ..., group_instance_id: str | None = ..., reason: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    member_id: str
    members: list[LeaveGroupRequest.MemberIdentity]
    def __init__(self, *, group_id: str = ..., member_id: str = ..., members: list[LeaveGroupRequest.MemberIdentity] = ..., unknown_tags: _Tags = ...) -> None: ...

class LeaveGroupResponse(Message):
    class MemberResponse(Struct):
        member_id: str
        group_instance_id: str | None
        error_code: int
        def __init__(self, *, member_id: str = ..., group_instance_id: str | None = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    members: list[LeaveGroupResponse.MemberResponse]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., members: list[LeaveGroupResponse.MemberResponse] = ..., unknown_tags: _Tags = ...) -> None: ...

class LegacyOffsetCommitKey(Message):
    group: str
    topic: str
    partition: int
    def __init__(self, *, group: str = ..., topic: str = ..., partition: int = ..., unknown_tags: _Tags = ...) -> None: ...

class LegacyOffsetCommitValue(Message):
    offset: int
    metadata: str
    commit_timestamp: int
    def __init__(self, *, offset: int = ..., metadata: str = ..., commit_timestamp: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ListClientMetricsResourcesRequest(Message):
    def __init__(self, *, unknown_tags: _Tags = ...) -> None: ...

class ListClientMetricsResourcesResponse(Message):
    class ClientMetricsResource(Struct):
        name: str
        def __init__(self, *, name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    client_metrics_resources: list[ListClientMetricsResourcesResponse.ClientMetricsResource]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., client_metrics_resources: list[ListClientMetricsResourcesResponse.ClientMetricsResource] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListConfigResourcesRequest(Message):
    resource_types: list[int]
    def __init__(self, *, resource_types: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListConfigResourcesResponse(Message):
    class ConfigResource(Struct):
        resource_name: str
        resource_type: int
        def __init__(self, *, resource_name: str = ..., resource_type: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    config_resources: list[ListConfigResourcesResponse.ConfigResource]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., config_resources: list[ListConfigResourcesResponse.ConfigResource] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListGroupsRequest(Message):
    states_filter: list[str]
    types_filter: list[str]
    def __init__(self, *, states_filter: list[str] = ..., types_filter: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListGroupsResponse(Message):
    class ListedGroup(Struct):
        group_id: str
        protocol_type: str
        group_state: str
        group_type: str
        def __init__(self, *, group_id: str = ..., protocol_type: str = ..., group_state: str = ..., group_type: str = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    groups: list[ListGroupsResponse.ListedGroup]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., groups: list[ListGroupsResponse.ListedGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListOffsetRequest(Message):
    class ListOffsetTopic(Struct):
        name: str
        partitions: list[ListOffsetRequest.ListOffsetPartition]
        def __init__(self, *, name: str = ..., partitions: list[ListOffsetRequest.ListOffsetPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ListOffsetPartition(Struct):
        partition_index: int
        current_leader_epoch: int
        timestamp: int
        max_num_offsets: int
        def __init__(self, *, partition_index: int = ..., current_leader_epoch: int = ..., timestamp: int = ..., max_num_offsets: int = ..., unknown_tags: _Tags = ...) -> None: ...
    replica_id: int
    isolation_level: int
    topics: list[ListOffsetRequest.ListOffsetTopic]
    def __init__(self, *, replica_id: int = ..., isolation_level: int = ..., topics: list[ListOffsetRequest.ListOffsetTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListOffsetResponse(Message):
    class ListOffsetTopicResponse(Struct):
        name: str
        partitions: list[ListOffsetResponse.ListOffsetPartitionResponse]
        def __init__(self, *, name: str = ..., partitions: list[ListOffsetResponse.ListOffsetPartitionResponse] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ListOffsetPartitionResponse(Struct):
        partition_index: int
        error_code: int
        old_style_offsets: list[int]
        timestamp: int
        offset: int
        leader_epoch: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., old_style_offsets: list[int] = ..., timestamp: int = ..., offset: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[ListOffsetResponse.ListOffsetTopicResponse]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[ListOffsetResponse.ListOffsetTopicResponse] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListOffsetsRequest(Message):
    class ListOffsetsTopic(Struct):
        name: str
        partitions: list[ListOffsetsRequest.ListOffsetsPartition]
        def __init__(self, *, name: str = ..., partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ListOffsetsPartition(Struct):
        partition_index: int
        current_leader_epoch: int
        timestamp: int
        max_num_offsets: int
        def __init__(self, *, partition_index: int = ..., current_leader_epoch: int = ..., timestamp: int = ..., max_num_offsets: int = ..., unknown_tags: _Tags = ...) -> None: ...
    replica_id: int
    isolation_level: int
    topics: list[ListOffsetsRequest.ListOffsetsTopic]
    timeout_ms: int
    def __init__(self, *, replica_id: int = ..., isolation_level: int = ..., topics: list[ListOffsetsRequest.ListOffsetsTopic] = ..., timeout_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ListOffsetsResponse(Message):
    class ListOffsetsTopicResponse(Struct):
        name: str
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse]
        def __init__(self, *, name: str = ..., partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ListOffsetsPartitionResponse(Struct):
        partition_index: int
        error_code: int
        old_style_offsets: list[int]
        timestamp: int
        offset: int
        leader_epoch: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., old_style_offsets: list[int] = ..., timestamp: int = ..., offset: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListPartitionReassignmentsRequest(Message):
    class ListPartitionReassignmentsTopics(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, name: str = ..., partition_indexes: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    timeout_ms: int
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None
    def __init__(self, *, timeout_ms: int = ..., topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ListPartitionReassignmentsResponse(Message):
    class OngoingTopicReassignment(Struct):
        name: str
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]
        def __init__(self, *, name: str = ..., partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OngoingPartitionReassignment(Struct):
        partition_index: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        def __init__(self, *, partition_index: int = ..., replicas: list[int] = ..., adding_replicas: list[int] = ..., removing_replicas: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ..., unknown_tags: _Tags = ...) -> None: ...

class ListTransactionsRequest(Message):
    state_filters: list[str]
    producer_id_filters: list[int]
    duration_filter: int
    transactional_id_pattern: str | None
    def __init__(self, *, state_filters: list[str] = ..., producer_id_filters: list[int] = ..., duration_filter: int = ..., transactional_id_pattern: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ListTransactionsResponse(Message):
    class TransactionState(Struct):
        transactional_id: str
        producer_id: int
        transaction_state: str
        def __init__(self, *, transactional_id: str = ..., producer_id: int = ..., transaction_state: str = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    unknown_state_filters: list[str]
    transaction_states: list[ListTransactionsResponse.TransactionState]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., unknown_state_filters: list[str] = ..., transaction_states: list[ListTransactionsResponse.TransactionState] = ..., unknown_tags: _Tags = ...) -> None: ...

class MetadataRequest(Message):
    class MetadataRequestTopic(Struct):
        topic_id: UUID
        name: str | None
        def __init__(self, *, topic_id: UUID = ..., name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    topics: list[MetadataRequest.MetadataRequestTopic] | None
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool
    def __init__(self, *, topics: list[MetadataRequest.MetadataRequestTopic] | None = ..., allow_auto_topic_creation: bool = ..., include_cluster_authorized_operations: bool = ..., include_topic_authorized_operations: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class MetadataResponse(Message):
    class MetadataResponseBroker(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class MetadataResponseTopic(Struct):
        error_code: int
        name: str | None
        topic_id: UUID
        is_internal: bool
        partitions: list[MetadataResponse.MetadataResponsePartition]
        topic_authorized_operations: int
        def __init__(self, *, error_code: int = ..., name: str | None = ..., topic_id: UUID = ..., is_internal: bool = ..., partitions: list[MetadataResponse.MetadataResponsePartition] = ..., topic_authorized_operations: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class MetadataResponsePartition(Struct):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        offline_replicas: list[int]
        def __init__(self, *, error_code: int = ..., partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., replica_nodes: list[int] = ..., isr_nodes: list[int] = ..., offline_replicas: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    brokers: list[MetadataResponse.MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataResponse.MetadataResponseTopic]
    cluster_authorized_operations: int
    error_code: int
    def __init__(self, *, throttle_time_ms: int = ..., brokers: list[MetadataResponse.MetadataResponseBroker] = ..., cluster_id: str | None = ..., controller_id: int = ..., topics: list[MetadataResponse.MetadataResponseTopic] = ..., cluster_authorized_operations: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...

class NoOpRecord(Message):
    def __init__(self, *, unknown_tags: _Tags = ...) -> None: ...

class OffsetCommitKey(Message):
    group: str
    topic: str
    partition: int
    def __init__(self, *, group: str = ..., topic: str = ..., partition: int = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetCommitRequest(Message):
    class OffsetCommitRequestTopic(Struct):
        name: str
        topic_id: UUID
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetCommitRequestPartition(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        commit_timestamp: int
        committed_metadata: str | None
        def __init__(self, *, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., commit_timestamp: int = ..., committed_metadata: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic]
    def __init__(self, *, group_id: str = ..., generation_id_or_member_epoch: int = ..., member_id: str = ..., group_instance_id: str | None = ..., retention_time_ms: int = ..., topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetCommitResponse(Message):
    class OffsetCommitResponseTopic(Struct):
        name: str
        topic_id: UUID
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetCommitResponsePartition(Struct):
        partition_index: int
        error_code: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetCommitValue(Message):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: UUID
    def __init__(self, *, offset: int = ..., leader_epoch: int = ..., metadata: str = ..., commit_timestamp: int = ..., expire_timestamp: int = ..., topic_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetDeleteRequest(Message):
    class OffsetDeleteRequestTopic(Struct):
        name: str
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition]
        def __init__(self, *, name: str = ..., partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetDeleteRequestPartition(Struct):
        partition_index: int
        def __init__(self, *, partition_index: int = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic]
    def __init__(self, *, group_id: str = ..., topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetDeleteResponse(Message):
    class OffsetDeleteResponseTopic(Struct):
        name: str
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition]
        def __init__(self, *, name: str = ..., partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetDeleteResponsePartition(Struct):
        partition_index: int
        error_code: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    throttle_time_ms: int
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic]
    def __init__(self, *, error_code: int = ..., throttle_time_ms: int = ..., topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetFetchRequest(Message):
    class OffsetFetchRequestTopic(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, name: str = ..., partition_indexes: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetFetchRequestGroup(Struct):
        group_id: str
        member_id: str | None
        member_epoch: int
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None
        def __init__(self, *, group_id: str = ..., member_id: str | None = ..., member_epoch: int = ..., topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetFetchRequestTopics(Struct):
        name: str
        topic_id: UUID
        partition_indexes: list[int]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partition_indexes: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup]
    require_stable: bool
    def __init__(self, *, group_id: str = ..., topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = ..., groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = ..., require_stable: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetFetchResponse(Message):
    class OffsetFetchResponseTopic(Struct):
        name: str
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition]
        def __init__(self, *, name: str = ..., partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetFetchResponsePartition(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(self, *, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., metadata: str | None = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetFetchResponseGroup(Struct):
        group_id: str
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics]
        error_code: int
        def __init__(self, *, group_id: str = ..., topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetFetchResponseTopics(Struct):
        name: str
        topic_id: UUID
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetFetchResponsePartitions(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(self, *, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., metadata: str | None = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic]
    error_code: int
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = ..., error_code: int = ..., groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetForLeaderEpochRequest(Message):
    class OffsetForLeaderTopic(Struct):
        topic: str
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]
        def __init__(self, *, topic: str = ..., partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class OffsetForLeaderPartition(Struct):
        partition: int
        current_leader_epoch: int
        leader_epoch: int
        def __init__(self, *, partition: int = ..., current_leader_epoch: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    replica_id: int
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic]
    def __init__(self, *, replica_id: int = ..., topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class OffsetForLeaderEpochResponse(Message):
    class OffsetForLeaderTopicResult(Struct):
        topic: str
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset]
        def __init__(self, *, topic: str = ..., partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ..., unknown_tags: _Tags = ...) -> None: ...
    class EpochEndOffset(Struct):
        error_code: int
        partition: int
        leader_epoch: int
        end_offset: int
        def __init__(self, *, error_code: int = ..., partition: int = ..., leader_epoch: int = ..., end_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class PartitionChangeRecord(Message):
    partition_id: int
    topic_id: UUID
    isr: list[int] | None
    leader: int
    replicas: list[int] | None
    removing_replicas: list[int] | None
    adding_replicas: list[int] | None
    leader_recovery_state: int
    directories: list[UUID] | None
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(self, *, partition_id: int = ..., topic_id: UUID = ..., isr: list[int] | None = ..., leader: int = ..., replicas: list[int] | None = ..., removing_replicas: list[int] | None = ..., adding_replicas: list[int] | None = ..., leader_recovery_state: int = ..., directories: list[UUID] | None = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class PartitionRecord(Message):
    partition_id: int
    topic_id: UUID
    replicas: list[int]
    isr: list[int]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: list[UUID]
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(self, *, partition_id: int = ..., topic_id: UUID = ..., replicas: list[int] = ..., isr: list[int] = ..., removing_replicas: list[int] = ..., adding_replicas: list[int] = ..., leader: int = ..., leader_recovery_state: int = ..., leader_epoch: int = ..., partition_epoch: int = ..., directories: list[UUID] = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ProduceRequest(Message):
    class TopicProduceData(Struct):
        name: str
        topic_id: UUID
        partition_data: list[ProduceRequest.PartitionProduceData]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partition_data: list[ProduceRequest.PartitionProduceData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionProduceData(Struct):
        index: int
        records: bytes | None
        def __init__(self, *, index: int = ..., records: bytes | None | Part = ..., unknown_tags: _Tags = ...) -> None: ...
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[ProduceRequest.TopicProduceData]
    def __init__(self, *, transactional_id: str | None = ..., acks: int = ..., timeout_ms: int = ..., topic_data: list[ProduceRequest.TopicProduceData] = ..., unknown_tags: _Tags = ...) -> None: ...

class ProduceResponse(Message):
    class TopicProduceResponse(Struct):
        name: str
        topic_id: UUID
        partition_responses: list[ProduceResponse.PartitionProduceResponse]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partition_responses: list[ProduceResponse.PartitionProduceResponse] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionProduceResponse(Struct):
        index: int
        error_code: int
        base_offset: int
        log_append_time_ms: int
        log_start_offset: int
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage]
        error_message: str | None
        current_leader: ProduceResponse.LeaderIdAndEpoch
        def __init__(self, *, index: int = ..., error_code: int = ..., base_offset: int = ..., log_append_time_ms: int = ..., log_start_offset: int = ..., record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ..., error_message: str | None = ..., current_leader: ProduceResponse.LeaderIdAndEpoch = ..., unknown_tags: _Tags = ...) -> None: ...
    class BatchIndexAndErrorMessage(Struct):
        batch_index: int
        batch_index_error_message: str | None
        def __init__(self, *, batch_index: int = ..., batch_index_error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    responses: list[ProduceResponse.TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: list[ProduceResponse.NodeEndpoint]
    def __init__(self, *, responses: list[ProduceResponse.TopicProduceResponse] = ..., throttle_time_ms: int = ..., node_endpoints: list[ProduceResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class ProducerIdsRecord(Message):
    broker_id: int
    broker_epoch: int
    next_producer_id: int
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., next_producer_id: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ProducerSnapshot(Message):
    class ProducerEntry(Struct):
        producer_id: int
        epoch: int
        last_sequence: int
        last_offset: int
        offset_delta: int
        timestamp: int
        coordinator_epoch: int
        current_txn_first_offset: int
        def __init__(self, *, producer_id: int = ..., epoch: int = ..., last_sequence: int = ..., last_offset: int = ..., offset_delta: int = ..., timestamp: int = ..., coordinator_epoch: int = ..., current_txn_first_offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    crc: int
    producer_entries: list[ProducerSnapshot.ProducerEntry]
    def __init__(self, *, crc: int = ..., producer_entries: list[ProducerSnapshot.ProducerEntry] = ..., unknown_tags: _Tags = ...) -> None: ...

class PushTelemetryRequest(Message):
    client_instance_id: UUID
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes
    def __init__(self, *, client_instance_id: UUID = ..., subscription_id: int = ..., terminating: bool = ..., compression_type: int = ..., metrics: bytes = ..., unknown_tags: _Tags = ...) -> None: ...

class PushTelemetryResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...

class QuorumStateData(Message):
    class Voter(Struct):
        voter_id: int
        def __init__(self, *, voter_id: int = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: UUID
    applied_offset: int
    current_voters: list[QuorumStateData.Voter] | None
    def __init__(self, *, cluster_id: str = ..., leader_id: int = ..., leader_epoch: int = ..., voted_id: int = ..., voted_directory_id: UUID = ..., applied_offset: int = ..., current_voters: list[QuorumStateData.Voter] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class QuotaRecord(Message):
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, entity_type: str = ..., entity_name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    entity: list[QuotaRecord.EntityData]
    key: str
    value: float
    remove: bool
    def __init__(self, *, entity: list[QuotaRecord.EntityData] = ..., key: str = ..., value: float = ..., remove: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class ReadShareGroupStateRequest(Message):
    class ReadStateData(Struct):
        topic_id: UUID
        partitions: list[ReadShareGroupStateRequest.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ReadShareGroupStateRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        leader_epoch: int
        def __init__(self, *, partition: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateRequest.ReadStateData]
    def __init__(self, *, group_id: str = ..., topics: list[ReadShareGroupStateRequest.ReadStateData] = ..., unknown_tags: _Tags = ...) -> None: ...

class ReadShareGroupStateResponse(Message):
    class ReadStateResult(Struct):
        topic_id: UUID
        partitions: list[ReadShareGroupStateResponse.PartitionResult]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ReadShareGroupStateResponse.PartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        start_offset: int
        state_batches: list[ReadShareGroupStateResponse.StateBatch]
        def __init__(self, *, partition: int = ..., error_code: int = ..., error_message: str | None = ..., state_epoch: int = ..., start_offset: int = ..., state_batches: list[ReadShareGroupStateResponse.StateBatch] = ..., unknown_tags: _Tags = ...) -> None: ...
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, *, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ..., unknown_tags: _Tags = ...) -> None: ...
    results: list[ReadShareGroupStateResponse.ReadStateResult]
    def __init__(self, *, results: list[ReadShareGroupStateResponse.ReadStateResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class ReadShareGroupStateSummaryRequest(Message):
    class ReadStateSummaryData(Struct):
        topic_id: UUID
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        leader_epoch: int
        def __init__(self, *, partition: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData]
    def __init__(self, *, group_id: str = ..., topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = ..., unknown_tags: _Tags = ...) -> None: ...

class ReadShareGroupStateSummaryResponse(Message):
    class ReadStateSummaryResult(Struct):
        topic_id: UUID
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        def __init__(self, *, partition: int = ..., error_code: int = ..., error_message: str | None = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., unknown_tags: _Tags = ...) -> None: ...
    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult]
    def __init__(self, *, results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class RegisterBrokerRecord(Message):
    class BrokerEndpoint(Struct):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class BrokerFeature(Struct):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, name: str = ..., min_supported_version: int = ..., max_supported_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    broker_id: int
    is_migrating_zk_broker: bool
    incarnation_id: UUID
    broker_epoch: int
    end_points: list[RegisterBrokerRecord.BrokerEndpoint]
    features: list[RegisterBrokerRecord.BrokerFeature]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: list[UUID]
    cordoned_log_dirs: list[UUID] | None
    def __init__(self, *, broker_id: int = ..., is_migrating_zk_broker: bool = ..., incarnation_id: UUID = ..., broker_epoch: int = ..., end_points: list[RegisterBrokerRecord.BrokerEndpoint] = ..., features: list[RegisterBrokerRecord.BrokerFeature] = ..., rack: str | None = ..., fenced: bool = ..., in_controlled_shutdown: bool = ..., log_dirs: list[UUID] = ..., cordoned_log_dirs: list[UUID] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class RegisterControllerRecord(Message):
    class ControllerEndpoint(Struct):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class ControllerFeature(Struct):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, name: str = ..., min_supported_version: int = ..., max_supported_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    end_points: list[RegisterControllerRecord.ControllerEndpoint]
    features: list[RegisterControllerRecord.ControllerFeature]
    def __init__(self, *, controller_id: int = ..., incarnation_id: UUID = ..., zk_migration_ready: bool = ..., end_points: list[RegisterControllerRecord.ControllerEndpoint] = ..., features: list[RegisterControllerRecord.ControllerFeature] = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoteLogSegmentMetadataRecord(Message):
    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry
        id: UUID
        def __init__(self, *, topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = ..., id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicIdPartitionEntry(Struct):
        name: str
        id: UUID
        partition: int
        def __init__(self, *, name: str = ..., id: UUID = ..., partition: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int
        offset: int
        def __init__(self, *, leader_epoch: int = ..., offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry]
    segment_size_in_bytes: int
    custom_metadata: bytes | None
    remote_log_segment_state: int
    txn_index_empty: bool
    def __init__(self, *, remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry = ..., start_offset: int = ..., end_offset: int = ..., broker_id: int = ..., max_timestamp_ms: int = ..., event_timestamp_ms: int = ..., segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry] = ..., segment_size_in_bytes: int = ..., custom_metadata: bytes | None = ..., remote_log_segment_state: int = ..., txn_index_empty: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoteLogSegmentMetadataSnapshotRecord(Message):
    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int
        offset: int
        def __init__(self, *, leader_epoch: int = ..., offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    segment_id: UUID
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry]
    segment_size_in_bytes: int
    custom_metadata: bytes | None
    remote_log_segment_state: int
    txn_index_empty: bool
    def __init__(self, *, segment_id: UUID = ..., start_offset: int = ..., end_offset: int = ..., broker_id: int = ..., max_timestamp_ms: int = ..., event_timestamp_ms: int = ..., segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry] = ..., segment_size_in_bytes: int = ..., custom_metadata: bytes | None = ..., remote_log_segment_state: int = ..., txn_index_empty: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoteLogSegmentMetadataUpdateRecord(Message):
    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry
        id: UUID
        def __init__(self, *, topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = ..., id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicIdPartitionEntry(Struct):
        name: str
        id: UUID
        partition: int
        def __init__(self, *, name: str = ..., id: UUID = ..., partition: int = ..., unknown_tags: _Tags = ...) -> None: ...
    remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    remote_log_segment_state: int
    def __init__(self, *, remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry = ..., broker_id: int = ..., event_timestamp_ms: int = ..., custom_metadata: bytes | None = ..., remote_log_segment_state: int = ..., unknown_tags: _Tags = ...) -> None: ...

class RemotePartitionDeleteMetadataRecord(Message):
    class TopicIdPartitionEntry(Struct):
        name: str
        id: UUID
        partition: int
        def __init__(self, *, name: str = ..., id: UUID = ..., partition: int = ..., unknown_tags: _Tags = ...) -> None: ...
    topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry
    broker_id: int
    event_timestamp_ms: int
    remote_partition_delete_state: int
    def __init__(self, *, topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry = ..., broker_id: int = ..., event_timestamp_ms: int = ..., remote_partition_delete_state: int = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoveAccessControlEntryRecord(Message):
    id: UUID
    def __init__(self, *, id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoveDelegationTokenRecord(Message):
    token_id: str
    def __init__(self, *, token_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoveFeatureLevelRecord(Message):
    name: str
    def __init__(self, *, name: str = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoveRaftVoterRequest(Message):
    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID
    def __init__(self, *, cluster_id: str | None = ..., voter_id: int = ..., voter_directory_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoveTopicRecord(Message):
    topic_id: UUID
    def __init__(self, *, topic_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...

class RemoveUserScramCredentialRecord(Message):
    name: str
    mechanism: int
    def __init__(self, *, name: str = ..., mechanism: int = ..., unknown_tags: _Tags = ...) -> None: ...

class RenewDelegationTokenRequest(Message):
    hmac: bytes
    renew_period_ms: int
    def __init__(self, *, hmac: bytes = ..., renew_period_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class RenewDelegationTokenResponse(Message):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(self, *, error_code: int = ..., expiry_timestamp_ms: int = ..., throttle_time_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class RequestHeader(Message):
    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None
    def __init__(self, *, request_api_key: int = ..., request_api_version: int = ..., correlation_id: int = ..., client_id: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ResponseHeader(Message):
    correlation_id: int
    def __init__(self, *, correlation_id: int = ..., unknown_tags: _Tags = ...) -> None: ...

class SaslAuthenticateRequest(Message):
    auth_bytes: bytes
    def __init__(self, *, auth_bytes: bytes = ..., unknown_tags: _Tags = ...) -> None: ...

class SaslAuthenticateResponse(Message):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int
    def __init__(self, *, error_code: int = ..., error_message: str | None = ..., auth_bytes: bytes = ..., session_lifetime_ms: int = ..., unknown_tags: _Tags = ...) -> None: ...

class SaslHandshakeRequest(Message):
    mechanism: str
    def __init__(self, *, mechanism: str = ..., unknown_tags: _Tags = ...) -> None: ...

class SaslHandshakeResponse(Message):
    error_code: int
    mechanisms: list[str]
    def __init__(self, *, error_code: int = ..., mechanisms: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareAcknowledgeRequest(Message):
    class AcknowledgeTopic(Struct):
        topic_id: UUID
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AcknowledgePartition(Struct):
        partition_index: int
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch]
        def __init__(self, *, partition_index: int = ..., acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AcknowledgementBatch(Struct):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(self, *, first_offset: int = ..., last_offset: int = ..., acknowledge_types: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic]
    def __init__(self, *, group_id: str | None = ..., member_id: str | None = ..., share_session_epoch: int = ..., is_renew_ack: bool = ..., topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareAcknowledgeResponse(Message):
    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: UUID
        partitions: list[ShareAcknowledgeResponse.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ShareAcknowledgeResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse]
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., acquisition_lock_timeout_ms: int = ..., responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = ..., node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareFetchRequest(Message):
    class FetchTopic(Struct):
        topic_id: UUID
        partitions: list[ShareFetchRequest.FetchPartition]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ShareFetchRequest.FetchPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class FetchPartition(Struct):
        partition_index: int
        partition_max_bytes: int
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch]
        def __init__(self, *, partition_index: int = ..., partition_max_bytes: int = ..., acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ..., unknown_tags: _Tags = ...) -> None: ...
    class AcknowledgementBatch(Struct):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(self, *, first_offset: int = ..., last_offset: int = ..., acknowledge_types: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class ForgottenTopic(Struct):
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[ShareFetchRequest.FetchTopic]
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic]
    def __init__(self, *, group_id: str | None = ..., member_id: str | None = ..., share_session_epoch: int = ..., max_wait_ms: int = ..., min_bytes: int = ..., max_bytes: int = ..., max_records: int = ..., batch_size: int = ..., share_acquire_mode: int = ..., is_renew_ack: bool = ..., topics: list[ShareFetchRequest.FetchTopic] = ..., forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareFetchResponse(Message):
    class ShareFetchableTopicResponse(Struct):
        topic_id: UUID
        partitions: list[ShareFetchResponse.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[ShareFetchResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        acknowledge_error_code: int
        acknowledge_error_message: str | None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch
        records: bytes | None
        acquired_records: list[ShareFetchResponse.AcquiredRecords]
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., acknowledge_error_code: int = ..., acknowledge_error_message: str | None = ..., current_leader: ShareFetchResponse.LeaderIdAndEpoch = ..., records: bytes | None | Part = ..., acquired_records: list[ShareFetchResponse.AcquiredRecords] = ..., unknown_tags: _Tags = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, leader_id: int = ..., leader_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class AcquiredRecords(Struct):
        first_offset: int
        last_offset: int
        delivery_count: int
        def __init__(self, *, first_offset: int = ..., last_offset: int = ..., delivery_count: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse]
    node_endpoints: list[ShareFetchResponse.NodeEndpoint]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., acquisition_lock_timeout_ms: int = ..., responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ..., node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupCurrentMemberAssignmentValue(Message):
    class TopicPartitions(Struct):
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(self, *, member_epoch: int = ..., previous_member_epoch: int = ..., state: int = ..., assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, *, group_ids: list[str] = ..., include_authorized_operations: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupDescribeResponse(Message):
    class TopicPartitions(Struct):
        topic_id: UUID
        topic_name: str
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., topic_name: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions]
        def __init__(self, *, topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ShareGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., assignor_name: str = ..., members: list[ShareGroupDescribeResponse.Member] = ..., authorized_operations: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class Member(Struct):
        member_id: str
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        assignment: ShareGroupDescribeResponse.Assignment
        def __init__(self, *, member_id: str = ..., rack_id: str | None = ..., member_epoch: int = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., assignment: ShareGroupDescribeResponse.Assignment = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    groups: list[ShareGroupDescribeResponse.DescribedGroup]
    def __init__(self, *, throttle_time_ms: int = ..., groups: list[ShareGroupDescribeResponse.DescribedGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupHeartbeatRequest(Message):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: list[str] | None
    def __init__(self, *, group_id: str = ..., member_id: str = ..., member_epoch: int = ..., rack_id: str | None = ..., subscribed_topic_names: list[str] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupHeartbeatResponse(Message):
    class TopicPartitions(Struct):
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions]
        def __init__(self, *, topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ShareGroupHeartbeatResponse.Assignment | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str | None = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., assignment: ShareGroupHeartbeatResponse.Assignment | None = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    def __init__(self, *, rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupMetadataValue(Message):
    epoch: int
    metadata_hash: int
    def __init__(self, *, epoch: int = ..., metadata_hash: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupPartitionMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupPartitionMetadataValue(Message):
    class TopicPartitionsInfo(Struct):
        topic_id: UUID
        topic_name: str
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., topic_name: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicInfo(Struct):
        topic_id: UUID
        topic_name: str
        def __init__(self, *, topic_id: UUID = ..., topic_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo]
    deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo]
    def __init__(self, *, initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = ..., deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupStatePartitionMetadataValue(Message):
    class TopicPartitionsInfo(Struct):
        topic_id: UUID
        topic_name: str
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., topic_name: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicInfo(Struct):
        topic_id: UUID
        topic_name: str
        def __init__(self, *, topic_id: UUID = ..., topic_name: str = ..., unknown_tags: _Tags = ...) -> None: ...
    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo]
    def __init__(self, *, initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ..., initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ..., deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Struct):
        topic_id: UUID
        partitions: list[int]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(self, *, topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(self, *, assignment_epoch: int = ..., assignment_timestamp: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareSnapshotKey(Message):
    group_id: str
    topic_id: UUID
    partition: int
    def __init__(self, *, group_id: str = ..., topic_id: UUID = ..., partition: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareSnapshotValue(Message):
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, *, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ..., unknown_tags: _Tags = ...) -> None: ...
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp: int
    write_timestamp: int
    state_batches: list[ShareSnapshotValue.StateBatch]
    def __init__(self, *, snapshot_epoch: int = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., create_timestamp: int = ..., write_timestamp: int = ..., state_batches: list[ShareSnapshotValue.StateBatch] = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareUpdateKey(Message):
    group_id: str
    topic_id: UUID
    partition: int
    def __init__(self, *, group_id: str = ..., topic_id: UUID = ..., partition: int = ..., unknown_tags: _Tags = ...) -> None: ...

class ShareUpdateValue(Message):
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, *, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ..., unknown_tags: _Tags = ...) -> None: ...
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: list[ShareUpdateValue.StateBatch]
    def __init__(self, *, snapshot_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., state_batches: list[ShareUpdateValue.StateBatch] = ..., unknown_tags: _Tags = ...) -> None: ...

class SnapshotFooterRecord(Message):
    version: int
    def __init__(self, *, version: int = ..., unknown_tags: _Tags = ...) -> None: ...

class SnapshotHeaderRecord(Message):
    version: int
    last_contained_log_timestamp: int
    def __init__(self, *, version: int = ..., last_contained_log_timestamp: int = ..., unknown_tags: _Tags = ...) -> None: ...

class StopReplicaRequest(Message):
    class StopReplicaPartitionV0(Struct):
        topic_name: str
        partition_index: int
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class StopReplicaTopicV1(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, name: str = ..., partition_indexes: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class StopReplicaTopicState(Struct):
        topic_name: str
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState]
        def __init__(self, *, topic_name: str = ..., partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = ..., unknown_tags: _Tags = ...) -> None: ...
    class StopReplicaPartitionState(Struct):
        partition_index: int
        leader_epoch: int
        delete_partition: bool
        def __init__(self, *, partition_index: int = ..., leader_epoch: int = ..., delete_partition: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    controller_id: int
    is_kraft_controller: bool
    controller_epoch: int
    broker_epoch: int
    delete_partitions: bool
    ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0]
    topics: list[StopReplicaRequest.StopReplicaTopicV1]
    topic_states: list[StopReplicaRequest.StopReplicaTopicState]
    def __init__(self, *, controller_id: int = ..., is_kraft_controller: bool = ..., controller_epoch: int = ..., broker_epoch: int = ..., delete_partitions: bool = ..., ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0] = ..., topics: list[StopReplicaRequest.StopReplicaTopicV1] = ..., topic_states: list[StopReplicaRequest.StopReplicaTopicState] = ..., unknown_tags: _Tags = ...) -> None: ...

class StopReplicaResponse(Message):
    class StopReplicaPartitionError(Struct):
        topic_name: str
        partition_index: int
        error_code: int
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    partition_errors: list[StopReplicaResponse.StopReplicaPartitionError]
    def __init__(self, *, error_code: int = ..., partition_errors: list[StopReplicaResponse.StopReplicaPartitionError] = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupCurrentMemberAssignmentValue(Message):
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        assignment_epochs: list[int] | None
        def __init__(self, *, subtopology_id: str = ..., partitions: list[int] = ..., assignment_epochs: list[int] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    def __init__(self, *, member_epoch: int = ..., previous_member_epoch: int = ..., state: int = ..., active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ..., standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ..., warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ..., active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ..., standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ..., warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    include_topology_description: bool
    def __init__(self, *, group_ids: list[str] = ..., include_authorized_operations: bool = ..., include_topology_description: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupDescribeResponse(Message):
    class Endpoint(Struct):
        host: str
        port: int
        def __init__(self, *, host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class TaskOffset(Struct):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(self, *, subtopology_id: str = ..., partition: int = ..., offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class Assignment(Struct):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        def __init__(self, *, active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ..., standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ..., warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, *, subtopology_id: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class KeyValue(Struct):
        key: str
        value: str
        def __init__(self, *, key: str = ..., value: str = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicInfo(Struct):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue]
        def __init__(self, *, name: str = ..., partitions: int = ..., replication_factor: int = ..., topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopologyDescription(Struct):
        subtopologies: list[StreamsGroupDescribeResponse.TopologyDescriptionSubtopology]
        global_stores: list[StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore]
        def __init__(self, *, subtopologies: list[StreamsGroupDescribeResponse.TopologyDescriptionSubtopology] = ..., global_stores: list[StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopologyDescriptionSubtopology(Struct):
        subtopology_id: str
        nodes: list[StreamsGroupDescribeResponse.TopologyDescriptionNode]
        def __init__(self, *, subtopology_id: str = ..., nodes: list[StreamsGroupDescribeResponse.TopologyDescriptionNode] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopologyDescriptionNode(Struct):
        name: str
        node_type: int
        source_topics: list[str]
        sink_topic: str | None
        stores: list[str]
        successors: list[str]
        def __init__(self, *, name: str = ..., node_type: int = ..., source_topics: list[str] = ..., sink_topic: str | None = ..., stores: list[str] = ..., successors: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopologyDescriptionGlobalStore(Struct):
        source: StreamsGroupDescribeResponse.TopologyDescriptionNode
        processor: StreamsGroupDescribeResponse.TopologyDescriptionNode
        def __init__(self, *, source: StreamsGroupDescribeResponse.TopologyDescriptionNode = ..., processor: StreamsGroupDescribeResponse.TopologyDescriptionNode = ..., unknown_tags: _Tags = ...) -> None: ...
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        topology: StreamsGroupDescribeResponse.Topology | None
        members: list[StreamsGroupDescribeResponse.Member]
        authorized_operations: int
        topology_description: StreamsGroupDescribeResponse.TopologyDescription | None
        topology_description_status: int
        assignor_name: str | None
        def __init__(self, *, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., topology: StreamsGroupDescribeResponse.Topology | None = ..., members: list[StreamsGroupDescribeResponse.Member] = ..., authorized_operations: int = ..., topology_description: StreamsGroupDescribeResponse.TopologyDescription | None = ..., topology_description_status: int = ..., assignor_name: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class Topology(Struct):
        epoch: int
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None
        def __init__(self, *, epoch: int = ..., subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class Subtopology(Struct):
        subtopology_id: str
        source_topics: list[str]
        repartition_sink_topics: list[str]
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        def __init__(self, *, subtopology_id: str = ..., source_topics: list[str] = ..., repartition_sink_topics: list[str] = ..., state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ..., repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Member(Struct):
        member_id: str
        member_epoch: int
        instance_id: str | None
        rack_id: str | None
        client_id: str
        client_host: str
        topology_epoch: int
        process_id: str
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None
        client_tags: list[StreamsGroupDescribeResponse.KeyValue]
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        assignment: StreamsGroupDescribeResponse.Assignment
        target_assignment: StreamsGroupDescribeResponse.Assignment
        is_classic: bool
        def __init__(self, *, member_id: str = ..., member_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., topology_epoch: int = ..., process_id: str = ..., user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = ..., client_tags: list[StreamsGroupDescribeResponse.KeyValue] = ..., task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ..., task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ..., assignment: StreamsGroupDescribeResponse.Assignment = ..., target_assignment: StreamsGroupDescribeResponse.Assignment = ..., is_classic: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    groups: list[StreamsGroupDescribeResponse.DescribedGroup]
    def __init__(self, *, throttle_time_ms: int = ..., groups: list[StreamsGroupDescribeResponse.DescribedGroup] = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupHeartbeatRequest(Message):
    class KeyValue(Struct):
        key: str
        value: str
        def __init__(self, *, key: str = ..., value: str = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicInfo(Struct):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue]
        def __init__(self, *, name: str = ..., partitions: int = ..., replication_factor: int = ..., topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Endpoint(Struct):
        host: str
        port: int
        def __init__(self, *, host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class TaskOffset(Struct):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(self, *, subtopology_id: str = ..., partition: int = ..., offset: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, *, subtopology_id: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Topology(Struct):
        epoch: int
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology]
        def __init__(self, *, epoch: int = ..., subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Subtopology(Struct):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup]
        def __init__(self, *, subtopology_id: str = ..., source_topics: list[str] = ..., source_topic_regex: list[str] = ..., state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ..., repartition_sink_topics: list[str] = ..., repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ..., copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = ..., unknown_tags: _Tags = ...) -> None: ...
    class CopartitionGroup(Struct):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(self, *, source_topics: list[int] = ..., source_topic_regex: list[int] = ..., repartition_source_topics: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: StreamsGroupHeartbeatRequest.Topology | None
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    process_id: str | None
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    shutdown_application: bool
    def __init__(self, *, group_id: str = ..., member_id: str = ..., member_epoch: int = ..., endpoint_information_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., rebalance_timeout_ms: int = ..., topology: StreamsGroupHeartbeatRequest.Topology | None = ..., active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., process_id: str | None = ..., user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = ..., client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = ..., task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ..., task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ..., shutdown_application: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupHeartbeatResponse(Message):
    class Status(Struct):
        status_code: int
        status_detail: str
        def __init__(self, *, status_code: int = ..., status_detail: str = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicPartition(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, *, topic: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, *, subtopology_id: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Endpoint(Struct):
        host: str
        port: int
        def __init__(self, *, host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        def __init__(self, *, user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = ..., active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ..., standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    acceptable_recovery_lag_legacy: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    status: list[StreamsGroupHeartbeatResponse.Status] | None
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    topology_description_required: bool
    endpoint_information_epoch: int
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., acceptable_recovery_lag_legacy: int = ..., task_offset_interval_ms: int = ..., acceptable_recovery_lag: int = ..., status: list[StreamsGroupHeartbeatResponse.Status] | None = ..., active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., topology_description_required: bool = ..., endpoint_information_epoch: int = ..., partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupMemberMetadataValue(Message):
    class Endpoint(Struct):
        host: str
        port: int
        def __init__(self, *, host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class KeyValue(Struct):
        key: str
        value: str
        def __init__(self, *, key: str = ..., value: str = ..., unknown_tags: _Tags = ...) -> None: ...
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue]
    def __init__(self, *, instance_id: str | None = ..., rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., rebalance_timeout_ms: int = ..., topology_epoch: int = ..., process_id: str = ..., user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = ..., client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupMetadataValue(Message):
    class LastAssignmentConfig(Struct):
        key: str
        value: str
        def __init__(self, *, key: str = ..., value: str = ..., unknown_tags: _Tags = ...) -> None: ...
    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None
    stored_description_topology_epoch: int
    failed_description_topology_epoch: int
    def __init__(self, *, epoch: int = ..., metadata_hash: int = ..., validated_topology_epoch: int = ..., last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = ..., stored_description_topology_epoch: int = ..., failed_description_topology_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(self, *, group_id: str = ..., member_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTargetAssignmentMemberValue(Message):
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, *, subtopology_id: str = ..., partitions: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    def __init__(self, *, active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ..., standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ..., warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(self, *, assignment_epoch: int = ..., assignment_timestamp: int = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    class TopologyDescription(Struct):
        subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology]
        global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore]
        def __init__(self, *, subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology] = ..., global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopologyDescriptionSubtopology(Struct):
        subtopology_id: str
        nodes: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode]
        def __init__(self, *, subtopology_id: str = ..., nodes: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopologyDescriptionNode(Struct):
        name: str
        node_type: int
        source_topics: list[str]
        sink_topic: str | None
        stores: list[str]
        successors: list[str]
        def __init__(self, *, name: str = ..., node_type: int = ..., source_topics: list[str] = ..., sink_topic: str | None = ..., stores: list[str] = ..., successors: list[str] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopologyDescriptionGlobalStore(Struct):
        source: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode
        processor: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode
        def __init__(self, *, source: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = ..., processor: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    member_id: str
    topology_epoch: int
    topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription
    def __init__(self, *, group_id: str = ..., member_id: str = ..., topology_epoch: int = ..., topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTopologyKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class StreamsGroupTopologyValue(Message):
    class TopicConfig(Struct):
        key: str
        value: str
        def __init__(self, *, key: str = ..., value: str = ..., unknown_tags: _Tags = ...) -> None: ...
    class TopicInfo(Struct):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig]
        def __init__(self, *, name: str = ..., partitions: int = ..., replication_factor: int = ..., topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = ..., unknown_tags: _Tags = ...) -> None: ...
    class Subtopology(Struct):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo]
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup]
        def __init__(self, *, subtopology_id: str = ..., source_topics: list[str] = ..., source_topic_regex: list[str] = ..., state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = ..., repartition_sink_topics: list[str] = ..., repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = ..., copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = ..., unknown_tags: _Tags = ...) -> None: ...
    class CopartitionGroup(Struct):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(self, *, source_topics: list[int] = ..., source_topic_regex: list[int] = ..., repartition_source_topics: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    epoch: int
    subtopologies: list[StreamsGroupTopologyValue.Subtopology]
    def __init__(self, *, epoch: int = ..., subtopologies: list[StreamsGroupTopologyValue.Subtopology] = ..., unknown_tags: _Tags = ...) -> None: ...

class SyncGroupRequest(Message):
    class SyncGroupRequestAssignment(Struct):
        member_id: str
        assignment: bytes
        def __init__(self, *, member_id: str = ..., assignment: bytes = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment]
    def __init__(self, *, group_id: str = ..., generation_id: int = ..., member_id: str = ..., group_instance_id: str | None = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = ..., unknown_tags: _Tags = ...) -> None: ...

class SyncGroupResponse(Message):
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., assignment: bytes = ..., unknown_tags: _Tags = ...) -> None: ...

class TopicRecord(Message):
    name: str
    topic_id: UUID
    def __init__(self, *, name: str = ..., topic_id: UUID = ..., unknown_tags: _Tags = ...) -> None: ...

class TransactionLogKey(Message):
    transactional_id: str
    def __init__(self, *, transactional_id: str = ..., unknown_tags: _Tags = ...) -> None: ...

class TransactionLogValue(Message):
    class PartitionsSchema(Struct):
        topic: str
        partition_ids: list[int]
        def __init__(self, *, topic: str = ..., partition_ids: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    next_producer_epoch: int
    transaction_timeout_ms: int
    transaction_status: int
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int
    client_transaction_version: int
    def __init__(self, *, producer_id: int = ..., previous_producer_id: int = ..., next_producer_id: int = ..., producer_epoch: int = ..., next_producer_epoch: int = ..., transaction_timeout_ms: int = ..., transaction_status: int = ..., transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = ..., transaction_last_update_timestamp_ms: int = ..., transaction_start_timestamp_ms: int = ..., client_transaction_version: int = ..., unknown_tags: _Tags = ...) -> None: ...

class TxnOffsetCommitRequest(Message):
    class TxnOffsetCommitRequestTopic(Struct):
        name: str
        topic_id: UUID
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(self, *, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., committed_metadata: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic]
    def __init__(self, *, transactional_id: str = ..., group_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., generation_id_or_member_epoch: int = ..., member_id: str = ..., group_instance_id: str | None = ..., topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class TxnOffsetCommitResponse(Message):
    class TxnOffsetCommitResponseTopic(Struct):
        name: str
        topic_id: UUID
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition]
        def __init__(self, *, name: str = ..., topic_id: UUID = ..., partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = ..., unknown_tags: _Tags = ...) -> None: ...
    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int
        error_code: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic]
    def __init__(self, *, throttle_time_ms: int = ..., topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = ..., unknown_tags: _Tags = ...) -> None: ...

class UnfenceBrokerRecord(Message):
    id: int
    epoch: int
    def __init__(self, *, id: int = ..., epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class UnregisterBrokerRecord(Message):
    broker_id: int
    broker_epoch: int
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., unknown_tags: _Tags = ...) -> None: ...

class UnregisterBrokerRequest(Message):
    broker_id: int
    def __init__(self, *, broker_id: int = ..., unknown_tags: _Tags = ...) -> None: ...

class UnregisterBrokerResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class UnregisterControllerRecord(Message):
    controller_id: int
    def __init__(self, *, controller_id: int = ..., unknown_tags: _Tags = ...) -> None: ...

class UnregisterControllerRequest(Message):
    controller_id: int
    def __init__(self, *, controller_id: int = ..., unknown_tags: _Tags = ...) -> None: ...

class UnregisterControllerResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...

class UpdateFeaturesRequest(Message):
    class FeatureUpdateKey(Struct):
        feature: str
        max_version_level: int
        allow_downgrade: bool
        upgrade_type: int
        def __init__(self, *, feature: str = ..., max_version_level: int = ..., allow_downgrade: bool = ..., upgrade_type: int = ..., unknown_tags: _Tags = ...) -> None: ...
    timeout_ms: int
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey]
    validate_only: bool
    def __init__(self, *, timeout_ms: int = ..., feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ..., validate_only: bool = ..., unknown_tags: _Tags = ...) -> None: ...

class UpdateFeaturesResponse(Message):
    class UpdatableFeatureResult(Struct):
        feature: str
        error_code: int
        error_message: str | None
        def __init__(self, *, feature: str = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult]
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class UpdateMetadataRequest(Message):
    class UpdateMetadataPartitionState(Struct):
        topic_name: str
        partition_index: int
        controller_epoch: int
        leader: int
        leader_epoch: int
        isr: list[int]
        zk_version: int
        replicas: list[int]
        offline_replicas: list[int]
        def __init__(self, *, topic_name: str = ..., partition_index: int = ..., controller_epoch: int = ..., leader: int = ..., leader_epoch: int = ..., isr: list[int] = ..., zk_version: int = ..., replicas: list[int] = ..., offline_replicas: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    class UpdateMetadataTopicState(Struct):
        topic_name: str
        topic_id: UUID
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState]
        def __init__(self, *, topic_name: str = ..., topic_id: UUID = ..., partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = ..., unknown_tags: _Tags = ...) -> None: ...
    class UpdateMetadataBroker(Struct):
        id: int
        v0_host: str
        v0_port: int
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint]
        rack: str | None
        def __init__(self, *, id: int = ..., v0_host: str = ..., v0_port: int = ..., endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = ..., rack: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    class UpdateMetadataEndpoint(Struct):
        port: int
        host: str
        listener: str
        security_protocol: int
        def __init__(self, *, port: int = ..., host: str = ..., listener: str = ..., security_protocol: int = ..., unknown_tags: _Tags = ...) -> None: ...
    controller_id: int
    is_kraft_controller: bool
    type: int
    controller_epoch: int
    broker_epoch: int
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState]
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState]
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker]
    def __init__(self, *, controller_id: int = ..., is_kraft_controller: bool = ..., type: int = ..., controller_epoch: int = ..., broker_epoch: int = ..., ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = ..., topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = ..., live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = ..., unknown_tags: _Tags = ...) -> None: ...

class UpdateMetadataResponse(Message):
    error_code: int
    def __init__(self, *, error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...

class UpdateRaftVoterRequest(Message):
    class Listener(Struct):
        name: str
        host: str
        port: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class KRaftVersionFeature(Struct):
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, min_supported_version: int = ..., max_supported_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: UUID
    listeners: list[UpdateRaftVoterRequest.Listener]
    kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature
    def __init__(self, *, cluster_id: str | None = ..., current_leader_epoch: int = ..., voter_id: int = ..., voter_directory_id: UUID = ..., listeners: list[UpdateRaftVoterRequest.Listener] = ..., kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = ..., unknown_tags: _Tags = ...) -> None: ...

class UpdateRaftVoterResponse(Message):
    class CurrentLeader(Struct):
        leader_id: int
        leader_epoch: int
        host: str
        port: int
        def __init__(self, *, leader_id: int = ..., leader_epoch: int = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    current_leader: UpdateRaftVoterResponse.CurrentLeader
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., current_leader: UpdateRaftVoterResponse.CurrentLeader = ..., unknown_tags: _Tags = ...) -> None: ...

class UserScramCredentialRecord(Message):
    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    def __init__(self, *, name: str = ..., mechanism: int = ..., salt: bytes = ..., stored_key: bytes = ..., server_key: bytes = ..., iterations: int = ..., unknown_tags: _Tags = ...) -> None: ...

class VoteRequest(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[VoteRequest.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[VoteRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        replica_epoch: int
        replica_id: int
        replica_directory_id: UUID
        voter_directory_id: UUID
        last_offset_epoch: int
        last_offset: int
        pre_vote: bool
        def __init__(self, *, partition_index: int = ..., replica_epoch: int = ..., replica_id: int = ..., replica_directory_id: UUID = ..., voter_directory_id: UUID = ..., last_offset_epoch: int = ..., last_offset: int = ..., pre_vote: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    cluster_id: str | None
    voter_id: int
    topics: list[VoteRequest.TopicData]
    def __init__(self, *, cluster_id: str | None = ..., voter_id: int = ..., topics: list[VoteRequest.TopicData] = ..., unknown_tags: _Tags = ...) -> None: ...

class VoteResponse(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[VoteResponse.PartitionData]
        def __init__(self, *, topic_name: str = ..., partitions: list[VoteResponse.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        vote_granted: bool
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ..., vote_granted: bool = ..., unknown_tags: _Tags = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        def __init__(self, *, node_id: int = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    error_code: int
    topics: list[VoteResponse.TopicData]
    node_endpoints: list[VoteResponse.NodeEndpoint]
    def __init__(self, *, error_code: int = ..., topics: list[VoteResponse.TopicData] = ..., node_endpoints: list[VoteResponse.NodeEndpoint] = ..., unknown_tags: _Tags = ...) -> None: ...

class VotersRecord(Message):
    class Voter(Struct):
        voter_id: int
        voter_directory_id: UUID
        endpoints: list[VotersRecord.Endpoint]
        kraft_version_feature: VotersRecord.KRaftVersionFeature
        def __init__(self, *, voter_id: int = ..., voter_directory_id: UUID = ..., endpoints: list[VotersRecord.Endpoint] = ..., kraft_version_feature: VotersRecord.KRaftVersionFeature = ..., unknown_tags: _Tags = ...) -> None: ...
    class Endpoint(Struct):
        name: str
        host: str
        port: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class KRaftVersionFeature(Struct):
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, min_supported_version: int = ..., max_supported_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    version: int
    voters: list[VotersRecord.Voter]
    def __init__(self, *, version: int = ..., voters: list[VotersRecord.Voter] = ..., unknown_tags: _Tags = ...) -> None: ...

class WriteShareGroupStateRequest(Message):
    class WriteStateData(Struct):
        topic_id: UUID
        partitions: list[WriteShareGroupStateRequest.PartitionData]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[WriteShareGroupStateRequest.PartitionData] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        state_batches: list[WriteShareGroupStateRequest.StateBatch]
        def __init__(self, *, partition: int = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., state_batches: list[WriteShareGroupStateRequest.StateBatch] = ..., unknown_tags: _Tags = ...) -> None: ...
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, *, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ..., unknown_tags: _Tags = ...) -> None: ...
    group_id: str
    topics: list[WriteShareGroupStateRequest.WriteStateData]
    def __init__(self, *, group_id: str = ..., topics: list[WriteShareGroupStateRequest.WriteStateData] = ..., unknown_tags: _Tags = ...) -> None: ...

class WriteShareGroupStateResponse(Message):
    class WriteStateResult(Struct):
        topic_id: UUID
        partitions: list[WriteShareGroupStateResponse.PartitionResult]
        def __init__(self, *, topic_id: UUID = ..., partitions: list[WriteShareGroupStateResponse.PartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, *, partition: int = ..., error_code: int = ..., error_message: str | None = ..., unknown_tags: _Tags = ...) -> None: ...
    results: list[WriteShareGroupStateResponse.WriteStateResult]
    def __init__(self, *, results: list[WriteShareGroupStateResponse.WriteStateResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class WriteTxnMarkersRequest(Message):
    class WritableTxnMarker(Struct):
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic]
        coordinator_epoch: int
        transaction_version: int
        def __init__(self, *, producer_id: int = ..., producer_epoch: int = ..., transaction_result: bool = ..., topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ..., coordinator_epoch: int = ..., transaction_version: int = ..., unknown_tags: _Tags = ...) -> None: ...
    class WritableTxnMarkerTopic(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, name: str = ..., partition_indexes: list[int] = ..., unknown_tags: _Tags = ...) -> None: ...
    markers: list[WriteTxnMarkersRequest.WritableTxnMarker]
    def __init__(self, *, markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ..., unknown_tags: _Tags = ...) -> None: ...

class WriteTxnMarkersResponse(Message):
    class WritableTxnMarkerResult(Struct):
        producer_id: int
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]
        def __init__(self, *, producer_id: int = ..., topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class WritableTxnMarkerTopicResult(Struct):
        name: str
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]
        def __init__(self, *, name: str = ..., partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ..., unknown_tags: _Tags = ...) -> None: ...
    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int
        error_code: int
        def __init__(self, *, partition_index: int = ..., error_code: int = ..., unknown_tags: _Tags = ...) -> None: ...
    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult]
    def __init__(self, *, markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ..., unknown_tags: _Tags = ...) -> None: ...

class ZkMigrationStateRecord(Message):
    zk_migration_state: int
    def __init__(self, *, zk_migration_state: int = ..., unknown_tags: _Tags = ...) -> None: ...

@overload
def message(name: Literal["AbortTransactionRecord"], *, specs: None = None) -> type[AbortTransactionRecord]: ...
@overload
def message(name: Literal["AbortedTxn"], *, specs: None = None) -> type[AbortedTxn]: ...
@overload
def message(name: Literal["AccessControlEntryRecord"], *, specs: None = None) -> type[AccessControlEntryRecord]: ...
@overload
def message(name: Literal["AccessControlRecord"], *, specs: None = None) -> type[AccessControlRecord]: ...
@overload
def message(name: Literal["AddOffsetsToTxnRequest"], *, specs: None = None) -> type[AddOffsetsToTxnRequest]: ...
@overload
def message(name: Literal["AddOffsetsToTxnResponse"], *, specs: None = None) -> type[AddOffsetsToTxnResponse]: ...
@overload
def message(name: Literal["AddPartitionsToTxnRequest"], *, specs: None = None) -> type[AddPartitionsToTxnRequest]: ...
@overload
def message(name: Literal["AddPartitionsToTxnResponse"], *, specs: None = None) -> type[AddPartitionsToTxnResponse]: ...
@overload
def message(name: Literal["AddRaftVoterRequest"], *, specs: None = None) -> type[AddRaftVoterRequest]: ...
@overload
def message(name: Literal["AddRaftVoterResponse"], *, specs: None = None) -> type[AddRaftVoterResponse]: ...
@overload
def message(name: Literal["AllocateProducerIdsRequest"], *, specs: None = None) -> type[AllocateProducerIdsRequest]: ...
@overload
def message(name: Literal["AllocateProducerIdsResponse"], *, specs: None = None) -> type[AllocateProducerIdsResponse]: ...
@overload
def message(name: Literal["AlterClientQuotasRequest"], *, specs: None = None) -> type[AlterClientQuotasRequest]: ...
@overload
def message(name: Literal["AlterClientQuotasResponse"], *, specs: None = None) -> type[AlterClientQuotasResponse]: ...
@overload
def message(name: Literal["AlterConfigsRequest"], *, specs: None = None) -> type[AlterConfigsRequest]: ...
@overload
def message(name: Literal["AlterConfigsResponse"], *, specs: None = None) -> type[AlterConfigsResponse]: ...
@overload
def message(name: Literal["AlterIsrRequest"], *, specs: None = None) -> type[AlterIsrRequest]: ...
@overload
def message(name: Literal["AlterIsrResponse"], *, specs: None = None) -> type[AlterIsrResponse]: ...
@overload
def message(name: Literal["AlterPartitionReassignmentsRequest"], *, specs: None = None) -> type[AlterPartitionReassignmentsRequest]: ...
@overload
def message(name: Literal["AlterPartitionReassignmentsResponse"], *, specs: None = None) -> type[AlterPartitionReassignmentsResponse]: ...
@overload
def message(name: Literal["AlterPartitionRequest"], *, specs: None = None) -> type[AlterPartitionRequest]: ...
@overload
def message(name: Literal["AlterPartitionResponse"], *, specs: None = None) -> type[AlterPartitionResponse]: ...
@overload
def message(name: Literal["AlterReplicaLogDirsRequest"], *, specs: None = None) -> type[AlterReplicaLogDirsRequest]: ...
@overload
def message(name: Literal["AlterReplicaLogDirsResponse"], *, specs: None = None) -> type[AlterReplicaLogDirsResponse]: ...
@overload
def message(name: Literal["AlterShareGroupOffsetsRequest"], *, specs: None = None) -> type[AlterShareGroupOffsetsRequest]: ...
@overload
def message(name: Literal["AlterShareGroupOffsetsResponse"], *, specs: None = None) -> type[AlterShareGroupOffsetsResponse]: ...
@overload
def message(name: Literal["AlterUserScramCredentialsRequest"], *, specs: None = None) -> type[AlterUserScramCredentialsRequest]: ...
@overload
def message(name: Literal["AlterUserScramCredentialsResponse"], *, specs: None = None) -> type[AlterUserScramCredentialsResponse]: ...
@overload
def message(name: Literal["ApiVersionsRequest"], *, specs: None = None) -> type[ApiVersionsRequest]: ...
@overload
def message(name: Literal["ApiVersionsResponse"], *, specs: None = None) -> type[ApiVersionsResponse]: ...
@overload
def message(name: Literal["AssignReplicasToDirsRequest"], *, specs: None = None) -> type[AssignReplicasToDirsRequest]: ...
@overload
def message(name: Literal["AssignReplicasToDirsResponse"], *, specs: None = None) -> type[AssignReplicasToDirsResponse]: ...
@overload
def message(name: Literal["BeginQuorumEpochRequest"], *, specs: None = None) -> type[BeginQuorumEpochRequest]: ...
@overload
def message(name: Literal["BeginQuorumEpochResponse"], *, specs: None = None) -> type[BeginQuorumEpochResponse]: ...
@overload
def message(name: Literal["BeginTransactionRecord"], *, specs: None = None) -> type[BeginTransactionRecord]: ...
@overload
def message(name: Literal["BrokerHeartbeatRequest"], *, specs: None = None) -> type[BrokerHeartbeatRequest]: ...
@overload
def message(name: Literal["BrokerHeartbeatResponse"], *, specs: None = None) -> type[BrokerHeartbeatResponse]: ...
@overload
def message(name: Literal["BrokerRegistrationChangeRecord"], *, specs: None = None) -> type[BrokerRegistrationChangeRecord]: ...
@overload
def message(name: Literal["BrokerRegistrationRequest"], *, specs: None = None) -> type[BrokerRegistrationRequest]: ...
@overload
def message(name: Literal["BrokerRegistrationResponse"], *, specs: None = None) -> type[BrokerRegistrationResponse]: ...
@overload
def message(name: Literal["ClearElrRecord"], *, specs: None = None) -> type[ClearElrRecord]: ...
@overload
def message(name: Literal["ClientQuotaRecord"], *, specs: None = None) -> type[ClientQuotaRecord]: ...
@overload
def message(name: Literal["ConfigRecord"], *, specs: None = None) -> type[ConfigRecord]: ...
@overload
def message(name: Literal["ConsumerGroupCurrentMemberAssignmentKey"], *, specs: None = None) -> type[ConsumerGroupCurrentMemberAssignmentKey]: ...
@overload
def message(name: Literal["ConsumerGroupCurrentMemberAssignmentValue"], *, specs: None = None) -> type[ConsumerGroupCurrentMemberAssignmentValue]: ...
@overload
def message(name: Literal["ConsumerGroupDescribeRequest"], *, specs: None = None) -> type[ConsumerGroupDescribeRequest]: ...
@overload
def message(name: Literal["ConsumerGroupDescribeResponse"], *, specs: None = None) -> type[ConsumerGroupDescribeResponse]: ...
@overload
def message(name: Literal["ConsumerGroupHeartbeatRequest"], *, specs: None = None) -> type[ConsumerGroupHeartbeatRequest]: ...
@overload
def message(name: Literal["ConsumerGroupHeartbeatResponse"], *, specs: None = None) -> type[ConsumerGroupHeartbeatResponse]: ...
@overload
def message(name: Literal["ConsumerGroupMemberMetadataKey"], *, specs: None = None) -> type[ConsumerGroupMemberMetadataKey]: ...
@overload
def message(name: Literal["ConsumerGroupMemberMetadataValue"], *, specs: None = None) -> type[ConsumerGroupMemberMetadataValue]: ...
@overload
def message(name: Literal["ConsumerGroupMetadataKey"], *, specs: None = None) -> type[ConsumerGroupMetadataKey]: ...
@overload
def message(name: Literal["ConsumerGroupMetadataValue"], *, specs: None = None) -> type[ConsumerGroupMetadataValue]: ...
@overload
def message(name: Literal["ConsumerGroupPartitionMetadataKey"], *, specs: None = None) -> type[ConsumerGroupPartitionMetadataKey]: ...
@overload
def message(name: Literal["ConsumerGroupPartitionMetadataValue"], *, specs: None = None) -> type[ConsumerGroupPartitionMetadataValue]: ...
@overload
def message(name: Literal["ConsumerGroupRegularExpressionKey"], *, specs: None = None) -> type[ConsumerGroupRegularExpressionKey]: ...
@overload
def message(name: Literal["ConsumerGroupRegularExpressionValue"], *, specs: None = None) -> type[ConsumerGroupRegularExpressionValue]: ...
@overload
def message(name: Literal["ConsumerGroupTargetAssignmentMemberKey"], *, specs: None = None) -> type[ConsumerGroupTargetAssignmentMemberKey]: ...
@overload
def message(name: Literal["ConsumerGroupTargetAssignmentMemberValue"], *, specs: None = None) -> type[ConsumerGroupTargetAssignmentMemberValue]: ...
@overload
def message(name: Literal["ConsumerGroupTargetAssignmentMetadataKey"], *, specs: None = None) -> type[ConsumerGroupTargetAssignmentMetadataKey]: ...
@overload
def message(name: Literal["ConsumerGroupTargetAssignmentMetadataValue"], *, specs: None = None) -> type[ConsumerGroupTargetAssignmentMetadataValue]: ...
@overload
def message(name: Literal["ConsumerProtocolAssignment"], *, specs: None = None) -> type[ConsumerProtocolAssignment]: ...
@overload
def message(name: Literal["ConsumerProtocolSubscription"], *, specs: None = None) -> type[ConsumerProtocolSubscription]: ...
@overload
def message(name: Literal["ControlRecordTypeSchema"], *, specs: None = None) -> type[ControlRecordTypeSchema]: ...
@overload
def message(name: Literal["ControlledShutdownRequest"], *, specs: None = None) -> type[ControlledShutdownRequest]: ...
@overload
def message(name: Literal["ControlledShutdownResponse"], *, specs: None = None) -> type[ControlledShutdownResponse]: ...
@overload
def message(name: Literal["ControllerRegistrationRequest"], *, specs: None = None) -> type[ControllerRegistrationRequest]: ...
@overload
def message(name: Literal["ControllerRegistrationResponse"], *, specs: None = None) -> type[ControllerRegistrationResponse]: ...
@overload
def message(name: Literal["CreateAclsRequest"], *, specs: None = None) -> type[CreateAclsRequest]: ...
@overload
def message(name: Literal["CreateAclsResponse"], *, specs: None = None) -> type[CreateAclsResponse]: ...
@overload
def message(name: Literal["CreateDelegationTokenRequest"], *, specs: None = None) -> type[CreateDelegationTokenRequest]: ...
@overload
def message(name: Literal["CreateDelegationTokenResponse"], *, specs: None = None) -> type[CreateDelegationTokenResponse]: ...
@overload
def message(name: Literal["CreatePartitionsRequest"], *, specs: None = None) -> type[CreatePartitionsRequest]: ...
@overload
def message(name: Literal["CreatePartitionsResponse"], *, specs: None = None) -> type[CreatePartitionsResponse]: ...
@overload
def message(name: Literal["CreateTopicsRequest"], *, specs: None = None) -> type[CreateTopicsRequest]: ...
@overload
def message(name: Literal["CreateTopicsResponse"], *, specs: None = None) -> type[CreateTopicsResponse]: ...
@overload
def message(name: Literal["DefaultPrincipalData"], *, specs: None = None) -> type[DefaultPrincipalData]: ...
@overload
def message(name: Literal["DelegationTokenRecord"], *, specs: None = None) -> type[DelegationTokenRecord]: ...
@overload
def message(name: Literal["DeleteAclsRequest"], *, specs: None = None) -> type[DeleteAclsRequest]: ...
@overload
def message(name: Literal["DeleteAclsResponse"], *, specs: None = None) -> type[DeleteAclsResponse]: ...
@overload
def message(name: Literal["DeleteGroupsRequest"], *, specs: None = None) -> type[DeleteGroupsRequest]: ...
@overload
def message(name: Literal["DeleteGroupsResponse"], *, specs: None = None) -> type[DeleteGroupsResponse]: ...
@overload
def message(name: Literal["DeleteRecordsRequest"], *, specs: None = None) -> type[DeleteRecordsRequest]: ...
@overload
def message(name: Literal["DeleteRecordsResponse"], *, specs: None = None) -> type[DeleteRecordsResponse]: ...
@overload
def message(name: Literal["DeleteShareGroupOffsetsRequest"], *, specs: None = None) -> type[DeleteShareGroupOffsetsRequest]: ...
@overload
def message(name: Literal["DeleteShareGroupOffsetsResponse"], *, specs: None = None) -> type[DeleteShareGroupOffsetsResponse]: ...
@overload
def message(name: Literal["DeleteShareGroupStateRequest"], *, specs: None = None) -> type[DeleteShareGroupStateRequest]: ...
@overload
def message(name: Literal["DeleteShareGroupStateResponse"], *, specs: None = None) -> type[DeleteShareGroupStateResponse]: ...
@overload
def message(name: Literal["DeleteTopicsRequest"], *, specs: None = None) -> type[DeleteTopicsRequest]: ...
@overload
def message(name: Literal["DeleteTopicsResponse"], *, specs: None = None) -> type[DeleteTopicsResponse]: ...
@overload
def message(name: Literal["DescribeAclsRequest"], *, specs: None = None) -> type[DescribeAclsRequest]: ...
@overload
def message(name: Literal["DescribeAclsResponse"], *, specs: None = None) -> type[DescribeAclsResponse]: ...
@overload
def message(name: Literal["DescribeClientQuotasRequest"], *, specs: None = None) -> type[DescribeClientQuotasRequest]: ...
@overload
def message(name: Literal["DescribeClientQuotasResponse"], *, specs: None = None) -> type[DescribeClientQuotasResponse]: ...
@overload
def message(name: Literal["DescribeClusterRequest"], *, specs: None = None) -> type[DescribeClusterRequest]: ...
@overload
def message(name: Literal["DescribeClusterResponse"], *, specs: None = None) -> type[DescribeClusterResponse]: ...
@overload
def message(name: Literal["DescribeConfigsRequest"], *, specs: None = None) -> type[DescribeConfigsRequest]: ...
@overload
def message(name: Literal["DescribeConfigsResponse"], *, specs: None = None) -> type[DescribeConfigsResponse]: ...
@overload
def message(name: Literal["DescribeDelegationTokenRequest"], *, specs: None = None) -> type[DescribeDelegationTokenRequest]: ...
@overload
def message(name: Literal["DescribeDelegationTokenResponse"], *, specs: None = None) -> type[DescribeDelegationTokenResponse]: ...
@overload
def message(name: Literal["DescribeGroupsRequest"], *, specs: None = None) -> type[DescribeGroupsRequest]: ...
@overload
def message(name: Literal["DescribeGroupsResponse"], *, specs: None = None) -> type[DescribeGroupsResponse]: ...
@overload
def message(name: Literal["DescribeLogDirsRequest"], *, specs: None = None) -> type[DescribeLogDirsRequest]: ...
@overload
def message(name: Literal["DescribeLogDirsResponse"], *, specs: None = None) -> type[DescribeLogDirsResponse]: ...
@overload
def message(name: Literal["DescribeProducersRequest"], *, specs: None = None) -> type[DescribeProducersRequest]: ...
@overload
def message(name: Literal["DescribeProducersResponse"], *, specs: None = None) -> type[DescribeProducersResponse]: ...
@overload
def message(name: Literal["DescribeQuorumRequest"], *, specs: None = None) -> type[DescribeQuorumRequest]: ...
@overload
def message(name: Literal["DescribeQuorumResponse"], *, specs: None = None) -> type[DescribeQuorumResponse]: ...
@overload
def message(name: Literal["DescribeShareGroupOffsetsRequest"], *, specs: None = None) -> type[DescribeShareGroupOffsetsRequest]: ...
@overload
def message(name: Literal["DescribeShareGroupOffsetsResponse"], *, specs: None = None) -> type[DescribeShareGroupOffsetsResponse]: ...
@overload
def message(name: Literal["DescribeTopicPartitionsRequest"], *, specs: None = None) -> type[DescribeTopicPartitionsRequest]: ...
@overload
def message(name: Literal["DescribeTopicPartitionsResponse"], *, specs: None = None) -> type[DescribeTopicPartitionsResponse]: ...
@overload
def message(name: Literal["DescribeTransactionsRequest"], *, specs: None = None) -> type[DescribeTransactionsRequest]: ...
@overload
def message(name: Literal["DescribeTransactionsResponse"], *, specs: None = None) -> type[DescribeTransactionsResponse]: ...
@overload
def message(name: Literal["DescribeUserScramCredentialsRequest"], *, specs: None = None) -> type[DescribeUserScramCredentialsRequest]: ...
@overload
def message(name: Literal["DescribeUserScramCredentialsResponse"], *, specs: None = None) -> type[DescribeUserScramCredentialsResponse]: ...
@overload
def message(name: Literal["ElectLeadersRequest"], *, specs: None = None) -> type[ElectLeadersRequest]: ...
@overload
def message(name: Literal["ElectLeadersResponse"], *, specs: None = None) -> type[ElectLeadersResponse]: ...
@overload
def message(name: Literal["ElectPreferredLeadersRequest"], *, specs: None = None) -> type[ElectPreferredLeadersRequest]: ...
@overload
def message(name: Literal["ElectPreferredLeadersResponse"], *, specs: None = None) -> type[ElectPreferredLeadersResponse]: ...
@overload
def message(name: Literal["EndQuorumEpochRequest"], *, specs: None = None) -> type[EndQuorumEpochRequest]: ...
@overload
def message(name: Literal["EndQuorumEpochResponse"], *, specs: None = None) -> type[EndQuorumEpochResponse]: ...
@overload
def message(name: Literal["EndTransactionRecord"], *, specs: None = None) -> type[EndTransactionRecord]: ...
@overload
def message(name: Literal["EndTxnMarker"], *, specs: None = None) -> type[EndTxnMarker]: ...
@overload
def message(name: Literal["EndTxnRequest"], *, specs: None = None) -> type[EndTxnRequest]: ...
@overload
def message(name: Literal["EndTxnResponse"], *, specs: None = None) -> type[EndTxnResponse]: ...
@overload
def message(name: Literal["EnvelopeRequest"], *, specs: None = None) -> type[EnvelopeRequest]: ...
@overload
def message(name: Literal["EnvelopeResponse"], *, specs: None = None) -> type[EnvelopeResponse]: ...
@overload
def message(name: Literal["ExpireDelegationTokenRequest"], *, specs: None = None) -> type[ExpireDelegationTokenRequest]: ...
@overload
def message(name: Literal["ExpireDelegationTokenResponse"], *, specs: None = None) -> type[ExpireDelegationTokenResponse]: ...
@overload
def message(name: Literal["FeatureLevelRecord"], *, specs: None = None) -> type[FeatureLevelRecord]: ...
@overload
def message(name: Literal["FenceBrokerRecord"], *, specs: None = None) -> type[FenceBrokerRecord]: ...
@overload
def message(name: Literal["FetchRequest"], *, specs: None = None) -> type[FetchRequest]: ...
@overload
def message(name: Literal["FetchResponse"], *, specs: None = None) -> type[FetchResponse]: ...
@overload
def message(name: Literal["FetchSnapshotRequest"], *, specs: None = None) -> type[FetchSnapshotRequest]: ...
@overload
def message(name: Literal["FetchSnapshotResponse"], *, specs: None = None) -> type[FetchSnapshotResponse]: ...
@overload
def message(name: Literal["FindCoordinatorRequest"], *, specs: None = None) -> type[FindCoordinatorRequest]: ...
@overload
def message(name: Literal["FindCoordinatorResponse"], *, specs: None = None) -> type[FindCoordinatorResponse]: ...
@overload
def message(name: Literal["GetTelemetrySubscriptionsRequest"], *, specs: None = None) -> type[GetTelemetrySubscriptionsRequest]: ...
@overload
def message(name: Literal["GetTelemetrySubscriptionsResponse"], *, specs: None = None) -> type[GetTelemetrySubscriptionsResponse]: ...
@overload
def message(name: Literal["GroupMetadataKey"], *, specs: None = None) -> type[GroupMetadataKey]: ...
@overload
def message(name: Literal["GroupMetadataValue"], *, specs: None = None) -> type[GroupMetadataValue]: ...
@overload
def message(name: Literal["HeartbeatRequest"], *, specs: None = None) -> type[HeartbeatRequest]: ...
@overload
def message(name: Literal["HeartbeatResponse"], *, specs: None = None) -> type[HeartbeatResponse]: ...
@overload
def message(name: Literal["IncrementalAlterConfigsRequest"], *, specs: None = None) -> type[IncrementalAlterConfigsRequest]: ...
@overload
def message(name: Literal["IncrementalAlterConfigsResponse"], *, specs: None = None) -> type[IncrementalAlterConfigsResponse]: ...
@overload
def message(name: Literal["InitProducerIdRequest"], *, specs: None = None) -> type[InitProducerIdRequest]: ...
@overload
def message(name: Literal["InitProducerIdResponse"], *, specs: None = None) -> type[InitProducerIdResponse]: ...
@overload
def message(name: Literal["InitializeShareGroupStateRequest"], *, specs: None = None) -> type[InitializeShareGroupStateRequest]: ...
@overload
def message(name: Literal["InitializeShareGroupStateResponse"], *, specs: None = None) -> type[InitializeShareGroupStateResponse]: ...
@overload
def message(name: Literal["JoinGroupRequest"], *, specs: None = None) -> type[JoinGroupRequest]: ...
@overload
def message(name: Literal["JoinGroupResponse"], *, specs: None = None) -> type[JoinGroupResponse]: ...
@overload
def message(name: Literal["KRaftVersionRecord"], *, specs: None = None) -> type[KRaftVersionRecord]: ...
@overload
def message(name: Literal["LeaderAndIsrRequest"], *, specs: None = None) -> type[LeaderAndIsrRequest]: ...
@overload
def message(name: Literal["LeaderAndIsrResponse"], *, specs: None = None) -> type[LeaderAndIsrResponse]: ...
@overload
def message(name: Literal["LeaderChangeMessage"], *, specs: None = None) -> type[LeaderChangeMessage]: ...
@overload
def message(name: Literal["LeaveGroupRequest"], *, specs: None = None) -> type[LeaveGroupRequest]: ...
@overload
def message(name: Literal["LeaveGroupResponse"], *, specs: None = None) -> type[LeaveGroupResponse]: ...
@overload
def message(name: Literal["LegacyOffsetCommitKey"], *, specs: None = None) -> type[LegacyOffsetCommitKey]: ...
@overload
def message(name: Literal["LegacyOffsetCommitValue"], *, specs: None = None) -> type[LegacyOffsetCommitValue]: ...
@overload
def message(name: Literal["ListClientMetricsResourcesRequest"], *, specs: None = None) -> type[ListClientMetricsResourcesRequest]: ...
@overload
def message(name: Literal["ListClientMetricsResourcesResponse"], *, specs: None = None) -> type[ListClientMetricsResourcesResponse]: ...
@overload
def message(name: Literal["ListConfigResourcesRequest"], *, specs: None = None) -> type[ListConfigResourcesRequest]: ...
@overload
def message(name: Literal["ListConfigResourcesResponse"], *, specs: None = None) -> type[ListConfigResourcesResponse]: ...
@overload
def message(name: Literal["ListGroupsRequest"], *, specs: None = None) -> type[ListGroupsRequest]: ...
@overload
def message(name: Literal["ListGroupsResponse"], *, specs: None = None) -> type[ListGroupsResponse]: ...
@overload
def message(name: Literal["ListOffsetRequest"], *, specs: None = None) -> type[ListOffsetRequest]: ...
@overload
def message(name: Literal["ListOffsetResponse"], *, specs: None = None) -> type[ListOffsetResponse]: ...
@overload
def message(name: Literal["ListOffsetsRequest"], *, specs: None = None) -> type[ListOffsetsRequest]: ...
@overload
def message(name: Literal["ListOffsetsResponse"], *, specs: None = None) -> type[ListOffsetsResponse]: ...
@overload
def message(name: Literal["ListPartitionReassignmentsRequest"], *, specs: None = None) -> type[ListPartitionReassignmentsRequest]: ...
@overload
def message(name: Literal["ListPartitionReassignmentsResponse"], *, specs: None = None) -> type[ListPartitionReassignmentsResponse]: ...
@overload
def message(name: Literal["ListTransactionsRequest"], *, specs: None = None) -> type[ListTransactionsRequest]: ...
@overload
def message(name: Literal["ListTransactionsResponse"], *, specs: None = None) -> type[ListTransactionsResponse]: ...
@overload
def message(name: Literal["MetadataRequest"], *, specs: None = None) -> type[MetadataRequest]: ...
@overload
def message(name: Literal["MetadataResponse"], *, specs: None = None) -> type[MetadataResponse]: ...
@overload
def message(name: Literal["NoOpRecord"], *, specs: None = None) -> type[NoOpRecord]: ...
@overload
def message(name: Literal["OffsetCommitKey"], *, specs: None = None) -> type[OffsetCommitKey]: ...
@overload
def message(name: Literal["OffsetCommitRequest"], *, specs: None = None) -> type[OffsetCommitRequest]: ...
@overload
def message(name: Literal["OffsetCommitResponse"], *, specs: None = None) -> type[OffsetCommitResponse]: ...
@overload
def message(name: Literal["OffsetCommitValue"], *, specs: None = None) -> type[OffsetCommitValue]: ...
@overload
def message(name: Literal["OffsetDeleteRequest"], *, specs: None = None) -> type[OffsetDeleteRequest]: ...
@overload
def message(name: Literal["OffsetDeleteResponse"], *, specs: None = None) -> type[OffsetDeleteResponse]: ...
@overload
def message(name: Literal["OffsetFetchRequest"], *, specs: None = None) -> type[OffsetFetchRequest]: ...
@overload
def message(name: Literal["OffsetFetchResponse"], *, specs: None = None) -> type[OffsetFetchResponse]: ...
@overload
def message(name: Literal["OffsetForLeaderEpochRequest"], *, specs: None = None) -> type[OffsetForLeaderEpochRequest]: ...
@overload
def message(name: Literal["OffsetForLeaderEpochResponse"], *, specs: None = None) -> type[OffsetForLeaderEpochResponse]: ...
@overload
def message(name: Literal["PartitionChangeRecord"], *, specs: None = None) -> type[PartitionChangeRecord]: ...
@overload
def message(name: Literal["PartitionRecord"], *, specs: None = None) -> type[PartitionRecord]: ...
@overload
def message(name: Literal["ProduceRequest"], *, specs: None = None) -> type[ProduceRequest]: ...
@overload
def message(name: Literal["ProduceResponse"], *, specs: None = None) -> type[ProduceResponse]: ...
@overload
def message(name: Literal["ProducerIdsRecord"], *, specs: None = None) -> type[ProducerIdsRecord]: ...
@overload
def message(name: Literal["ProducerSnapshot"], *, specs: None = None) -> type[ProducerSnapshot]: ...
@overload
def message(name: Literal["PushTelemetryRequest"], *, specs: None = None) -> type[PushTelemetryRequest]: ...
@overload
def message(name: Literal["PushTelemetryResponse"], *, specs: None = None) -> type[PushTelemetryResponse]: ...
@overload
def message(name: Literal["QuorumStateData"], *, specs: None = None) -> type[QuorumStateData]: ...
@overload
def message(name: Literal["QuotaRecord"], *, specs: None = None) -> type[QuotaRecord]: ...
@overload
def message(name: Literal["ReadShareGroupStateRequest"], *, specs: None = None) -> type[ReadShareGroupStateRequest]: ...
@overload
def message(name: Literal["ReadShareGroupStateResponse"], *, specs: None = None) -> type[ReadShareGroupStateResponse]: ...
@overload
def message(name: Literal["ReadShareGroupStateSummaryRequest"], *, specs: None = None) -> type[ReadShareGroupStateSummaryRequest]: ...
@overload
def message(name: Literal["ReadShareGroupStateSummaryResponse"], *, specs: None = None) -> type[ReadShareGroupStateSummaryResponse]: ...
@overload
def message(name: Literal["RegisterBrokerRecord"], *, specs: None = None) -> type[RegisterBrokerRecord]: ...
@overload
def message(name: Literal["RegisterControllerRecord"], *, specs: None = None) -> type[RegisterControllerRecord]: ...
@overload
def message(name: Literal["RemoteLogSegmentMetadataRecord"], *, specs: None = None) -> type[RemoteLogSegmentMetadataRecord]: ...
@overload
def message(name: Literal["RemoteLogSegmentMetadataSnapshotRecord"], *, specs: None = None) -> type[RemoteLogSegmentMetadataSnapshotRecord]: ...
@overload
def message(name: Literal["RemoteLogSegmentMetadataUpdateRecord"], *, specs: None = None) -> type[RemoteLogSegmentMetadataUpdateRecord]: ...
@overload
def message(name: Literal["RemotePartitionDeleteMetadataRecord"], *, specs: None = None) -> type[RemotePartitionDeleteMetadataRecord]: ...
@overload
def message(name: Literal["RemoveAccessControlEntryRecord"], *, specs: None = None) -> type[RemoveAccessControlEntryRecord]: ...
@overload
def message(name: Literal["RemoveDelegationTokenRecord"], *, specs: None = None) -> type[RemoveDelegationTokenRecord]: ...
@overload
def message(name: Literal["RemoveFeatureLevelRecord"], *, specs: None = None) -> type[RemoveFeatureLevelRecord]: ...
@overload
def message(name: Literal["RemoveRaftVoterRequest"], *, specs: None = None) -> type[RemoveRaftVoterRequest]: ...
@overload
def message(name: Literal["RemoveRaftVoterResponse"], *, specs: None = None) -> type[RemoveRaftVoterResponse]: ...
@overload
def message(name: Literal["RemoveTopicRecord"], *, specs: None = None) -> type[RemoveTopicRecord]: ...
@overload
def message(name: Literal["RemoveUserScramCredentialRecord"], *, specs: None = None) -> type[RemoveUserScramCredentialRecord]: ...
@overload
def message(name: Literal["RenewDelegationTokenRequest"], *, specs: None = None) -> type[RenewDelegationTokenRequest]: ...
@overload
def message(name: Literal["RenewDelegationTokenResponse"], *, specs: None = None) -> type[RenewDelegationTokenResponse]: ...
@overload
def message(name: Literal["RequestHeader"], *, specs: None = None) -> type[RequestHeader]: ...
@overload
def message(name: Literal["ResponseHeader"], *, specs: None = None) -> type[ResponseHeader]: ...
@overload
def message(name: Literal["SaslAuthenticateRequest"], *, specs: None = None) -> type[SaslAuthenticateRequest]: ...
@overload
def message(name: Literal["SaslAuthenticateResponse"], *, specs: None = None) -> type[SaslAuthenticateResponse]: ...
@overload
def message(name: Literal["SaslHandshakeRequest"], *, specs: None = None) -> type[SaslHandshakeRequest]: ...
@overload
def message(name: Literal["SaslHandshakeResponse"], *, specs: None = None) -> type[SaslHandshakeResponse]: ...
@overload
def message(name: Literal["ShareAcknowledgeRequest"], *, specs: None = None) -> type[ShareAcknowledgeRequest]: ...
@overload
def message(name: Literal["ShareAcknowledgeResponse"], *, specs: None = None) -> type[ShareAcknowledgeResponse]: ...
@overload
def message(name: Literal["ShareFetchRequest"], *, specs: None = None) -> type[ShareFetchRequest]: ...
@overload
def message(name: Literal["ShareFetchResponse"], *, specs: None = None) -> type[ShareFetchResponse]: ...
@overload
def message(name: Literal["ShareGroupCurrentMemberAssignmentKey"], *, specs: None = None) -> type[ShareGroupCurrentMemberAssignmentKey]: ...
@overload
def message(name: Literal["ShareGroupCurrentMemberAssignmentValue"], *, specs: None = None) -> type[ShareGroupCurrentMemberAssignmentValue]: ...
@overload
def message(name: Literal["ShareGroupDescribeRequest"], *, specs: None = None) -> type[ShareGroupDescribeRequest]: ...
@overload
def message(name: Literal["ShareGroupDescribeResponse"], *, specs: None = None) -> type[ShareGroupDescribeResponse]: ...
@overload
def message(name: Literal["ShareGroupHeartbeatRequest"], *, specs: None = None) -> type[ShareGroupHeartbeatRequest]: ...
@overload
def message(name: Literal["ShareGroupHeartbeatResponse"], *, specs: None = None) -> type[ShareGroupHeartbeatResponse]: ...
@overload
def message(name: Literal["ShareGroupMemberMetadataKey"], *, specs: None = None) -> type[ShareGroupMemberMetadataKey]: ...
@overload
def message(name: Literal["ShareGroupMemberMetadataValue"], *, specs: None = None) -> type[ShareGroupMemberMetadataValue]: ...
@overload
def message(name: Literal["ShareGroupMetadataKey"], *, specs: None = None) -> type[ShareGroupMetadataKey]: ...
@overload
def message(name: Literal["ShareGroupMetadataValue"], *, specs: None = None) -> type[ShareGroupMetadataValue]: ...
@overload
def message(name: Literal["ShareGroupPartitionMetadataKey"], *, specs: None = None) -> type[ShareGroupPartitionMetadataKey]: ...
@overload
def message(name: Literal["ShareGroupPartitionMetadataValue"], *, specs: None = None) -> type[ShareGroupPartitionMetadataValue]: ...
@overload
def message(name: Literal["ShareGroupStatePartitionMetadataKey"], *, specs: None = None) -> type[ShareGroupStatePartitionMetadataKey]: ...
@overload
def message(name: Literal["ShareGroupStatePartitionMetadataValue"], *, specs: None = None) -> type[ShareGroupStatePartitionMetadataValue]: ...
@overload
def message(name: Literal["ShareGroupTargetAssignmentMemberKey"], *, specs: None = None) -> type[ShareGroupTargetAssignmentMemberKey]: ...
@overload
def message(name: Literal["ShareGroupTargetAssignmentMemberValue"], *, specs: None = None) -> type[ShareGroupTargetAssignmentMemberValue]: ...
@overload
def message(name: Literal["ShareGroupTargetAssignmentMetadataKey"], *, specs: None = None) -> type[ShareGroupTargetAssignmentMetadataKey]: ...
@overload
def message(name: Literal["ShareGroupTargetAssignmentMetadataValue"], *, specs: None = None) -> type[ShareGroupTargetAssignmentMetadataValue]: ...
@overload
def message(name: Literal["ShareSnapshotKey"], *, specs: None = None) -> type[ShareSnapshotKey]: ...
@overload
def message(name: Literal["ShareSnapshotValue"], *, specs: None = None) -> type[ShareSnapshotValue]: ...
@overload
def message(name: Literal["ShareUpdateKey"], *, specs: None = None) -> type[ShareUpdateKey]: ...
@overload
def message(name: Literal["ShareUpdateValue"], *, specs: None = None) -> type[ShareUpdateValue]: ...
@overload
def message(name: Literal["SnapshotFooterRecord"], *, specs: None = None) -> type[SnapshotFooterRecord]: ...
@overload
def message(name: Literal["SnapshotHeaderRecord"], *, specs: None = None) -> type[SnapshotHeaderRecord]: ...
@overload
def message(name: Literal["StopReplicaRequest"], *, specs: None = None) -> type[StopReplicaRequest]: ...
@overload
def message(name: Literal["StopReplicaResponse"], *, specs: None = None) -> type[StopReplicaResponse]: ...
@overload
def message(name: Literal["StreamsGroupCurrentMemberAssignmentKey"], *, specs: None = None) -> type[StreamsGroupCurrentMemberAssignmentKey]: ...
@overload
def message(name: Literal["StreamsGroupCurrentMemberAssignmentValue"], *, specs: None = None) -> type[StreamsGroupCurrentMemberAssignmentValue]: ...
@overload
def message(name: Literal["StreamsGroupDescribeRequest"], *, specs: None = None) -> type[StreamsGroupDescribeRequest]: ...
@overload
def message(name: Literal["StreamsGroupDescribeResponse"], *, specs: None = None) -> type[StreamsGroupDescribeResponse]: ...
@overload
def message(name: Literal["StreamsGroupHeartbeatRequest"], *, specs: None = None) -> type[StreamsGroupHeartbeatRequest]: ...
@overload
def message(name: Literal["StreamsGroupHeartbeatResponse"], *, specs: None = None) -> type[StreamsGroupHeartbeatResponse]: ...
@overload
def message(name: Literal["StreamsGroupMemberMetadataKey"], *, specs: None = None) -> type[StreamsGroupMemberMetadataKey]: ...
@overload
def message(name: Literal["StreamsGroupMemberMetadataValue"], *, specs: None = None) -> type[StreamsGroupMemberMetadataValue]: ...
@overload
def message(name: Literal["StreamsGroupMetadataKey"], *, specs: None = None) -> type[StreamsGroupMetadataKey]: ...
@overload
def message(name: Literal["StreamsGroupMetadataValue"], *, specs: None = None) -> type[StreamsGroupMetadataValue]: ...
@overload
def message(name: Literal["StreamsGroupTargetAssignmentMemberKey"], *, specs: None = None) -> type[StreamsGroupTargetAssignmentMemberKey]: ...
@overload
def message(name: Literal["StreamsGroupTargetAssignmentMemberValue"], *, specs: None = None) -> type[StreamsGroupTargetAssignmentMemberValue]: ...
@overload
def message(name: Literal["StreamsGroupTargetAssignmentMetadataKey"], *, specs: None = None) -> type[StreamsGroupTargetAssignmentMetadataKey]: ...
@overload
def message(name: Literal["StreamsGroupTargetAssignmentMetadataValue"], *, specs: None = None) -> type[StreamsGroupTargetAssignmentMetadataValue]: ...
@overload
def message(name: Literal["StreamsGroupTopologyDescriptionUpdateRequest"], *, specs: None = None) -> type[StreamsGroupTopologyDescriptionUpdateRequest]: ...
@overload
def message(name: Literal["StreamsGroupTopologyDescriptionUpdateResponse"], *, specs: None = None) -> type[StreamsGroupTopologyDescriptionUpdateResponse]: ...
@overload
def message(name: Literal["StreamsGroupTopologyKey"], *, specs: None = None) -> type[StreamsGroupTopologyKey]: ...
@overload
def message(name: Literal["StreamsGroupTopologyValue"], *, specs: None = None) -> type[StreamsGroupTopologyValue]: ...
@overload
def message(name: Literal["SyncGroupRequest"], *, specs: None = None) -> type[SyncGroupRequest]: ...
@overload
def message(name: Literal["SyncGroupResponse"], *, specs: None = None) -> type[SyncGroupResponse]: ...
@overload
def message(name: Literal["TopicRecord"], *, specs: None = None) -> type[TopicRecord]: ...
@overload
def message(name: Literal["TransactionLogKey"], *, specs: None = None) -> type[TransactionLogKey]: ...
@overload
def message(name: Literal["TransactionLogValue"], *, specs: None = None) -> type[TransactionLogValue]: ...
@overload
def message(name: Literal["TxnOffsetCommitRequest"], *, specs: None = None) -> type[TxnOffsetCommitRequest]: ...
@overload
def message(name: Literal["TxnOffsetCommitResponse"], *, specs: None = None) -> type[TxnOffsetCommitResponse]: ...
@overload
def message(name: Literal["UnfenceBrokerRecord"], *, specs: None = None) -> type[UnfenceBrokerRecord]: ...
@overload
def message(name: Literal["UnregisterBrokerRecord"], *, specs: None = None) -> type[UnregisterBrokerRecord]: ...
@overload
def message(name: Literal["UnregisterBrokerRequest"], *, specs: None = None) -> type[UnregisterBrokerRequest]: ...
@overload
def message(name: Literal["UnregisterBrokerResponse"], *, specs: None = None) -> type[UnregisterBrokerResponse]: ...
@overload
def message(name: Literal["UnregisterControllerRecord"], *, specs: None = None) -> type[UnregisterControllerRecord]: ...
@overload
def message(name: Literal["UnregisterControllerRequest"], *, specs: None = None) -> type[UnregisterControllerRequest]: ...
@overload
def message(name: Literal["UnregisterControllerResponse"], *, specs: None = None) -> type[UnregisterControllerResponse]: ...
@overload
def message(name: Literal["UpdateFeaturesRequest"], *, specs: None = None) -> type[UpdateFeaturesRequest]: ...
@overload
def message(name: Literal["UpdateFeaturesResponse"], *, specs: None = None) -> type[UpdateFeaturesResponse]: ...
@overload
def message(name: Literal["UpdateMetadataRequest"], *, specs: None = None) -> type[UpdateMetadataRequest]: ...
@overload
def message(name: Literal["UpdateMetadataResponse"], *, specs: None = None) -> type[UpdateMetadataResponse]: ...
@overload
def message(name: Literal["UpdateRaftVoterRequest"], *, specs: None = None) -> type[UpdateRaftVoterRequest]: ...
@overload
def message(name: Literal["UpdateRaftVoterResponse"], *, specs: None = None) -> type[UpdateRaftVoterResponse]: ...
@overload
def message(name: Literal["UserScramCredentialRecord"], *, specs: None = None) -> type[UserScramCredentialRecord]: ...
@overload
def message(name: Literal["VoteRequest"], *, specs: None = None) -> type[VoteRequest]: ...
@overload
def message(name: Literal["VoteResponse"], *, specs: None = None) -> type[VoteResponse]: ...
@overload
def message(name: Literal["VotersRecord"], *, specs: None = None) -> type[VotersRecord]: ...
@overload
def message(name: Literal["WriteShareGroupStateRequest"], *, specs: None = None) -> type[WriteShareGroupStateRequest]: ...
@overload
def message(name: Literal["WriteShareGroupStateResponse"], *, specs: None = None) -> type[WriteShareGroupStateResponse]: ...
@overload
def message(name: Literal["WriteTxnMarkersRequest"], *, specs: None = None) -> type[WriteTxnMarkersRequest]: ...
@overload
def message(name: Literal["WriteTxnMarkersResponse"], *, specs: None = None) -> type[WriteTxnMarkersResponse]: ...
@overload
def message(name: Literal["ZkMigrationStateRecord"], *, specs: None = None) -> type[ZkMigrationStateRecord]: ...
@overload
def message(name: str, *, specs: Specs | None = None) -> type[Message]: ...
