"""Every regular expression of the package takes linear time on any text.

The test finds each use of ``re`` in the sources, so that new ones are tested without being listed. A use whose
expression is not a constant must be listed in ``USER_PATTERNS`` or ``BUILT_PATTERNS``. Expressions that clients send
are RE2's (``coordination/groups/subscriptions.py``) and do not use ``re``.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.pumping import grows_faster_than_linear, pumping_texts

from kafkaframes.broker.network.http_server import _pattern
from kafkaframes.capture.redaction import UNREDACTED_TEXTS

ROOT = Path(__file__).parent.parent / "src"
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
METHODS = FUNCTIONS - {"compile"}

# Expressions given by the user of a command or the operator of a broker, who is responsible for their time.
USER_PATTERNS = {
    "broker/state/config_changes.py": "client metrics patterns are compiled as a check, and never matched",
    "broker/security/kerberos.py": "sasl.kerberos.principal.to.local.rules",
    "client/consumer.py": "Consumer.subscribe(pattern=)",
    "jobs/dump/chunks.py": "--key-regex",
    "scan/selection.py": "shell patterns for topics, which fnmatch translates into atomic groups",
    "scan/java_pattern.py": "subscribePattern, translated from Java",
}
# Expressions that a function builds or a table contains, by file.
BUILT_PATTERNS: dict[str, Callable[[], list[str]]] = {
    "broker/network/http_server.py": lambda: [_pattern("/topics/{}/partitions/{}/records").pattern],
    "capture/redaction.py": lambda: list(UNREDACTED_TEXTS.values()),
}


class ExpressionUse(NamedTuple):
    """An expression in the sources, and the methods with which it is used."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_re_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text() for path in sorted(ROOT.rglob("*.py"))}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(texts()[path])


def files_with(expression: str) -> list[Path]:
    """Return the sources in which a text occurs.

    Only these are parsed, because parsing all sources takes seconds in each process of the suite.
    """
    pattern = re.compile(expression)
    return [path for path, text in texts().items() if pattern.search(text)]


def methods_by_name(names: set[str]) -> dict[tuple[Path | None, str], set[str]]:
    """Return the methods that are called on each name: in its file if the name is private, otherwise in the package."""
    methods: dict[tuple[Path | None, str], set[str]] = {}
    for path in files_with(rf"\b(?:{'|'.join(sorted(names))})[\s)\\]*\.\s*(?:{'|'.join(sorted(METHODS))})\b"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                value = node.value
                name = value.id if isinstance(value, ast.Name) else getattr(value, "attr", "")
                if name in names:
                    methods.setdefault((path if name.startswith("_") else None, name), set()).add(node.attr)
    return methods


def names_of_assignments(nodes: list[ast.AST]) -> dict[ast.AST, str]:
    """Return the name to which each call's value is assigned, also in assignments of several names."""
    names_by_call: dict[ast.AST, str] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [(target, node.value) for target in targets]
            if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(targets[0].elts, node.value.elts, strict=True))
            names_by_call |= {value: target.id for target, value in pairs if isinstance(target, ast.Name)}
    return names_by_call


def iterate_re_calls() -> Iterator[tuple[Path, ast.Call, str]]:
    """Yield each call of a function of ``re``: its file, the call, and the name that its value is assigned to."""
    for path in files_with(r"\bre\b"):
        nodes = list(ast.walk(tree_of(path)))
        names = names_of_assignments(nodes)
        for node in nodes:
            if is_re_call(node):
                assert isinstance(node, ast.Call)
                yield path, node, names.get(node, "")


def iterate_re_uses() -> Iterator[ExpressionUse | str]:
    """Yield each use of ``re``, or its place as text if its expression is not a constant."""
    calls = list(iterate_re_calls())
    methods = methods_by_name({name for _, _, name in calls if name})
    for path, node, name in calls:
        assert isinstance(node.func, ast.Attribute)
        place = str(path.relative_to(ROOT / "kafkaframes"))
        scope = vars(importlib.import_module(module_name(path)))
        try:
            expression, flags = (ast.unparse(one) for one in expression_and_flags(node))
            pattern = re.compile(eval(expression, scope), eval(flags, scope))
        except NameError:
            yield place
            continue
        methods_of_name = methods.get((path if name.startswith("_") else None, name), set())
        own = {node.func.attr} if node.func.attr in METHODS else methods_of_name
        yield ExpressionUse(f"{place}:{node.lineno}", pattern, frozenset(own or {"match", "fullmatch", "search"}))


def expression_and_flags(node: ast.Call) -> tuple[ast.expr, ast.expr]:
    """Return a call's expression and its flags."""
    assert isinstance(node.func, ast.Attribute)
    position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(node.func.attr, 2)
    flag_keywords = [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
    flag_arguments = flag_keywords or node.args[position : position + 1] or [ast.Constant(0)]
    return node.args[0], flag_arguments[0]


def use_pattern(pattern: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    """Return a function that applies a method of a pattern to a text."""
    if method in ("sub", "subn"):
        return lambda text: getattr(pattern, method)(text[:0], text)
    if method == "finditer":
        return lambda text: [None for _ in pattern.finditer(text)]
    return getattr(pattern, method)


def slow_texts(use: ExpressionUse) -> Iterator[str]:
    encode = (lambda text: text.encode()) if isinstance(use.pattern.pattern, bytes) else str
    for start, text, end in pumping_texts(use.pattern):
        for method in sorted(use.methods):
            call = use_pattern(use.pattern, method)

            def text_of(size: int, start: str = start, text: str = text, end: str = end) -> Any:
                return encode(start + text * (size // len(text)) + end)

            if grows_faster_than_linear(call, text_of):
                yield f"{method}: {start!r} + {text!r} * n + {end!r}"
                return


USES = list(iterate_re_uses())


def test_each_expression_is_a_constant_built_or_given_by_users():
    places = {expression_use for expression_use in USES if isinstance(expression_use, str)}
    assert places == USER_PATTERNS.keys() | BUILT_PATTERNS.keys()


def test_re_is_used_only_under_its_name():
    for path in files_with(r"\bre\b"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "re", path
            if isinstance(node, ast.Import):
                assert not any(name.name == "re" and name.asname for name in node.names), path


CASES = [one for one in USES if isinstance(one, ExpressionUse)]
CASES += [
    ExpressionUse(f"{place}:{number}", re.compile(text), frozenset({"fullmatch"}))
    for place, texts in BUILT_PATTERNS.items()
    for number, text in enumerate(texts())
]


@pytest.mark.parametrize("use", CASES, ids=lambda use: use.place)
def test_an_expression_takes_linear_time(use):
    assert list(slow_texts(use)) == [], use.pattern.pattern


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("(a+)+b", "fullmatch"),
        (r"\s+$", "search"),
        (r"(.*),(.*)=", "match"),
        (r"[ny],,\x01(?:[A-Za-z]+=[^\x01]*\x01)*?auth=Bearer +[^\x01\s]+\x01(?:[^\x01]*\x01)*", "fullmatch"),
        (r" from client ([^;,\s]+);(.*?)(?: \([\w.$]+\))?\s*$", "search"),
        (r"[0-9]+\.?[0-9]*", "fullmatch"),
    ],
)
def test_slow_expressions_are_found(text, method):
    assert next(slow_texts(ExpressionUse("", re.compile(text), frozenset({method}))), None) is not None
