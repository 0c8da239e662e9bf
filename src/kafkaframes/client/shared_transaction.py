"""One transaction in which several producers write, as in Spark's exactly-once sink.

This module is not part of the public client.

A driver begins, shares and ends the transaction, adds its partitions, and assigns sequences to the tasks. A task joins
without fencing any producer, and writes built batches. A task sends a partition's next batches only after the earlier
ones were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkaframes.client.batches import Batch, ProducerIdentity
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.producer import AsyncProducer, wait_for_results
from kafkaframes.client.sync import Producer


class SequencedBatches(NamedTuple):
    """Built batches of format 2 for one partition, and the sequence of their first record.

    Attributes:
        batches: (batch, number of offsets) pairs, each batch with base offset 0, as ``build_apart`` returns them.
    """

    partition: TopicPartition
    first_sequence: int
    batches: Sequence[tuple[bytes, int]]


def share_transaction(driver: Producer) -> ProducerIdentity:
    """Return the identity with which tasks join the open transaction.

    Committing or aborting the transaction also applies to the records that the tasks have sent.

    Raises:
        OptionError: no transaction is open.
    """
    return driver._twin._transactions.share_transaction()


def add_partitions(driver: Producer, partitions: Iterable[TopicPartition]) -> None:
    """Add partitions to a shared transaction, before tasks write to them.

    Raises:
        OptionError: no transaction is open.
        BrokerError: the driver was fenced, or a partition does not exist.
    """
    driver._loop.call(driver._twin._transactions.add_partitions(partitions))


def join_transaction(task: Producer, identity: ProducerIdentity) -> None:
    """Join the transaction of another producer with the same ``transactional_id``.

    The other producer will end the transaction.

    Args:
        task: producer that joins. From now on, the producer writes with ``send_sequenced_batches`` only.
        identity: result of ``share_transaction``.

    Raises:
        NetworkError, BrokerError: no broker can be reached, or a broker rejects the client.
    """
    task._twin._transactions.join_transaction(identity)
    task._loop.call(task._twin.start())


def send_sequenced_batches(task: Producer, parts: Iterable[SequencedBatches]) -> None:
    """Write built batches with given sequences. Wait until all batches are acknowledged.

    Raises:
        OptionError: batches of a partition are in flight.
        BrokerError, NetworkError: error of the first rejected batch. Other batches of this call may have been written.
    """
    task._loop.call(_send_sequenced_batches(task._twin, parts))


async def _send_sequenced_batches(task: AsyncProducer, parts: Iterable[SequencedBatches]) -> None:
    batches: list[Batch] = []
    for target, first_sequence, built_batches in parts:
        task._sender.sequencer.set_sequence(target, first_sequence)
        for data, count in built_batches:
            await task._sender.wait_for_space(len(data))
            batches.append(task._queue_batch(target, data, count))
    await wait_for_results(batches)
