"""subscribePattern is a Java regular expression, as in Spark's connector.

``java_patterns.jsonl`` has random expressions (``random_patterns.py``) with the results of Java 17's ``Pattern`` on
``TOPIC_NAMES``. ``tests/interop/test_java_patterns.py`` compares new random expressions.
"""

import json
from pathlib import Path

import pytest
from tests.scan.random_patterns import TOPIC_NAMES

from kafkaframes.errors import OptionError
from kafkaframes.scan.java_pattern import compile_java_pattern
from kafkaframes.spark.options import parse_log_options, parse_topic_options

JAVA_RESULTS = [json.loads(line) for line in Path(__file__).with_name("java_patterns.jsonl").read_text().splitlines()]


def match_names(pattern):
    compiled_pattern = compile_java_pattern(pattern)
    return "".join("1" if compiled_pattern.fullmatch(name) else "0" for name in TOPIC_NAMES)


def test_random_expressions_match_as_in_java_or_are_rejected():
    refused_count = 0
    for entry in JAVA_RESULTS:
        try:
            names = match_names(entry["pattern"])
        except ValueError:
            refused_count += entry["java"] is not None
        else:
            assert names == entry["java"], entry["pattern"]
    assert refused_count < 0.15 * len(JAVA_RESULTS)


@pytest.mark.parametrize(
    ("pattern", "expected_names"),
    [
        ("[a-z&&[^b]]+", {"apple"}),
        (r"\p{Lower}+", {"apple", "bcd"}),
        (r"\Qa.c\E.*", {"a.c", "a.cd"}),
        ("(?i)APPLE", {"apple", "Apple"}),
        ("(?<n>a)pple", {"apple"}),
        (r"\w++", {"apple", "bcd", "Apple"}),
        (r"apple\z|bcd\z", {"apple", "bcd"}),
        ("[[a-b][p-z]]pple", {"apple"}),
        ("(?x) a # the first\n p{2} le", {"apple"}),
        (r"[\p{L}&&\P{Lu}]*", {"apple", "bcd"}),
        (r"(?<f>.)\.(?!\k<f>).+", {"a.c", "a.cd"}),
        (r"\u0061\x{70}{2}\0154\N{LATIN SMALL LETTER E}", {"apple"}),
    ],
)
def test_syntax_with_another_meaning_in_python_is_translated(pattern, expected_names):
    names = ("apple", "bcd", "Apple", "a.c", "a.cd")
    assert {name for name in names if compile_java_pattern(pattern).fullmatch(name)} == expected_names


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("(?P<n>a)", "an unknown flag 'P' near index 3"),
        ("a**", "a repetition of a repetition near index 2"),
        ("*a", "a dangling '\\*' near index 0"),
        ("[a", "an unclosed class"),
        ("a)", "an unmatched '\\)'"),
        ("(a", "an unclosed group"),
        (r"\p{Lowr}", "an unknown property 'Lowr'"),
        (r"\p{IsKlingon}", "an unknown property 'IsKlingon'"),
        (r"\y", r"an unknown escape \\y"),
        ("(?<=a+)b", "cannot be translated from Java's syntax: look-behind requires fixed-width"),
        (r"(a)|\1", "a reference to group 1, which may have no text there"),
        ("(" * 200 + ")" * 200, "nested more than 100 deep"),
        ("a{2,1}", "an illegal repetition range"),
        ("[a-z&&]", "an empty operand of &&"),
    ],
)
def test_rejected_expressions_have_a_reason(pattern, reason):
    with pytest.raises(ValueError, match=reason):
        compile_java_pattern(pattern)


@pytest.mark.parametrize("options", [parse_log_options, lambda options: parse_topic_options(options, is_stream=False)])
def test_both_sources_support_java_patterns(options):
    source_options = {"path": "/logs"} if options is parse_log_options else {"kafka.bootstrap.servers": "h:1"}
    assert options({**source_options, "subscribePattern": r"\Qa.b\E"}).subscribe_pattern.fullmatch("a.b")
    with pytest.raises(OptionError, match=r"subscribePattern.* is empty"):
        options({**source_options, "subscribePattern": " "})
    with pytest.raises(OptionError, match=r"subscribePattern.*'a\[' is not a supported Java regular expression"):
        options({**source_options, "subscribePattern": "a["})
