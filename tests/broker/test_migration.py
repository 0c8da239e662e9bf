"""KIP-31's migration, step by step: records are converted only if the formats differ."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "docs" / "migration_story.py"


@pytest.fixture(scope="module")
def story():
    spec = importlib.util.spec_from_file_location("migration_story", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {step[:3]: step for step in module.play()}


@pytest.mark.parametrize("step", [("0.10.0", 1, 0), ("0.10.0", 1, 1), ("3.0-IV1", 2, 1), ("3.0-IV1", 2, 2)])
def test_sets_of_the_topics_format_are_taken_in_place(story, step):
    assert story[step].recompressed_bytes == 0


@pytest.mark.parametrize("step", [("0.9.0", 0, 0), ("0.9.0", 1, 0), ("0.10.0", 0, 1), ("3.0-IV1", 1, 1)])
def test_sets_of_another_format_and_of_format_0_are_compressed_again(story, step):
    assert story[step].recompressed_bytes > 1_000


def test_only_consumers_older_than_the_topics_format_need_a_conversion(story):
    behind = {step for step, counters in story.items() if counters.down_converted_records}
    assert behind == {("0.10.0", 1, 0), ("3.0-IV1", 1, 1), ("3.0-IV1", 2, 1)}
    assert all(story[step].down_converted_records == 100 for step in behind)
