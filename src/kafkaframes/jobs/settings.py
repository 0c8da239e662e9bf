"""Settings of jobs, each declared once: a field of a dataclass has the default, what is allowed, and what it means.

The keywords of the public functions (``taking``), the flags of the commands (``settings_options`` in
``cli/options.py``) and what is refused (``check``) are made of the fields. Nothing that reads logs is imported here.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, field, fields
from functools import cache, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

from kafkaframes.errors import OptionError

CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
BATCH_BYTES, INDEX_INTERVAL_BYTES = 16384, 4096  # as ``records.build`` and brokers have them
Default = TypeVar("Default")
Settings = TypeVar("Settings")
Source = TypeVar("Source")
Target = TypeVar("Target")
Result = TypeVar("Result")
Keywords = ParamSpec("Keywords")


def setting(
    default: Default,
    meaning: str,
    *,
    choices: Sequence[str] = (),
    least: int | None = None,
    flag: str | None = None,
    shown: str | None = None,
) -> Default:
    """Return the field of a setting.

    Args:
        default: of the setting; an empty mapping is made anew each time.
        meaning: for people: the help of its flag.
        choices: the texts that are allowed, where the type is no ``Literal`` of them.
        least: the smallest number that is allowed.
        flag: what the command line calls it; by default its name with hyphens.
        shown: what stands for its value in help; ``NAME=VALUE`` is repeatable.
    """
    facts = {"meaning": meaning, "choices": tuple(choices), "least": least, "flag": flag, "shown": shown}
    made: Any = field(default_factory=dict, repr=False, metadata=facts) if default == {} else None
    return cast(Default, made or field(default=default, metadata=facts))


def check(settings: Any) -> None:
    """Refuse what no source allows.

    Raises:
        OptionError: names the setting.
    """
    for entry in fields(settings):
        value, choices, least = (
            getattr(settings, entry.name),
            choices_of(type(settings), entry),
            entry.metadata.get("least"),
        )
        if choices and value not in choices and not (value is None and entry.default is None):
            raise OptionError(f"`{entry.name}` is one of {', '.join(map(str, choices))}, not {value!r}")
        if least is not None and value is not None and value < least:
            raise OptionError(f"`{entry.name}` is at least {least}, not {value}")


def choices_of(settings: type, entry: Field[Any]) -> tuple[Any, ...]:
    """Return the values that a setting may have; nothing where its type says all."""
    kind = kinds_of(settings)[entry.name]
    literals = (
        [kind] if get_origin(kind) is Literal else [part for part in get_args(kind) if get_origin(part) is Literal]
    )
    return get_args(literals[0]) if literals else tuple(entry.metadata.get("choices", ()))


@cache
def kinds_of(settings: type) -> dict[str, Any]:
    """Return the types of settings."""
    return get_type_hints(settings)


def settings_of(make: Callable[..., Settings], values: Mapping[str, Any]) -> Settings:
    """Make settings of names and values.

    Raises:
        OptionError: one does not exist (the nearest is named), or does not fit.
    """
    known = [entry.name for entry in fields(cast(Any, make))]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise OptionError(f"no setting {name}: {hint}")
    return make(**values)


def taking(
    make: Callable[Keywords, Settings],
) -> Callable[[Callable[[Source, Target, Settings], Result]], Callable[Concatenate[Source, Target, Keywords], Result]]:
    """Give a function of a source, a target and settings the keywords that the settings are made of."""

    def decorated(
        function: Callable[[Source, Target, Settings], Result],
    ) -> Callable[Concatenate[Source, Target, Keywords], Result]:
        ends = inspect.Signature(list(inspect.signature(function).parameters.values())[:2])

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Result:
            named = {name: keywords.pop(name) for name in ends.parameters if name in keywords}
            source, target = ends.bind(*arguments, **named).args
            return function(source, target, settings_of(make, keywords))

        own = inspect.signature(make).parameters.values()
        call.__signature__ = inspect.Signature([*ends.parameters.values(), *own])  # type: ignore[attr-defined]
        return call

    return decorated
