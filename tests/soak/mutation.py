"""Build modules with one text replaced, and report the mutants that survive."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple


class Mutation(NamedTuple):
    """A module, a text that occurs in it once, and its replacement."""

    module: ModuleType
    before: str
    after: str


def build_mutant(name: str, mutation: Mutation) -> ModuleType:
    """Return the module with the text replaced."""
    module, before, after = mutation
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{name}: {before!r} occurs {text.count(before)} times in {module.__name__}"
    result = ModuleType(f"{module.__name__}_mutant")
    sys.modules[result.__name__] = result  # dataclasses look their module up
    try:
        exec(compile(text.replace(before, after), name, "exec"), result.__dict__)
    finally:
        del sys.modules[result.__name__]
    return result


@contextmanager
def apply_mutation(name: str, mutation: Mutation) -> Iterator[None]:
    """Replace the code of the functions that a mutation changes.

    The functions and classes stay the same objects, so the change reaches every reference to them, such as the default
    factory of a dataclass field.
    """
    functions = dict(_functions_of(mutation.module))
    changed_codes = {
        functions[key]: function.__code__
        for key, function in _functions_of(build_mutant(name, mutation))
        if _describe_code(function.__code__) != _describe_code(functions[key].__code__)
    }
    assert changed_codes, f"{name}: the replacement changes no function of {mutation.module.__name__}"
    original_codes = {function: function.__code__ for function in changed_codes}
    try:
        for function, code in changed_codes.items():
            function.__code__ = code
        yield
    finally:
        for function, code in original_codes.items():
            function.__code__ = code


def _functions_of(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions and methods that a module defines, with their qualified names."""
    pending: list[object] = list(vars(module).values())
    while pending:
        value = pending.pop()
        if isinstance(value, type):
            pending += vars(value).values() if value.__module__ == module.__name__ else ()
        elif isinstance(value, property):
            pending += (value.fget, value.fset)
        elif isinstance(value, (classmethod, staticmethod)):
            pending.append(value.__func__)
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
            if hasattr(value, "__wrapped__"):
                pending.append(value.__wrapped__)
            else:
                yield value.__qualname__, value


def _describe_code(code: CodeType) -> tuple[object, ...]:
    """Return a code object's contents without its line numbers, for comparison."""
    constants = [_describe_code(value) if isinstance(value, CodeType) else repr(value) for value in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, tuple(constants)


def first_failure(checks: Iterable[tuple[str, Callable[[], object]]]) -> str | None:
    """Return the name and the error of the first failed check, or None.

    Raises:
        NameError: the mutant uses an unknown name, so every check fails, whatever it checks.
    """
    for name, check in checks:
        try:
            check()
        except NameError:
            raise
        except Exception as error:  # any error of a broken module
            return f"{name}: {type(error).__name__} {error}"[:160]
    return None


def create_parser(documentation: str, mutants: Collection[str], *, schedules: int) -> argparse.ArgumentParser:
    """Return the parser of a command that tries mutants."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=schedules)
    parser.add_argument("--only", action="append", choices=mutants)
    return parser


def report_mutants(
    names: Sequence[str], first_wrong: Callable[[str], str | None], safe: Mapping[str, str] | None = None
) -> int:
    """Try mutants and print the results.

    Args:
        names: names of the mutants.
        first_wrong: a function that returns the first failure with a mutant, or None if the mutant survives.
        safe: for each mutant that must survive, the reason.

    Returns: The number of mutants that survive without a reason, or are detected although there is a reason.
    """
    reasons = safe or {}
    wrong = 0
    for name in names:
        failure = first_wrong(name)
        wrong += (failure is None) != (name in reasons)
        print(f"{'survives' if failure is None else 'dies    '} {name}: {failure or reasons.get(name, '')}", flush=True)
    print(f"mutants: {len(names)}, unexpected: {wrong}")
    return wrong
