"""The error codes with which a Kafka broker answers: number, name, what it means, and whether a retry can help.

Facts of Kafka's ``Errors`` (numbers, names, which exceptions are retriable) up to the newest code known here; the words
are ours. A code that is not here is kept as its number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

_UNKNOWN: Final = "an error code newer than this package"


class ErrorCode(IntEnum):
    """An error code: its number on the wire, ``name``, ``message`` and ``is_retriable``.

    >>> ErrorCode(6).name, ErrorCode(6).is_retriable, ErrorCode(9999).name
    ('NOT_LEADER_OR_FOLLOWER', True, 'ERROR_9999')
    >>> print(ErrorCode["UNKNOWN_MEMBER_ID"])
    UNKNOWN_MEMBER_ID (25): the coordinator does not know this member

    Attributes:
        message: what it means.
        is_retriable: whether the same request can succeed later.
    """

    message: str
    is_retriable: bool

    def __new__(cls, number: int, message: str = _UNKNOWN, is_retriable: bool = False) -> ErrorCode:
        """Make a member of a row of the table below."""
        code = int.__new__(cls, number)
        code._value_, code.message, code.is_retriable = number, message, is_retriable
        return code

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        if not isinstance(value, int):
            return None
        code = int.__new__(cls, value)
        code._name_, code._value_ = f"ERROR_{value}", value
        code.message, code.is_retriable = _UNKNOWN, False
        return code

    def __reduce_ex__(self, proto: object) -> tuple[object, ...]:
        """Go to other processes as a number: Python 3.11.2 sends members by name, which unknown codes have not."""
        return type(self), (int(self),)

    def __str__(self) -> str:
        return f"{self.name} ({int(self)}): {self.message}"

    # number, what it means, True where the same request can succeed later
    UNKNOWN_SERVER_ERROR = -1, "the server failed in a way that no other code names"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the log does not have this offset"
    CORRUPT_MESSAGE = 2, "a record failed its CRC, is too large, or lacks a key that it must have", True
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker does not host the topic partition", True
    INVALID_FETCH_SIZE = 4, "the size that was requested is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader: an election is going on", True
    NOT_LEADER_OR_FOLLOWER = (6, "this broker does not lead the partition, or is not the requested replica", True)
    REQUEST_TIMED_OUT = 7, "the time of the request ran out", True
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available for this partition", True
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than the topic or the broker allows"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to another broker"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata beside a committed offset is too large"
    NETWORK_EXCEPTION = 13, "the connection closed before an answer came", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state", True
    COORDINATOR_NOT_AVAILABLE = 15, "there is no coordinator at the moment", True
    NOT_COORDINATOR = 16, "this broker is not the coordinator", True
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not valid, or the topic is internal"
    RECORD_LIST_TOO_LARGE = 18, "the batches are together larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas asks for", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but to fewer replicas in sync than were requested", True
    INVALID_REQUIRED_ACKS = 21, "acks is none of -1, 0 and 1"
    ILLEGAL_GENERATION = 22, "the generation is not the group's"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member's protocols do not fit those of the group"
    INVALID_GROUP_ID = 24, "the group id is not valid"
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
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "a configuration is not valid"
    NOT_CONTROLLER = 41, "this is not the controller", True
    INVALID_REQUEST = 42, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format on the broker cannot serve this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the broker expected another sequence number"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the sequence number was written before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the newest"
    INVALID_TXN_STATE = 48, "the transaction is in no state for this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id is not the one of the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is above the broker's limit"
    CONCURRENT_TRANSACTIONS = 51, "another operation on this transaction is going on", True
    TRANSACTION_COORDINATOR_FENCED = 52, "the coordinator of the transaction is not the current one"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for the transactional id"
    SECURITY_DISABLED = 54, "security features are off"
    OPERATION_NOT_ATTEMPTED = 55, "not tried, because another part of the request failed first"
    KAFKA_STORAGE_ERROR = 56, "the disk of the log failed", True
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "the credentials were refused"
    UNKNOWN_PRODUCER_ID = 59, "the broker has no state for the producer id: its records may be gone"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment of the partition is going on"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the principal is neither owner nor renewer of the token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "tokens cannot be requested over this kind of connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session is gone: start a new one", True
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session is at another epoch", True
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name that the client used", True
    TOPIC_DELETION_DISABLED = 73, "deleting topics is off"
    FENCED_LEADER_EPOCH = 74, "the leader epoch of the request is older than the broker's", True
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch of the request is newer than the broker's", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the version of the request does not allow this codec"
    STALE_BROKER_EPOCH = 77, "the broker epoch has changed"
    OFFSET_NOT_AVAILABLE = 78, "the leader's high watermark has not caught up since its election", True
    MEMBER_ID_REQUIRED = 79, "join again with the member id of this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader was not available", True
    GROUP_MAX_SIZE_REACHED = 81, "the group has as many members as it may"
    FENCED_INSTANCE_ID = 82, "another member took over this static instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may lead is available", True
    ELECTION_NOT_NEEDED = 84, "the partition already has the leader it should have", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment of the partition is going on"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic, so its offsets cannot be deleted"
    INVALID_RECORD = 87, "the broker refused a record"
    UNSTABLE_OFFSET_COMMIT = 88, "a transaction has offsets that are not decided yet", True
    THROTTLING_QUOTA_EXCEEDED = 89, "a quota is used up", True
    PRODUCER_FENCED = 90, "a newer producer with this transactional id took over"
    RESOURCE_NOT_FOUND = 91, "there is no such resource"
    DUPLICATE_RESOURCE = 92, "a resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the rules"
    INCONSISTENT_VOTER_SET = 94, "the sets of voters differ"
    INVALID_UPDATE_VERSION = 95, "the version of the update is not valid"
    FEATURE_UPDATE_FAILED = 96, "features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal of a forwarded request cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker does not know the topic id", True
    DUPLICATE_BROKER_REGISTRATION = 101, "a broker of this id is registered already"
    BROKER_ID_NOT_REGISTERED = 102, "no broker of this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the log's topic id is not that of the request", True
    INCONSISTENT_CLUSTER_ID = 104, "the cluster id is not this cluster's"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session met inconsistent topic ids", True
    INELIGIBLE_REPLICA = 107, "the new ISR has a replica that may not be in it"
    NEW_LEADER_ELECTED = 108, "the partition changed, and has a new leader now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage only"
    FENCED_MEMBER_EPOCH = 110, "the coordinator fenced the member's epoch: leave and join again"
    UNRELEASED_INSTANCE_ID = 111, "the static instance id is still another member's"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, "the member epoch is old: retry with the newest"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request came to the wrong type of endpoint"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this type of endpoint is not known"
    UNKNOWN_CONTROLLER_ID = 116, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription has changed"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the broker takes"
    INVALID_REGISTRATION = 119, "the controller refused the broker's registration"
    TRANSACTION_ABORTABLE = 120, "the transaction must be aborted; then go on"
    INVALID_RECORD_STATE = 121, "the record's state does not allow this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "the share session is gone: start a new one", True
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session is at another epoch", True
    FENCED_STATE_EPOCH = 124, "the share coordinator fenced the state's epoch"
    INVALID_VOTER_KEY = 125, "the voter's key is not that of the receiver"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression does not compile"
    REBOOTSTRAP_REQUIRED = 129, "the client must start again from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology of the streams group is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the epoch of the topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology is older than the group's"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has as many share sessions as it may", True


# The client's metadata is old: it must be read anew before a retry (Kafka's InvalidMetadataException).
LEADER_MOVED: Final = frozenset(
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
# The coordinator must be looked up anew, or is not ready.
COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
