"""Every exception this package raises on purpose.

* KafkaframesError
    * SpecError             a message JSON file says something Kafka's generator would refuse
    * EncodeError           the caller's value cannot be written at this version
    * DecodeError           bytes from outside break the protocol
        * TruncatedError        ... because they stop too early
        * CorruptRecordError    ... because a CRC, length or count of a record or batch disagrees
    * LogDirError           a log directory, or a file in it, is not what its name says
        * DamagedChunkError     ... a piece of a tiered segment cannot be read
        * StorageError          ... because the disk refused a write: it is full, forbidden, broken, or offline since
    * AppendRefusedError    a broker would not append these records (append.py)
    * UnsupportedFormatError a consumer met a record format that it is not configured to read
    * OffsetOutOfRangeError an offset lies outside of a partition's log
    * OptionError           the caller named an option, path or topic that does not fit
    * MissingExtraError     a feature needs a package that an extra of this one installs
    * NetworkError          a broker cannot be reached, or a connection ended before its answer
        * MaybeWrittenError     ... after a broker may have taken records, or the end of a transaction
    * BrokerError           a broker answered with an error code other than NONE; of those that callers catch:
        * PartialFailureError   ... for some items of a request that has several
        * UnknownTopicError, TopicExistsError, AuthorizationError, AuthenticationError, ProducerFencedError
    * UnknownOutcomeError   whether a table has taken a commit cannot be told
    * LostTaskError         a Spark task was lost while it wrote exactly once, more often than a batch is written anew

The question that decides the class: who is wrong, the spec, the caller, the bytes, the directory, the
installation, or the far side? Kafka's numbered errors are rows of a table, but for the few that callers
tell apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, Self

from kafkaframes.errors.codes import ErrorCode


class KafkaframesError(Exception):
    """The root of the tree: ``except KafkaframesError`` catches all that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:  # an exception's own pickle calls its class with ``args`` alone
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[KafkaframesError], args: tuple[Any, ...], attributes: dict[str, Any]) -> KafkaframesError:
    """Return an error as it was, whatever its class takes."""
    error = kind.__new__(kind)
    super(KafkaframesError, error).__init__(*args)
    error.__dict__.update(attributes)
    return error


class _PathError(KafkaframesError):
    """An error at a place inside a message: a field path, collected on the way up, and perhaps a byte."""

    def __init__(
        self, reason: str, *, position: int | None = None, path: tuple[str | int, ...] = (), file: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.path = path
        self.file = file

    def within(self, step: str | int) -> Self:
        """Prepend the field name or array index that was being handled; return self."""
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


class SpecError(_PathError):
    """A message JSON file says something that Kafka's generator would refuse."""


class EncodeError(_PathError):
    """The caller's value cannot be written at this version; ``path`` names the field.

    ``rows``: of an array of messages, those that have the value.
    """

    rows: tuple[int, ...] = ()


class DecodeError(_PathError):
    """Bytes from outside break the protocol; ``path`` names the field, ``position`` the byte."""


class TruncatedError(DecodeError):
    """The bytes stop before the value does."""


class CorruptRecordError(DecodeError):
    """A CRC, length, count or framing of a record or a batch disagrees with its bytes."""


class LogDirError(_PathError):
    """A log directory, or a file in it, is not what its name says; ``file`` names it."""


class DamagedChunkError(LogDirError):
    """A chunk of a tiered segment cannot be read; ``lost`` are the bytes of the segment that it held."""

    def __init__(self, reason: str, *, lost: tuple[int, int] = (0, 0), **where: Any) -> None:
        super().__init__(reason, **where)
        self.lost = lost


class StorageError(LogDirError):
    """A log directory's disk refused a write (KAFKA_STORAGE_ERROR); the directory is offline unless it is full."""


class UnsupportedFormatError(KafkaframesError):
    """A consumer met records of a format that it is not configured to read, as consumers before 0.10 do (KIP-31).

    The records are intact. The consumer's position stays at the first of them.

    Attributes:
        partition: topic and partition, as ``orders-0``.
        offset: the consumer's position: every record from it on is unread.
        record_format: format of the batch at the position: 0, 1 or 2.
        supported_formats: formats that the consumer reads.
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
    """An offset lies outside of what a partition's log has (OFFSET_OUT_OF_RANGE)."""


class OptionError(KafkaframesError):
    """The caller named an option, a path or a topic that does not fit."""


class MissingExtraError(KafkaframesError, ImportError):
    """A feature needs a package that one of our extras installs; ``instead`` names another way out."""

    def __init__(self, feature: str, extra: str, *, instead: str = "") -> None:
        advice = f", or {instead}" if instead else ""
        super().__init__(f"{feature} needs the extra [{extra}]: pip install 'kafkaframes[{extra}]'{advice}")
        self.feature = feature
        self.extra = extra
        self.instead = instead


def import_extra(feature: str, extra: str, *modules: str) -> Any:
    """Import modules that an extra brings; return the first.

    Raises:
        MissingExtraError: one of them is absent.
    """
    try:
        first, *_ = map(import_module, modules)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error
    return first


class NetworkError(KafkaframesError):
    """A broker cannot be reached, a connection ended before an answer came, or none came in time."""


class BrokerError(KafkaframesError):
    """A broker answered with an error code other than NONE, or in a way that no broker should.

    Attributes:
        code: Kafka's error, None where the broker sent none.
    """

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class PartialFailureError(BrokerError):
    """Some items of an administrative request failed; the others took effect.

    Attributes:
        results: for each item its value, or the ``BrokerError`` that it failed with.
        code: error code of the first item that failed.
    """

    def __init__(self, results: Mapping[Any, Any]) -> None:
        self.results = dict(results)
        errors = self.errors
        first = next(iter(errors.values()))
        super().__init__(f"{len(errors)} of {len(self.results)} failed; the first: {first}", first.code)

    @property
    def errors(self) -> dict[Any, BrokerError]:
        """The items that failed, and their errors."""
        return {item: result for item, result in self.results.items() if isinstance(result, BrokerError)}


class MaybeWrittenError(NetworkError):
    """Records, or the end of a transaction, that a broker may or may not have taken: no answer says which.

    To send them again can write them twice.
    """


class UnknownTopicError(BrokerError):
    """There is no such topic, or no such partition of it."""


class TopicExistsError(BrokerError):
    """A topic that should be made is there already."""


class AuthorizationError(BrokerError):
    """The cluster's rules do not let this user do that."""


class AuthenticationError(BrokerError):
    """A broker does not accept who we say that we are."""


class ProducerFencedError(BrokerError):
    """Another producer of the same ``transactional_id`` has taken over: this one is of no more use."""


_CLASS_OF_CODE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
}


def broker_error(code: int, what: str, said: str | None = None) -> BrokerError:
    """Return the exception for an error code that a broker has answered with, and what it said beside it."""
    known = ErrorCode(code)
    return _CLASS_OF_CODE.get(known, BrokerError)(f"{what} ({said}): {known}" if said else f"{what}: {known}", known)


class LostTaskError(KafkaframesError):
    """A task was lost, or came again: nothing is wrong with the rows, and the whole batch may be written anew."""


class UnknownOutcomeError(KafkaframesError):
    """A commit to a table whose fate is not known: the files that it names must stay."""

    def __init__(self, table: str, run: str, reason: str) -> None:
        super().__init__(
            f"{table}: whether commit {run} was made is unknown ({reason}); its files stay, the next "
            "`incremental` run goes on behind what the table says"
        )


# ---------------------------------------------------------------------------------------------------------------------
# What a broker refuses: the errors with Kafka's code, and the code that stands for any other of ours.

# Kafka's exception -> the error code that a producer is answered with; any other is UNKNOWN_SERVER_ERROR.
_CODES = {
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
    """One record that is at fault: its index in its batch, an error code, and the reason."""

    batch_index: int
    code: ErrorCode
    reason: str


class AppendRefusedError(KafkaframesError):
    """Records that Kafka's append path refuses.

    Attributes:
        exception: the name of the exception that Kafka throws, as brokers' logs have it.
        code: the error code that a producer is answered with.
        record_errors: the records at fault, where the refusal is about records (KIP-467).
        valid_bytes: the size in bytes of the whole, intact batches; ``None`` where one was not intact.
    """

    def __init__(self, exception: str, reason: str, *, record_errors: tuple[RecordRefusal, ...] = ()) -> None:
        super().__init__(reason)
        self.exception = exception
        self.reason = reason
        self.code = _CODES.get(exception, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.record_errors = record_errors
        self.valid_bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.code.name}: {self.reason}"


class RefusedError(KafkaframesError):
    """A request that a coordinator refuses; nothing has changed then.

    Attributes:
        code: Kafka's error.
        reason: the error message of responses that carry one.
    """

    def __init__(self, code: ErrorCode, reason: str = "") -> None:
        super().__init__(reason or str(code))
        self.code = code
        self.reason = reason or code.message


def code_of(error: KafkaframesError) -> ErrorCode:
    """Return the error code that a broker answers for an exception.

    >>> code_of(OffsetOutOfRangeError("gone")).name
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
# Names of settings in messages: below Spark and the command line they stand in backticks, under Python's names.

_NAME: Final = re.compile(r"`([a-z_]+)`")


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a message with the reader's names of settings: an option of Spark's, or a flag.

    >>> with_names("`start`: no such offset; see `kafkaframes info`", {"start": "startingOffsets"})
    'startingOffsets: no such offset; see `kafkaframes info`'
    """
    return _NAME.sub(lambda match: names.get(match[1], match[0]), text)


def rename_settings(error: KafkaframesError, names: Mapping[str, str]) -> None:
    """Have an error speak the reader's names of settings; one without a position keeps its message in ``args``."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        error.reason = with_names(reason, names)  # type: ignore[attr-defined]
    error.args = tuple(with_names(one, names) if isinstance(one, str) else one for one in error.args)
