"""Every public function and method accepts all arguments as keywords, at run time and for mypy.

The calls that mypy checks are generated from the signatures at run time. If type checkers see a parameter under another
name or as positional-only, mypy reports an error.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Iterator

import pytest
from tests.annotations import exported_values
from tests.under_mypy import run_mypy_on, set_mypy_option

_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def public_calls() -> Iterator[tuple[str, object, bool]]:
    """Yield (path, function or class, whether it is called on an instance) for each public callable."""
    for value, name in exported_values().items():
        if inspect.isfunction(value):
            yield name, value, False
            continue
        is_protocol = getattr(value, "_is_protocol", False)  # cannot be instantiated
        if not (issubclass(value, BaseException | enum.Enum) or typing.is_typeddict(value) or is_protocol):
            yield name, value, False
        for member, method in inspect.getmembers(value):
            if member.startswith("_") or not (inspect.isfunction(method) or inspect.ismethod(method)):
                continue
            if method.__module__.startswith("kafkaframes"):
                yield f"{name}.{member}", method, "self" in inspect.signature(method).parameters


def parameters_of(function: object) -> list[inspect.Parameter]:
    return [entry for entry in inspect.signature(function).parameters.values() if entry.name != "self"]


def test_no_public_parameter_is_positional_only():
    pytest.importorskip("pyspark")
    names = [
        f"{name}({parameter.name})"
        for name, function, _ in public_calls()
        for parameter in parameters_of(function)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    assert names == []


def test_mypy_accepts_each_public_call_with_all_arguments_as_keywords(tmp_path):
    pytest.importorskip("pyspark")
    packages = sorted({name.rpartition(".")[0] for name in exported_values().values()})
    lines = ["from typing import Any", f"import {', '.join(packages)}", "value: Any"]
    calls = {}
    for name, function, is_bound in public_calls():
        target = name
        if is_bound:
            owner, _, member = name.rpartition(".")
            lines.append(f"object_{len(lines)}: {owner}{'[Any]' if owner.endswith('.JobResult') else ''}")
            target = f"object_{len(lines) - 1}.{member}"
        keywords = [f"{entry.name}=value" for entry in parameters_of(function) if entry.kind in _BY_KEYWORD]
        lines.append(f"{target}({', '.join(keywords)})")
        calls[len(lines)] = f"{name}({', '.join(keywords)})"
    lines.append("kafkaframes.verify_log(path=value)")
    module = tmp_path / "keyword_calls.py"
    module.write_text("\n".join(lines) + "\n")
    set_mypy_option([module], 'disable-error-code="unused-coroutine"')
    errors = [line for line in run_mypy_on([module]) if "keyword_calls.py:" in line and " error: " in line]
    numbers = [int(line.rpartition("keyword_calls.py:")[2].split(":")[0]) for line in errors]
    assert len(lines) in numbers, "mypy does not report the wrong call in the last line"
    assert [calls[number] for number in numbers if number < len(lines)] == [], errors
    assert len(calls) > 300
