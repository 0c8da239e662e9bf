"""Large kernels document their arguments, in their docstring, the module's, or that of a file which these refer to."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "kafkaframes"
FILES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCES.rglob("_kernels*.py"))}
MAX_LINES, MAX_ARGUMENTS = 60, 12
# A row of a table or an entry in "Args:": names, then a colon or two spaces.
ROW = re.compile(r"^ *(\w+(?:[,;] \w+)*)(?:: | {2,})", re.MULTILINE)
FILE_NAME = re.compile(r"``(_kernels\w*)(?:\.py)?``")


def arguments(function: ast.FunctionDef) -> list[str]:
    return [name.arg for name in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]]


def is_large(function: ast.FunctionDef) -> bool:
    """Return whether a function has many arguments or lines, without its docstring."""
    docstring = function.body[0] if ast.get_docstring(function) else None
    lines = (
        function.end_lineno - function.lineno + 1 - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)
    )
    return lines > MAX_LINES or len(arguments(function)) > MAX_ARGUMENTS


def find_documented_names(text: str) -> set[str]:
    """Return the names that a docstring documents."""
    return {name for row in ROW.findall(text) for name in re.split(r"[,;] ", row)}


def find_undocumented_arguments(function: ast.FunctionDef, module: ast.Module, folder: Path) -> set[str]:
    """Return the arguments without documentation. ``x_`` is an array whose address the kernel calls ``x``."""
    texts = [ast.get_docstring(function) or "", ast.get_docstring(module) or ""]
    files = [folder / f"{name}.py" for text in texts for name in FILE_NAME.findall(text)]
    texts += [ast.get_docstring(FILES[file]) or "" for file in files if file in FILES]
    return {name.rstrip("_") for name in arguments(function)} - set().union(*map(find_documented_names, texts))


def large_functions() -> Iterator[tuple[Path, ast.Module, ast.FunctionDef]]:
    for file, module in FILES.items():
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef) and is_large(node):
                yield file, module, node


@pytest.mark.parametrize(
    ("file", "module", "function"),
    [pytest.param(*row, id=f"{row[0].relative_to(SOURCES)}-{row[2].name}") for row in large_functions()],
)
def test_a_large_kernel_documents_each_argument(file, module, function):
    assert not find_undocumented_arguments(function, module, file.parent)


def test_detection_of_large_and_documented_kernels():
    many = ", ".join(f"a{number}" for number in range(MAX_ARGUMENTS))
    long = "\n    pass" * MAX_LINES
    module = ast.parse(
        f'def f({many}): pass\ndef g(x, {many}): pass\ndef h(x_, y):\n    """D.\n\n    y: it.\n    """{long}'
    )
    f, g, h = module.body
    assert [is_large(function) for function in (f, g, h)] == [False, True, True]
    assert find_undocumented_arguments(h, module, SOURCES) == {"x"}
    assert find_documented_names("a, b; c  these\n\n    Args:\n        d, e: those, f: no") == {"a", "b", "c", "d", "e"}
