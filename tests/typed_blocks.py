"""Write the Python blocks of the documentation as modules for type checkers.

A block may use names of earlier blocks of its page. The module of a block imports such names from the modules of the
earlier blocks, so that two blocks can define the same name. Names that a page expects from its reader, such as a Spark
session, are in ``PRELUDE``.
"""

from __future__ import annotations

import ast
import builtins
import doctest
from collections.abc import Iterator
from pathlib import Path

from tests.doc_blocks import DOC_PAGES, ROOT, python_blocks

PRELUDE = {
    "spark": "from pyspark.sql import SparkSession\n\nspark: SparkSession\n",
    **{name: f"from pyspark.sql import DataFrame\n\n{name}: DataFrame\n" for name in ("df", "rows", "stream")},
    "messages": "messages: list[bytes]\n",
    "now": "now: int\n",
    "options": "options: dict[str, str]\n",
    "records": "records: bytes\n",
}


def write_modules(folder: Path) -> dict[str, str]:
    """Write a module for each block of each page; return each block's place by the name of its module."""
    places = {}
    for name, text in PRELUDE.items():
        (folder / f"reader_{name}.py").write_text(text)
    for page in DOC_PAGES:
        stem = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
        # the import with which a later block gets the name
        imports = {name: f"from reader_{name} import {name}\n" for name in PRELUDE}
        for number, block in enumerate(python_blocks(page), 1):
            source = _statements(block)
            tree = ast.parse(source)
            bound, missing = _find_names(tree)
            module = f"{stem}_{number}"
            needed = "".join(imports[name] for name in sorted(missing) if name in imports)
            (folder / f"{module}.py").write_text(needed + source)
            places[module] = f"{page.relative_to(ROOT)}, Python block {number}"
            imports |= {name: f"from {module} import {name}\n" for name in bound} | _import_statements(tree)
    return places


def _statements(block: str) -> str:
    if not block.startswith(">>>"):
        return block
    return "".join(example.source for example in doctest.DocTestParser().get_examples(block))


def _import_statements(tree: ast.Module) -> dict[str, str]:
    """Map each imported name to the statement that imports the name."""
    statements = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            text = f"{ast.unparse(node)}\n"
            statements |= {alias.asname or alias.name.partition(".")[0]: text for alias in node.names}
    return statements


def _find_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the names that a module binds outside of functions and classes, and those that it uses without binding."""
    bound, used = set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.arg(arg=name):
                bound.add(name)
    return set(_top_level(tree)), used - bound - set(dir(builtins))


def _top_level(node: ast.AST) -> Iterator[str]:
    """Yield the names that a module binds outside of functions and classes."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case (
                ast.comprehension()
                | ast.Lambda()
                | ast.GeneratorExp()
                | ast.ListComp()
                | ast.DictComp()
                | ast.SetComp()
            ):
                pass
            case _:
                yield from _top_level(child)


def describe_errors(output: list[str], places: dict[str, str]) -> list[str]:
    """Return the errors that a type checker printed, each after the place of its block."""
    errors = [line for line in output if " error:" in line or " - error:" in line]
    modules = [Path(line.split(":", 1)[0].strip()).stem for line in errors]
    return [f"{places.get(module, module)}: {line}" for module, line in zip(modules, errors, strict=True)]
