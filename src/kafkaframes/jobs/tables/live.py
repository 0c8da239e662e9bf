"""Plan a table of live topics: what is new in them beyond what the table says."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kafkaframes.client import Admin, Consumer, TopicPartition
from kafkaframes.client.settings import ClientSettings
from kafkaframes.client.stretch import sample
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.topics import TopicTask
from kafkaframes.jobs.tables.run import FILE_BYTES, Plan, TablePlan
from kafkaframes.jobs.tables.state import Gap, TableState, topic_number

_GUESSED_BYTES: Final = 1 << 10  # of a record, where nothing could be fetched
_SAMPLED_OFFSETS: Final = 10_000  # fewer are one task anyway


def live_plan(topics: Sequence[str], client: Mapping[str, Any], *, allow_loss: bool = False) -> Plan:
    """Return what plans a table of live topics, given what the table says.

    Args:
        topics: their names.
        client: settings of a consumer; with ``isolation.level=read_committed`` a plan ends where the first open
            transaction begins.
        allow_loss: whether offsets that a topic has lost before the table had them are a gap, not an error.

    The plan raises OptionError for a topic that was made anew, or cut, since the table was filled, and BrokerError for
    one that does not exist.
    """

    def plan(state: TableState | None) -> TablePlan:
        ids = _topic_ids(topics, client)
        for topic, topic_id in ids.items():
            _check_same_topic(topic, topic_id, state)
        with Consumer(**client) as consumer:
            partitions = consumer.partitions_for(*topics)
            firsts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            known = {one: None if state is None else state.end_of((one.topic, one.partition)) for one in partitions}
            gaps = tuple(_gaps(known, firsts, ends, allow_loss=allow_loss))
            starts = {one: max(firsts[one], known[one] or 0) for one in partitions}
            tasks = [task for one in partitions for task in _tasks(consumer, one, starts[one], ends[one], client)]
        return TablePlan(tuple(tasks), {(one.topic, one.partition): starts[one] for one in partitions}, ids, gaps)

    return plan


def _topic_ids(topics: Sequence[str], client: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of topics as log directories have them; without those of brokers that do not tell (before 2.8)."""
    names = {name.replace("_", ".") for name in ClientSettings.__dataclass_fields__}
    with Admin(**{name: value for name, value in client.items() if name.replace("_", ".") in names}) as admin:
        result = admin.describe_topics(topics)
    return {
        name: base64.urlsafe_b64encode(one.topic_id.bytes).decode().rstrip("=")
        for name, one in result.items()
        if one.topic_id.int
    }


def _check_same_topic(topic: str, topic_id: str, state: TableState | None) -> None:
    number = None if state is None else state.topic_number_of(topic)
    if number is not None and number != topic_number(topic_id):
        raise OptionError(
            f"topic {topic} has the id {topic_id}, and the table was filled from one with another id: the topic was "
            "made anew. Write it to a new table"
        )


def _gaps(
    known: Mapping[TopicPartition, int | None],
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    allow_loss: bool,
) -> Iterator[Gap]:
    """Yield what topics have lost before the table had it.

    Raises:
        OptionError: that is not allowed; or a topic ends before the table does.
    """
    for partition, end in known.items():
        if end is None:
            continue
        if ends[partition] < end:
            raise OptionError(
                f"{partition} ends at offset {ends[partition]}, and the table has its records up to {end - 1}: the "
                "topic was cut or replaced. Write it to a new table"
            )
        if firsts[partition] > end:
            gap = Gap(partition.topic, partition.partition, end, firsts[partition])
            if not allow_loss:
                raise OptionError(
                    f"{gap} are not in the topic any more, and not in the table: `allow_loss` accepts that, and "
                    "records it in the table"
                )
            yield gap


def _tasks(
    consumer: Consumer, partition: TopicPartition, first: int, end: int, client: Mapping[str, Any]
) -> Iterator[TopicTask]:
    """Yield the stretches that a partition is read in, of about ``FILE_BYTES`` each."""
    if first >= end:
        return
    each = _GUESSED_BYTES if end - first <= _SAMPLED_OFFSETS else _bytes_per_offset(consumer, partition, first)
    step = max(int(FILE_BYTES / each), 1)
    path = f"{partition.topic}-{partition.partition} of {client['bootstrap.servers']}"
    for begin in range(first, end, step):
        stop = min(begin + step, end)
        yield TopicTask(
            path,
            max(int((stop - begin) * each), 1),
            begin,
            partition.topic,
            partition.partition,
            first_offset=begin,
            end_offset=stop,
            client=client,
        )


def _bytes_per_offset(consumer: Consumer, partition: TopicPartition, first: int) -> float:
    """Estimate how large records are, by those at the beginning."""
    result = sample(consumer, partition, first)
    consumer.assign({})
    return _GUESSED_BYTES if result is None else max(result.bytes_per_offset, 1.0)
