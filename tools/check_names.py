"""Measure the language of names and prose, per package, against the rates in tools/language_rates.json.

    python tools/check_names.py                 compare; exit status 1 if a rate is higher than its stored rate
    python tools/check_names.py --list PACKAGE  print every counted line of a package
    python tools/check_names.py --update        store the rates that have become lower

A package is a folder of src/kafkaframes, ``tests``, ``tools``, ``benchmarks``, ``examples``, or ``pages`` (Markdown).
``src`` is the whole source. The measures, whose goals are in ``GOALS``:

* ``participles``: locals, parameters and attributes that are a bare past participle, in 1,000 lines. A name is the
  thing (``response``), not its state (``received``).
* ``functions``: functions whose first word is a past participle, in 100. A function is a verb with its object.
  Properties may be adjectives. Words that are also the verb (``set``, ``split``) do not count.
* ``bounds``: constants that are called MOST, LEAST, LARGEST and so on instead of MAX or MIN.
* ``classes``: class names that a package uses twice; in ``src``, names of three or more classes.
* ``habits``: sentences with an expression of ``HABITS``, in 1,000. Sentences are those of docstrings (with Args,
  Returns, Raises and Attributes), comments, messages and pages. A colon or semicolon ends a sentence.
* ``long``: sentences of more than 35 words in messages, help texts and pages, in 1,000.

A stored rate is rounded up, so a package may lose a line without a change of its rate.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

TOP: Final = Path(__file__).parent.parent
SOURCES: Final = TOP / "src" / "kafkaframes"
RATES: Final = TOP / "tools" / "language_rates.json"
FOLDERS: Final = ("tests", "tools", "benchmarks", "examples")

#: The goals of issue 43, which a new package must meet.
GOALS: Final = {"participles": 3.0, "functions": 1.5, "bounds": 0.0, "classes": 0.0, "habits": 25.0, "long": 0.0}
_RATE_UNITS: Final = {"participles": 1000, "functions": 100, "bounds": 0, "classes": 0, "habits": 1000, "long": 1000}
_DECIMALS: Final = {"participles": 1, "functions": 1, "bounds": 0, "classes": 0, "habits": 0, "long": 0}
_MAX_WORDS: Final = 35
_MAX_MESSAGE_LINES: Final = 3
_SHOWN_LINES: Final = 25

# Irregular past participles. Those in _VERB_PARTICIPLES have the form of the verb, which begins a function's name well.
_VERB_PARTICIPLES: Final = frozenset({"cut", "hit", "let", "put", "read", "set", "shut", "split", "spread"})
_IRREGULAR_PARTICIPLES: Final = frozenset((
    "asked", "begun", "bought", "bound", "broken", "brought", "built", "caught", "chosen", "done", "drawn", "driven",
    "fallen", "fed", "felt", "forgotten", "found", "frozen", "given", "gone", "grown", "held", "hidden", "kept",
    "known", "laid", "led", "left", "lent", "lost", "made", "meant", "met", "paid", "proven", "risen", "said", "seen",
    "sent", "shaken", "shown", "sold", "sought", "spent", "spoken", "stolen", "stood", "sworn", "taken", "taught",
    "thought", "thrown", "told", "understood", "undone", "wanted", "woken", "won", "worn", "woven", "written",
    "rewritten",
))  # fmt: skip
_NOT_PARTICIPLES: Final = frozenset((
    "bed", "bleed", "breed", "embed", "exceed", "feed", "heed", "hundred", "indeed", "need", "proceed", "red",
    "sacred", "seed", "shed", "shred", "signed", "speed", "succeed", "unsigned", "weed",
))  # fmt: skip
_BOUND_PATTERN: Final = re.compile(r"(?:^|_)(?:MOST|LEAST|FEWEST|(?:LARG|SMALL|LONG|SHORT|DEEP)EST)(?:_|$)")

_CLAUSE_WORDS: Final = "what|who|whoever|whatever"
HABITS: Final[Mapping[str, re.Pattern[str]]] = {
    "where, for a condition or a time (if, when)": re.compile(
        r"(?:\A|[,;:.] )[Ww]here (?!(?:is|are)\b)"
        r"|(?<!that )(?<!place )\bwhere (?:an?|all|both|it|no|one|several|that|the|there|they)\b"
    ),
    "is no X, there is none (is not a, does not exist)": re.compile(
        r"\b(?:is|are|was|were) no (?!(?:less|longer|more)\b)\w|\b[Tt]here (?:is|are) none\b|\bno \w+ is\b"
    ),
    "a clause as a noun (name the thing)": re.compile(
        rf"(?:\A(?:[A-Z][a-z]+ )?|[,;:] |\b(?:and|as|by|for|in|of|on|than|to|with) )(?:{_CLAUSE_WORDS}) (?!if\b)\w"
    ),
    "persons for programs (the client, the broker)": re.compile(
        r"\b(?:any|every|no|some)body\b|\bwhom\b|\bothers'", re.IGNORECASE
    ),
    "data that stands, lies, comes or goes (is, follows, is sent)": re.compile(
        r"\b(?:stands?|stood|lies?|lay|comes?|came|goes|went)\b"
    ),
    "programs that tell or say (report, return)": re.compile(r"\b(?:tells?|told|says?|said)\b"),
    "behind, beside, anew, likewise, meanwhile (after, next to, again, also)": re.compile(
        r"\b(?:anew|behind|beside|likewise|meanwhile|thereby|therein)\b"
    ),
    "made (created, opened)": re.compile(r"\b(?:are|be|been|is|was|were) made\b"),
    "a sentence that begins with What, Who, Which, Of, From or Where": re.compile(
        r"\A(?:From|Of|Wh(?:at|ere|ich|o|ose))\b"
    ),
}

# A comment: the text after a # outside of quotes. Lines of strings of several lines are excluded before.
_COMMENT_PATTERN: Final = re.compile(r"""(?:[^#'"]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")*#[#:]* ?(.*)""")
_QUOTED_PATTERN: Final = re.compile(r"(`+).*?\1|\]\([^)]*\)")  # code is one word; a link's target is not text
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:;])[\"')\]*]*\s+")
_NEW_PARAGRAPH: Final = re.compile(r"\s*(?:[-*] |\d+\. |\Z)")


class CountedLine(NamedTuple):
    """One counted name or sentence; ``line`` is its line number, or the first line of its paragraph."""

    file: Path
    line: int
    measure: str
    text: str


@dataclass(slots=True)
class PackageCounts:
    """The counts of a package: sizes and counted lines by measure, and its classes by name."""

    sizes: Counter[str] = field(default_factory=Counter)
    lines: list[CountedLine] = field(default_factory=list)
    classes: defaultdict[str, list[CountedLine]] = field(default_factory=lambda: defaultdict(list))

    def count(self, measure: str) -> int:
        """Return the number of counted names or sentences."""
        return sum(line.measure == measure for line in self.lines)

    def rate(self, measure: str) -> float:
        """Return the rate of a measure, rounded up to the decimals of the stored rates."""
        per = _RATE_UNITS[measure]
        rate = self.count(measure) * per / max(1, self.sizes[measure]) if per else self.count(measure)
        factor = 10 ** _DECIMALS[measure]
        return math.ceil(round(rate * factor, 6)) / factor

    def limit(self, measure: str, stored_rate: float) -> int:
        """Return the largest count that a stored rate permits, rounded up."""
        per = _RATE_UNITS[measure]
        return math.ceil(round(stored_rate * self.sizes[measure] / per if per else stored_rate, 6))


# ---- names ----------------------------------------------------------------------------------------------------------


def is_participle(word: str) -> bool:
    """Return whether a word is a past participle."""
    regular = len(word) > 3 and word.endswith("ed") and word not in _NOT_PARTICIPLES
    return regular or word in _IRREGULAR_PARTICIPLES or word in _VERB_PARTICIPLES - {"read", "set"}


def is_bare_participle(name: str) -> bool:
    """Return whether a name is one word, which is a past participle.

    >>> [is_bare_participle(name) for name in ("kept", "_requested", "kept_rows", "is_closed", "need")]
    [True, True, False, False, False]
    """
    word = name.strip("_")
    return word.islower() and "_" not in word and is_participle(word)


def begins_with_participle(name: str) -> bool:
    """Return whether the first word of a function's name is a past participle.

    >>> [begins_with_participle(name) for name in ("selected_rows", "_sized", "set_rows", "select_rows")]
    [True, True, False, False]
    """
    word = name.strip("_").split("_")[0]
    return is_participle(word) and word not in _VERB_PARTICIPLES


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def _add_name(package: PackageCounts, file: Path, node: ast.AST) -> None:
    """Count the name that a node binds, if it does."""
    line = getattr(node, "lineno", 0)
    name = ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        package.sizes["functions"] += 1
        if begins_with_participle(node.name) and not _is_property(node):
            package.lines.append(CountedLine(file, line, "functions", node.name))
    elif isinstance(node, ast.ClassDef):
        package.classes[node.name.strip("_")].append(CountedLine(file, line, "classes", node.name))
    elif isinstance(node, ast.arg):
        name = node.arg
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        name = node.id if isinstance(node, ast.Name) else node.attr
    if name and is_bare_participle(name):
        package.lines.append(CountedLine(file, line, "participles", name))
    elif name.isupper() and _BOUND_PATTERN.search(name):
        package.lines.append(CountedLine(file, line, "bounds", name))


# ---- prose ----------------------------------------------------------------------------------------------------------


def split_paragraphs(text: str, *, code_indent: int = 80) -> Iterator[tuple[int, str]]:
    """Yield each paragraph or list item with its first line, counted from 0. Code and tables are excluded.

    Args:
        code_indent: number of spaces before a line of code.
    """
    is_code, is_example, start, lines = False, False, 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""]):
        content = line.strip()
        is_fence = content.startswith("```")
        is_code ^= is_fence
        is_example = bool(content) and (is_example or line.endswith("\b"))  # Click's mark of text that is not wrapped
        is_code_line = is_code or is_fence or is_example or line.startswith(" " * code_indent)
        is_prose = not is_code_line and not content.startswith(("#", "|", ">>>", "..."))
        if lines and (not is_prose or _NEW_PARAGRAPH.match(line)):
            yield start, " ".join(lines)
            lines = []
        if is_prose and content:
            start = start if lines else number
            lines.append(content)
    if lines:
        yield start, " ".join(lines)


def split_sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph that have at least three words; code in backquotes is one word."""
    for sentence in _SENTENCE_END.split(_QUOTED_PATTERN.sub("code", paragraph)):
        text = re.sub(r"\A[-*\d.\s\"'(]+", "", sentence)
        if len(text.split()) > 2:
            yield text


def find_habit(sentence: str) -> str | None:
    """Return the first habit in a sentence, or None.

    >>> find_habit("Refuse what no source allows.")
    'a clause as a noun (name the thing)'
    >>> find_habit("Reject settings that are invalid for every source.")
    """
    return next((habit for habit, pattern in HABITS.items() if pattern.search(sentence)), None)


def _add_prose(
    package: PackageCounts, file: Path, start: int, text: str, *, limits_length: bool, code_indent: int = 80
) -> None:
    """Count the sentences of a text whose first line is ``start``."""
    for line, paragraph in split_paragraphs(text, code_indent=code_indent):
        for sentence in split_sentences(paragraph):
            package.sizes["habits"] += 1
            package.sizes["long"] += 1
            habit = find_habit(sentence)
            if habit is not None:
                package.lines.append(CountedLine(file, start + line, "habits", f"{sentence}  [{habit}]"))
            if limits_length and len(sentence.split()) > _MAX_WORDS:
                package.lines.append(CountedLine(file, start + line, "long", sentence))


def _get_text(node: ast.JoinedStr | ast.Constant) -> str:
    """Return the text of a string constant, with {} for each formatted value of an f-string."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def _add_strings(package: PackageCounts, file: Path, tree: ast.Module) -> set[int]:
    """Count the sentences of docstrings and messages; return the lines of strings that have several lines."""
    docstrings, parts, inner_lines = set[int](), set[int](), set[int]()
    for node in ast.walk(tree):  # a string is visited after its statement
        if isinstance(node, ast.Expr):
            docstrings.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
        if not isinstance(node, ast.JoinedStr | ast.Constant) or id(node) in parts:
            continue
        if isinstance(node, ast.Constant) and not isinstance(node.value, str):
            continue
        if node.end_lineno is not None and node.end_lineno > node.lineno:
            inner_lines |= set(range(node.lineno, node.end_lineno + 1))
        text, is_message = _get_text(node), id(node) not in docstrings
        is_command = file.is_relative_to(SOURCES / "cli")
        if is_message and not is_command and text.count("\n") > _MAX_MESSAGE_LINES:
            continue  # the string is a script or a list of settings
        if " " in text:
            indent = 1 if is_message else 80  # indented lines of help are examples, those of docstrings are not
            limits_length = is_message or is_command
            _add_prose(package, file, node.lineno, text, limits_length=limits_length, code_indent=indent)
    return inner_lines


def find_comments(text: str, excluded_lines: Iterable[int] = ()) -> Iterator[tuple[int, str]]:
    """Yield each comment with its first line. Comments on consecutive lines of their own are one comment."""
    skipped_lines, start, lines = set(excluded_lines), 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        match = _COMMENT_PATTERN.match(line) if "#" in line and number not in skipped_lines else None
        is_alone = match is not None and line.lstrip().startswith("#")
        if lines and not is_alone:
            yield start, "\n".join(lines)
            lines = []
        if is_alone and match is not None:
            start = start if lines else number
            lines.append(match[1].strip("- "))
        elif match is not None:
            yield number, match[1]


def add_source(package: PackageCounts, file: Path, text: str) -> None:
    """Count the names and the prose of a Python file."""
    tree = ast.parse(text)
    package.sizes["participles"] += text.count("\n")
    for node in ast.walk(tree):
        _add_name(package, file, node)
    inner_lines = _add_strings(package, file, tree)
    for line, comment in find_comments(text, inner_lines):
        _add_prose(package, file, line, comment, limits_length=False)


# ---- packages -------------------------------------------------------------------------------------------------------


def _get_package(file: Path) -> str:
    """Return the package to which a file belongs; "pages" for Markdown."""
    if file.suffix == ".md":
        return "pages"
    if file.is_relative_to(SOURCES):
        parts = file.relative_to(SOURCES).parts
        return parts[0] if len(parts) > 1 else "kafkaframes"
    return file.relative_to(TOP).parts[0]


def _yield_files() -> Iterator[Path]:
    """Yield all Python and Markdown files of the project."""
    for folder in (SOURCES, *(TOP / name for name in FOLDERS)):
        yield from sorted(folder.rglob("*.py"))
    yield from sorted([*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")])


def measure_packages() -> dict[str, PackageCounts]:
    """Return the counts of every package, and of ``src``."""
    packages: dict[str, PackageCounts] = defaultdict(PackageCounts)
    for file in _yield_files():
        package, text = packages[_get_package(file)], file.read_text(encoding="utf-8")
        if file.suffix == ".md":
            _add_prose(package, file, 1, text, limits_length=True, code_indent=4)
        else:
            add_source(package, file, text)
    whole = packages["src"]
    for name, package in packages.items():
        if (SOURCES / name).is_dir() or name == "kafkaframes":
            for class_name, lines in package.classes.items():
                whole.classes[class_name] += lines
        if name not in ("src", *FOLDERS):
            package.lines += [line for lines in package.classes.values() if len(lines) > 1 for line in lines[1:]]
    whole.lines += [line for lines in whole.classes.values() if len(lines) > 2 for line in lines[2:]]
    return dict(packages)


def _find_added_lines() -> set[tuple[Path, int]]:
    """Return the lines that were added since the rates were stored last; empty without Git."""
    git = ["git", "-C", str(TOP)]
    try:
        log = [*git, "log", "-1", "--format=%H", "--", str(RATES)]
        commit = subprocess.run(log, capture_output=True, text=True, check=True).stdout.strip()
        diff = subprocess.run(
            [*git, "diff", "-U0", commit or "HEAD"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return set()
    new_lines, file = set[tuple[Path, int]](), TOP
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = TOP / line[6:]
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(match[1])
            new_lines |= {(file, number) for number in range(first, first + int(match[2] or 1))}
    return new_lines


def find_problems(
    packages: Mapping[str, PackageCounts], stored_rates: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """Yield a line for each rate that is higher than its stored rate, and the lines that it counts, new ones first."""
    new_lines: set[tuple[Path, int]] | None = None
    for name, package in sorted(packages.items()):
        for key in GOALS:
            rate = stored_rates.get(name, {}).get(key, GOALS[key])
            count, limit = package.count(key), package.limit(key, rate)
            if count <= limit:
                continue
            new_lines = _find_added_lines() if new_lines is None else new_lines
            per = f" in {_RATE_UNITS[key]:,}" if _RATE_UNITS[key] else ""
            yield f"{name}: {key} {package.rate(key):g}{per}, stored {rate:g} ({count} counted, limit {limit})"
            lines = [line for line in package.lines if line.measure == key]
            per_file = Counter(line.file for line in lines)
            lines.sort(key=lambda one: ((one.file, one.line) not in new_lines, -per_file[one.file], one.file, one.line))
            for one in lines[:_SHOWN_LINES]:
                yield f"    {one.file.relative_to(TOP)}:{one.line}: {one.text}"


def lower_rates(
    packages: Mapping[str, PackageCounts], stored_rates: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return the rates to store: for each package and measure, the lower one of the stored and the current rate."""
    return {
        name: {key: min(package.rate(key), stored_rates.get(name, {}).get(key, math.inf)) for key in GOALS}
        for name, package in sorted(packages.items())
    }


def main() -> int:
    """Compare, list or store the rates; return 1 if a rate is too high."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="store the rates that have become lower")
    parser.add_argument("--list", metavar="PACKAGE", help="print every counted line of a package")
    options = parser.parse_args()
    packages = measure_packages()
    if options.list is not None:
        for one in sorted(packages[options.list].lines, key=lambda one: (one.measure, one.file, one.line)):
            print(f"{one.measure}: {one.file.relative_to(TOP)}:{one.line}: {one.text}")
        return 0
    stored_rates = json.loads(RATES.read_text(encoding="utf-8")) if RATES.exists() else {}
    if options.update:
        rows = [
            f"  {json.dumps(name)}: {json.dumps(rates)}" for name, rates in lower_rates(packages, stored_rates).items()
        ]
        RATES.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        return 0
    lines = list(find_problems(packages, stored_rates))
    print(*lines or ["no rate is higher than its stored rate"], sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
