"""``kafkaframes transactions``: list, describe, fence and abort transactions, and find hanging ones (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import (
    Connect,
    add_confirmation,
    add_topic_argument,
    as_json_option,
    make_connecting_group,
    parse_topic_partition,
    print_rows,
    with_admin,
)
from kafkaframes.cli.text import print_text
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import Admin, TopicPartition

_TRANSACTION_STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip

command = make_connecting_group("transactions", "List, describe and abort transactions, and find hanging ones.")


@command.command("list")
@with_admin
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    callback=lambda context, option, states: tuple(map(_to_state, states)),
    help="Select transactions in this state, such as Ongoing.",
)
@click.option(
    "--producer-id", "producer_ids", type=int, multiple=True, metavar="ID", help="Select transactions of this producer."
)
@click.option(
    "--min-duration",
    "duration_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Select transactions that have been open for longer.",
)
@as_json_option
def list_transactions(connect: Connect, as_json: bool, duration_s: float | None, **conditions: Any) -> None:
    """List the transactional ids of all coordinators."""
    duration_ms = None if duration_s is None else int(duration_s * 1000)
    with connect() as admin:
        listings = admin.list_transactions(**conditions, min_duration_ms=duration_ms)
    print_rows([listing._asdict() for listing in listings], as_json, text_without_rows="no transactions")


def _to_state(text: str) -> str:
    """Return a state in Kafka's spelling. Other text is returned unchanged, because newer brokers may know it."""
    return next((state for state in _TRANSACTION_STATES if state.lower() == text.lower()), text)


@command.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@with_admin
@as_json_option
def describe_transactions(names: tuple[str, ...], connect: Connect, as_json: bool) -> None:
    """Show the state, producer, start time and partitions of transactional ids."""
    with connect() as admin:
        descriptions = admin.describe_transactions(names)
    rows = [
        {
            "transactional_id": entry.transactional_id,
            "state": entry.state,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_id": entry.coordinator_id,
            "timeout_ms": entry.timeout_ms,
            "start_time_ms": entry.start_time_ms,
            "partitions": ",".join(map(str, entry.partitions)),
        }
        for entry in descriptions.values()
    ]
    print_rows(rows, as_json)


@command.command("producers")
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC:PARTITION...")
@with_admin
@as_json_option
def list_producers(partitions: tuple[str, ...], connect: Connect, as_json: bool) -> None:
    """Show the producers of partitions and their open transactions, as the leaders report them."""
    from kafkaframes.client import TopicPartition

    targets = [TopicPartition(*parse_topic_partition(text)) for text in partitions]
    with connect() as admin:
        producers = admin.describe_producers(targets)
    print_rows(_build_producer_rows(producers), as_json, text_without_rows="no producers")


def _build_producer_rows(producers: dict[TopicPartition, Any]) -> list[dict[str, Any]]:
    """Return a row for each active producer of each partition."""
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "producer_id": state.producer_id,
            "producer_epoch": state.producer_epoch,
            "coordinator_epoch": state.coordinator_epoch,
            "last_sequence": state.last_sequence,
            "last_timestamp_ms": state.last_timestamp_ms,
            "transaction_start_offset": state.transaction_start_offset,
        }
        for partition, states in producers.items()
        for state in states
    ]


@command.command("find-hanging")
@add_topic_argument("topics", nargs=-1, metavar="[TOPIC]...")
@with_admin
@as_json_option
def find_hanging_transactions(topics: tuple[str, ...], connect: Connect, as_json: bool) -> None:
    """Show transactions that are open in a partition but not at their coordinator. Default: all topics.

    Hanging transactions block read_committed consumers of the partition. `transactions abort` aborts one.
    """
    with connect() as admin:
        rows = _find_hanging_rows(admin, topics or admin.list_topics())
    print_rows(rows, as_json, text_without_rows="no hanging transactions")


def _find_hanging_rows(admin: Admin, topics: tuple[str, ...] | list[str]) -> list[dict[str, Any]]:
    """Return the rows of transactions that are open in a partition but not at their coordinator."""
    from kafkaframes.client import TopicPartition

    metadata = admin.describe_topics(topics)
    partitions = [TopicPartition(name, number) for name in metadata for number in sorted(metadata[name].partitions)]
    states = admin.describe_producers(partitions)
    rows = [row for row in _build_producer_rows(states) if row["transaction_start_offset"] is not None]
    ids = {row["producer_id"] for row in rows}
    listings = [listing for listing in admin.list_transactions() if listing.producer_id in ids] if ids else []
    open_partitions = {
        (description.producer_id, partition)
        for description in admin.describe_transactions([listing.transactional_id for listing in listings]).values()
        for partition in description.partitions
    }
    return [
        row
        for row in rows
        if (row["producer_id"], TopicPartition(row["topic"], row["partition"])) not in open_partitions
    ]


@command.command("abort")
@click.argument("partition", metavar="TOPIC:PARTITION")
@with_admin
@click.option("--start-offset", type=click.IntRange(0), required=True, help="First offset of the transaction.")
@add_confirmation("Abort this transaction?")
def abort_transaction(partition: str, connect: Connect, start_offset: int) -> None:
    """Abort a hanging transaction in one partition. A transaction that is open at its coordinator is rejected."""
    from kafkaframes.client import TopicPartition

    target = TopicPartition(*parse_topic_partition(partition))
    with connect() as admin:
        states = [
            state
            for state in admin.describe_producers([target])[target]
            if state.transaction_start_offset == start_offset
        ]
        if not states:
            raise OptionError(f"{target} has no open transaction that starts at offset {start_offset}")
        if not any(
            (row["partition"], row["transaction_start_offset"]) == (target.partition, start_offset)
            for row in _find_hanging_rows(admin, [target.topic])
        ):
            raise OptionError(
                f"the transaction at offset {start_offset} of {target} is open at its coordinator, so it is not hanging"
            )
        state = states[0]
        epoch = -1 if state.coordinator_epoch is None else state.coordinator_epoch
        admin.abort_transaction(target, state.producer_id, state.producer_epoch, epoch)
    print_text(f"aborted the transaction of producer {state.producer_id} in {target}")


@command.command("terminate")
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@with_admin
@add_confirmation("Fence the producers of these transactional ids, and abort their transactions?")
def fence_producers(names: tuple[str, ...], connect: Connect) -> None:
    """Fence the producers of transactional ids, and abort their open transactions."""
    with connect() as admin:
        admin.fence_producers(names)
    print_text(f"fenced {', '.join(names)}")
