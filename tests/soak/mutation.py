"""Build a module with one text replaced, use it in other modules for a while, and report the mutants that survive."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
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
    sys.modules[result.__name__] = result
    exec(compile(text.replace(before, after), name, "exec"), result.__dict__)
    return result


@contextmanager
def apply_mutation(name: str, mutation: Mutation, users: Sequence[ModuleType]) -> Iterator[None]:
    """Replace the classes and functions of a module in the modules that import them from it."""
    saved_names = {user: dict(vars(user)) for user in users}
    broken_module, module_name = build_mutant(name, mutation), mutation.module.__name__
    public = {
        key: value
        for key, value in vars(broken_module).items()
        if getattr(value, "__module__", "") == broken_module.__name__
    }
    for user in users:
        for key, value in public.items():
            if getattr(vars(user).get(key), "__module__", None) == module_name:
                setattr(user, key, value)
    try:
        yield
    finally:
        for user, names in saved_names.items():
            vars(user).update(names)


def first_failure(checks: Iterable[tuple[str, Callable[[], object]]]) -> str | None:
    """Return the name and the error of the first failed check, or None."""
    for name, check in checks:
        try:
            check()
        except Exception as error:  # any error of a broken module
            return f"{name}: {type(error).__name__} {error}"[:160]
    return None


def mutants_parser(documentation: str, mutants: Collection[str], *, schedules: int) -> argparse.ArgumentParser:
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
        first_wrong: returns the first failure with a mutant; None if it survives.
        safe: for each mutant that must survive, the reason.

    Returns:
        The number of mutants that survive without a reason, or that are detected in spite of one.
    """
    reasons = safe or {}
    wrong = 0
    for name in names:
        failure = first_wrong(name)
        wrong += (failure is None) != (name in reasons)
        print(f"{'survives' if failure is None else 'dies    '} {name}: {failure or reasons.get(name, '')}", flush=True)
    print(f"mutants: {len(names)}, wrong: {wrong}")
    return wrong
