"""The examples of docs/messages.md are correct."""

import doctest
from pathlib import Path


def test_examples_of_the_messages_page():
    page = Path(__file__).parents[3] / "docs" / "messages.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 8
    assert results.failed == 0
