"""``kafkaframes analyze``: what the protocol costs, and what it would cost otherwise."""

from kafkaframes.cli.lazy import LazyGroup

COMMANDS = {
    "records": ("kafkaframes.cli.analyze_records", "what record format 2 saves for records of a log or capture"),
    "tag-header": (
        "kafkaframes.cli.analyze_tag_header",
        "sizes of tag headers: KIP-482, its draft, what it rejects",
    ),
}
command = LazyGroup("analyze", sections={"Commands": COMMANDS}, help="Sizes on the wire: as they are, and as proposed.")
