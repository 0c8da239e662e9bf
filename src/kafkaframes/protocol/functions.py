"""The public functions on messages and APIs; what they run is imported when they are called."""

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
            name: as Kafka names it: ``MetadataResponse``, ``OffsetCommitValue``, ``RequestHeader``.
            specs: your own specs instead of the catalog's: ``MessageSpec``s, or a path to JSON files.

        Raises:
            SpecError: there is no such message, or a spec is wrong.
            OptionError: ``specs`` has no such message.
        """
        from kafkaframes.protocol.messages.registry import message as find

        return find(name, specs=specs)


def list_apis() -> tuple[Api, ...]:
    """Return the table of Kafka's APIs by key: names, versions, flexible since, header versions.

    >>> [(api.key, api.name, api.header_versions[9]) for api in list_apis() if api.name == "Metadata"]
    [(3, 'Metadata', (2, 1))]
    """
    from kafkaframes.protocol.spec import catalog

    return catalog.apis()
