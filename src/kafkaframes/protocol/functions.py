"""The public functions for messages and APIs. The implementation of a function is imported by its first call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import Message
    from kafkaframes.protocol.messages.kafka import message
    from kafkaframes.protocol.messages.registry import Specs
    from kafkaframes.protocol.spec.catalog import Api

    message_class = message

if not TYPE_CHECKING:  # a type checker sees an overload for each name (protocol/messages/kafka.pyi)

    def message_class(name: str, *, specs: Specs | None = None) -> type[Message]:
        """Return the class of a message of Kafka's protocol or logs, one class for all its versions.

        >>> Metadata = message_class("MetadataRequest")
        >>> Metadata(topics=None).encode(12).hex()
        '00010000'
        >>> Metadata.decode(bytes.fromhex("00010000"), 12)
        MetadataRequest(topics=None)

        Args:
            name: Kafka's name of the message, such as ``MetadataResponse``, ``OffsetCommitValue`` or ``RequestHeader``.
            specs: specs that replace the catalog's specs: ``MessageSpec`` objects, or a path to JSON files.

        Raises:
            SpecError: the message does not exist, or a spec is invalid.
            OptionError: ``specs`` does not contain the message.
        """
        from kafkaframes.protocol.messages.registry import message as find

        return find(name, specs=specs)


def list_apis() -> tuple[Api, ...]:
    """Return Kafka's APIs in the order of their keys, with names, versions, flexible versions and header versions.

    >>> [(api.key, api.name, api.header_versions[9]) for api in list_apis() if api.name == "Metadata"]
    [(3, 'Metadata', (2, 1))]
    """
    from kafkaframes.protocol.spec import catalog

    return catalog.list_apis()
