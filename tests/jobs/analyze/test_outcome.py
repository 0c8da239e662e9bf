"""Totals of groups, and the results computed from them."""

from __future__ import annotations

from collections import Counter

from kafkaframes.jobs.analyze.outcome import SizeComparison, SizeGroup, SizeTotals, merge_outcomes, totals_to_json


def test_outcomes_add_up():
    group, other = SizeGroup(3, 12, "response", "same"), SizeGroup(3, 12, "request", "same")
    parts = [
        SizeComparison({group: SizeTotals(1, 10, 8, counts=Counter({"moved": 1}))}, (5, 9)),
        SizeComparison({group: SizeTotals(2, 20, 25), other: SizeTotals(reasons=Counter({"why": 3}))}, (2, 6)),
        SizeComparison(),
    ]
    total = merge_outcomes(parts)
    assert total.totals_by_group[group] == SizeTotals(3, 30, 33, counts=Counter({"moved": 1}))
    assert (total.span, total.duration_s) == ((2, 9), 7e-6)
    assert total.sum_totals_by("direction")[("request",)].omitted_count == 3
    assert total.sum_totals_by(direction="response")[()].saved_bytes == -3


def test_break_even_is_the_share_of_set_fields_at_which_nothing_is_saved():
    """In the first totals, an unset code saves two bytes and a set one costs two, so half of the codes may be set."""
    assert (
        SizeTotals(2, 14, 14, counts=Counter({"moved": 2, "moved and set": 1, "bytes of unset": 2})).break_even_share
        == 0.5
    )
    assert SizeTotals(1, 5, 2, counts=Counter({"moved": 1, "bytes of unset": 3})).break_even_share == 0.6
    assert SizeTotals(1, 5, 5).break_even_share is None
    assert totals_to_json(SizeTotals(1, 100, 98))["savedShare"] == 0.02
