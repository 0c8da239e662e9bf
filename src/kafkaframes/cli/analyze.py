"""``kafkaframes analyze``: what the protocol costs, and what it would cost otherwise."""

from kafkaframes.cli.lazy import LazyGroup

COMMANDS = {
    "kip-636": ("kafkaframes.cli.analyze_kip_636", "errors as tagged fields: what it would save on real responses"),
    "flexible": (
        "kafkaframes.cli.analyze_flexible",
        "the same fields with and without compact types and tags, on real traffic",
    ),
    "records": ("kafkaframes.cli.analyze_records", "what record format 2 saves for records of a log or capture"),
    "tag-header": (
        "kafkaframes.cli.analyze_tag_header",
        "tagged fields on traffic: KIP-482, its draft, what it rejects",
    ),
}
command = LazyGroup("analyze", commands_table=COMMANDS, help="Sizes on the wire: as they are, and as proposed.")
