"""The exceptions of this package. ``ErrorCode`` has Kafka's error codes.

``__all__`` lists the exceptions. Other names are internal to this distribution's packages.
"""

from kafkaframes.errors.codes import COORDINATOR_MOVED_CODES as COORDINATOR_MOVED_CODES
from kafkaframes.errors.codes import LEADER_MOVED_CODES as LEADER_MOVED_CODES
from kafkaframes.errors.codes import MEMBER_FENCED_CODES as MEMBER_FENCED_CODES
from kafkaframes.errors.codes import ErrorCode as ErrorCode
from kafkaframes.errors.exceptions import NO_SUCH_PATH_TEXT as NO_SUCH_PATH_TEXT
from kafkaframes.errors.exceptions import NOT_SEEKABLE_TEXT as NOT_SEEKABLE_TEXT
from kafkaframes.errors.exceptions import (
    AppendRefusedError,
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    CorruptRecordError,
    DamagedChunkError,
    DecodeError,
    EncodeError,
    KafkaframesError,
    LogDirError,
    LostTaskError,
    MaybeWrittenError,
    MissingExtraError,
    MissingSegmentError,
    NetworkError,
    OffsetOutOfRangeError,
    OptionError,
    PartialFailureError,
    ProducerFencedError,
    QuotaExceededError,
    RefusedError,
    SpecError,
    StorageError,
    TopicExistsError,
    TruncatedError,
    UnknownOutcomeError,
    UnknownTopicError,
    UnsupportedFormatError,
)
from kafkaframes.errors.exceptions import RecordRefusal as RecordRefusal
from kafkaframes.errors.exceptions import describe_missing_path as describe_missing_path
from kafkaframes.errors.exceptions import format_path_error as format_path_error
from kafkaframes.errors.exceptions import get_reason as get_reason
from kafkaframes.errors.exceptions import import_extra as import_extra
from kafkaframes.errors.exceptions import to_broker_error as to_broker_error
from kafkaframes.errors.exceptions import to_error_code as to_error_code

__all__ = [
    "AppendRefusedError",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "CorruptRecordError",
    "DamagedChunkError",
    "DecodeError",
    "EncodeError",
    "KafkaframesError",
    "LogDirError",
    "LostTaskError",
    "MaybeWrittenError",
    "MissingExtraError",
    "MissingSegmentError",
    "NetworkError",
    "OffsetOutOfRangeError",
    "OptionError",
    "PartialFailureError",
    "ProducerFencedError",
    "QuotaExceededError",
    "RefusedError",
    "SpecError",
    "StorageError",
    "TopicExistsError",
    "TruncatedError",
    "UnknownOutcomeError",
    "UnknownTopicError",
    "UnsupportedFormatError",
]
