"""Common parts of jobs: work split into shares, and texts parsed as JSON objects."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.jobs.job import parse_json_object, split_by_cost


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans())), st.integers(1, 40))
def test_shares_keep_the_order_and_stay_within_the_limit(items, most):
    runs = list(
        split_by_cost(items, most, lambda item: item[0], is_separate=lambda before, after: before[1] != after[1])
    )
    assert [item for run in runs for item in run] == items
    for run in runs:
        assert len(run) == 1 or sum(cost for cost, _ in run) <= most
        assert len({kind for _, kind in run}) == 1
    for run, following in pairwise(runs):  # no share ends before it has to
        assert run[-1][1] != following[0][1] or sum(cost for cost, _ in run) + following[0][0] > most


@given(st.one_of(st.text(), st.binary(), st.builds(json.dumps, st.one_of(st.integers(), st.lists(st.text())))))
def test_a_text_that_is_not_a_json_object_is_parsed_as_empty(text):
    assert parse_json_object(text) == {}


def test_a_json_object_is_parsed():
    assert parse_json_object(b'{"run": "a", "offsets": {}}') == {"run": "a", "offsets": {}}
