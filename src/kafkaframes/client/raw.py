"""Whole batches as bytes to one partition, one Produce request at a time: what copies a log, and decides itself what
a failure means.

Nothing is numbered, changed or sent again: ``AsyncProducer.send_batches`` does that. A request that ends in
``NetworkError`` may have been carried out.
"""

from __future__ import annotations

from typing import Final

from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import LEADER_MOVED, NetworkError, broker_error
from kafkaframes.protocol.spec.versions import Versions

PRODUCE: Final = 0
NEWEST_OF_SETS: Final = 2  # the last version of Produce that carries any number of batches, of any format
_NEWEST_WITHOUT_TRANSACTION: Final = 11  # from 12 on a batch of a transaction needs the transaction's id (KIP-890)
_ALL_REPLICAS: Final = -1


async def takes_sets(cluster: ClusterClient, partition: TopicPartition) -> bool:
    """Return whether a partition's leader takes several batches in one request, of whatever format (Produce 0-2)."""
    connection = await cluster.connection(await cluster.leader_of(partition))
    return connection.ranges.get(PRODUCE, Versions.NONE).contains(NEWEST_OF_SETS)


async def produce_raw(
    cluster: ClusterClient, partition: TopicPartition, records: bytes | memoryview, *, as_set: bool = False
) -> int:
    """Write batches as they are; return the base offset that the broker answers.

    Args:
        cluster: whom to ask.
        partition: where to.
        records: one batch of format 2; any number of any format with ``as_set``.
        as_set: send a version of Produce that carries sets (``takes_sets``).

    Raises:
        BrokerError: refused. Where the leader has moved, it is looked for anew next time.
        NetworkError: no answer.
    """
    leader = await cluster.leader_of(partition)
    connection = await cluster.connection(leader)
    cls = cluster.settings.message("ProduceRequest")
    body = cls(acks=_ALL_REPLICAS, timeout_ms=cluster.settings.request_timeout_ms)
    at = connection.version_of(body, most=NEWEST_OF_SETS if as_set else _NEWEST_WITHOUT_TRANSACTION)
    data = cls.PartitionProduceData(index=partition.partition, records=bytes(records))
    body.topic_data = [cls.TopicProduceData(name=partition.topic, partition_data=[data])]
    try:
        response = await connection.request(body, version=at)
    except NetworkError:
        cluster.cluster.topics.pop(partition.topic, None)
        raise
    answer = response.responses[0].partition_responses[0]
    if answer.error_code:
        if answer.error_code in LEADER_MOVED:
            cluster.cluster.topics.pop(partition.topic, None)
        said = f" ({answer.error_message})" if answer.error_message else ""
        raise broker_error(answer.error_code, f"produce to {partition}{said}")
    return int(answer.base_offset)
