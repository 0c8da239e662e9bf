"""The examples in the docstrings of what writes numbers and HTML."""

import doctest
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.jobs.report import histograms, tables, words
from kafkaframes.jobs.report.tables import Markup, tag


@pytest.mark.parametrize("module", [words, tables, histograms], ids=lambda one: one.__name__)
def test_examples_hold(module):
    found = doctest.testmod(module, extraglobs={"np": __import__("numpy")})
    assert found.attempted
    assert not found.failed


@given(st.floats(0, 1e18), st.booleans(), st.integers(2, 8))
def test_the_steps_of_an_axis_reach_the_largest_value(largest, binary, about):
    found = words.steps(largest, about=about, binary=binary)
    assert found[0] == 0
    assert found[-1] >= largest * 0.999_999
    assert len(found) <= about + 2
    assert all(one < other for one, other in itertools.pairwise(found))


@given(st.text(), st.text())
def test_text_never_becomes_markup(inside, attribute):
    made = tag("p", inside, title=attribute)
    assert isinstance(made, Markup)
    assert made.startswith('<p title="')
    assert made.count("<") == 2
    assert made.count('"') == 2
    made.encode()  # no halves of surrogate pairs
