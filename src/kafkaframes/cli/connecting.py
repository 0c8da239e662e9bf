"""The options by which every command finds its cluster: ``-b``, Kafka's properties by ``-X``, and ``--timeout``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from kafkaframes.cli.options import json_option_of, pair_of
from kafkaframes.cli.placeholders import HELP, resolve_placeholders
from kafkaframes.cli.text import note, say
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import Admin
    from kafkaframes.client.settings import ClientSettings

Function = TypeVar("Function", bound=Callable[..., Any])
Connect: TypeAlias = Callable[[], "Admin"]
as_json_option = json_option_of("As JSON.")
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the first answer of a broker.",
)
SERVERS = "KAFKA_BOOTSTRAP_SERVERS"
_PROPERTIES = "kafkaframes.properties"  # of a context: what -X said so far


def _with_those_before(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Add what was said before the subcommand, which the subcommand's own values override."""
    context.meta[_PROPERTIES] = (*context.meta.get(_PROPERTIES, ()), *values)
    return tuple(context.meta[_PROPERTIES])


def connecting_group(name: str, help_text: str) -> click.Group:
    """Return a group that takes ``-b``, ``-X`` and ``--timeout`` before its subcommands, too."""

    @click.group(name, help=help_text)
    @connecting
    @click.pass_context
    def group(context: click.Context, /, **settings: Any) -> None:
        del settings["properties"]  # `_with_those_before` adds them up
        known = {key: value for key, value in settings.items() if value is not None}
        context.default_map = dict.fromkeys(group.list_commands(context), known)

    return group


def connecting(function: Function) -> Function:
    """Add ``-b`` and ``-X``; ``settings_of`` makes a client's settings of them."""
    properties = click.option(
        "-X",
        "properties",
        multiple=True,
        callback=_with_those_before,
        metavar="KEY=VALUE",
        help=f"A property of Kafka's clients, such as security.protocol=SASL_SSL; repeatable. {HELP}",
    )
    servers = click.option(
        "-b",
        "--bootstrap-server",
        "servers",
        metavar="HOST:PORT",
        help=f"Brokers to connect to, separated by commas. Default: ${SERVERS}, or localhost:9092.",
    )
    return servers(properties(timeout_option(function)))


def with_admin(function: Function) -> Function:
    """Add the same, and hand the command ``connect`` in their place, which opens an admin of the cluster."""

    @wraps(function)
    def run(*, servers: str | None, properties: tuple[str, ...], timeout: float, **options: Any) -> Any:
        def connect() -> Admin:
            from kafkaframes.client import Admin

            return Admin(**reached(servers, properties, timeout))

        return function(connect=connect, **options)

    return connecting(run)  # type: ignore[return-value]


def reached(
    servers: str | None,
    properties: tuple[str, ...],
    timeout: float,
    *,
    new_topic: str | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    kind: type[ClientSettings] | None = None,
) -> dict[str, Any]:
    """Return a client's settings once a broker has answered; say on standard error when that has to be waited for.

    Args:
        timeout: in seconds.
        new_topic: a topic that is written to, and made if the brokers make topics (``auto.create.topics.enable``).
        flags: the client settings that each of the command's parameters stands for. ``-X`` overrides the default of a
            parameter, and a parameter that was typed overrides ``-X``.
        kind: of a producer or a consumer; by default of an admin.

    Raises:
        NetworkError: nobody has answered in time.
        BrokerError: the broker refuses us, or there is no such topic.
        OptionError: a property that is none, or not of the form KEY=VALUE.
    """
    import asyncio

    from kafkaframes.client.properties import merge_settings
    from kafkaframes.client.reaching import reach
    from kafkaframes.client.settings import ClientSettings

    typed = [settings for name, settings in (flags or {}).items() if is_typed(name)]
    defaults = [settings for name, settings in (flags or {}).items() if not is_typed(name)]
    settings = merge_settings(*defaults, settings_of(servers, properties), *typed)
    known = (kind or ClientSettings).of(settings)
    asyncio.run(reach(known, waiting=note, timeout_s=timeout, new_topic=new_topic))
    return settings


def settings_of(servers: str | None, properties: tuple[str, ...]) -> dict[str, Any]:
    """Return a client's settings: ``-b`` overrides ``-X``, which overrides the environment and the default.

    Raises:
        OptionError: a property is not of the form KEY=VALUE.
    """
    from kafkaframes.client.properties import merge_settings

    default = {"bootstrap.servers": os.environ.get(SERVERS) or "localhost:9092"}
    typed = {"bootstrap.servers": servers} if servers else {}
    return merge_settings(default, client_properties_of(properties, option="-X "), typed)


def is_typed(name: str) -> bool:
    """Return whether a parameter of the current command was given, and is not its default."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT)


def confirmed(question: str) -> Callable[[Function], Function]:
    """Have a command ask before it deletes; ``--yes`` is the answer where nobody sits at a terminal."""

    def ask(context: click.Context, option: click.Parameter, is_sure: bool) -> None:
        if is_sure or context.resilient_parsing:
            return
        try:
            agreed = click.confirm(question, err=True)
        except click.Abort:
            if sys.stdin.isatty():
                raise
            raise OptionError("nothing is deleted: without a terminal, --yes confirms it") from None
        if not agreed:
            raise click.Abort

    return click.option("--yes", is_flag=True, expose_value=False, callback=ask, help="Delete without asking.")


def topic_partition_of(text: str) -> tuple[str, int]:
    """Read a topic partition; what is none is an ``OptionError``.

    >>> topic_partition_of("orders-eu:3")
    ('orders-eu', 3)
    """
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal() or not topic:
        raise OptionError(f"not a topic partition: {text!r}; must be TOPIC:PARTITION")
    return topic, int(number)


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool, *, none: str = "") -> None:
    """Print rows as JSON, or as a table: one for each run of rows with equal columns. ``none`` is noted of no rows."""
    if as_json:
        say(json.dumps(rows, indent=2))
        return
    if not rows:
        if none:
            note(none)
        return
    for index, (columns, table) in enumerate(groupby(rows, key=list)):
        lines = [columns] + [["" if value is None else str(value) for value in row.values()] for row in table]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        if index:
            say("")
        for line in lines:
            say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def client_properties_of(texts: Iterable[str], *, option: str) -> dict[str, str]:
    """Read client properties from KEY=VALUE texts, and resolve placeholders in the values."""
    return resolve_placeholders(pairs_of(texts, option=option))


def pairs_of(texts: Iterable[str], *, option: str = "") -> dict[str, str]:
    """Read KEY=VALUE texts; one that is not of that form is an ``OptionError``."""
    return dict(pair_of(text, option) for text in texts)
