"""The docstring examples of the functions that format numbers and HTML."""

import doctest
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.jobs.report import histograms, tables, words
from kafkaframes.jobs.report.tables import Markup, make_tag


@pytest.mark.parametrize("module", [words, tables, histograms], ids=lambda one: one.__name__)
def test_examples_are_correct(module):
    result = doctest.testmod(module, extraglobs={"np": __import__("numpy")})
    assert result.attempted
    assert not result.failed


@given(st.floats(0, 1e18), st.booleans(), st.integers(2, 8))
def test_the_steps_of_an_axis_reach_the_largest_value(largest, binary, about):
    axis_steps = words.choose_axis_ticks(largest, tick_count=about, binary=binary)
    assert axis_steps[0] == 0
    assert axis_steps[-1] >= largest * 0.999_999
    assert len(axis_steps) <= about + 2
    assert all(one < other for one, other in itertools.pairwise(axis_steps))


@given(st.text(), st.text())
def test_text_never_becomes_markup(inside, attribute):
    markup = make_tag("p", inside, title=attribute)
    assert isinstance(markup, Markup)
    assert markup.startswith('<p title="')
    assert markup.count("<") == 2
    assert markup.count('"') == 2
    markup.encode()  # no lone surrogates
