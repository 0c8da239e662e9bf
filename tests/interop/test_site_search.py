"""The site's search finds the right page for the questions of new users.

``site_questions.json`` has 20 searches, the page that answers each, and a public question on this subject. They are
searched as in a browser: by the search worker of the built site.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

QUESTIONS = json.loads(Path(__file__).with_name("site_questions.json").read_text(encoding="utf-8"))
SCRIPT = Path(__file__).with_name("site_search.mjs")
MIN_FIRST = 18


def search(site, queries):
    """Return the pages that the site's search finds for each query, best first."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not on the PATH, and the search worker cannot run")
    result = subprocess.run(
        [node, SCRIPT, site], input=json.dumps(queries), capture_output=True, text=True, timeout=300, check=True
    )
    return json.loads(result.stdout)


def test_the_right_page_is_first_for_most_questions(built_site):
    results = search(built_site, [question["search"] for question in QUESTIONS])
    misses = [
        (question["search"], question["page"], pages[:3])
        for question, pages in zip(QUESTIONS, results, strict=True)
        if pages[:1] != [question["page"]]
    ]
    assert len(QUESTIONS) == 20
    assert len(QUESTIONS) - len(misses) >= MIN_FIRST, misses


def test_every_page_that_answers_a_question_exists(built_site):
    assert [question for question in QUESTIONS if not (built_site / question["page"] / "index.html").exists()] == []


def test_a_search_for_unknown_words_finds_nothing(built_site):
    assert search(built_site, ["qzxwv"]) == [[]]
