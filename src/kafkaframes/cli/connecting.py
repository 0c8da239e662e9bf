"""The options by which every command finds its cluster: ``-b``, and Kafka's properties by ``-X``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError

Function = TypeVar("Function", bound=Callable[..., Any])
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
as_json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")
SERVERS = "KAFKA_BOOTSTRAP_SERVERS"


def connecting(function: Function) -> Function:
    """Add ``-b`` and ``-X``; ``settings_of`` makes a client's settings of them."""
    properties = click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        help="A client property of Kafka's (security.protocol=SASL_SSL; may be repeated).",
    )
    servers = click.option(
        "-b",
        "--bootstrap-server",
        "servers",
        metavar="HOST:PORT",
        help=f"The cluster; several with commas. Default: ${SERVERS}, or localhost:9092.",
    )
    return servers(properties(function))


def settings_of(servers: str | None, properties: tuple[str, ...]) -> dict[str, Any]:
    """Return a client's settings.

    Raises:
        OptionError: a property is not of the form KEY=VALUE.
    """
    known = {"bootstrap.servers": servers or os.environ.get(SERVERS) or "localhost:9092"}
    return known | pairs_of(properties, option="-X ")


def place_of(text: str) -> tuple[str, int]:
    """Read a topic partition.

    >>> place_of("orders-eu:3")
    ('orders-eu', 3)

    Raises:
        OptionError: it is not one.
    """
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal() or not topic:
        raise OptionError(f"not a topic partition: {text!r}; must be TOPIC:PARTITION")
    return topic, int(number)


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print rows as JSON, or as a table whose columns are as wide as they need to be."""
    if as_json:
        say(json.dumps(rows, indent=2))
        return
    if not rows:
        return
    lines = [list(rows[0])] + [["" if value is None else str(value) for value in row.values()] for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    for line in lines:
        say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def pairs_of(texts: Iterable[str], *, option: str = "") -> dict[str, str]:
    """Read KEY=VALUE texts.

    Raises:
        OptionError: one is not of that form.
    """
    found = {}
    for one in texts:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise OptionError(f"{option}{one}: must be KEY=VALUE")
        found[key] = value
    return found
