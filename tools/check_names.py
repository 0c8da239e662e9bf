"""Count names and words that tools/words.toml bans, and sentences longer than it allows: above a ceiling is an error.

Names are counted by package; words on the pages (Markdown), in docstrings and in messages (the other strings with a
space); long sentences on the pages, in messages and in the help of commands. Arguments list what a row counts, such as
`broker`, `pages` or `sentences`; `--lower` writes a count that fell into tools/words.toml.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

TOP = Path(__file__).parent.parent
SOURCES = TOP / "src" / "kafkaframes"
TABLE = TOP / "tools" / "words.toml"
WORDS: dict[str, Any] = tomllib.loads(TABLE.read_text())
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
_PROSE = re.compile(rf"\b(?:{'|'.join(WORDS['prose'])})\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")  # in backquotes; the target of a link
_END = re.compile(r"(?<=[.!?:;])[\"')\]*]*\s+")
_BEGIN = re.compile(r"\s*([-*] |\d+\. |$)")  # what ends the paragraph before: a point of a list, an empty line
_NAME_OF = {
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.alias: "asname",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}


@cache
def is_banned(name: str) -> bool:
    """Say whether a name is banned, or has a banned word between its underscores or capitals."""
    if name in WORDS["names_only"]:
        return True
    for phrase in WORDS["allowed"]:
        name = re.sub(rf"(?<![a-zA-Z]){phrase}(?![a-zA-Z])", "", name, flags=re.IGNORECASE)
    return any(part.lower() in WORDS["banned"] for part in _PART.findall(name))


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of all that a module binds."""
    in_comprehensions: set[int] = set()
    for node in ast.walk(tree):  # a comprehension before its own names
        name: str | None = None
        if isinstance(node, ast.comprehension):
            in_comprehensions |= {id(target) for target in ast.walk(node.target)}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = None if id(node) in in_comprehensions and node.id in WORDS["names_only"] else node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif type(node) in _NAME_OF:
            name = getattr(node, _NAME_OF[type(node)])
        if name is not None:
            yield getattr(node, "lineno", 0), name


def banned_names(file: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of what a file binds and should not; line 0 is the file's own name."""
    own = file.parent.name if file.stem == "__init__" else file.stem
    return ((line, name) for line, name in chain([(0, own)], bound_names(tree)) if is_banned(name))


def banned_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word of what prose should say otherwise; code, in backquotes or indented, is not prose."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and not line.startswith("    "):
            prose = re.sub(r"`[^`]*`", "", line)
            yield from ((number, word) for word in _PROSE.findall(prose))


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph of prose, and each point of a list, with its first line; code in backquotes is one word."""
    is_code, start, lines = False, 0, list[str]()
    for number, line in enumerate(chain(text.splitlines(), [""]), 1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        is_prose = not (is_code or is_fence or line.startswith(("    ", "#", "|")))
        if lines and (_BEGIN.match(line) or not is_prose):
            yield start, _CODE.sub("code", " ".join(lines))
            lines = []
        if is_prose and line.strip():
            start = start if lines else number
            lines.append(line.strip())


def long_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence of too many words, with the first line of its paragraph; a colon or semicolon ends one."""
    for start, paragraph in paragraphs(text):
        for sentence in _END.split(paragraph):
            if len(sentence.split()) > WORDS["longest_sentence"]:
                yield start, sentence


def pages() -> Iterator[Path]:
    """Yield the Markdown files of the repository's top and of docs."""
    return chain(TOP.glob("*.md"), (TOP / "docs").rglob("*.md"))


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each docstring of a module, with the line before its first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno - 1, text


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each string with a space that is no docstring, with the line before it: messages, help of options."""
    passed: set[int] = set()
    for node in ast.walk(tree):  # an expression before its parts
        if isinstance(node, ast.Expr):
            passed.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in node.values}
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in passed:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
            if " " in text and isinstance(getattr(node, "value", ""), str):
                yield node.lineno - 1, text


def _listed(file: Path, words: Iterator[tuple[int, str]], start: int = 0) -> list[str]:
    return [f"{file.relative_to(TOP)}:{start + line}: {word}" for line, word in words]


def package_of(file: Path) -> str:
    """Return the row of the table that counts a file: the longest path that fits, else the file's folder."""
    folders = [str(folder) for folder in file.relative_to(SOURCES).parents]
    return next((folder for folder in folders if folder in WORDS["ceilings"]), folders[0])


def counted() -> dict[str, list[str]]:
    """Return what each row of the table counts, as lines that name it."""
    rows: dict[str, list[str]] = {row: [] for row in WORDS["ceilings"]}
    for file in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        package = package_of(file)
        rows.setdefault(package, []).extend(_listed(file, banned_names(file, tree)))
        for row, texts in (("docstrings", docstrings(tree)), ("messages", messages(tree))):
            for start, text in texts:
                rows[row].extend(_listed(file, banned_words(text), start))
                if row == "messages" or package == "cli":
                    rows["sentences"].extend(_listed(file, long_sentences(text), start))
    for page in sorted(pages()):
        text = page.read_text(encoding="utf-8")
        rows["pages"].extend(_listed(page, banned_words(text)))
        rows["sentences"].extend(_listed(page, long_sentences(text)))
    return rows


def main() -> int:
    """Print the count of each row, and the lines of the rows on the command line; return 1 for too many."""
    rows = counted()
    counts = {row: len(lines) for row, lines in rows.items()}
    print(
        "banned words and long sentences:",
        ", ".join(f"{row} {count}" for row, count in counts.items() if count) or "none",
    )
    is_wrong = False
    for name, lines in rows.items():
        if name in sys.argv[1:]:
            print(*lines, sep="\n")
        ceiling = WORDS["ceilings"].get(name, 0)
        if len(lines) > ceiling:
            print(f"{name}: {len(lines)}, at most {ceiling}; list them: python tools/check_names.py {name}")
            is_wrong = True
        elif len(lines) < ceiling and "--lower" in sys.argv:
            row = re.compile(rf'^("?){re.escape(name)}\1 = {ceiling}$', re.MULTILINE)
            TABLE.write_text(row.sub(rf"\g<1>{name}\g<1> = {len(lines)}", TABLE.read_text(), count=1))
        elif len(lines) < ceiling:
            print(f"{name}: lower its ceiling of {ceiling} to {len(lines)} (--lower)")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
