"""Define the options with which commands connect to a cluster: ``-b``, ``-X KEY=VALUE``, and ``--timeout``."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from kafkaframes.cli.options import make_json_option, parse_pair
from kafkaframes.cli.placeholders import PLACEHOLDER_HELP, resolve_placeholders
from kafkaframes.cli.text import print_note, print_text
from kafkaframes.errors import NetworkError, OptionError

if TYPE_CHECKING:
    from kafkaframes.client import Admin
    from kafkaframes.client.settings import ClientSettings

Function = TypeVar("Function", bound=Callable[..., Any])
Connect: TypeAlias = Callable[[], "Admin"]
as_json_option = make_json_option("As JSON.")
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum wait for the first response from a broker.",
)
_DEFAULT_SERVERS = "localhost:9092"
SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
# The brackets of a topic pattern or an IPv6 address, in which a colon is allowed.
_CHARACTER_CLASS = re.compile(r"\[[^][]*\]")
_PROPERTIES_KEY = "kafkaframes.properties"  # key of a context's meta data: the values of -X so far


def _prepend_group_values(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Prepend the values that were given before the subcommand. The values of the subcommand itself override them."""
    context.meta[_PROPERTIES_KEY] = (*context.meta.get(_PROPERTIES_KEY, ()), *values)
    return tuple(context.meta[_PROPERTIES_KEY])


def make_connecting_group(name: str, help_text: str) -> click.Group:
    """Return a group that also accepts ``-b``, ``-X`` and ``--timeout`` before its subcommands."""

    @click.group(name, help=help_text)
    @add_connection_options
    @click.pass_context
    def group(context: click.Context, /, **settings: Any) -> None:
        del settings["properties"]  # `_prepend_group_values` collects them
        defaults = {key: value for key, value in settings.items() if value is not None}
        context.default_map = dict.fromkeys(group.list_commands(context), defaults)

    return group


def add_connection_options(function: Function) -> Function:
    """Add ``-b`` and ``-X``. ``merge_connection_settings`` converts them to a client's settings."""
    properties = click.option(
        "-X",
        "properties",
        multiple=True,
        callback=_prepend_group_values,
        metavar="KEY=VALUE",
        help=f"Property of Kafka's clients, such as security.protocol=SASL_SSL; repeatable. {PLACEHOLDER_HELP}",
    )
    servers = click.option(
        "-b",
        "--bootstrap-server",
        "servers",
        metavar="HOST:PORT",
        help=f"Brokers to connect to, separated by commas. Default: ${SERVERS_VARIABLE}, or {_DEFAULT_SERVERS}.",
    )
    return servers(properties(timeout_option(function)))


def add_topic_argument(name: str, **options: Any) -> Callable[[Function], Function]:
    """Add an argument for topic names or patterns, which rejects the address of a broker before a connection is opened.

    Other tools expect the address first, as in ``kcat HOST:PORT TOPIC``.
    """
    return click.argument(name, callback=_reject_colons, **options)


def _reject_colons(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return the names unchanged. A name with a colon, which Kafka does not allow, raises ``OptionError``."""
    for name in [value] if isinstance(value, str) else value or ():
        if ":" in _CHARACTER_CLASS.sub("", name):
            raise OptionError(
                f"{name!r} is not a topic name, because it contains a colon; "
                "-b HOST:PORT (or --bootstrap-server) specifies the brokers"
            )
    return value


def with_admin(function: Function) -> Function:
    """Add ``-b`` and ``-X``. Instead of their values, the command gets ``connect``, which opens an admin client."""

    @wraps(function)
    def run(*, servers: str | None, properties: tuple[str, ...], timeout: float, **options: Any) -> Any:
        def connect() -> Admin:
            from kafkaframes.client import Admin

            return Admin(**reach_broker(servers, properties, timeout))

        return function(connect=connect, **options)

    return add_connection_options(run)  # type: ignore[return-value]


def reach_broker(
    servers: str | None,
    properties: tuple[str, ...],
    timeout: float,
    *,
    new_topic: str | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    kind: type[ClientSettings] | None = None,
) -> dict[str, Any]:
    """Wait until a broker has responded, and return the client's settings.

    If the connection takes time, print a message on standard error.

    Args:
        timeout: longest wait, in seconds.
        new_topic: topic to write to. The brokers may create it (``auto.create.topics.enable``).
        flags: client settings by parameter of the command. ``-X`` overrides the default of a parameter, and a parameter
            on the command line overrides ``-X``.
        kind: settings class of a producer or a consumer; None for an admin.

    Raises:
        NetworkError: no broker has responded in time.
        BrokerError: the broker rejects the client, or the topic does not exist.
        OptionError: a property is unknown, or is not of the form KEY=VALUE.
    """
    import asyncio

    from kafkaframes.client.properties import merge_settings
    from kafkaframes.client.reachability import wait_until_reachable
    from kafkaframes.client.settings import ClientSettings

    typed_flags = [settings for name, settings in (flags or {}).items() if is_specified(name)]
    defaults = [settings for name, settings in (flags or {}).items() if not is_specified(name)]
    settings = merge_settings(*defaults, merge_connection_settings(servers, properties), *typed_flags)
    client_settings = (kind or ClientSettings).from_options(settings)
    try:
        asyncio.run(wait_until_reachable(client_settings, waiting=print_note, timeout_s=timeout, new_topic=new_topic))
    except NetworkError as error:
        if client_settings.bootstrap_servers != _DEFAULT_SERVERS:
            raise
        raise NetworkError(f"{error}; -b HOST:PORT or ${SERVERS_VARIABLE} specifies the cluster") from error
    return settings


def merge_connection_settings(servers: str | None, properties: tuple[str, ...]) -> dict[str, Any]:
    """Return a client's settings: ``-b`` overrides ``-X``, which overrides the environment and the default.

    Raises:
        OptionError: a property is not of the form KEY=VALUE.
    """
    from kafkaframes.client.properties import merge_settings

    default = {"bootstrap.servers": os.environ.get(SERVERS_VARIABLE) or _DEFAULT_SERVERS}
    servers_flag = {"bootstrap.servers": servers} if servers else {}
    return merge_settings(default, parse_client_properties(properties, option="-X "), servers_flag)


def is_specified(name: str) -> bool:
    """Return whether a parameter of the current command was specified by the user instead of having its default."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT)


def add_confirmation(question: str) -> Callable[[Function], Function]:
    """Let a command ask for confirmation before it deletes. ``--yes`` confirms without a terminal."""

    def confirm(context: click.Context, option: click.Parameter, is_confirmed: bool) -> None:
        if is_confirmed or context.resilient_parsing:
            return
        try:
            has_agreed = click.confirm(question, err=True)
        except click.Abort:
            if sys.stdin.isatty():
                raise
            raise OptionError("nothing was deleted; without a terminal, confirm with --yes") from None
        if not has_agreed:
            raise click.Abort

    return click.option("--yes", is_flag=True, expose_value=False, callback=confirm, help="Delete without asking.")


def parse_topic_partition(text: str) -> tuple[str, int]:
    """Read TOPIC:PARTITION. Raise OptionError for other text.

    >>> parse_topic_partition("orders-eu:3")
    ('orders-eu', 3)
    """
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal() or not topic:
        raise OptionError(f"{text!r} is not a topic partition; expected TOPIC:PARTITION")
    return topic, int(number)


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool, *, text_without_rows: str = "") -> None:
    """Print rows as JSON, or as tables; consecutive rows with the same columns share a table.

    Args:
        text_without_rows: text to print if there are no rows.
    """
    if as_json:
        print_text(json.dumps(rows, indent=2))
        return
    if not rows:
        if text_without_rows:
            print_note(text_without_rows)
        return
    for index, (columns, table) in enumerate(groupby(rows, key=list)):
        lines = [columns] + [["" if value is None else str(value) for value in row.values()] for row in table]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        if index:
            print_text("")
        for line in lines:
            print_text("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def parse_client_properties(texts: Iterable[str], *, option: str) -> dict[str, str]:
    """Read client properties from KEY=VALUE texts, and resolve placeholders in the values."""
    return resolve_placeholders(dict(parse_pair(text, option) for text in texts))


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Read KEY=VALUE texts. Raise OptionError for other text and for repeated keys."""
    result: dict[str, str] = {}
    for key, value in map(parse_pair, texts):
        if key in result:
            raise OptionError(f"{key} is given twice: {key}={result[key]} and {key}={value}")
        result[key] = value
    return result
