"""One transaction that several producers write in, as Spark's exactly-once sink does; no part of the public client.

A driver begins and ends it, shares it, adds partitions, and gives out the sequences of each. A task joins it, fences
nobody off, and writes built batches, the next ones for a partition only when those before them were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkaframes.client.batches import Batch
from kafkaframes.client.batches import Producer as ProducerIdentity
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.producer import AsyncProducer, results_of
from kafkaframes.client.sync import Producer


class Numbered(NamedTuple):
    """Built batches of format 2 for one partition, and the sequence of their first record.

    Attributes:
        batches: each at base offset 0, with the count of its offsets, as ``build_apart`` gives them.
    """

    partition: TopicPartition
    first_sequence: int
    batches: Sequence[tuple[bytes, int]]


def share(driver: Producer) -> ProducerIdentity:
    """Return what tasks need to join the transaction that is open; its end is that of what they wrote, too.

    Raises:
        OptionError: none is open.
    """
    return driver._twin._transactions.share()


def add_partitions(driver: Producer, partitions: Iterable[TopicPartition]) -> None:
    """Add partitions to the transaction, once it is shared, before tasks write to them.

    Raises:
        OptionError: none is open.
        BrokerError: the driver was fenced off, or there is no such partition.
    """
    driver._loop.call(driver._twin._transactions.add(partitions))


def join(task: Producer, identity: ProducerIdentity) -> None:
    """Take part in the transaction of another producer of the same ``transactional_id``, which will end it.

    Args:
        task: from now on it writes by ``send_numbered`` only.
        identity: what ``share`` gave.

    Raises:
        NetworkError, BrokerError: no broker can be reached, or it refuses us.
    """
    task._twin._transactions.join(identity)
    task._loop.call(task._twin.start())


def send_numbered(task: Producer, parts: Iterable[Numbered]) -> None:
    """Write built batches under sequences given to them; wait until all are acknowledged.

    Raises:
        OptionError: batches for a partition are under way.
        BrokerError, NetworkError: the first batch that was refused; others may have been written.
    """
    task._loop.call(_send_numbered(task._twin, parts))


async def _send_numbered(task: AsyncProducer, parts: Iterable[Numbered]) -> None:
    batches: list[Batch] = []
    for target, first_sequence, built in parts:
        task._sender.sequencer.set_sequence(target, first_sequence)
        for data, count in built:
            await task._sender.wait_for_space(len(data))
            batches.append(task._queued(target, data, count))
    await results_of(batches)
