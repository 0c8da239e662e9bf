"""The exceptions of this package.

* KafkaframesError
    * SpecError             a message spec is invalid
    * EncodeError           a value cannot be encoded at this version
    * DecodeError           data is invalid
        * TruncatedError        ... because it ends too early
        * CorruptRecordError    ... because a CRC, length or count of a record or batch is wrong
    * LogDirError           a log directory, or a file in it, is invalid
        * DamagedChunkError     ... because a chunk of a tiered segment cannot be read
        * MissingSegmentError   ... because a tiered store lacks a segment
        * StorageError          ... because a write to its disk failed, now or earlier
    * AppendRefusedError    a broker would reject these records
    * RefusedError          a coordinator rejects a request
    * UnsupportedFormatError a consumer is not configured to read a record format
    * OffsetOutOfRangeError an offset is outside of a partition's log
    * OptionError           an option, path or topic of the caller is invalid
    * MissingExtraError     a feature requires a package that an extra installs
    * NetworkError          a broker cannot be reached, or a connection closed before the response
        * MaybeWrittenError     ... after a broker may have appended the records or ended the transaction
    * BrokerError           a broker returned an error code. Subclasses exist for the errors that callers handle:
        * PartialFailureError   ... some items of a request failed
        * UnknownTopicError, TopicExistsError, AuthorizationError, AuthenticationError, ProducerFencedError,
          QuotaExceededError
    * UnknownOutcomeError   it is unknown whether a table contains a commit
    * LostTaskError         a Spark task was lost during an exactly-once write, and the retries are used up
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, Self, cast

from kafkaframes.errors.codes import ErrorCode


class KafkaframesError(Exception):
    """Base class of all exceptions that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:  # the method of ``Exception`` would call the class with ``args`` only
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(kind: type[KafkaframesError], args: tuple[Any, ...], attributes: dict[str, Any]) -> KafkaframesError:
    """Unpickle an error without calling its ``__init__``."""
    error = kind.__new__(kind)
    super(KafkaframesError, error).__init__(*args)
    error.__dict__.update(attributes)
    return error


class _LocatedError(KafkaframesError):
    """An error with its location: the path of a field, and optionally a file and a byte position."""

    def __init__(
        self, reason: str, *, position: int | None = None, path: tuple[str | int, ...] = (), file: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.path = path
        self.file = file

    def within(self, step: str | int) -> Self:
        """Prepend a field name or an array index to the path, and return the error itself."""
        self.path = (step, *self.path)
        return self

    def __str__(self) -> str:
        parts = []
        if self.file is not None:
            parts.append(self.file)
        if self.path:
            parts.append("$" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.path))
        if self.position is not None:
            parts.append(f"byte {self.position}")
        return f"{self.reason} (at {', '.join(parts)})" if parts else self.reason


class SpecError(_LocatedError):
    """A message spec is invalid. Kafka's generator would reject the spec, too."""


class EncodeError(_LocatedError):
    """A value cannot be encoded at this version.

    Attributes:
        path: path of the field.
        rows: indexes of the messages with the value, if several messages were encoded.
    """

    rows: tuple[int, ...] = ()


class DecodeError(_LocatedError):
    """Data is invalid. ``path`` is the field's path, and ``position`` is the position of the field's first byte."""


class TruncatedError(DecodeError):
    """The data ends before the value does."""


class CorruptRecordError(DecodeError):
    """A CRC, length, count or framing of a record or batch does not match its bytes."""


NO_SUCH_PATH_TEXT: Final = "no such file or directory"  # the text of all errors about a missing path
NOT_SEEKABLE_TEXT: Final = "is a pipe or a device, which cannot be read at several positions; write the data to a file"


_ADDRESS: Final = re.compile(r"[\w.-]+:\d{1,5}(,[\w.-]+:\d{1,5})*", re.ASCII)  # addresses of brokers


def describe_missing_path(path: str) -> str:
    """Return the reason for a missing log path, with a hint if it begins with ``~`` or is a broker's address.

    >>> describe_missing_path("kafka-logs"), describe_missing_path("~/kafka-logs")
    ('no such file or directory', 'no such file or directory; `~` is not expanded, use os.path.expanduser')
    """
    if path.startswith("~"):
        return f"{NO_SUCH_PATH_TEXT}; `~` is not expanded, use os.path.expanduser"
    if _ADDRESS.fullmatch(path):
        return f"{NO_SUCH_PATH_TEXT}; scan_topic and `kafkaframes consume` read topics of a broker"
    return NO_SUCH_PATH_TEXT


def format_path_error(error: OSError, path: str) -> str:
    """Return an operating system's error about a path as text.

    The text of a missing path is ``NO_SUCH_PATH_TEXT``, and that of a pipe is ``NOT_SEEKABLE_TEXT``.
    """
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        reason = NO_SUCH_PATH_TEXT
    elif error.errno == errno.ESPIPE:
        reason = NOT_SEEKABLE_TEXT
    return f"{reason} (at {path})"


class LogDirError(_LocatedError):
    """A log directory, or a file in it, is invalid. ``file`` is the file's path."""


class MissingSegmentError(LogDirError):
    """A tiered store lacks a segment, or offsets between two segments.

    Attributes:
        offsets: first and last missing offset; None if they are unknown.
    """

    def __init__(
        self,
        reason: str,
        *,
        offsets: tuple[int, int] | None = None,
        position: int | None = None,
        path: tuple[str | int, ...] = (),
        file: str | None = None,
    ) -> None:
        super().__init__(reason, position=position, path=path, file=file)
        self.offsets = offsets


class DamagedChunkError(LogDirError):
    """A chunk of a tiered segment cannot be read. ``lost`` is the chunk's byte range in the segment."""

    def __init__(self, reason: str, *, lost: tuple[int, int] = (0, 0), **where: Any) -> None:
        super().__init__(reason, **where)
        self.lost = lost


class StorageError(LogDirError):
    """A write to a log directory failed (KAFKA_STORAGE_ERROR). The directory is offline unless the disk is full."""


class UnsupportedFormatError(KafkaframesError):
    """A consumer fetched records in a format that it is not configured to read (KIP-31).

    The records are intact. The consumer's position stays at the first record in this format.

    Attributes:
        partition: topic and partition, such as ``orders-0``.
        offset: position of the consumer. The records from this offset on are unread.
        record_format: format of the batch at the position: 0, 1 or 2.
        supported_formats: formats that the consumer is configured to read.
    """

    def __init__(self, partition: str, offset: int, record_format: int, supported_formats: tuple[int, ...]) -> None:
        formats = " and ".join(map(str, supported_formats))
        super().__init__(
            f"unsupported record format {record_format} in {partition} at offset {offset}: this consumer reads "
            f"format {formats} (`formats`)"
        )
        self.partition = partition
        self.offset = offset
        self.record_format = record_format
        self.supported_formats = supported_formats


class OffsetOutOfRangeError(KafkaframesError):
    """An offset is outside of a partition's log (OFFSET_OUT_OF_RANGE)."""


class OptionError(KafkaframesError):
    """An option, a path or a topic that the caller specified is invalid."""


class MissingExtraError(KafkaframesError, ImportError):
    """A feature requires a package that an extra of kafkaframes installs. ``instead`` is an alternative."""

    def __init__(self, feature: str, extra: str, *, instead: str = "") -> None:
        advice = f", or {instead}" if instead else ""
        super().__init__(f"{feature} requires the extra [{extra}]: pip install 'kafkaframes[{extra}]'{advice}")
        self.feature = feature
        self.extra = extra
        self.instead = instead


def import_extra(feature: str, extra: str, *modules: str) -> Any:
    """Import modules that an extra installs, and return the first.

    Raises:
        MissingExtraError: a module is not installed.
    """
    try:
        first, *_ = map(import_module, modules)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error
    return first


class NetworkError(KafkaframesError):
    """A broker cannot be reached, or a connection closed or timed out before the response."""


class BrokerError(KafkaframesError):
    """A broker returned an error code or an invalid response.

    Attributes:
        code: Kafka's error code; None if the response is invalid.
    """

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class PartialFailureError(BrokerError):
    """Some items of an administrative request failed. The remaining items took effect.

    If all failed items have errors of one class, such as ``TopicExistsError``, an ``except`` of this class catches the
    failure, too.

    Attributes:
        results: the value of each item, or the ``BrokerError`` or ``NetworkError`` with which it failed.
        code: error code of the first item that failed; None if no broker responded.
    """

    def __new__(cls, results: Mapping[Any, Any]) -> Self:
        """Return an instance that is also an instance of the class that all errors share."""
        kinds = {type(error) for error in _errors_of(results).values()}
        subclass = _PARTIAL_FAILURE_CLASSES.get(kinds.pop()) if len(kinds) == 1 else None
        return cast("Self", super().__new__(subclass or cls))

    def __init__(self, results: Mapping[Any, Any]) -> None:
        self.results = dict(results)
        errors = self.errors
        first = next(iter(errors.values()))
        code = first.code if isinstance(first, BrokerError) else None
        super().__init__(f"{len(errors)} of {len(self.results)} items failed; the first: {first}", code)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_partial_failure, (self.args, self.__dict__)

    @property
    def errors(self) -> dict[Any, BrokerError | NetworkError]:
        """The errors for the items that failed."""
        return _errors_of(self.results)


def _errors_of(results: Mapping[Any, Any]) -> dict[Any, BrokerError | NetworkError]:
    return {item: result for item, result in results.items() if isinstance(result, BrokerError | NetworkError)}


def _restore_partial_failure(args: tuple[Any, ...], attributes: dict[str, Any]) -> PartialFailureError:
    error = PartialFailureError.__new__(PartialFailureError, attributes["results"])
    error.args = args
    error.__dict__.update(attributes)
    return error


class MaybeWrittenError(NetworkError):
    """It is unknown whether a broker appended records or ended a transaction: the response is missing.

    If the caller sends the records again, they may be written twice.
    """


class UnknownTopicError(BrokerError):
    """The topic or the partition does not exist."""


class TopicExistsError(BrokerError):
    """A topic with the name of the new topic already exists."""


class AuthorizationError(BrokerError):
    """The client's user is not authorized for the operation."""


class AuthenticationError(BrokerError):
    """A broker rejected the client's credentials or SASL mechanism, or the TLS handshake failed.

    As in Java's clients, the connection is not retried, because only other settings or certificates can help.
    """


class ProducerFencedError(BrokerError):
    """A newer producer with the same ``transactional_id`` has fenced this producer, which can only be closed."""


class QuotaExceededError(BrokerError):
    """The controller rejects a change because a client has exceeded its ``controller_mutation_rate`` (KIP-599).

    Attributes:
        throttle_time_ms: time after which the broker accepts the change, in milliseconds.
    """

    throttle_time_ms: int = 0


_EXCEPTION_CLASS_BY_CODE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: QuotaExceededError,
}
_PARTIAL_FAILURE_CLASSES: Final[dict[type[Any], type[PartialFailureError]]] = {
    kind: type("PartialFailureError", (PartialFailureError, kind), {"__doc__": PartialFailureError.__doc__})
    for kind in (NetworkError, *dict.fromkeys(_EXCEPTION_CLASS_BY_CODE.values()))
}


def to_broker_error(code: int, subject: str, detail: str | None = None) -> BrokerError:
    """Return the exception for an error code.

    Args:
        code: error code in the broker's response.
        subject: topic, request or other subject of the failure, with which the message begins.
        detail: error message in the broker's response, if any.
    """
    error = ErrorCode(code)
    kind = _EXCEPTION_CLASS_BY_CODE.get(error, BrokerError)
    return kind(f"{subject} ({detail}): {error}" if detail else f"{subject}: {error}", error)


class LostTaskError(KafkaframesError):
    """A Spark task was lost or started again. The rows are valid, and the whole micro-batch can be written again."""


class UnknownOutcomeError(KafkaframesError):
    """It is unknown whether a table contains a commit. The files of the commit must not be deleted."""

    def __init__(self, table: str, run: str, reason: str) -> None:
        super().__init__(
            f"{table}: it is unknown whether commit {run} succeeded ({reason}); its files are kept, and the next "
            "`incremental` run continues after the table's last commit"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Rejections by a broker, with Kafka's error codes.

# Kafka's exception -> error code in the response to the producer; UNKNOWN_SERVER_ERROR for all other exceptions.
_CODE_BY_KAFKA_EXCEPTION = {
    "CorruptRecordException": ErrorCode.CORRUPT_MESSAGE,
    "InvalidRecordException": ErrorCode.INVALID_RECORD,
    "InvalidTimestampException": ErrorCode.INVALID_TIMESTAMP,
    "RecordTooLargeException": ErrorCode.MESSAGE_TOO_LARGE,
    "UnsupportedCompressionTypeException": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "UnsupportedForMessageFormatException": ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    "RecordBatchTooLargeException": ErrorCode.RECORD_LIST_TOO_LARGE,
    "OutOfOrderSequenceException": ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "InvalidProducerEpochException": ErrorCode.INVALID_PRODUCER_EPOCH,
    "InvalidTxnStateException": ErrorCode.INVALID_TXN_STATE,
    "TransactionCoordinatorFencedException": ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


class RecordRefusal(NamedTuple):
    """An invalid record: its index in its batch, an error code, and the reason."""

    batch_index: int
    code: ErrorCode
    reason: str


class AppendRefusedError(KafkaframesError):
    """A check of Kafka's append path rejects the records, and none of them is appended.

    Attributes:
        exception: name of the exception that Kafka throws, as in broker logs.
        code: error code in the response to the producer.
        record_errors: the invalid records, if the error is about single records (KIP-467).
        valid_bytes: size in bytes of the complete, valid batches; None if a batch is invalid.
    """

    def __init__(self, exception: str, reason: str, *, record_errors: tuple[RecordRefusal, ...] = ()) -> None:
        super().__init__(reason)
        self.exception = exception
        self.reason = reason
        self.code = _CODE_BY_KAFKA_EXCEPTION.get(exception, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.record_errors = record_errors
        self.valid_bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.code.name}: {self.reason}"


class RefusedError(KafkaframesError):
    """A coordinator rejects a request. The coordinator's state is unchanged.

    Attributes:
        code: Kafka's error code.
        reason: error message, for responses that have such a field.
    """

    def __init__(self, code: ErrorCode, reason: str = "") -> None:
        super().__init__(reason or str(code))
        self.code = code
        self.reason = reason or code.message


def to_error_code(error: KafkaframesError) -> ErrorCode:
    """Return the error code with which a broker reports an exception to a client.

    >>> to_error_code(OffsetOutOfRangeError("gone")).name
    'OFFSET_OUT_OF_RANGE'
    """
    if isinstance(error, AppendRefusedError | RefusedError):
        return error.code
    if isinstance(error, OffsetOutOfRangeError):
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if isinstance(error, LogDirError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptRecordError) else ErrorCode.UNKNOWN_SERVER_ERROR


# ---------------------------------------------------------------------------------------------------------------------
# Messages contain the Python names of settings in backticks. Spark and the command line replace them with their names.

_SETTING_NAME_PATTERN: Final = re.compile(r"`([a-z_]+)`(=false)?")


def replace_setting_names(text: str, names: Mapping[str, str]) -> str:
    """Replace the Python names of settings in a message with the names of Spark options or command-line flags.

    >>> replace_setting_names("`start`: no such offset; see `kafkaframes info`", {"start": "startingOffsets"})
    'startingOffsets: no such offset; see `kafkaframes info`'
    >>> replace_setting_names("`verify_crc`=false reads it", {"verify_crc=false": "--no-verify-crc"})
    '--no-verify-crc reads it'

    Args:
        text: message.
        names: names of Spark options or command-line flags, by Python name. ``NAME=false`` is the name of a flag that
            disables a setting.
    """

    def replace_match(match: re.Match[str]) -> str:
        disabled = match[2] or ""
        if disabled and f"{match[1]}{disabled}" in names:
            return names[f"{match[1]}{disabled}"]
        return names[match[1]] + disabled if match[1] in names else match[0]

    return _SETTING_NAME_PATTERN.sub(replace_match, text)


def get_reason(error: KafkaframesError) -> str:
    """Return an error's message without the file and position that some errors add to it.

    >>> get_reason(LogDirError("truncated", file="0.log")), get_reason(KafkaframesError("closed"))
    ('truncated', 'closed')
    """
    reason: str = getattr(error, "reason", str(error))
    return reason


def rename_settings(error: KafkaframesError, names: Mapping[str, str]) -> None:
    """Replace the names of settings in an error's message with the names of Spark options or command-line flags."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        error.reason = replace_setting_names(reason, names)  # type: ignore[attr-defined]
    error.args = tuple(replace_setting_names(part, names) if isinstance(part, str) else part for part in error.args)
