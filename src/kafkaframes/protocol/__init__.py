"""Kafka's protocol: the spec language (``spec``), the encoding of messages (``messages``), and frames (``framing``).

Functions for single messages and for message specs are exported here, with their results, and the classes that
``kafkaframes.message_class`` and ``kafkaframes.list_apis`` accept and return.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.protocol.message_functions import (
        compare_messages,
        encode_message,
        explain_message,
        explain_records,
    )
    from kafkaframes.protocol.messages.explanation import MessageComparison, MessageExplanation, RecordsExplanation
    from kafkaframes.protocol.messages.objects import Message
    from kafkaframes.protocol.spec.catalog.ledgers import Tag, TagTable
    from kafkaframes.protocol.spec.catalog.reading import Api
    from kafkaframes.protocol.spec.catalog_files import CatalogChanges
    from kafkaframes.protocol.spec.changes import SpecChange, SpecCheck
    from kafkaframes.protocol.spec.drafts import Kip, KipField
    from kafkaframes.protocol.spec.layout import Change, LayoutRow
    from kafkaframes.protocol.spec.lint_files import LintFinding, LintResult
    from kafkaframes.protocol.spec.model import MessageSpec
    from kafkaframes.protocol.spec.rewritten import RewrittenSpecs
    from kafkaframes.protocol.spec_functions import (
        change_specs,
        check_specs,
        compare_versions,
        describe_layout,
        find_specs,
        import_releases,
        lint_specs,
        list_tags,
        load_specs,
        rewrite_specs,
        write_guide,
        write_stubs,
    )

__all__ = [
    "Api",
    "CatalogChanges",
    "Change",
    "Kip",
    "KipField",
    "LayoutRow",
    "LintFinding",
    "LintResult",
    "Message",
    "MessageComparison",
    "MessageExplanation",
    "MessageSpec",
    "RecordsExplanation",
    "RewrittenSpecs",
    "SpecChange",
    "SpecCheck",
    "Tag",
    "TagTable",
    "change_specs",
    "check_specs",
    "compare_messages",
    "compare_versions",
    "describe_layout",
    "encode_message",
    "explain_message",
    "explain_records",
    "find_specs",
    "import_releases",
    "lint_specs",
    "list_tags",
    "load_specs",
    "rewrite_specs",
    "write_guide",
    "write_stubs",
]

_NAMES_BY_MODULE = {
    "message_functions": ("compare_messages", "encode_message", "explain_message", "explain_records"),
    "messages.explanation": ("MessageComparison", "MessageExplanation", "RecordsExplanation"),
    "messages.objects": ("Message",),
    "spec.catalog.reading": ("Api",),
    "spec.model": ("MessageSpec",),
    "spec.catalog.ledgers": (
        "Tag",
        "TagTable",
    ),
    "spec.catalog_files": ("CatalogChanges",),
    "spec.changes": (
        "SpecChange",
        "SpecCheck",
    ),
    "spec.drafts": (
        "Kip",
        "KipField",
    ),
    "spec.layout": (
        "Change",
        "LayoutRow",
    ),
    "spec.lint_files": (
        "LintFinding",
        "LintResult",
    ),
    "spec.rewritten": ("RewrittenSpecs",),
    "spec_functions": (
        "change_specs",
        "check_specs",
        "compare_versions",
        "describe_layout",
        "find_specs",
        "import_releases",
        "lint_specs",
        "list_tags",
        "load_specs",
        "rewrite_specs",
        "write_guide",
        "write_stubs",
    ),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
