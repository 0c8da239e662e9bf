"""tools/check_names.py counts names and sentences, and compares the counts with stored rates."""

import json
import runpy
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
CHECK = runpy.run_path(str(TOP / "tools" / "check_names.py"))


def list_counted_texts(source, measure, folder="src/kafkaframes/wire"):
    """Return the texts that a measure counts in a source file."""
    package = CHECK["PackageCounts"]()
    CHECK["add_source"](package, TOP / folder / "example.py", source)
    return [line.text for line in package.lines if line.measure == measure]


@pytest.mark.parametrize(
    "code",
    [
        "kept = 1",
        "for kept in x: pass",
        "lambda kept: 1",
        "x.kept = 1",
        "[x for kept in y]",
        "f(kept := 1)",
        "with x as kept: pass",
        "def f(*kept): pass",
        "_kept: int = 1",
    ],
)
def test_every_binding_of_a_bare_participle_is_counted(code):
    assert [text.strip("_") for text in list_counted_texts(code, "participles")] == ["kept"]


@pytest.mark.parametrize("name", ["kept_rows", "is_closed", "need", "signed", "KEPT", "settings", "Nested"])
def test_other_names_are_not_counted(name):
    assert list_counted_texts(f"{name} = 1", "participles") == []


def test_functions_begin_with_a_verb_and_properties_may_be_adjectives():
    source = """
def selected_rows(): pass
async def _sized(): pass
def set_offsets(): pass
def split_path(): pass
class C:
    @property
    def closed(self): pass
    @cached_property
    def known_topics(self): pass
    def merged(self): pass
"""
    assert list_counted_texts(source, "functions") == ["selected_rows", "_sized", "merged"]


def test_only_constants_count_as_bounds():
    assert list_counted_texts("_MOST_BYTES = LARGEST = 1\nMAX_BYTES = 2\nlargest = 3\nHARVEST = 4", "bounds") == [
        "_MOST_BYTES",
        "LARGEST",
    ]


@pytest.mark.parametrize(
    ("sentence", "habit"),
    [
        ("Refuse what no source allows.", "a clause"),
        ("Raise where the header is missing.", "where"),
        ("Where the file ends, stop.", "where"),
        ("The text is no number.", "is no"),
        ("There is none in the file.", "is no"),
        ("Nobody may read the topic.", "persons"),
        ("The data lies in the buffer.", "data"),
        ("The header tells the size.", "programs"),
        ("The bytes behind the header are ignored.", "behind"),
        ("The topic is made by the broker.", "made"),
        ("Of a batch of format 2.", "a sentence"),
    ],
)
def test_habits(sentence, habit):
    assert str(CHECK["find_habit"](sentence)).startswith(habit)


@pytest.mark.parametrize(
    "sentence",
    [
        "Return the offset at which the batch starts.",
        "The place where the file is stored.",
        "The version is no longer supported.",
        "The directory whose files are read.",
        "Print what if analyses show.",
    ],
)
def test_other_sentences_have_no_habit(sentence):
    assert CHECK["find_habit"](sentence) is None


def test_the_descriptions_of_arguments_errors_and_attributes_are_read():
    source = '''
def f(x):
    """Return a number.

    Args:
        x: what the caller wants, of `what it is`.

    Returns:
        Nobody reads this.

    Raises:
        E: the file is no log.

    >>> f("what is it")
    """
'''
    assert len(list_counted_texts(source, "habits")) == 3


def test_comments_messages_and_formatted_texts_are_read_and_strings_with_a_number_sign_are_not_comments():
    quotes = '"' * 3
    source = f"""
x = "a # what is it"[0]  # of what it is
# A sentence of two lines ends
# where it ends. The next one is fine.
raise E(f"{{x}} is no number", b"there is none")
y = {quotes}
# what a string says
{quotes}
"""
    assert [text.split("  [")[0] for text in list_counted_texts(source, "habits")] == [
        "{} is no number",
        "of what it is",
        "A sentence of two lines ends where it ends.",
    ]


def test_long_sentences_are_those_of_messages_and_of_commands():
    words = "word " * 36
    source = f'"""{words}."""\nraise E("{words}; {words}. Short: {words[:90]}")\n'
    assert len(list_counted_texts(source, "long")) == 2
    assert len(list_counted_texts(source, "long", folder="src/kafkaframes/cli")) == 3


def test_code_tables_headings_and_examples_are_not_prose():
    code = "```\nsome code here\n```\n\n\b\nkafkaframes an example\nof two lines\n\n"
    text = f"# A heading\n| a | table |\n{code}- a point\n- b"
    assert [paragraph for _, paragraph in CHECK["split_paragraphs"](text)] == ["- a point", "- b"]
    assert list(CHECK["split_paragraphs"]("A\n    code\nB", code_indent=4)) == [(0, "A"), (2, "B")]


def package_rates(counts, sizes):
    package = CHECK["PackageCounts"]()
    package.sizes.update(sizes)
    for measure, count in counts.items():
        package.lines += [CHECK["CountedLine"](TOP / "README.md", 1, measure, "text")] * count
    return package


def test_a_rate_must_not_rise_and_a_lower_rate_is_stored():
    zero = dict.fromkeys(CHECK["GOALS"], 0.0)
    sizes = dict.fromkeys(CHECK["GOALS"], 2000)
    stored_rates = {"wire": {**zero, "participles": 2.1, "bounds": 1.0}}
    same = {"wire": package_rates({"participles": 5, "bounds": 1}, sizes)}
    assert list(CHECK["find_problems"](same, stored_rates)) == []
    higher = {"wire": package_rates({"participles": 6, "habits": 1}, sizes)}
    lines = [line for line in CHECK["find_problems"](higher, stored_rates) if not line.startswith(" ")]
    assert lines == [
        "wire: participles 3 in 1,000, stored 2.1 (6 counted, limit 5)",
        "wire: habits 1 in 1,000, stored 0 (1 counted, limit 0)",
    ]
    assert CHECK["lower_rates"](higher, stored_rates)["wire"] == {**zero, "participles": 2.1}
    assert (
        CHECK["lower_rates"]({"wire": package_rates({"participles": 1}, sizes)}, stored_rates)["wire"]["participles"]
        == 0.5
    )


def test_a_package_without_stored_rates_must_meet_the_goals():
    sizes = dict.fromkeys(CHECK["GOALS"], 1000)
    assert list(CHECK["find_problems"]({"new": package_rates({"participles": 3, "habits": 25}, sizes)}, {})) == []
    first, *_ = CHECK["find_problems"]({"new": package_rates({"participles": 4}, sizes)}, {})
    assert first == "new: participles 4 in 1,000, stored 3 (4 counted, limit 3)"


def test_stored_rates_have_a_row_for_each_package():
    stored_rates = json.loads((TOP / "tools" / "language_rates.json").read_text())
    folders = {path.name for path in (TOP / "src" / "kafkaframes").iterdir() if list(path.glob("*.py"))}
    assert set(stored_rates) == folders | {"src", "kafkaframes", "pages", "tests", "tools", "benchmarks", "examples"}
    assert all(set(rates) == set(CHECK["GOALS"]) for rates in stored_rates.values())


def test_the_tool_itself_has_no_participle_names():
    source = (TOP / "tools" / "check_names.py").read_text()
    assert list_counted_texts(source, "participles") == []
