"""Sums of weights, and the results computed from them."""

from __future__ import annotations

from collections import Counter

from kafkaframes.jobs.analyze.outcome import WeighingResult, Weight, WeightKey, merge_outcomes, weight_to_json


def test_outcomes_add_up():
    group, other = WeightKey(3, 12, "response", "same"), WeightKey(3, 12, "request", "same")
    parts = [
        WeighingResult({group: Weight(1, 10, 8, counts=Counter({"moved": 1}))}, (5, 9)),
        WeighingResult({group: Weight(2, 20, 25), other: Weight(reasons=Counter({"why": 3}))}, (2, 6)),
        WeighingResult(),
    ]
    total = merge_outcomes(parts)
    assert total.weights[group] == Weight(3, 30, 33, counts=Counter({"moved": 1}))
    assert (total.span, total.seconds) == ((2, 9), 7e-6)
    assert total.sum_weights_by("direction")[("request",)].left_out == 3
    assert total.sum_weights_by(direction="response")[()].saved == -3


def test_break_even_is_the_share_of_set_fields_at_which_nothing_is_saved():
    """A set code costs two bytes here, an unset one saves two. If none is set, the cost is a header of two bytes."""
    assert (
        Weight(2, 14, 14, counts=Counter({"moved": 2, "moved and set": 1, "bytes of unset": 2})).break_even_share == 0.5
    )
    assert Weight(1, 5, 2, counts=Counter({"moved": 1, "bytes of unset": 3})).break_even_share == 0.6
    assert Weight(1, 5, 5).break_even_share is None
    assert weight_to_json(Weight(1, 100, 98))["savedShare"] == 0.02
