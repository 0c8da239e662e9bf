"""Regular expressions of requests: RE2's meaning, its refusals, and its linear time."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.broker.groups import refusal
from kafkaframes.broker.groups.patterns import MOST_CHARACTERS, compile_pattern
from kafkaframes.broker.groups.refusal import RefusedError

PIECES = [
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
    "x?",
    "()",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.text("abAx1-\n", max_size=6))
def test_what_matches_is_what_python_finds(text, name):
    assert compile_pattern(text).matches(name) == bool(re.fullmatch(text.replace("$", "\\Z"), name, re.ASCII))


@pytest.mark.parametrize(
    "text", ["(a", "a{2,1}", "(?=a)a", "(?<!a)b", "(a)\\1", "[z-a]", "*", "(?P<n>a)(?P=n)", "((a{99}){99}){99}"]
)
def test_what_re2_does_not_take_is_refused(text):
    with pytest.raises(RefusedError) as caught:
        compile_pattern(text)
    assert caught.value.code == refusal.INVALID_REGULAR_EXPRESSION
    assert "not a valid regular expression" in caught.value.reason


def test_a_long_or_deep_pattern_is_refused():
    for text in ("a" * (MOST_CHARACTERS + 1), "(" * 200 + ")" * 200):
        with pytest.raises(RefusedError):
            compile_pattern(text)


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "a*a*a*a*a*a*a*a*a*b", "(x+x+)+y"])
def test_patterns_that_keep_a_backtracking_engine_busy_are_answered_at_once(text):
    began = time.thread_time()
    assert not compile_pattern(text).matches("a" * 249)
    assert time.thread_time() - began < 1
