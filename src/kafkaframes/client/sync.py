"""Producer, Consumer and Admin for plain code: each runs its asyncio twin on a thread of its own.

Every method does what the twin's does and raises what it raises; its docstring is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Self, Unpack
from uuid import UUID

import pyarrow as pa

from kafkaframes.client.admin import AsyncAdmin, ConfigEntry, GroupDescription, ListedGroup, NewTopic
from kafkaframes.client.batches import Producer as ProducerIdentity
from kafkaframes.client.consumer import ARROW_COLUMNS, AsyncConsumer, Listener
from kafkaframes.client.fetched import ConsumerRecord, Fetched
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
from kafkaframes.client.loop import LoopThread
from kafkaframes.client.metadata import Cluster, TopicMetadata, TopicPartition
from kafkaframes.client.offsets import OffsetAndTimestamp
from kafkaframes.client.options import ClientOptions, ConsumerOptions, ProducerOptions, Servers
from kafkaframes.client.outgoing import Headers, checked_record
from kafkaframes.client.producer import AsyncProducer, TransactionRefused
from kafkaframes.client.record_futures import OnDelivery, RecordFuture, ThreadResults


class Producer:
    """Writes records to topics; see ``AsyncProducer``."""

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ProducerOptions]) -> None:
        """Take settings as keywords, or a dict of properties as other clients do.

        Args:
            bootstrap_servers: ``host:port``, several with commas or in a list, or a dict of properties such as
                ``{"bootstrap.servers": ..., "client.id": ...}``.
            options: see ``ProducerOptions``.

        Raises:
            OptionError: a name that no client has, a value that does not fit, or a property that is refused here.
        """
        self._twin = AsyncProducer(bootstrap_servers, **options)
        self._accumulator = self._twin._accumulator
        self._accumulator.results = ThreadResults
        self._largest = self._twin.settings.max_request_size
        self._loop = LoopThread(_name(self), closing=self._twin.close)
        self._accumulator.wake = partial(self._loop.soon, self._accumulator.wake)

    def __enter__(self) -> Self:
        try:
            self._loop.call(self._twin.start())
        except BaseException:
            self.close(flush=False)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(flush=kind is None)

    def close(self, *, flush: bool = True) -> None:
        """Send what waits (unless ``flush`` is False) and end."""
        self._loop.end(partial(self._twin.close, flush=flush))

    def __del__(self) -> None:
        _abandon(self)

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Queue one record; return a future of where it went: a ``concurrent.futures.Future``.

        Any thread may call it. It returns at once, unless ``buffer_memory`` is full or a topic's partitions are not
        known yet: then it waits, for ``max_block_ms`` at most. The future ends in ``MaybeWrittenError`` if no answer
        says whether the record was written; in any other error it was not.

        Args:
            topic: its name.
            value: bytes or text; None is a tombstone.
            key: as ``value``; chooses the partition.
            headers: a dict, or pairs of a name and bytes, text or None.
            partition: its number; without it the key decides, and without a key chance.
            timestamp_ms: milliseconds since 1970; now if None.
            on_delivery: called with the error (None for none) and a ``RecordMetadata`` (None after an error), in the
                client's own thread: it should be short, and must not wait for the client.

        Raises:
            BrokerError: there is no such topic or partition.
            EncodeError: an argument is of a wrong type; the record is larger than ``max_request_size``, or does not
                fit into the format.
            NetworkError: it has waited for ``max_block_ms``; the client was closed.
        """
        record = checked_record(topic, value, key, headers, partition, timestamp_ms, self._largest)
        while (future := self._accumulator.add(record, self, on_delivery)) is None:
            try:
                self._loop.call(self._twin._prepare(record))
            except TransactionRefused as refused:
                results = ThreadResults(TopicPartition(topic, -1), [])
                future = results.future(self, on_delivery)
                results.failed(refused.reason)
                break
        sent: RecordFuture = future
        return sent

    def send_arrow(self, table: pa.Table | pa.RecordBatch, *, topic: str | None = None) -> pa.Table:
        """Write a table's rows and wait; see ``AsyncProducer.send_arrow``."""
        return self._loop.call(self._twin.send_arrow(table, topic=topic))

    def queue_arrow(self, table: pa.Table | pa.RecordBatch, *, topic: str | None = None) -> Future[pa.Table]:
        """Begin to write a table's rows behind those of earlier calls; return a future of what ``send_arrow`` does.

        The table is held until then: wait for some where there are many. ``flush``, ``close`` and the end of a
        transaction wait for all.
        """
        return self._loop.begin(self._twin.send_arrow(table, topic=topic))

    def send_batches(self, partition: TopicPartition, data: bytes) -> list[int]:
        """Write whole batches and wait; see ``AsyncProducer.send_batches``."""
        return self._loop.call(self._twin.send_batches(partition, data))

    def flush(self) -> None:
        """Wait until everything that was sent has an answer."""
        self._loop.call(self._twin.flush())

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """List the partitions of a topic; brokers may make it (``auto.create.topics.enable``)."""
        return self._loop.call(self._twin.partitions_for(topic))

    def topic_id(self, topic: str) -> UUID:
        """Return a topic's id; see ``AsyncProducer.topic_id``."""
        return self._loop.call(self._twin.topic_id(topic))

    @property
    def producer(self) -> ProducerIdentity:
        """Producer id and epoch, -1 where there are none."""
        return self._twin.producer

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._loop.call(self._twin.begin_transaction())

    def commit_transaction(self) -> None:
        """Send what waits and commit."""
        self._loop.call(self._twin.commit_transaction())

    def abort_transaction(self) -> None:
        """Abort the transaction."""
        self._loop.call(self._twin.abort_transaction())

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, int], group: str | GroupMember) -> None:
        """Commit a group's offsets with this transaction."""
        self._loop.call(self._twin.send_offsets_to_transaction(offsets, group))


class Consumer:
    """Reads records of topics; see ``AsyncConsumer``."""

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ConsumerOptions]) -> None:
        """Take settings as keywords, or a dict of properties as other clients do.

        Args:
            bootstrap_servers: ``host:port``, several with commas or in a list, or a dict of properties such as
                ``{"bootstrap.servers": ..., "client.id": ...}``.
            options: see ``ConsumerOptions``.

        Raises:
            OptionError: a name that no client has, a value that does not fit, or a property that is refused here.
        """
        self._twin = AsyncConsumer(bootstrap_servers, **options)
        self._loop = LoopThread(_name(self), closing=partial(self._twin.close, commit=False))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(commit=kind is None)

    def close(self, *, commit: bool = True) -> None:
        """Commit (where that is automatic, and unless ``commit`` is False) and end; see ``AsyncConsumer.close``."""
        self._loop.end(partial(self._twin.close, commit=commit))

    def __del__(self) -> None:
        _abandon(self)

    def assign(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]] | Mapping[TopicPartition, int],
        *,
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Read these partitions and no others; see ``AsyncConsumer.assign``."""
        self._loop.call(self._twin.assign(partitions, ends=ends))

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
    ) -> None:
        """Join the group ``group_id``; its members share the topics' partitions out. The first read waits for that.

        Args:
            topics: names.
            pattern: or a regular expression that whole names match; new topics are seen when metadata is.
            on_assign, on_revoke: called with the partitions that come and go, in the client's own thread: they must
                not call this consumer, which waits for them.

        Raises:
            OptionError: there is no group, or neither topics nor a pattern.
            NetworkError, BrokerError: no broker can be reached in ``default_api_timeout_ms``, or it refuses us.
        """
        joining = self._twin.subscribe(topics, pattern=pattern, on_assign=on_assign, on_revoke=on_revoke)
        self._loop.call(joining)

    def unsubscribe(self) -> None:
        """Leave the group and read nothing."""
        self._loop.call(self._twin.unsubscribe())

    def assignment(self) -> list[TopicPartition]:
        """List the partitions that are read."""
        return self._twin.assignment()

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Go on from ``offset``."""
        self._loop.call(_run(self._twin.seek, partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first offset."""
        self._loop.call(self._twin.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the end."""
        self._loop.call(self._twin.seek_to_end(*partitions))

    def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Return the offset of the next record that will be given."""
        offset: int = self._loop.call(_run(self._twin.position, partition))
        return offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Give nothing of these partitions until ``resume``."""
        self._loop.call(_run(self._twin.pause, *partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions."""
        self._loop.call(_run(self._twin.resume, *partitions))

    def partitions_for(self, *topics: str) -> list[TopicPartition]:
        """List the partitions of a topic, or of several, one after the other."""
        return self._loop.call(self._twin.partitions_for(*topics))

    def topics(self) -> list[str]:
        """List the topics that this client may see."""
        return self._loop.call(self._twin.topics())

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        """Return the ids of topics as brokers have them now; see ``AsyncConsumer.topic_ids``."""
        return self._loop.call(self._twin.topic_ids(topics))

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return for each partition the first offset at or after a time in milliseconds."""
        return self._loop.call(self._twin.offsets_for_times(times_ms))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self._loop.call(self._twin.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where each partition ends."""
        return self._loop.call(self._twin.end_offsets(partitions))

    def skip_gap(self, partition: TopicPartition | tuple[str, int], end: int) -> bool:
        """Go on from ``end`` if the log holds nothing before it; see ``AsyncConsumer.skip_gap``."""
        return self._loop.call(self._twin.skip_gap(partition, end))

    def fetch(self, timeout_ms: int | None = 1_000) -> Fetched | None:
        """Return the next partition's batches as bytes."""
        return self._loop.call(self._twin.fetch(timeout_ms))

    def fetch_arrow(
        self,
        timeout_ms: int | None = 1_000,
        *,
        columns: Sequence[str] = ARROW_COLUMNS,
        max_bytes: int = 67_108_864,
    ) -> pa.Table:
        """Return the records that are there, as columns; a table of no rows where nothing came in time.

        Args:
            timeout_ms: how long to wait for the first; what has arrived by then is in the result too.
            columns: ``topic``, ``partition`` and those of ``kafkaframes.read_records``.
            max_bytes: of fetched batches; one answer of a broker is always taken.

        Raises:
            BrokerError: a partition cannot be read.
            CorruptRecordError: a batch is damaged, or of a format that this consumer was told not to read.
        """
        return self._loop.call(self._twin.fetch_arrow(timeout_ms, columns=columns, max_bytes=max_bytes))

    def poll(self, timeout_ms: int | None = 1_000, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as Python values."""
        return self._loop.call(self._twin.poll(timeout_ms, max_records=max_records))

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Commit offsets for the group."""
        self._loop.call(self._twin.commit(offsets))

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return what the group has committed."""
        return self._loop.call(self._twin.committed(partitions))

    def group_metadata(self) -> GroupMember:
        """Return what a transactional producer wants to know of this consumer."""
        return self._twin.group_metadata()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            records = self._twin._next_records()
            if records is None or self._twin._needs_attention():
                self._loop.call(self._twin._hold(None))
            else:
                yield from islice(records, self._twin.settings.max_poll_records)


class Admin:
    """Looks after a cluster; see ``AsyncAdmin``."""

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ClientOptions]) -> None:
        """Take settings as keywords, or a dict of properties as other clients do.

        Args:
            bootstrap_servers: ``host:port``, several with commas or in a list, or a dict of properties such as
                ``{"bootstrap.servers": ..., "client.id": ...}``.
            options: see ``ClientOptions``.

        Raises:
            OptionError: a name that no client has, a value that does not fit, or a property that is refused here.
        """
        self._twin = AsyncAdmin(bootstrap_servers, **options)
        self._loop = LoopThread(_name(self), closing=self._twin.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End."""
        self._loop.end(self._twin.close)

    def __del__(self) -> None:
        _abandon(self)

    def describe_cluster(self) -> Cluster:
        """Return brokers, controller, cluster id and topics, as metadata has them."""
        return self._loop.call(self._twin.describe_cluster())

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """List the topics."""
        return self._loop.call(self._twin.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Return partitions, leaders and replicas of topics."""
        return self._loop.call(self._twin.describe_topics(names))

    def create_topics(self, topics: Iterable[NewTopic | str], *, validate_only: bool = False) -> None:
        """Create topics; a name alone takes the broker's defaults."""
        self._loop.call(self._twin.create_topics(topics, validate_only=validate_only))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics."""
        self._loop.call(self._twin.delete_topics(names))

    def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Give topics more partitions: ``counts`` is how many they have afterwards."""
        self._loop.call(self._twin.create_partitions(counts, validate_only=validate_only))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before an offset of each partition (-1: everything); return where the logs start then."""
        return self._loop.call(self._twin.delete_records(before))

    def list_offsets(self, requested: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return offsets by time in milliseconds, or by ``client.LATEST``, ``EARLIEST``, ``MAX_TIMESTAMP``."""
        return self._loop.call(self._twin.list_offsets(requested))

    def describe_configs(self, kind: str, name: str, *, keys: Sequence[str] | None = None) -> dict[str, ConfigEntry]:
        """Return the settings of a resource."""
        return self._loop.call(self._twin.describe_configs(kind, name, keys=keys))

    def alter_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a resource and leave the others: a value sets, None goes back to the default (KIP-339)."""
        self._loop.call(self._twin.alter_configs(kind, name, changes))

    def list_groups(self) -> list[ListedGroup]:
        """List the groups of all brokers."""
        return self._loop.call(self._twin.list_groups())

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group's state and members."""
        return self._loop.call(self._twin.describe_group(group_id))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups that have no members."""
        self._loop.call(self._twin.delete_groups(group_ids))

    def group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group has committed, for all its partitions if none are named."""
        return self._loop.call(self._twin.group_offsets(group_id, partitions))

    def alter_group_offsets(self, group_id: str, requested: Mapping[TopicPartition, CommittedOffset | int]) -> None:
        """Commit offsets for a group that has no members."""
        self._loop.call(self._twin.alter_group_offsets(group_id, requested))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete what a group has committed for partitions that none of its members reads (KIP-496)."""
        self._loop.call(self._twin.delete_group_offsets(group_id, partitions))


def _name(client: Producer | Consumer | Admin) -> str:
    settings = client._twin.settings
    return f"kafkaframes {type(client).__name__} {settings.client_id!r} of {settings.bootstrap_servers}"


def _abandon(client: Producer | Consumer | Admin) -> None:
    """Close a client that is no longer used and was not closed; one whose settings were refused has no loop."""
    loop: LoopThread | None = getattr(client, "_loop", None)
    if loop is not None:
        loop.abandon()


async def _run(function: Any, *arguments: Any) -> Any:
    """Run a plain function on the loop, where the client's state lives."""
    return function(*arguments)
