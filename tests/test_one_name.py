"""Each protocol number has one name in the package, and each subpackage logs under its own name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from kafkaframes.protocol import api_keys
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import NIL_UUID

SOURCES = Path(__file__).parents[1] / "src" / "kafkaframes"
# Kernels are compiled from their own files, so they do not import constants of other packages.
FILES_WITH_OWN_NUMBERS = ("_kernels", "capture/layout.py", "wire/integers.py", "testing/vectors/")
API_KEYS = {name: value for name, value in vars(api_keys).items() if isinstance(value, int)}


def iterate_nodes(text: str, *, with_kernels: bool = False) -> Iterator[tuple[str, ast.AST]]:
    """Yield (file name, node) for each syntax node of the files that match a pattern."""
    for path in sorted(SOURCES.rglob("*.py")):
        name, source = str(path.relative_to(SOURCES)), path.read_text()
        if re.search(text, source) and (with_kernels or not any(part in name for part in FILES_WITH_OWN_NUMBERS)):
            for node in ast.walk(ast.parse(source)):
                yield name, node


def literal_value(node: ast.AST) -> object:
    """Return the value of an expression of literals, or None."""
    parts = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
    if not isinstance(node, ast.BinOp | ast.Constant) or not all(isinstance(part, parts) for part in ast.walk(node)):
        return None
    return eval(ast.unparse(node))


def test_the_largest_int32_is_not_written_as_a_number():
    places = [
        f"{name}:{node.lineno}"
        for name, node in iterate_nodes(r"31|(?i:0x7f{7})|2_?147_?483_?647")
        if isinstance(node, ast.expr) and literal_value(node) == MAX_INT32
    ]
    assert places == []


def test_the_nil_uuid_is_created_once():
    calls = [
        f"{name}:{node.lineno}"
        for name, node in iterate_nodes("UUID", with_kernels=True)
        if isinstance(node, ast.Call) and ast.unparse(node).split(".")[-1] == "UUID(int=0)"
    ]
    assert (len(calls), NIL_UUID) == (1, UUID(int=0)), calls


def test_the_key_of_an_api_is_defined_once():
    definitions = [
        f"{name}: {target.id}"
        for name, node in iterate_nodes("|".join(API_KEYS))
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
        and target.id.lstrip("_") in API_KEYS
        and API_KEYS[target.id.lstrip("_")] == node.value.value
    ]
    assert definitions == [f"protocol/api_keys.py: {name}" for name in API_KEYS]


def test_a_logger_has_the_name_of_its_package():
    loggers = {
        (name.split("/")[0], ast.unparse(node.args[0]).strip("'"))
        for name, node in iterate_nodes("getLogger", with_kernels=True)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger")
    }
    assert loggers
    assert {(package, logger) for package, logger in loggers if logger != f"kafkaframes.{package}"} == set()
