"""Regular expressions in requests have RE2's syntax and errors, and are matched in linear time."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.coordination.groups.subscriptions import match_names
from kafkaframes.errors import ErrorCode, RefusedError

EXPRESSION_PIECES = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    "\\w",
    "\\D",
    "a*",
    "b+?",
    "(a|b)",
    "(ab)*",
    "a{2,3}",
    "(?i:A)",
    "^",
    "$",
    "()",
]


@given(st.lists(st.sampled_from(EXPRESSION_PIECES), max_size=6).map("".join), st.text("abAx1-\n", max_size=6))
def test_matches_are_those_of_python(text, name):
    assert (name in match_names(text, [name])) == bool(re.fullmatch(text.replace("$", "\\Z"), name, re.ASCII))


@pytest.mark.parametrize(
    "text",
    [
        "(a",
        "a{2,1}",
        "(?=a)a",
        "(a)\\1",
        "[z-a]",
        "*",
        "((a{99}){99}){99}",
        "(\\pL?){900}",
        "a)|(b",
        "a\\E",
        "a\\",
        "[a",
        "\ud800",
    ],
)
def test_expressions_outside_re2_are_rejected(text):
    with pytest.raises(RefusedError) as caught:
        match_names(text, [])
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "not a valid regular expression: " in caught.value.reason


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "(?i)(\\w?){900}b", "(x+x+)+y", "(a?){1000}b"])
def test_patterns_with_catastrophic_backtracking_are_matched_in_linear_time(text):
    start = time.thread_time()
    assert not match_names(text, ["a" * 249])
    assert time.thread_time() - start < 1


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("a|ab", {"a", "ab"}),
        ("\\Qa.b", {"a.b"}),
        ("\\Qa.b\\E+", {"a.b"}),
        ("(?i)AB", {"ab"}),
        ("", set()),
        ("a$", {"a"}),
    ],
)
def test_the_whole_name_must_match(text, whole):
    assert match_names(text, ["a", "ab", "a.b", "abc"]) == whole
