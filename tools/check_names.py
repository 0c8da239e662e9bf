"""List names and words that tools/words.toml bans, and sentences longer than it allows; exit status 1 if there are any.

Names are those that Python files bind; words are looked for on the pages (Markdown), in docstrings and in messages (the
other strings with a space), long sentences on the pages, in messages and in the help of commands.
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
WORDS: dict[str, Any] = tomllib.loads((TOP / "tools" / "words.toml").read_text(encoding="utf-8"))
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


def problems_of_source(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line, 0 for the file's own name, and the word or sentence of all that a Python file should mend."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    yield from banned_names(file, tree)
    is_command = file.is_relative_to(SOURCES / "cli")
    for texts, has_sentences in ((docstrings(tree), is_command), (messages(tree), True)):
        for start, text in texts:
            problems = chain(banned_words(text), long_sentences(text) if has_sentences else ())
            yield from ((start + line, text) for line, text in problems)


def problems_of_page(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the line, and the word or sentence of all that a page should mend."""
    text = page.read_text(encoding="utf-8")
    return chain(banned_words(text), long_sentences(text))


def main() -> int:
    """Print where each word or sentence is; return 1 if there is one."""
    files = [(file, problems_of_source(file)) for file in sorted(SOURCES.rglob("*.py"))]
    files += [(page, problems_of_page(page)) for page in sorted(pages())]
    lines = [f"{file.relative_to(TOP)}:{line}: {text}" for file, problems in files for line, text in problems]
    print(*lines or ["no banned word, no long sentence"], sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
