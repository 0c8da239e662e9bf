"""Open transactions of live topics: the records that they hide from ``read_committed`` readers, and their producers.

A ``read_committed`` consumer receives records up to the last stable offset. The consumer gets this offset as the end
offset, so it cannot detect that more records follow. ``find_open_transactions`` compares it with the high watermark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.settings import select_client_options
from kafkaframes.client.topic_lookups import TopicLookupClient
from kafkaframes.errors import KafkaframesError
from kafkaframes.storage.log.notes import HiddenRecords


def find_open_transactions(
    stable_offsets: Mapping[TopicPartition, int], client: Mapping[str, Any]
) -> list[HiddenRecords]:
    """Return the records of each partition between the last stable offset and the high watermark.

    Args:
        stable_offsets: Last stable offset of each partition.
        client: Settings of the consumer that looked up these offsets. The result is empty unless this consumer is
            ``read_committed``.

    Raises:
        BrokerError, NetworkError: Looking up the high watermarks failed.
    """
    settings = {name.replace("_", "."): value for name, value in client.items()}
    if settings.get("isolation.level") != "read_committed" or not stable_offsets:
        return []
    with TopicLookupClient({**settings, "isolation.level": "read_uncommitted"}) as lookups:
        high_watermarks = lookups.end_offsets(stable_offsets)
    hidden_ends = {partition: high for partition, high in high_watermarks.items() if high > stable_offsets[partition]}
    producers = _find_producers(hidden_ends, settings)
    return [
        HiddenRecords(
            partition.topic,
            partition.partition,
            producers.get(partition),
            stable_offsets[partition],
            high,
            records=None,
            directory="",
        )
        for partition, high in hidden_ends.items()
    ]


def _find_producers(partitions: Collection[TopicPartition], client: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the producer of the earliest open transaction of each partition.

    A partition is missing if its transaction ended in the meantime, or if its producers cannot be described: before
    Kafka 2.8, or without the right to read the topic.
    """
    from kafkaframes.client import Admin  # imported only if a transaction is open, because it costs 8 MB

    if not partitions:
        return {}
    try:
        with Admin(**select_client_options(client)) as admin:
            states = admin.describe_producers(partitions)
    except KafkaframesError:
        return {}
    result = {}
    for partition, producers in states.items():
        starts = [
            (producer.transaction_start_offset, producer.producer_id)
            for producer in producers
            if producer.transaction_start_offset is not None
        ]
        if starts:
            result[partition] = min(starts)[1]
    return result
