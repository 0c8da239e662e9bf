"""``kafkaframes checkpoint``: shows the position of a streaming query, and converts it for another source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import as_json_option
from kafkaframes.cli.options import ExistingPath, parse_pair
from kafkaframes.cli.text import print_text
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.jobs.micro_batch import Offsets


@click.group("checkpoint")
def command() -> None:
    """Show and convert checkpoints of Spark's streaming queries over topics."""


@command.command("show")
@click.argument("path", type=ExistingPath(file_okay=False))
@as_json_option
def show_checkpoint(path: str, as_json: bool) -> None:
    """Show how far a query has read, and the data that another source needs to continue.

    Spark's own Kafka connector, kafka-topic and kafka-log have the same checkpoint format: a query can continue with
    any of these sources, and keeps its state.
    """
    from kafkaframes.jobs.checkpoint import read_checkpoint

    result = read_checkpoint(path)
    print_text(json.dumps(result.to_dict(), indent=2) if as_json else result)


@command.command("convert")
@click.argument("path", type=ExistingPath(file_okay=False))
@click.argument("to", type=click.Path())
@click.option(
    "--for",
    "target",
    required=True,
    metavar="FORMAT",
    help="Source that continues the query: kafka (Spark's connector), kafka-topic or kafka-log.",
)
@click.option("--topic", "topics", multiple=True, metavar="OLD=NEW", help="New name of a topic; repeatable.")
@click.option(
    "--begins", "begins", multiple=True, metavar="JSON", help="Start offsets of a source's first micro-batch."
)
def convert_checkpoint_command(
    path: str, to: str, target: Any, topics: tuple[str, ...], begins: tuple[str, ...]
) -> None:
    """Copy a checkpoint so that a query with another source can continue from it.

    Usually this is not necessary: stop the query, change the format, and start it on the same checkpoint. A copy is
    necessary if topics have new names, if Spark's own connector has to repeat the first micro-batch, or if you want to
    keep the original. No query may be running on the checkpoint.
    """
    from kafkaframes.jobs.checkpoint import convert_checkpoint

    new_names = dict(parse_pair(text, "--topic ", "OLD=NEW", has_value=True) for text in topics)
    conversion = convert_checkpoint(
        path, to, target=target, topics=new_names, begins=dict(enumerate(map(_parse_offsets, begins)))
    )
    print_text(f"{to}: query {conversion.query_id} continues after micro-batch {conversion.committed_batch}")
    for line in conversion.advice if target != "kafka" else ():
        print_text(line)


def _parse_offsets(text: str) -> Offsets:
    from kafkaframes.jobs.micro_batch import parse_offsets

    result = parse_offsets(text)
    if result is None:
        raise OptionError(f'--begins {text}: expected JSON such as {{"orders": {{"0": 23}}}}')
    return result
