"""The docs list all rules and lints."""

import doctest
import re
from pathlib import Path

from kafkaframes.protocol.spec.lint import FIELD_LINTS, MESSAGE_LINTS, STRUCT_LINTS
from kafkaframes.protocol.spec.rules import FIELD_RULES, MESSAGE_RULES, STRUCT_RULES

DOCS = Path(__file__).parents[3] / "docs"


def test_examples_of_the_kip_636_page():
    results = doctest.testfile(str(DOCS / "kip-636.md"), module_relative=False)
    assert results.attempted >= 8
    assert results.failed == 0


def test_the_page_of_rules_lists_the_tables():
    text = (DOCS / "spec-rules.md").read_text()
    listed_rules = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
    tables = (FIELD_RULES, STRUCT_RULES, MESSAGE_RULES, FIELD_LINTS, STRUCT_LINTS, MESSAGE_LINTS)
    assert listed_rules == {rule.name for table in tables for rule in table}
