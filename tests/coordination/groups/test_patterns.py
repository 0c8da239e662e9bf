"""Regular expressions of requests: RE2's meaning, its refusals, its linear time, and what holds without it."""

import re
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.coordination.groups.patterns import compile_pattern
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode

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
    "()",
]


@pytest.fixture(scope="module")
def engine():
    return pytest.importorskip("re2", reason="the package google-re2 is not installed")


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.text("abAx1-\n", max_size=6))
def test_what_matches_is_what_python_finds(engine, text, name):
    assert compile_pattern(text)(name) == bool(re.fullmatch(text.replace("$", "\\Z"), name, re.ASCII))


@pytest.mark.parametrize(
    "text", ["(a", "a{2,1}", "(?=a)a", "(a)\\1", "[z-a]", "*", "((a{99}){99}){99}", "(\\pL?){900}"]
)
def test_what_re2_does_not_take_is_refused(engine, text):
    with pytest.raises(RefusedError) as caught:
        compile_pattern(text)
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "not a valid regular expression: " in caught.value.reason


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "(?i)(\\w?){900}b", "(x+x+)+y", "(a?){1000}b"])
def test_patterns_that_keep_a_backtracking_engine_busy_are_answered_at_once(engine, text):
    began = time.thread_time()
    assert not compile_pattern(text)("a" * 249)
    assert time.thread_time() - began < 1


def test_without_the_package_every_expression_is_refused_by_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(RefusedError, match=r"google-re2.*kafkaframes\[re2\]") as caught:
        compile_pattern("orders.*")
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
