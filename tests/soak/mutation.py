"""Build a module with one text replaced, and let other modules use it for a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
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
def mutated(name: str, mutation: Mutation, users: Sequence[ModuleType]) -> Iterator[None]:
    """Replace the classes and functions of a module in the modules that import them from it."""
    saved = {user: dict(vars(user)) for user in users}
    broken, module_name = build_mutant(name, mutation), mutation.module.__name__
    public = {key: value for key, value in vars(broken).items() if getattr(value, "__module__", "") == broken.__name__}
    for user in users:
        for key, value in public.items():
            if getattr(vars(user).get(key), "__module__", None) == module_name:
                setattr(user, key, value)
    try:
        yield
    finally:
        for user, names in saved.items():
            vars(user).update(names)
