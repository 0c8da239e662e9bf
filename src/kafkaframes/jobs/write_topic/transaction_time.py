"""Choose the time-outs of a sink's transactions, and warn before they are too short. No pyspark.

The brokers abort a transaction that is open for longer than its time-out. A micro-batch whose transaction is aborted
fails, and fails again each time that it is repeated. The time-out is set when a batch begins. Brokers reject a time-out
above their ``transaction.max.timeout.ms`` (15 minutes by default).

If the option ``kafka.transaction.timeout.ms`` is set, its value is the time-out. If the option is not set, the first
batch, whose duration is unknown, gets the brokers' maximum. Later batches get four times the longest recent
transaction, and at least a minute. If the query dies, readers of committed records wait at most this long for its open
transaction.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kafkaframes.client import Admin
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import BrokerError, ErrorCode, KafkaframesError, OptionError
from kafkaframes.scan.topic.options import TopicWriteOptions

BROKER_TIMEOUT_SETTING: Final = "transaction.max.timeout.ms"
TIMEOUT_OPTION: Final = "transaction.timeout.ms"
MIN_TIMEOUT_MS: Final = 60_000  # the default of Kafka's producers
_MAX_DURATION_FACTOR: Final = 4  # the time-out is this multiple of the longest recent transaction
_REMEMBERED_DURATIONS: Final = 5  # number of recent transactions with durations in memory
# A warning is logged after this fraction of the time-out, because a batch may take twice as long as all earlier ones.
_WARNING_FRACTION: Final = 0.5
# Errors that a producer gets after brokers aborted its transaction. They depend on the broker's version and on the next
# request.
_END_OF_TRANSACTION_ERRORS: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class TransactionTimeouts:
    """The time-outs of a query's successive transactions."""

    def __init__(self, *, chosen_ms: int | None = None, limit_ms: int | None = None) -> None:
        """Initialize with the time-out of the options and the brokers' limit.

        None means that the option is not set, or that the limit is unknown.

        Raises:
            OptionError: the time-out exceeds the limit.
        """
        if chosen_ms is not None and limit_ms is not None and chosen_ms > limit_ms:
            raise OptionError(
                f"kafka.{TIMEOUT_OPTION} is {chosen_ms}, which exceeds the brokers' {BROKER_TIMEOUT_SETTING} "
                f"of {limit_ms}; nothing was written"
            )
        self._chosen_ms = chosen_ms
        self._limit_ms = limit_ms
        self._open_ms: deque[int] = deque(maxlen=_REMEMBERED_DURATIONS)

    @classmethod
    def from_options(cls, options: TopicWriteOptions) -> TransactionTimeouts:
        """Create time-outs from the options and from the largest time-out that the cluster allows.

        Raises:
            OptionError: the options' time-out exceeds the limit.
            NetworkError: the cluster cannot be reached.
        """
        values = (
            ProducerSettings.from_options(options.client).transaction_timeout_ms
            if TIMEOUT_OPTION in options.client
            else None
        )
        return cls(chosen_ms=values, limit_ms=fetch_timeout_limit(options))

    @property
    def timeout_ms(self) -> int:
        """The time-out for the next transaction, in milliseconds.

        >>> TransactionTimeouts(limit_ms=900_000).timeout_ms, TransactionTimeouts(chosen_ms=5_000).timeout_ms
        (900000, 5000)
        """
        if self._chosen_ms is not None:
            return self._chosen_ms
        if not self._open_ms:
            return MIN_TIMEOUT_MS if self._limit_ms is None else self._limit_ms
        chosen_ms = max(MIN_TIMEOUT_MS, _MAX_DURATION_FACTOR * max(self._open_ms))
        return chosen_ms if self._limit_ms is None else min(chosen_ms, self._limit_ms)

    def add_duration(self, open_ms: int) -> None:
        """Record how long a transaction was open."""
        self._open_ms.append(open_ms)

    def make_slowness_warning(self, before_ms: int = 0) -> str | None:
        """Return a warning if previous transactions were open for more than half of the limit; otherwise None.

        Args:
            before_ms: duration of the last transaction that an earlier run of the query committed.
        """
        max_ms = max([*self._open_ms, before_ms])
        allowed_ms = self._limit_ms if self._chosen_ms is None else self._chosen_ms
        if allowed_ms is None or max_ms <= _WARNING_FRACTION * allowed_ms:
            return None
        return (
            f"the longest transaction of the previous micro-batches was open for {max_ms / 1000:.0f} s; the limit is "
            f"{allowed_ms / 1000:.0f} s. A transaction that exceeds it fails, and its micro-batch is written again; "
            f"{self._suggest_timeout}"
        )

    def explain_timeout(self, took_ms: float) -> str | None:
        """Return why a batch failed if its transaction has exceeded the time-out, else None."""
        if took_ms <= self.timeout_ms:
            return None
        return (
            f"the batch took {took_ms / 1000:.0f} s, but its transaction could only be open for "
            f"{self.timeout_ms / 1000:.0f} s, so read_committed consumers see none of its rows; {self._suggest_timeout}"
        )

    @property
    def _suggest_timeout(self) -> str:
        lower_limit_text = "limit micro-batches with maxOffsetsPerTrigger or maxBytesPerTrigger"
        if self._chosen_ms is not None and (self._limit_ms is None or self._chosen_ms < self._limit_ms):
            limit_text = f"the brokers' {BROKER_TIMEOUT_SETTING}" + (
                f", {self._limit_ms}" if self._limit_ms is not None else ""
            )
            return f"increase kafka.{TIMEOUT_OPTION}, up to {limit_text}; {lower_limit_text}"
        return f"the limit is the brokers' {BROKER_TIMEOUT_SETTING}; {lower_limit_text}"


def fetch_timeout_limit(options: TopicWriteOptions) -> int | None:
    """Return the brokers' maximum transaction time-out; None if it is not authorized or if old brokers omit it."""
    with Admin(**options.connection) as admin:
        node = admin.describe_cluster().brokers
        try:
            result = admin.describe_configs("broker", str(min(node)), keys=[BROKER_TIMEOUT_SETTING])
        except BrokerError:
            return None
    value = result[BROKER_TIMEOUT_SETTING].value if BROKER_TIMEOUT_SETTING in result else None
    return None if value is None else int(value)


def is_timeout_rejection(error: KafkaframesError) -> bool:
    """Return whether the brokers rejected a time-out above their limit."""
    return isinstance(error, BrokerError) and error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def is_transaction_ended(error: Exception) -> bool:
    """Return whether a batch failed because its transaction had ended.

    Spark's errors contain the text of the error in a task.
    """
    return any(code.name in str(error) for code in _END_OF_TRANSACTION_ERRORS)
