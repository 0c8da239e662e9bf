"""Count names and words of prose that tools/words.toml bans: more than a ceiling is an error.

Names are counted by package; prose on the pages (Markdown) and in docstrings. Arguments list what a row counts, such as
`broker`, `pages` or `docstrings`; `--lower` writes a count that fell into tools/words.toml.
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


def _listed(file: Path, words: Iterator[tuple[int, str]], start: int = 0) -> list[str]:
    return [f"{file.relative_to(TOP)}:{start + line}: {word}" for line, word in words]


def package_of(file: Path) -> str:
    """Return the row of the table that counts a file: the longest path that fits, else the file's folder."""
    folders = [str(folder) for folder in file.relative_to(SOURCES).parents]
    return next((folder for folder in folders if folder in WORDS["ceilings"]), folders[0])


def main() -> int:
    """Print the count of each package, and the names of the packages on the command line; return 1 for too many."""
    names: dict[str, list[str]] = {package: [] for package in WORDS["ceilings"]}
    for file in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names.setdefault(package_of(file), []).extend(_listed(file, banned_names(file, tree)))
        for start, text in docstrings(tree):
            names["docstrings"].extend(_listed(file, banned_words(text), start))
    for page in sorted(pages()):
        names["pages"].extend(_listed(page, banned_words(page.read_text(encoding="utf-8"))))
    counts = {package: len(lines) for package, lines in names.items()}
    print("banned words:", ", ".join(f"{package} {count}" for package, count in counts.items() if count) or "none")
    is_wrong = False
    for package, lines in names.items():
        if package in sys.argv[1:]:
            print(*lines, sep="\n")
        ceiling = WORDS["ceilings"].get(package, 0)
        if len(lines) > ceiling:
            print(f"{package}: {len(lines)}, at most {ceiling}; list them: python tools/check_names.py {package}")
            is_wrong = True
        elif len(lines) < ceiling and "--lower" in sys.argv:
            row = re.compile(rf'^("?){re.escape(package)}\1 = {ceiling}$', re.MULTILINE)
            TABLE.write_text(row.sub(rf"\g<1>{package}\g<1> = {len(lines)}", TABLE.read_text(), count=1))
        elif len(lines) < ceiling:
            print(f"{package}: lower its ceiling of {ceiling} to {len(lines)} (--lower)")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
