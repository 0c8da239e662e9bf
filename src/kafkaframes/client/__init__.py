"""A client of Kafka's protocol: producer, consumer and admin, columns first; asyncio inside, plain classes around it.

``Producer``, ``Consumer`` and ``Admin`` for plain code, their ``Async`` twins on an event loop. Versions are
negotiated with each broker, as far back as 0.8.

Names are imported when they are first used: to read settings alone, as Spark does at each ``load()``, loads no client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaframes.client.admin import AsyncAdmin, NewTopic
    from kafkaframes.client.batches import RecordMetadata
    from kafkaframes.client.consumer import AsyncConsumer
    from kafkaframes.client.fetched import ConsumerRecord, Fetched
    from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
    from kafkaframes.client.metadata import TopicPartition
    from kafkaframes.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
    from kafkaframes.client.producer import AsyncProducer
    from kafkaframes.client.sync import Admin, Consumer, Producer

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "CommittedOffset",
    "Consumer",
    "ConsumerRecord",
    "Fetched",
    "GroupMember",
    "NewTopic",
    "OffsetAndTimestamp",
    "Producer",
    "RecordMetadata",
    "TopicPartition",
]

_MODULES = {
    "admin": ("AsyncAdmin", "NewTopic"),
    "batches": ("RecordMetadata",),
    "consumer": ("AsyncConsumer",),
    "fetched": ("ConsumerRecord", "Fetched"),
    "group_offsets": ("CommittedOffset", "GroupMember"),
    "metadata": ("TopicPartition",),
    "offsets": ("EARLIEST", "LATEST", "MAX_TIMESTAMP", "OffsetAndTimestamp"),
    "producer": ("AsyncProducer",),
    "sync": ("Admin", "Consumer", "Producer"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
