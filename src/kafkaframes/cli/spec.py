"""``kafkaframes spec``: the commands about message specs."""

from kafkaframes.cli.lazy import LazyGroup

COMMANDS = {
    "list": ("kafkaframes.cli.spec_show:list_messages", "APIs by key: versions, flexible since, headers; or records"),
    "show": ("kafkaframes.cli.spec_show:show", "the wire layout of a message's version: table, BNF, JSON"),
    "diff": ("kafkaframes.cli.spec_show:diff", "what is different on the wire between two versions"),
    "show-codec": ("kafkaframes.cli.spec_show:show_codec", "the functions that read and write a message at a version"),
    "stubs": ("kafkaframes.cli.spec_import:stubs", "write the stub from which editors complete the fields of messages"),
    "check": ("kafkaframes.cli.spec_check:check", "may these specs follow those? KIP-482's rules; exit status for CI"),
    "tags": (
        "kafkaframes.cli.spec_check:tags",
        "the registry of tags: whose each is, since when; collisions of proposals",
    ),
    "lint": (
        "kafkaframes.cli.spec_check:lint_files",
        "what Kafka's generator refuses in these files, and what it should",
    ),
    "guide": ("kafkaframes.cli.spec_import:guide", "write the protocol guide: one HTML page, searchable offline"),
    "rewrite": ("kafkaframes.cli.spec_rewrite:rewrite_specs", "write specs as a proposal would have them: KIP-636"),
    "new-kip": (
        "kafkaframes.cli.spec_rewrite:new_kip",
        "write specs as a proposal of your own has them: a few lines of Python",
    ),
    "propose": ("kafkaframes.cli.spec_propose", "what a change of specs costs or saves on real traffic"),
    "import": ("kafkaframes.cli.spec_import:import_releases", "write the catalog from the specs of Kafka's releases"),
}
command = LazyGroup(
    "spec", sections={"Commands": COMMANDS}, help="Message specs (KIP-482): look at them, compare them, check them."
)
