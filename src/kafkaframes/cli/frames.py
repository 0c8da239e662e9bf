"""What ``decode`` and ``diff`` share: bytes from a HEX or FILE argument, and which message they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kafkaframes.cli.options import specs_option
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.annotate import Annotated, annotate_body, annotate_request, annotate_response
from kafkaframes.protocol.messages.registry import Apis, message_of

Command = TypeVar("Command", bound=Callable[..., Any])
_HEX = frozenset(b"0123456789abcdefABCDEF \t\r\n:,")


def read_bytes(source: str) -> bytes:
    """Return the bytes that an argument names: hex digits, a file of them, a file of bytes, or ``-``.

    Raises:
        OptionError: neither hex nor a file.
    """
    if source == "-":
        return _maybe_hex(sys.stdin.buffer.read())
    try:
        if Path(source).is_file():
            return _maybe_hex(Path(source).read_bytes())
    except OSError:
        pass  # a long text of hex digits is no file name
    if not set(source.encode()) <= _HEX:
        raise OptionError(f"{source[:60]!r} is neither a file nor hex digits")
    return _from_hex(source)


def _maybe_hex(raw: bytes) -> bytes:
    return _from_hex(raw.decode()) if raw and set(raw) <= _HEX else raw


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.replace(":", " ").replace(",", " "))
    except ValueError as error:
        raise OptionError(f"not hex digits: {error}") from None


def which_message(command: Command) -> Command:
    """Add the options that say which message the bytes are."""
    options = [
        click.option("--api", help="API name or key: the bytes are a response (with its header) of this API"),
        click.option("--message", "name", help="a message's name: the bytes are its body, without header"),
        click.option("--version", type=int, help="version of the API or the message"),
        click.option("--body", is_flag=True, help="with --api: the response's body, without header"),
        click.option("--request", is_flag=True, help="with --api: a request's body, without header"),
        specs_option,
        click.option("--mode", type=click.Choice(["reference", "strict"]), default="reference", show_default=True),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def annotate(
    data: bytes,
    *,
    api: str | None,
    name: str | None,
    version: int | None,
    body: bool,
    request: bool,
    specs: str | None,
    mode: str,
) -> Annotated:
    """Return the runs of ``data`` as the options say what it is.

    Raises:
        OptionError: the options do not go together.
    """
    apis = Apis(specs)
    if api is None and name is None:
        return annotate_request(data, mode=mode, apis=apis)
    if version is None:
        raise OptionError("--version is needed: only a request says its own")
    if name is not None:
        return annotate_body(data, message_of(name, specs), version, mode=mode)
    key = apis.named(str(api)).key
    if body or request:
        cls = apis.message_class(key, "request" if request else "response", version)
        return annotate_body(data, cls, version, mode=mode)
    return annotate_response(data, key, version, mode=mode, apis=apis)
