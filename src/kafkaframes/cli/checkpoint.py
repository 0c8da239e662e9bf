"""``kafkaframes checkpoint``: shows the position of a streaming query, and converts it for another source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from kafkaframes.cli.connecting import as_json_option
from kafkaframes.cli.options import ExistingPath, pair_of
from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.jobs.checkpoint import Checkpoint
    from kafkaframes.jobs.micro_batch import Offsets


@click.group("checkpoint")
def command() -> None:
    """Look at and convert checkpoints of Spark's streaming queries over topics."""


@command.command("show")
@click.argument("path", type=ExistingPath(file_okay=False))
@as_json_option
def show(path: str, as_json: bool) -> None:
    """Show how far a query has read, and what another source needs to continue.

    Spark's own Kafka connector, kafka-topic and kafka-log share one form of checkpoint: a query can continue with any
    of the three, with its state.
    """
    from kafkaframes.jobs.checkpoint import read_checkpoint

    result = read_checkpoint(path)
    if as_json:
        say(json.dumps(_as_json(result), indent=2))
        return
    state = "in flight: the next run repeats it" if result.is_in_flight else "done"
    say(f"query {result.query_id}, micro-batch {result.planned_batch} {state}")
    if result.operators:
        say(f"state of {', '.join(result.operators)}")
    for source in result.sources:
        if source.planned_offsets is None:
            say(f"source {source.number}: no offsets of topics")
            continue
        say(f"source {source.number}: up to {json.dumps(source.planned_offsets)}")
    _advise(result)


def _advise(result: Checkpoint) -> None:
    """Print the options that the next run needs."""
    from kafkaframes.jobs.checkpoint import list_starting_offsets

    if not result.is_first_batch_in_flight:
        return
    offset_texts = list_starting_offsets(result)
    for number, text in offset_texts.items():
        say(f"source {number} with kafka-topic: give startingOffsets={text} until that micro-batch is done")
    if len(offset_texts) < len([one for one in result.sources if one.planned_offsets is not None]):
        say("it is the query's first one, and where it begins is not noted: give startingOffsets as JSON")


def _as_json(result: Checkpoint) -> dict[str, object]:
    sources = [
        {"number": one.number, "begins": one.begins, "planned": one.planned_offsets, "done": one.committed_offsets}
        for one in result.sources
    ]
    return {
        "queryId": result.query_id,
        "planned": result.planned_batch,
        "done": result.committed_batch,
        "operators": list(result.operators),
        "sources": sources,
    }


@command.command("convert")
@click.argument("path", type=ExistingPath(file_okay=False))
@click.argument("to", type=click.Path())
@click.option("--for", "target", required=True, metavar="FORMAT", help="kafka (Spark's own), kafka-topic or kafka-log.")
@click.option("--topic", "topics", multiple=True, metavar="OLD=NEW", help="The topic is called NEW now.")
@click.option("--begins", "begins", multiple=True, metavar="JSON", help="Where a source's first micro-batch begins.")
def convert(path: str, to: str, target: str, topics: tuple[str, ...], begins: tuple[str, ...]) -> None:
    """Copy a checkpoint so that a query with another source can continue from it.

    Usually you do not need this: stop the query, change the format, and start it on the same checkpoint. Make a copy if
    topics have new names, if Spark's own connector has to repeat the first micro-batch, or to keep the original. No
    query may be running on it.
    """
    from kafkaframes.jobs.checkpoint import convert_checkpoint

    new_names = dict(pair_of(text, "--topic ", "OLD=NEW", has_value=True) for text in topics)
    conversion = convert_checkpoint(
        path, to, target=target, topics=new_names, begins=dict(enumerate(map(_offsets, begins)))
    )
    say(f"{to}: query {conversion.query_id} goes on after micro-batch {conversion.committed_batch}")
    if target != "kafka":
        _advise(conversion)


def _offsets(text: str) -> Offsets:
    from kafkaframes.jobs.micro_batch import parse_offsets

    result = parse_offsets(text)
    if result is None:
        raise OptionError(f'--begins {text}: must be JSON such as {{"orders": {{"0": 23}}}}')
    return result
