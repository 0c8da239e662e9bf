"""The error codes with which a Kafka broker answers: number, name, whether a retry can help, and what it means.

Facts of Kafka's ``Errors`` (numbers, names, which exceptions are retriable) up to the newest code known here; the words
are ours. Codes are data, not classes: a code that is not in the table is kept as its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class ErrorCode(NamedTuple):
    """One error code.

    >>> error_code(6).name, error_code(6).is_retriable, error_code(9999).name
    ('NOT_LEADER_OR_FOLLOWER', True, 'ERROR_9999')
    """

    number: int
    name: str
    is_retriable: bool
    message: str

    def __str__(self) -> str:
        return f"{self.name} ({self.number}): {self.message}"


# number, name, whether the same request can succeed later, what it means
_TABLE: tuple[tuple[int, str, bool, str], ...] = (
    (-1, "UNKNOWN_SERVER_ERROR", False, "the server failed in a way that no other code names"),
    (0, "NONE", False, "no error"),
    (1, "OFFSET_OUT_OF_RANGE", False, "the log does not have this offset"),
    (2, "CORRUPT_MESSAGE", True, "a record failed its CRC, is too large, or lacks a key that it must have"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", True, "this broker does not host the topic partition"),
    (4, "INVALID_FETCH_SIZE", False, "the size that was asked for is not valid"),
    (5, "LEADER_NOT_AVAILABLE", True, "the partition has no leader: an election is going on"),
    (
        6,
        "NOT_LEADER_OR_FOLLOWER",
        True,
        "this broker is neither leader nor follower of the partition, or not the one asked for",
    ),
    (7, "REQUEST_TIMED_OUT", True, "the time of the request ran out"),
    (8, "BROKER_NOT_AVAILABLE", False, "the broker is not available"),
    (9, "REPLICA_NOT_AVAILABLE", True, "the replica is not available for this partition"),
    (10, "MESSAGE_TOO_LARGE", False, "a record batch is larger than the topic or the broker allows"),
    (11, "STALE_CONTROLLER_EPOCH", False, "the controller has moved to another broker"),
    (12, "OFFSET_METADATA_TOO_LARGE", False, "the metadata beside a committed offset is too large"),
    (13, "NETWORK_EXCEPTION", True, "the connection closed before an answer came"),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", True, "the coordinator is still loading its state"),
    (15, "COORDINATOR_NOT_AVAILABLE", True, "there is no coordinator at the moment"),
    (16, "NOT_COORDINATOR", True, "this broker is not the coordinator"),
    (17, "INVALID_TOPIC_EXCEPTION", False, "the topic's name is not valid, or the topic is internal"),
    (18, "RECORD_LIST_TOO_LARGE", False, "the batches are together larger than a segment"),
    (19, "NOT_ENOUGH_REPLICAS", True, "fewer replicas are in sync than min.insync.replicas asks for"),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", True, "written, but to fewer replicas in sync than were asked for"),
    (21, "INVALID_REQUIRED_ACKS", False, "acks is none of -1, 0 and 1"),
    (22, "ILLEGAL_GENERATION", False, "the generation is not the group's"),
    (23, "INCONSISTENT_GROUP_PROTOCOL", False, "the member's protocols do not fit those of the group"),
    (24, "INVALID_GROUP_ID", False, "the group id is not valid"),
    (25, "UNKNOWN_MEMBER_ID", False, "the coordinator does not know this member"),
    (26, "INVALID_SESSION_TIMEOUT", False, "the session timeout is outside the broker's limits"),
    (27, "REBALANCE_IN_PROGRESS", False, "the group is rebalancing: join again"),
    (28, "INVALID_COMMIT_OFFSET_SIZE", False, "the commit is too large to be stored"),
    (29, "TOPIC_AUTHORIZATION_FAILED", False, "not authorized for the topic"),
    (30, "GROUP_AUTHORIZATION_FAILED", False, "not authorized for the group"),
    (31, "CLUSTER_AUTHORIZATION_FAILED", False, "not authorized for the cluster"),
    (32, "INVALID_TIMESTAMP", False, "a record's timestamp is outside the limits of the topic"),
    (33, "UNSUPPORTED_SASL_MECHANISM", False, "the broker does not offer this SASL mechanism"),
    (34, "ILLEGAL_SASL_STATE", False, "the request does not fit the state of the SASL exchange"),
    (35, "UNSUPPORTED_VERSION", False, "this version of the API is not supported"),
    (36, "TOPIC_ALREADY_EXISTS", False, "a topic of this name exists"),
    (37, "INVALID_PARTITIONS", False, "the number of partitions is not valid"),
    (38, "INVALID_REPLICATION_FACTOR", False, "the replication factor is below 1 or above the number of brokers"),
    (39, "INVALID_REPLICA_ASSIGNMENT", False, "the replica assignment is not valid"),
    (40, "INVALID_CONFIG", False, "a configuration is not valid"),
    (41, "NOT_CONTROLLER", True, "this is not the controller"),
    (42, "INVALID_REQUEST", False, "the request contradicts itself or the protocol"),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", False, "the message format on the broker cannot serve this"),
    (44, "POLICY_VIOLATION", False, "a policy of the cluster forbids it"),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False, "the broker expected another sequence number"),
    (46, "DUPLICATE_SEQUENCE_NUMBER", False, "the sequence number was written before"),
    (47, "INVALID_PRODUCER_EPOCH", False, "the producer's epoch is older than the newest"),
    (48, "INVALID_TXN_STATE", False, "the transaction is in no state for this"),
    (49, "INVALID_PRODUCER_ID_MAPPING", False, "the producer id is not the one of the transactional id"),
    (50, "INVALID_TRANSACTION_TIMEOUT", False, "the transaction timeout is above the broker's limit"),
    (51, "CONCURRENT_TRANSACTIONS", True, "another operation on this transaction is going on"),
    (52, "TRANSACTION_COORDINATOR_FENCED", False, "the coordinator of the transaction is not the current one"),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False, "not authorized for the transactional id"),
    (54, "SECURITY_DISABLED", False, "security features are off"),
    (55, "OPERATION_NOT_ATTEMPTED", False, "not tried, because another part of the request failed first"),
    (56, "KAFKA_STORAGE_ERROR", True, "the disk of the log failed"),
    (57, "LOG_DIR_NOT_FOUND", False, "the broker has no such log directory"),
    (58, "SASL_AUTHENTICATION_FAILED", False, "the credentials were refused"),
    (59, "UNKNOWN_PRODUCER_ID", False, "the broker has no state for the producer id: its records may be gone"),
    (60, "REASSIGNMENT_IN_PROGRESS", False, "a reassignment of the partition is going on"),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", False, "delegation tokens are off"),
    (62, "DELEGATION_TOKEN_NOT_FOUND", False, "there is no such delegation token"),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", False, "the principal is neither owner nor renewer of the token"),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", False, "tokens cannot be asked for over this kind of connection"),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", False, "not authorized for the delegation token"),
    (66, "DELEGATION_TOKEN_EXPIRED", False, "the delegation token has expired"),
    (67, "INVALID_PRINCIPAL_TYPE", False, "this type of principal is not supported"),
    (68, "NON_EMPTY_GROUP", False, "the group still has members"),
    (69, "GROUP_ID_NOT_FOUND", False, "there is no such group"),
    (70, "FETCH_SESSION_ID_NOT_FOUND", True, "the fetch session is gone: start a new one"),
    (71, "INVALID_FETCH_SESSION_EPOCH", True, "the fetch session is at another epoch"),
    (72, "LISTENER_NOT_FOUND", True, "the leader has no listener of the name that the client used"),
    (73, "TOPIC_DELETION_DISABLED", False, "deleting topics is off"),
    (74, "FENCED_LEADER_EPOCH", True, "the leader epoch of the request is older than the broker's"),
    (75, "UNKNOWN_LEADER_EPOCH", True, "the leader epoch of the request is newer than the broker's"),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", False, "the version of the request does not allow this codec"),
    (77, "STALE_BROKER_EPOCH", False, "the broker epoch has changed"),
    (78, "OFFSET_NOT_AVAILABLE", True, "the leader's high watermark has not caught up since its election"),
    (79, "MEMBER_ID_REQUIRED", False, "join again with the member id of this answer"),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", True, "the preferred leader was not available"),
    (81, "GROUP_MAX_SIZE_REACHED", False, "the group has as many members as it may"),
    (82, "FENCED_INSTANCE_ID", False, "another member took over this static instance id"),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", True, "no replica that may lead is available"),
    (84, "ELECTION_NOT_NEEDED", True, "the partition already has the leader it should have"),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", False, "no reassignment of the partition is going on"),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", False, "the group is subscribed to the topic, so its offsets cannot be deleted"),
    (87, "INVALID_RECORD", False, "the broker refused a record"),
    (88, "UNSTABLE_OFFSET_COMMIT", True, "a transaction has offsets that are not decided yet"),
    (89, "THROTTLING_QUOTA_EXCEEDED", True, "a quota is used up"),
    (90, "PRODUCER_FENCED", False, "a newer producer with this transactional id took over"),
    (91, "RESOURCE_NOT_FOUND", False, "there is no such resource"),
    (92, "DUPLICATE_RESOURCE", False, "a resource is named twice"),
    (93, "UNACCEPTABLE_CREDENTIAL", False, "the credential does not meet the rules"),
    (94, "INCONSISTENT_VOTER_SET", False, "the sets of voters differ"),
    (95, "INVALID_UPDATE_VERSION", False, "the version of the update is not valid"),
    (96, "FEATURE_UPDATE_FAILED", False, "features could not be updated"),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", False, "the principal of a forwarded request cannot be read"),
    (98, "SNAPSHOT_NOT_FOUND", False, "there is no such snapshot"),
    (99, "POSITION_OUT_OF_RANGE", False, "the position lies outside the snapshot"),
    (100, "UNKNOWN_TOPIC_ID", True, "this broker does not know the topic id"),
    (101, "DUPLICATE_BROKER_REGISTRATION", False, "a broker of this id is registered already"),
    (102, "BROKER_ID_NOT_REGISTERED", False, "no broker of this id is registered"),
    (103, "INCONSISTENT_TOPIC_ID", True, "the log's topic id is not that of the request"),
    (104, "INCONSISTENT_CLUSTER_ID", False, "the cluster id is not this cluster's"),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", False, "there is no such transactional id"),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", True, "the fetch session met inconsistent topic ids"),
    (107, "INELIGIBLE_REPLICA", False, "the new ISR has a replica that may not be in it"),
    (108, "NEW_LEADER_ELECTED", False, "the partition changed, and has a new leader now"),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", False, "the offset is in tiered storage only"),
    (110, "FENCED_MEMBER_EPOCH", False, "the coordinator fenced the member's epoch: leave and join again"),
    (111, "UNRELEASED_INSTANCE_ID", False, "the static instance id is still another member's"),
    (112, "UNSUPPORTED_ASSIGNOR", False, "the group does not support this assignor"),
    (113, "STALE_MEMBER_EPOCH", False, "the member epoch is old: retry with the newest"),
    (114, "MISMATCHED_ENDPOINT_TYPE", False, "the request came to the wrong type of endpoint"),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", False, "this type of endpoint is not known"),
    (116, "UNKNOWN_CONTROLLER_ID", False, "there is no such controller"),
    (117, "UNKNOWN_SUBSCRIPTION_ID", False, "the telemetry subscription has changed"),
    (118, "TELEMETRY_TOO_LARGE", False, "the telemetry is larger than the broker takes"),
    (119, "INVALID_REGISTRATION", False, "the controller refused the broker's registration"),
    (120, "TRANSACTION_ABORTABLE", False, "the transaction must be aborted; then go on"),
    (121, "INVALID_RECORD_STATE", False, "the record's state does not allow this acknowledgement"),
    (122, "SHARE_SESSION_NOT_FOUND", True, "the share session is gone: start a new one"),
    (123, "INVALID_SHARE_SESSION_EPOCH", True, "the share session is at another epoch"),
    (124, "FENCED_STATE_EPOCH", False, "the share coordinator fenced the state's epoch"),
    (125, "INVALID_VOTER_KEY", False, "the voter's key is not that of the receiver"),
    (126, "DUPLICATE_VOTER", False, "the voter is in the set already"),
    (127, "VOTER_NOT_FOUND", False, "the voter is not in the set"),
    (128, "INVALID_REGULAR_EXPRESSION", False, "the regular expression does not compile"),
    (129, "REBOOTSTRAP_REQUIRED", False, "the client must start again from its bootstrap servers"),
    (130, "STREAMS_INVALID_TOPOLOGY", False, "the topology of the streams group is not valid"),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", False, "the epoch of the topology is not valid"),
    (132, "STREAMS_TOPOLOGY_FENCED", False, "the topology is older than the group's"),
    (133, "SHARE_SESSION_LIMIT_REACHED", True, "the broker has as many share sessions as it may"),
)
ERROR_CODES: Mapping[int, ErrorCode] = MappingProxyType({row[0]: ErrorCode(*row) for row in _TABLE})
_BY_NAME = {code.name: code for code in ERROR_CODES.values()}


def error_code(number_or_name: int | str) -> ErrorCode:
    """Return the error code of a number, known or not, or of a name.

    Raises:
        KeyError: there is no code of this name.
    """
    if isinstance(number_or_name, str):
        return _BY_NAME[number_or_name]
    unknown = ErrorCode(number_or_name, f"ERROR_{number_or_name}", False, "an error code newer than this package")
    return ERROR_CODES.get(number_or_name, unknown)
