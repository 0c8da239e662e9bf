"""``kafkaframes encode`` and ``vectors``: messages to bytes, alone or as test vectors."""

from __future__ import annotations

import json
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from kafkaframes.cli.options import specs_option
from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError
from kafkaframes.protocol.framing import frame
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.registry import message_of


@click.command("encode")
@click.argument("name")
@click.argument("version", type=int)
@click.argument("source", metavar="JSON|FILE|-")
@specs_option
@click.option("--header", "with_header", is_flag=True, help="a request or response with its header")
@click.option("--frame", "with_size", is_flag=True, help="with header and size, as it goes to a socket")
@click.option("--correlation-id", type=int, default=0)
@click.option("--client-id", default=None)
@click.option(
    "--tag", "tags", multiple=True, metavar="NUMBER=HEX", help="a raw tagged field of the message; repeatable"
)
@click.option("--raw", is_flag=True, help="write bytes, not hex")
def command(name: str, version: int, source: str, raw: bool, tags: tuple[str, ...], **options: Any) -> None:
    """Print the bytes of the message NAME at VERSION, given in Kafka's JSON form."""
    cls = message_of(name, options["specs"])
    value = cls.from_json(_read_json(source), version)
    if tags:  # beside those of the JSON
        value.unknown_tags = sorted([*value.unknown_tags, *map(_tag, tags)], key=itemgetter(0))
    data = value.encode(version)
    if options["with_header"] or options["with_size"]:
        number = options["correlation_id"]
        if value.spec.type == "response":
            data = encode_response(value, version, correlation_id=number)
        else:
            data = encode_request(value, version, correlation_id=number, client_id=options["client_id"])
    if options["with_size"]:
        data = frame(data)
    if raw:
        sys.stdout.buffer.write(data)
    else:
        click.echo(data.hex())


def _read_json(source: str) -> Any:
    text = source
    if source == "-":
        text = sys.stdin.read()
    elif not source.lstrip().startswith("{"):
        try:
            text = Path(source).read_text()
        except OSError as error:
            raise OptionError(
                f"{source[:60]!r} is neither JSON nor a file that can be read: {error.strerror}"
            ) from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"not JSON: {error}") from None


def _tag(text: str) -> tuple[int, bytes]:
    number, _, payload = text.partition("=")
    try:
        return int(number), bytes.fromhex(payload)
    except ValueError as error:
        raise OptionError(f"--tag {text}: must be NUMBER=HEX ({error})") from None


@click.command("vectors", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("directory", metavar="DIR")
@specs_option
def vectors(directory: str, specs: str | None) -> None:
    """Write test vectors for other libraries, bytes with their meaning, into DIR (new or empty).

    Every message at every version with its headers, whole and damaged; batches of every format and codec; varints; keys
    with their hash and partition. JSON lines, and a README.md that explains them. The same version of kafkaframes
    writes the same bytes. With --specs the messages are those of a proposal.
    """
    from kafkaframes.testing.vectors import write_vectors

    for name, count in write_vectors(directory, specs=specs).items():
        say(f"{count:>8,}  {name}")
    say(f"written into {directory}: README.md explains them")
