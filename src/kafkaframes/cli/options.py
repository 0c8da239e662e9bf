"""Define options that several commands share: sources, copies, selection, workers, Spark, memory, JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from functools import wraps
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kafkaframes.cli.placeholders import PLACEHOLDER_HELP, resolve_placeholders
from kafkaframes.cli.text import print_text
from kafkaframes.errors import NO_SUCH_PATH_TEXT, LogDirError, OptionError
from kafkaframes.jobs.settings import (
    POSITION_METAVAR,
    PartitionSettings,
    RangeSettings,
    SourceSettings,
    find_allowed_values,
    find_setting_types,
)
from kafkaframes.records.reasons import ON_DAMAGE
from kafkaframes.scan.ranges import EARLIEST, to_log_bound
from kafkaframes.scan.selection import ISOLATIONS
from kafkaframes.storage.files.units import parse_size

if TYPE_CHECKING:
    from kafkaframes.storage.copies.decisions import Decision


Command = TypeVar("Command", bound=Callable[..., Any])
MERGE, ALL = "merge", "all"
TEXT, JSON, PAGE = "text", "json", "html"


def parse_size_flag(text: str) -> int:
    """Read a size in bytes in the form of Spark's settings: 134217728, 128m, 1g."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None


def make_json_option(help_text: str) -> Callable[[Any], Any]:
    """Return ``--json`` for a command that prints one object per line, or a list of rows, instead of one object."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def parse_position(text: str) -> int | str:
    """Read an offset, a time in ISO 8601 (UTC if it has no zone), earliest or latest."""
    value = int(text) if text.isdecimal() else text
    to_log_bound("start", value, unset=EARLIEST)
    return value


class ExistingPath(click.Path):
    """A path that must exist. All commands report a missing path with the same error message."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Check the path."""
        is_standard_input = self.allow_dash and value == "-"
        if not is_standard_input and not os.path.exists(value):
            raise LogDirError(NO_SUCH_PATH_TEXT, file=os.fspath(value))
        return super().convert(value, param, ctx)


json_option = make_json_option("Print one JSON object.")
specs_option = click.option(
    "--specs",
    type=ExistingPath(),
    help="File or folder of message specs that override those of the catalog.",
)
ports_option = click.option("--ports", default="", metavar="PORTS", help="Ports of the brokers: 9092,9094-9096.")


workers_option = click.option(
    "--workers", "jobs", type=click.IntRange(1), help="Number of processes. Default: one per core."
)
master_option = click.option(
    "--master",
    metavar="URL",
    help="Spark master to run on: local[2], spark://host:7077, ... Default: processes on this machine.",
)
replicas_option = click.option(
    "--replicas",
    type=click.Choice((MERGE, ALL)),
    default=MERGE,
    show_default=True,
    help="Several copies of a partition (brokers, disks): merge them into one log, or export each copy.",
)
isolation_option = click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default="read_uncommitted",
    show_default=True,
    help="read_committed omits records of aborted transactions, and all records after "
    "the start of the first open transaction.",
)
reading_options = (
    isolation_option,
    click.option(
        "--control-records",
        is_flag=True,
        default=False,
        help="Also read transaction markers and other control records.",
    ),
    click.option(
        "--on-damage",
        type=click.Choice(ON_DAMAGE),
        default="keep",
        show_default=True,
        help="Read the records that Kafka would read, omit damaged batches, or stop at the first damaged batch.",
    ),
)
key_options = (
    click.option("--key", "keys", multiple=True, help="Key of the records to select; repeatable."),
    click.option("--key-regex", metavar="REGEX", help="Regular expression for the keys of the records to select."),
)
_budget_option = click.option(
    "--budget",
    "budget_bytes",
    type=parse_size_flag,
    metavar="SIZE",
    help="Memory for decompressed batches, for each process: 64m, 1g.  [default: 256m]",
)


def parse_pair(text: str, option: str = "", form: str = "KEY=VALUE", *, has_value: bool = False) -> tuple[str, str]:
    """Read a name and its value. Raise OptionError for other text, with ``option`` and the expected form."""
    name, separator, value = text.partition("=")
    if not name or not separator or (has_value and not value):
        raise OptionError(f"{option}{text}: must be {form}")
    return name, value


def choose_format(output: str | None, as_json: bool, *, default: str) -> str:
    """Return the format of a result, which ``--json`` or else the suffix of ``-o`` determines.

    >>> choose_format("audit.html", False, default=TEXT), choose_format(None, True, default=TEXT)
    ('html', 'json')
    """
    suffix = PurePath(output or "").suffix.lower()
    return JSON if as_json else {".json": JSON, ".html": PAGE}.get(suffix, default)


def add_click_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Add options to a command, in the given order."""

    def add_to_command(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add_to_command


_NAME_TYPES, _NUMBER_TYPES = str | Sequence[str], int | Sequence[int]
_LIST_TYPES = (Sequence[str], Sequence[int], _NAME_TYPES, _NUMBER_TYPES)


class RecordFormat(click.Choice[str]):
    """Click type for a record format in Kafka's notation, in which v2 is format 2."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of the format."""
        return value if isinstance(value, int) else int(super().convert(value, param, ctx).removeprefix("v"))


def add_settings_flags(settings: type, *leave_out: str) -> Callable[[Command], Command]:
    """Add a flag for each setting of a job except ``leave_out``, with the setting's name, type, default and help."""
    flag_fields = (entry for entry in fields(settings) if "meaning" in entry.metadata and entry.name not in leave_out)
    return add_click_options(*(_make_flag(settings, entry) for entry in flag_fields))


def _is_required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _list_choice_texts(settings: type, entry: Field[Any]) -> list[str]:
    """Return the values of a flag: texts, or record formats as Kafka writes them."""
    return [f"v{choice}" if isinstance(choice, int) else str(choice) for choice in find_allowed_values(settings, entry)]


_CLICK_TYPE_BY_METAVAR = {POSITION_METAVAR: parse_position, "PATH": ExistingPath()}


def _make_flag(settings: type, entry: Field[Any]) -> Callable[[Any], Any]:
    """Return the decorator that adds a setting's flag to a command."""
    facts, value_type = entry.metadata, find_setting_types(settings)[entry.name]
    names = (facts["flag"] or f"--{entry.name.replace('_', '-')}").split()
    if value_type is bool and entry.default is True:
        names = [f"{names[0]}/--no-{names[0].removeprefix('--')}"]
    options: dict[str, Any] = {"help": facts["meaning"], "metavar": facts["shown"], "default": entry.default}
    if not entry.repr:  # the value may contain a password
        options |= {"help": f"{facts['meaning']} {PLACEHOLDER_HELP}", "callback": _resolve_secret}
    options["show_default"] = entry.default not in (None, False, ())
    if _is_required(entry):
        options |= {"default": None, "show_default": False}
    options |= _choose_click_type(settings, entry)
    if entry.default == ():
        options |= {"multiple": True, "callback": _parse_pairs if value_type not in _LIST_TYPES else None}
    return click.option(*names, entry.name, **options)


def _choose_click_type(settings: type, entry: Field[Any]) -> dict[str, Any]:
    """Return the click type of a setting, and the default in the form of a flag."""
    facts, value_type, choices = (
        entry.metadata,
        find_setting_types(settings)[entry.name],
        find_allowed_values(settings, entry),
    )
    if choices and all(isinstance(choice, int) for choice in choices):
        default = {"default": f"v{entry.default}"} if isinstance(entry.default, int) else {}
        return {"type": RecordFormat(_list_choice_texts(settings, entry)), **default}
    if choices:
        return {"type": click.Choice(choices)}
    if facts["shown"] == "SIZE":
        return {"type": parse_size_flag, "default": f"{cast(int, entry.default) >> 20}m"}
    if facts["shown"] in _CLICK_TYPE_BY_METAVAR:
        return {"type": _CLICK_TYPE_BY_METAVAR[facts["shown"]]}
    if value_type is float:
        return {"type": click.FloatRange(facts["least"])}
    if value_type in (int, int | None, Sequence[int], _NUMBER_TYPES):
        return {"type": int if facts["least"] is None else click.IntRange(facts["least"])}
    return {"is_flag": True} if value_type is bool else {}


def _resolve_secret(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return an option's text with placeholders replaced."""
    return None if text is None else resolve_placeholders({option.opts[0]: text})[option.opts[0]]


def _parse_pairs(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Return the NAME=VALUE texts of a repeated option as pairs."""
    return tuple(parse_pair(text, f"{option.opts[0]} ", str(option.metavar), has_value=True) for text in texts)


selection_options = (add_settings_flags(PartitionSettings, "key_files", "follow_links"),)
range_options = (add_settings_flags(RangeSettings, *(entry.name for entry in fields(PartitionSettings))),)


def add_log_settings(
    *names: str,
    kind: type[Any] | None = None,
    leave_out: Sequence[str] = (),
    complete: Callable[[dict[str, Any]], None] = lambda flags: None,
) -> Callable[[Command], Command]:
    """Add the flags of settings to a command that reads logs. The command gets ``settings`` instead of their values.

    Symbolic links below its paths (the parameters ``names``) are not followed; they are listed on standard error.
    Without a ``kind`` of settings the command gets ``storage``, the options for reading sources. ``complete`` may
    derive flags from other flags before the settings are created. Raise OptionError if a required setting is still
    missing.
    """
    settings_class = kind or SourceSettings
    field_names = [entry.name for entry in fields(settings_class) if entry.name not in leave_out]

    def add_settings(command: Command) -> Command:
        @wraps(command)
        def run(**flags: Any) -> Any:
            complete(flags)
            for entry in filter(_is_required, fields(settings_class)):
                if flags[entry.name] is None:
                    raise OptionError(f"specify `{entry.name}`: {', '.join(_list_choice_texts(settings_class, entry))}")
            settings = settings_class(**{name: flags.pop(name) for name in field_names})
            if not settings.follow_links:
                print_links([path for name in names for path in _to_list(flags[name])])
            return command(**flags, **({"settings": settings} if kind else {"storage": settings.storage}))

        return add_settings_flags(settings_class, *leave_out)(run)  # type: ignore[return-value]

    return add_settings


def add_budget_option(command: Command) -> Command:
    """Add ``--budget`` to a command that decompresses records. The budget limits all code that the command calls.

    Other processes and Spark tasks use the same limit (``cli.workers``, ``spark.jobs``).
    """

    @wraps(command)
    def run(*, budget_bytes: int | None, **flags: Any) -> Any:
        from kafkaframes.records.limits import limit_budget

        with limit_budget(budget_bytes):
            return command(**flags)

    return _budget_option(run)  # type: ignore[return-value]


def _to_list(value: Any) -> Sequence[str]:
    """Return a single text as a list of one element, and a sequence unchanged."""
    return [value] if isinstance(value, str) else value


MAX_PRINTED_LINKS = 10  # largest number of listed links, so that a following error stays visible


def print_links(paths: Sequence[str]) -> None:
    """List the symbolic links below local paths. Symbolic links are not followed unless the user asks for it."""
    from kafkaframes.storage.log.discover import find_links

    links = find_links(paths)
    for path in links[:MAX_PRINTED_LINKS]:
        print_text(f"kafkaframes: left out: {path} is a symbolic link (--follow-links reads it)", err=True)
    if len(links) > MAX_PRINTED_LINKS:
        print_text(f"kafkaframes: left out: {len(links) - MAX_PRINTED_LINKS:,} more symbolic links", err=True)


MAX_PRINTED_DECISIONS = 20  # largest number of printed decisions of one check


def format_decisions(decisions: Iterable[Decision]) -> list[str]:
    """Return decisions as lines, with a limited number for each check."""
    counts: dict[str, int] = {}
    lines = []
    for decision in decisions:
        counts[decision.check] = counts.get(decision.check, 0) + 1
        if counts[decision.check] <= MAX_PRINTED_DECISIONS:
            lines.append(str(decision))
    remarks = [
        f"{check}: and {count - MAX_PRINTED_DECISIONS:,} more"
        for check, count in counts.items()
        if count > MAX_PRINTED_DECISIONS
    ]
    return lines + remarks
