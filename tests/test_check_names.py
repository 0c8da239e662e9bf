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


def test_a_sentence_ends_with_its_paragraph_or_point_and_code_is_a_word():
    words = " word" * CHECK["WORDS"]["longest_sentence"]
    texts = {
        f"A{words}.": [1],
        f"{words}. Short: `not a word but`{words}": [1],
        f"Short.\n\nA{words}\nand on.": [3],
        f"Short\n{words}\n- point{words}": [1, 3],
        f"{words}; {words}\n\n{words}": [],
        f"    code{words}\n# heading{words}\n| table{words}\n```\ncode{words}\n```\n[link{words}](a b).": [7],
    }
    assert [[line for line, _ in CHECK["long_sentences"](text)] for text in texts] == list(texts.values())


def test_messages():
    tree = ast.parse('"""A docstring."""\nraise E(f"no {x} in " "it", "option", b"some bytes")\nf(help="A help.")\n')
    assert list(CHECK["messages"](tree)) == [(1, "no {} in it"), (2, "A help.")]


def test_a_file_is_searched_for_names_words_and_sentences(tmp_path):
    file = tmp_path / "odd.py"
    file.write_text('"""The\nroom."""\n\nplace = "is told"\nraise E("' + "word " * 40 + '")\n')
    problems = [(line, text[:5]) for line, text in CHECK["problems_of_source"](file)]
    assert problems == [(0, "odd"), (4, "place"), (2, "room"), (4, "told"), (5, "word ")]
