"""tools/check_names.py: what counts as a banned name."""

import ast
import runpy
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "check_names.py"))


@pytest.mark.parametrize("name", ["one", "found", "_place_of", "FoundBatch", "PIECES", "wanted_topics", "odd"])
def test_banned(name):
    assert CHECK["is_banned"](name)


@pytest.mark.parametrize("name", ["read_one", "replace", "repair_in_place", "NOT_FOUND", "always", "everyone"])
def test_not_banned(name):
    assert not CHECK["is_banned"](name)


@pytest.mark.parametrize(
    "code",
    [
        "one = 1",
        "for one in x: pass",
        "def one(): pass",
        "lambda one: 1",
        "class one: pass",
        "x.one = 1",
        "import x as one",
        "f(one := 1)",
        "with x as one: pass",
        "try: pass\nexcept E as one: pass",
        "match x:\n case [one]: pass",
    ],
)
def test_every_binding_counts(code):
    assert "one" in [name for _, name in CHECK["bound_names"](ast.parse(code))]


def test_comprehensions_may_have_one_but_not_other_banned_names():
    tree = ast.parse("[f(one, place) for one, place in x]")
    assert [name for _, name in CHECK["bound_names"](tree)] == ["place"]


def test_prose():
    text = "It is told.\n`told`\n    told = []\n```\nodd\n```\nWhoever enters the room"
    assert list(CHECK["banned_words"](text)) == [(1, "told"), (7, "Whoever"), (7, "room")]


def test_docstrings():
    tree = ast.parse('"""A."""\n\n\ndef f():\n    """B."""\n')
    assert [text for _, text in CHECK["docstrings"](tree)] == ["A.", "B."]
