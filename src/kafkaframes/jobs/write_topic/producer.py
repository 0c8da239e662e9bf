"""Open the producers of tasks that write Spark's rows, and of the process that ends their transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkaframes.scan.topic.options import TopicWriteOptions

if TYPE_CHECKING:
    from kafkaframes.client import Producer

DEFAULT_BATCH_BYTES: Final = 1 << 18  # batch.size, in bytes, if the options do not set it
_DEFAULT_BATCH_SETTINGS: Final = {"batch_size": DEFAULT_BATCH_BYTES}


def open_producer(options: TopicWriteOptions, **settings: Any) -> Producer:
    """Return a producer with large batches, unless the options set ``batch.size``."""
    from kafkaframes.client import Producer

    defaults = {
        name: value for name, value in _DEFAULT_BATCH_SETTINGS.items() if name.replace("_", ".") not in options.client
    }
    return Producer(**{**options.client, **defaults, **settings})
