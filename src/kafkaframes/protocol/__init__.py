"""Kafka's protocol: spec (the spec language), messages (encoding by plans), framing (bytes of a connection).

The classes that ``kafkaframes.message_class`` and ``kafkaframes.list_apis`` accept and return are exported here.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.objects import Message
    from kafkaframes.protocol.spec.catalog.reading import Api
    from kafkaframes.protocol.spec.model import MessageSpec

__all__ = [
    "Api",
    "Message",
    "MessageSpec",
]

_MODULES = {
    "messages.objects": ("Message",),
    "spec.catalog.reading": ("Api",),
    "spec.model": ("MessageSpec",),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _MODULES)
