"""A client of Kafka's protocol: producer and consumer, columns first; asyncio inside, plain classes around it.

``Producer`` and ``Consumer`` for plain code, ``AsyncProducer`` and ``AsyncConsumer`` on an event loop. Versions are
negotiated with each broker, as far back as 0.8.
"""

from kafkaframes.client.batches import RecordMetadata
from kafkaframes.client.consumer import AsyncConsumer, ConsumerRecord
from kafkaframes.client.fetched import Fetched
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.offsets import OffsetAndTimestamp
from kafkaframes.client.producer import AsyncProducer
from kafkaframes.client.sync import Consumer, Producer

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "CommittedOffset",
    "Consumer",
    "ConsumerRecord",
    "Fetched",
    "GroupMember",
    "OffsetAndTimestamp",
    "Producer",
    "RecordMetadata",
    "TopicPartition",
]
