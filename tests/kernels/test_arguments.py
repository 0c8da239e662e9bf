"""A long kernel, or one of many arguments, says what each is: in its docstring, its module's, or one that they name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "kafkaframes"
FILES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCES.rglob("_kernels*.py"))}
MOST_LINES, MOST_ARGUMENTS = 60, 12
# A row of a table, or an entry below "Args:": names, then a colon or two spaces.
ROW = re.compile(r"^ *(\w+(?:[,;] \w+)*)(?:: | {2,})", re.MULTILINE)
FILE_NAME = re.compile(r"``(_kernels\w*)(?:\.py)?``")


def arguments(function: ast.FunctionDef) -> list[str]:
    return [name.arg for name in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]]


def is_large(function: ast.FunctionDef) -> bool:
    """Say whether a function has too many arguments or lines, its docstring not counted."""
    said = function.body[0] if ast.get_docstring(function) else None
    lines = function.end_lineno - function.lineno + 1 - (said.end_lineno - said.lineno + 1 if said else 0)
    return lines > MOST_LINES or len(arguments(function)) > MOST_ARGUMENTS


def listed(text: str) -> set[str]:
    """Return the names that a docstring explains."""
    return {name for row in ROW.findall(text) for name in re.split(r"[,;] ", row)}


def unexplained(function: ast.FunctionDef, module: ast.Module, folder: Path) -> set[str]:
    """Return the arguments that nothing explains; an array that is an address inside has its name and a ``_``."""
    texts = [ast.get_docstring(function) or "", ast.get_docstring(module) or ""]
    named = [folder / f"{name}.py" for text in texts for name in FILE_NAME.findall(text)]
    texts += [ast.get_docstring(FILES[file]) or "" for file in named if file in FILES]
    return {name.rstrip("_") for name in arguments(function)} - set().union(*map(listed, texts))


def large() -> Iterator[tuple[Path, ast.Module, ast.FunctionDef]]:
    for file, module in FILES.items():
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef) and is_large(node):
                yield file, module, node


@pytest.mark.parametrize(
    ("file", "module", "function"),
    [pytest.param(*row, id=f"{row[0].relative_to(SOURCES)}-{row[2].name}") for row in large()],
)
def test_a_large_kernel_explains_each_argument(file, module, function):
    assert not unexplained(function, module, file.parent)


def test_what_is_large_and_what_explains():
    many = ", ".join(f"a{number}" for number in range(MOST_ARGUMENTS))
    long = "\n    pass" * MOST_LINES
    module = ast.parse(
        f'def f({many}): pass\ndef g(x, {many}): pass\ndef h(x_, y):\n    """D.\n\n    y: it.\n    """{long}'
    )
    f, g, h = module.body
    assert [is_large(function) for function in (f, g, h)] == [False, True, True]
    assert unexplained(h, module, SOURCES) == {"x"}
    assert listed("a, b; c  these\n\n    Args:\n        d, e: those, f: no") == {"a", "b", "c", "d", "e"}
