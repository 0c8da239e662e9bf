"""Every message in the catalog as a name: ``from kafkaframes.protocol.messages.kafka import MetadataResponse``.

Each class is created on first access, by ``message(name)``. Editors and type checkers read ``kafka.pyi`` in this
directory. Each build writes ``kafka.pyi``, and so does mypy at its start (``tools/stub.py``).
"""

from __future__ import annotations

from kafkaframes.errors import SpecError
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import message
from kafkaframes.protocol.spec import catalog


def __getattr__(name: str) -> type[Message]:
    try:
        return message(name)
    except SpecError as error:
        raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    return [*catalog.list_names(), "message"]
