"""Interceptors of producers and consumers (KIP-42): objects that inspect records, and may replace them.

An interceptor has any of the methods ``on_send``, ``on_acknowledgement``, ``on_consume`` and ``on_commit``, with the
semantics of Java's ProducerInterceptor and ConsumerInterceptor. ``on_send_table``, ``on_acknowledgement_table`` and
``on_consume_table`` are the corresponding methods for Arrow tables. Several interceptors are called in order, each with
the result of the one before. An exception in an interceptor is logged; the record or table stays as it was before that
interceptor.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from kafkaframes.client.batches import RecordMetadata
from kafkaframes.client.configured_objects import get_object_name, load_object
from kafkaframes.client.producer_records import CheckedRecord, Headers, check_record, check_table, to_header_pairs
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client.fetched_batches import ConsumerRecord
    from kafkaframes.client.group_offsets import CommittedOffset
    from kafkaframes.client.metadata import TopicPartition

_LOG: Final = logging.getLogger("kafkaframes.client")
_TABLE_HOOK_BY_RECORD_HOOK: Final = {
    "on_send": "on_send_table",
    "on_acknowledgement": "on_acknowledgement_table",
    "on_consume": "on_consume_table",
}
PRODUCER_HOOKS: Final = ("on_send", "on_acknowledgement", "on_send_table", "on_acknowledgement_table")
CONSUMER_HOOKS: Final = ("on_consume", "on_commit", "on_consume_table")


class ProducerRecord(NamedTuple):
    """A record before it is sent, in the form that ``on_send`` receives.

    Attributes:
        topic: name of the topic.
        value: value as bytes; None is a tombstone.
        key: key as bytes.
        headers: pairs of name and bytes.
        partition: partition that the caller named, else None.
        timestamp_ms: timestamp that the caller set, in milliseconds since 1970, else None.
    """

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class _HeaderInterceptor:
    """An interceptor that appends the headers that a function returns for each record."""

    def __init__(self, function: Callable[[ProducerRecord], Headers | None]) -> None:
        self._function = function
        self.__qualname__ = get_object_name(function)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with the headers that the function returns."""
        headers = to_header_pairs(self._function(record))
        return record._replace(headers=(*record.headers, *headers)) if headers else record


class Interceptors:
    """The interceptors of one client, in the order of the setting."""

    def __init__(self, interceptors: Sequence[Any], created_interceptors: Sequence[Any]) -> None:
        """Store the interceptors. The client closes the interceptors that it has created."""
        self._interceptors = interceptors
        self._created_interceptors = created_interceptors
        self._hooks = {
            name: [(entry, getattr(entry, name)) for entry in interceptors if hasattr(entry, name)]
            for name in (*PRODUCER_HOOKS, *CONSUMER_HOOKS)
        }

    @classmethod
    def load_interceptors(cls, setting: str | Sequence[Any], hooks: Sequence[str]) -> Interceptors | None:
        """Return the interceptors that the setting ``interceptors`` names; None if it is empty.

        Args:
            setting: objects, classes without arguments, ``module:name``, or functions that return headers.
            hooks: ``PRODUCER_HOOKS`` or ``CONSUMER_HOOKS``; each interceptor has at least one of them.

        Raises:
            OptionError: a name is unknown, or an object has no method that this client calls.
        """
        names = [name.strip() for name in setting.split(",")] if isinstance(setting, str) else list(setting)
        entries = [_load_interceptor(entry, hooks) for entry in names if entry != ""]
        created_interceptors = [interceptor for interceptor, is_created in entries if is_created]
        return cls([interceptor for interceptor, _ in entries], created_interceptors) if entries else None

    def require_table_hooks(self, method: str, *names: str) -> None:
        """Check that each interceptor with one of the methods ``names`` also has the corresponding method for tables.

        Raises:
            OptionError: an interceptor lacks the method for tables; the error names both methods.
        """
        for name in names:
            for entry, _ in self._hooks[name]:
                if not hasattr(entry, _TABLE_HOOK_BY_RECORD_HOOK[name]):
                    reason = f"interceptor {get_object_name(entry)} has `{name}`, which {method} does not call"
                    raise OptionError(f"{reason}; add the method `{_TABLE_HOOK_BY_RECORD_HOOK[name]}` to it")

    def reject_raw_batches(self, method: str, remedy: str, *names: str) -> None:
        """Reject a method that transfers whole batches if an interceptor must see single records.

        Raises:
            OptionError: an interceptor has one of the methods ``names``, or the corresponding method for tables.
        """
        for name in names:
            for entry, _ in (*self._hooks[name], *self._hooks[_TABLE_HOOK_BY_RECORD_HOOK[name]]):
                reason = f"interceptor {get_object_name(entry)} has `{name}`, and {method} handles batches as bytes"
                raise OptionError(f"{reason}; {remedy}")

    # --------------------------------------------------------------------------------------------------- producers

    def on_send(self, record: ProducerRecord, max_request_size: int) -> ProducerRecord:
        """Return the record that the interceptors send instead of the given one."""
        for entry, hook in self._hooks["on_send"]:
            with _log_failure(entry, "on_send"):
                result = hook(record)
                record = record if result is None else _check_record(result, max_request_size)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Report a record's metadata, or the reason why the record may not be in the log."""
        for entry, hook in self._hooks["on_acknowledgement"]:
            with _log_failure(entry, "on_acknowledgement"):
                hook(metadata, error)

    def on_send_table(
        self, table: pa.Table | pa.RecordBatch, topic: str | None, max_request_size: int
    ) -> pa.Table | pa.RecordBatch:
        """Return the table that the interceptors send instead of the given one, with the same number of rows."""
        for entry, hook in self._hooks["on_send_table"]:
            with _log_failure(entry, "on_send_table"):
                result = hook(table, topic)
                if result is None:
                    continue
                if not isinstance(result, (pa.Table, pa.RecordBatch)) or result.num_rows != table.num_rows:
                    raise TypeError(f"expected a table of {table.num_rows} rows, or None for no change")
                check_table(result, max_request_size)
                table = result
        return table

    def on_acknowledgement_table(self, table: pa.Table | None, error: BaseException | None) -> None:
        """Report the offsets of a table's rows, or the reason why the rows may not be in the log."""
        for entry, hook in self._hooks["on_acknowledgement_table"]:
            with _log_failure(entry, "on_acknowledgement_table"):
                hook(table, error)

    # --------------------------------------------------------------------------------------------------- consumers

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records that the caller gets instead of the given ones."""
        if not records:
            return records
        record_class = type(records[0])
        for entry, hook in self._hooks["on_consume"]:
            with _log_failure(entry, "on_consume"):
                result = hook(list(records))
                if result is None:
                    continue
                if not isinstance(result, (list, tuple)) or not all(isinstance(row, record_class) for row in result):
                    raise TypeError("expected a list of ConsumerRecord, or None for no change")
                records = list(result)
        return records

    def on_consume_table(self, table: pa.Table) -> pa.Table:
        """Return the table that the caller gets instead of the given one, with the same columns."""
        for entry, hook in self._hooks["on_consume_table"] if table.num_rows else ():
            with _log_failure(entry, "on_consume_table"):
                result = hook(table)
                if result is None:
                    continue
                if not isinstance(result, pa.Table) or not result.schema.equals(table.schema):
                    raise TypeError("expected a table with the same columns, or None for no change")
                table = result
        return table

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Report offsets that the coordinator has committed."""
        for entry, hook in self._hooks["on_commit"]:
            with _log_failure(entry, "on_commit"):
                hook(dict(offsets))

    def close(self) -> None:
        """Close the interceptors that the client created, once."""
        created_interceptors, self._created_interceptors = self._created_interceptors, ()
        for entry in created_interceptors:
            if hasattr(entry, "close"):
                with _log_failure(entry, "close"):
                    entry.close()


class AcknowledgementCallback:
    """The callback for one record's result.

    The callback calls ``on_acknowledgement``, and then the caller's ``on_delivery``.

    Attributes:
        partition: the record's partition; -1 until the partition is known.
    """

    __slots__ = ("_interceptors", "_on_delivery", "_topic", "partition")

    def __init__(
        self,
        interceptors: Interceptors,
        record: ProducerRecord,
        on_delivery: Callable[[Exception | None, RecordMetadata | None], object] | None = None,
    ) -> None:
        self._interceptors = interceptors
        self._topic = record.topic
        self._on_delivery = on_delivery
        self.partition = -1 if record.partition is None else record.partition

    def __call__(self, error: Exception | None, metadata: RecordMetadata | None) -> None:
        """Process the record's result."""
        self.acknowledge(error, metadata)
        if self._on_delivery is not None:
            self._on_delivery(error, metadata)

    def acknowledge(self, error: BaseException | None, metadata: RecordMetadata | None = None) -> None:
        """Call the interceptors without ``on_delivery``, as for a record that ``send`` rejects with an error."""
        self._interceptors.on_acknowledgement(metadata or RecordMetadata(self._topic, self.partition, -1, -1), error)


def to_producer_record(record: CheckedRecord, timestamp_ms: int | None) -> ProducerRecord:
    """Return a checked record in the form that ``on_send`` receives, with the timestamp that the caller set."""
    topic, key, value, headers, partition, _, _ = record
    return ProducerRecord(topic, value, key, tuple(headers), partition, timestamp_ms)


def _check_record(record: Any, max_request_size: int) -> ProducerRecord:
    """Check that a result of ``on_send`` can be sent, and return the record with text encoded as UTF-8.

    Raises:
        TypeError: the result is not a record.
        EncodeError: the record cannot be sent.
    """
    if not isinstance(record, ProducerRecord):
        raise TypeError(f"expected a ProducerRecord, or None for no change; it returned {type(record).__name__}")
    return to_producer_record(check_record(*record, max_request_size), record.timestamp_ms)


def _load_interceptor(entry: Any, hooks: Sequence[str]) -> tuple[Any, bool]:
    """Return an interceptor, and whether the client created it."""
    result = load_object("interceptors", entry) if isinstance(entry, str) else entry
    is_created = inspect.isclass(result)
    if is_created:
        try:
            result = result()
        except Exception as error:
            name = get_object_name(result)
            raise OptionError(f"interceptor {name} raised {error!r} when it was created without arguments") from error
    if any(callable(getattr(result, name, None)) for name in hooks):
        return result, is_created
    if callable(result) and "on_send" in hooks and not any(hasattr(result, name) for name in CONSUMER_HOOKS):
        return _HeaderInterceptor(result), is_created
    hook_names = ", ".join(hooks)
    function = ", or a function that returns headers" if "on_send" in hooks else ""
    raise OptionError(
        f"interceptor {get_object_name(result)}: expected an object with one of the methods {hook_names}{function}"
    )


@contextmanager
def _log_failure(interceptor: Any, hook: str) -> Iterator[None]:
    """Log an exception of an interceptor, which must neither lose a record nor stop the client."""
    try:
        yield
    except Exception:
        _LOG.exception("interceptor %s failed in %s; its result is not used", get_object_name(interceptor), hook)
