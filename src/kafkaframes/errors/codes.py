"""Kafka's error codes: number, name, meaning, and whether the error is retriable.

Numbers, names and retriability match Kafka's ``Errors``; the messages are written for this package. An unknown
code is valid and is named after its number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

_UNKNOWN_CODE_MESSAGE: Final = "an error code newer than this package"


class ErrorCode(IntEnum):
    """An error code: its number on the wire, ``name``, ``message`` and ``is_retriable``.

    >>> ErrorCode(6).name, ErrorCode(6).is_retriable, ErrorCode(9999).name
    ('NOT_LEADER_OR_FOLLOWER', True, 'ERROR_9999')
    >>> print(ErrorCode["UNKNOWN_MEMBER_ID"])
    UNKNOWN_MEMBER_ID (25): the coordinator does not know this member

    Attributes:
        message: meaning of the code.
        is_retriable: whether the same request may succeed later.
    """

    message: str
    is_retriable: bool

    def __new__(cls, number: int, message: str = _UNKNOWN_CODE_MESSAGE, is_retriable: bool = False) -> ErrorCode:
        """Create a member from its number, its message and whether it is retriable."""
        code = int.__new__(cls, number)
        code._value_, code.message, code.is_retriable = number, message, is_retriable
        return code

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        """Return a member for an unknown number."""
        if not isinstance(value, int):
            return None
        code = int.__new__(cls, value)
        code._name_, code._value_ = f"ERROR_{value}", value
        code.message, code.is_retriable = _UNKNOWN_CODE_MESSAGE, False
        return code

    def __reduce_ex__(self, proto: object) -> tuple[object, ...]:
        """Pickle the number. Python 3.11.2 would pickle the member's name, and unknown codes are not members."""
        return type(self), (int(self),)

    def __str__(self) -> str:
        return f"{self.name} ({int(self)}): {self.message}"

    # number, meaning, True if the same request may succeed later
    UNKNOWN_SERVER_ERROR = -1, "the server failed in a way that no other code names"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the log does not have this offset"
    CORRUPT_MESSAGE = (
        2,
        "a record has an invalid CRC or size, or lacks the key that its topic requires",
        True,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker does not host the topic partition", True
    INVALID_FETCH_SIZE = 4, "the requested fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader: an election is in progress", True
    NOT_LEADER_OR_FOLLOWER = 6, "this broker is not the leader of the partition, or not a replica of it", True
    REQUEST_TIMED_OUT = 7, "the request timed out", True
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available for this partition", True
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than the topic or the broker allows"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to another broker"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata of a committed offset is too large"
    NETWORK_EXCEPTION = 13, "the connection closed before the response", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state", True
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available at the moment", True
    NOT_COORDINATOR = 16, "this broker is not the coordinator", True
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not valid, or the topic is internal"
    RECORD_LIST_TOO_LARGE = 18, "the batches are together larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas requires", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but to fewer in-sync replicas than required", True
    INVALID_REQUIRED_ACKS = 21, "acks is not -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the generation is not the current one of the group"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member and the group have no protocol in common"
    INVALID_GROUP_ID = 24, "the group ID is not valid"
    UNKNOWN_MEMBER_ID = 25, "the coordinator does not know this member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the broker's limits"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the commit is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not authorized for the cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is outside the limits of the topic"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, "this version of the API is not supported"
    TOPIC_ALREADY_EXISTS = 36, "a topic with this name already exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "a configuration is not valid"
    NOT_CONTROLLER = 41, "this is not the controller", True
    INVALID_REQUEST = 42, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the broker's message format does not support this request"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids the request"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the sequence number is not the one that the broker expects"
    DUPLICATE_SEQUENCE_NUMBER = 46, "a batch with this sequence number is already written"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is not the newest"
    INVALID_TXN_STATE = 48, "the state of the transaction does not allow the request"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer ID does not belong to the transactional ID"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is above the broker's limit"
    CONCURRENT_TRANSACTIONS = 51, "another operation on this transaction is in progress", True
    TRANSACTION_COORDINATOR_FENCED = 52, "the coordinator of the transaction is not the current one"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for the transactional ID"
    SECURITY_DISABLED = 54, "security features are disabled"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the disk of the log directory failed", True
    LOG_DIR_NOT_FOUND = 57, "the log directory does not exist on the broker"
    SASL_AUTHENTICATION_FAILED = 58, "the broker rejected the credentials"
    UNKNOWN_PRODUCER_ID = 59, "the broker has no state of the producer ID: its records may have been deleted"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment of the partition is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are disabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the delegation token does not exist"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the principal is neither owner nor renewer of the token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "tokens cannot be requested over this kind of connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "the group does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session does not exist: start a new one", True
    INVALID_FETCH_SESSION_EPOCH = 71, "the epoch of the fetch session is not the expected one", True
    LISTENER_NOT_FOUND = 72, "the leader has no listener with the name of the client's listener", True
    TOPIC_DELETION_DISABLED = 73, "topic deletion is disabled"
    FENCED_LEADER_EPOCH = 74, "the leader epoch of the request is older than the broker's", True
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch of the request is newer than the broker's", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "this version of the request does not support the codec"
    STALE_BROKER_EPOCH = 77, "the broker epoch has changed"
    OFFSET_NOT_AVAILABLE = 78, "the leader's high watermark has not caught up since its election", True
    MEMBER_ID_REQUIRED = 79, "join again with the member ID in this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader was not available", True
    GROUP_MAX_SIZE_REACHED = 81, "the group has the maximum number of members"
    FENCED_INSTANCE_ID = 82, "another member now uses this group instance ID"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that is eligible as leader is available", True
    ELECTION_NOT_NEEDED = 84, "the partition already has its preferred leader", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment of the partition is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic, so its offsets cannot be deleted"
    INVALID_RECORD = 87, "the broker rejected a record"
    UNSTABLE_OFFSET_COMMIT = 88, "offsets of an open transaction are pending", True
    THROTTLING_QUOTA_EXCEEDED = 89, "a throttling quota is exceeded", True
    PRODUCER_FENCED = 90, "a newer producer with this transactional ID fenced this one"
    RESOURCE_NOT_FOUND = 91, "the resource does not exist"
    DUPLICATE_RESOURCE = 92, "the request contains a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, "the sets of voters differ"
    INVALID_UPDATE_VERSION = 95, "the version of the update is not valid"
    FEATURE_UPDATE_FAILED = 96, "features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal of a forwarded request cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "the snapshot does not exist"
    POSITION_OUT_OF_RANGE = 99, "the position is outside of the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker does not know the topic ID", True
    DUPLICATE_BROKER_REGISTRATION = 101, "a broker with this ID is already registered"
    BROKER_ID_NOT_REGISTERED = 102, "no broker with this ID is registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic ID of the log differs from that of the request", True
    INCONSISTENT_CLUSTER_ID = 104, "the cluster ID is not that of this cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "the transactional ID does not exist"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session has inconsistent topic IDs", True
    INELIGIBLE_REPLICA = 107, "the new ISR contains an ineligible replica"
    NEW_LEADER_ELECTED = 108, "the partition has a new leader since the request"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage only"
    FENCED_MEMBER_EPOCH = 110, "the coordinator fenced the member's epoch: leave and join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still uses the group instance ID"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, "the member epoch is old: retry with the newest one"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request was sent to an endpoint of the wrong type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this type of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "the controller ID is unknown"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription has changed"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, "the controller rejected the broker's registration"
    TRANSACTION_ABORTABLE = 120, "the transaction must be aborted; the producer can then continue"
    INVALID_RECORD_STATE = 121, "the record's state does not allow this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "the share session does not exist: start a new one", True
    INVALID_SHARE_SESSION_EPOCH = 123, "the epoch of the share session is not the expected one", True
    FENCED_STATE_EPOCH = 124, "the share coordinator fenced the state's epoch"
    INVALID_VOTER_KEY = 125, "the voter key in the request is not that of the receiver"
    DUPLICATE_VOTER = 126, "the voter is already in the voter set"
    VOTER_NOT_FOUND = 127, "the voter is not in the voter set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression does not compile"
    REBOOTSTRAP_REQUIRED = 129, "the client must bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology of the streams group is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the epoch of the topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology is older than that of the group"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has the maximum number of share sessions", True


# The client's metadata is stale and must be refreshed before a retry (Kafka's InvalidMetadataException).
LEADER_MOVED_CODES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
# The client must look up the coordinator again before a retry, or wait until it is ready.
COORDINATOR_MOVED_CODES: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
# The coordinator does not have the member with this epoch. The member must join again.
MEMBER_FENCED_CODES: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)
