"""``kafkaframes spec``: the commands about message specs."""

from kafkaframes.cli.lazy import LazyGroup

COMMANDS = {
    "import": ("kafkaframes.cli.spec_import", "write the catalog from the specs of Kafka's releases"),
}
command = LazyGroup(
    "spec", commands_table=COMMANDS, help="Message specs (KIP-482): look at them, compare them, check them."
)
