"""``kafkaframes topics`` and ``configs``: topics of a cluster, and the settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import (
    Connect,
    add_confirmation,
    add_topic_argument,
    as_json_option,
    make_connecting_group,
    parse_pairs,
    parse_topic_partition,
    print_rows,
    with_admin,
)
from kafkaframes.cli.text import parse_milliseconds, print_text
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text

if TYPE_CHECKING:
    from kafkaframes.client import Admin, TopicPartition

_CONFIG_KINDS = ("topic", "broker", "group", "client-metrics")
_SPECIAL_TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3}


command = make_connecting_group("topics", "List, create, describe, alter and delete topics and their records.")


@command.command("list")
@with_admin
@click.option("--internal", is_flag=True, help="Also list internal topics.")
@as_json_option
def list_topics(connect: Connect, internal: bool, as_json: bool) -> None:
    """List the topics, their partitions and ids."""
    with connect() as admin:
        result = admin.describe_cluster().topics
        rows = [
            {"topic": topic.name, "partitions": len(topic.partitions), "id": str(topic.topic_id)}
            for topic in sorted(result.values(), key=lambda entry: entry.name)
            if internal or not topic.is_internal
        ]
    print_rows(rows, as_json, text_without_rows="no topics")


@command.command("create")
@add_topic_argument("names", nargs=-1, required=True, metavar="TOPIC...")
@with_admin
@click.option(
    "--partitions",
    type=click.IntRange(-1),
    default=-1,
    help="Number of partitions. Default: the broker's num.partitions.",
)
@click.option("--replication-factor", type=click.IntRange(-1), default=-1, help="Default: the broker's.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Topic setting; repeatable.")
def create_topics(names: tuple[str, ...], connect: Connect, **flags: Any) -> None:
    """Create topics."""
    from kafkaframes.client import NewTopic

    with connect() as admin:
        admin.create_topics(
            NewTopic(
                name=name,
                num_partitions=flags["partitions"],
                replication_factor=flags["replication_factor"],
                configs=parse_pairs(flags["configs"]),
            )
            for name in names
        )
    print_text(f"created {', '.join(names)}")


@command.command("describe")
@add_topic_argument("names", nargs=-1, metavar="[TOPIC]...")
@with_admin
@click.option("--replicas", is_flag=True, help="Show a row for each replica: its broker, log directory and size.")
@as_json_option
def describe_topics(names: tuple[str, ...], connect: Connect, replicas: bool, as_json: bool) -> None:
    """Show partitions, leaders, replicas, and first and last offsets. Default: all topics."""
    from kafkaframes.client import EARLIEST, LATEST, TopicPartition

    rows: list[dict[str, Any]] = []
    with connect() as admin:
        if replicas:
            print_rows(_build_replica_rows(admin, names or admin.list_topics()), as_json, text_without_rows="no topics")
            return
        for name, topic in admin.describe_topics(names or admin.list_topics()).items():
            partitions = [TopicPartition(name, number) for number in sorted(topic.partitions)]
            first = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
            last = admin.list_offsets(dict.fromkeys(partitions, LATEST))
            for partition in partitions:
                partition_info = topic.partitions[partition.partition]
                rows.append(
                    {
                        "topic": name,
                        "partition": partition.partition,
                        "leader": partition_info.leader,
                        "leader_epoch": partition_info.leader_epoch,
                        "replicas": ",".join(map(str, partition_info.replicas)),
                        "isr": ",".join(map(str, partition_info.isr)),
                        "log_start_offset": first[partition],
                        "log_end_offset": last[partition],
                    }
                )
    print_rows(rows, as_json, text_without_rows="no topics")


def _build_replica_rows(admin: Admin, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return a row for each replica of the topics: its broker, directory, size and lag."""
    topics = admin.describe_topics(names)
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "broker": broker_id,
            "leader": "yes" if topics[partition.topic].partitions[partition.partition].leader == broker_id else "",
            "in_sync": "yes" if broker_id in topics[partition.topic].partitions[partition.partition].isr else "",
            "log_dir": path,
            "size_bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag,
            "is_future": replica.is_future,
        }
        for broker_id, directories in admin.describe_log_dirs().items()
        for path, directory in directories.items()
        for partition, replica in directory.replicas.items()
        if partition.topic in topics and partition.partition in topics[partition.topic].partitions
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["broker"]))


@command.command("elect")
@click.argument("partitions", nargs=-1, metavar="[TOPIC:PARTITION]...")
@with_admin
@click.option(
    "--type",
    "election_type",
    type=click.Choice(("preferred", "unclean")),
    default="preferred",
    show_default=True,
    help="unclean can lose records; it applies to a partition without a leader.",
)
@as_json_option
def elect_leaders(partitions: tuple[str, ...], connect: Connect, election_type: str, as_json: bool) -> None:
    """Elect leaders. Default: all partitions whose leader is not the preferred replica."""
    from kafkaframes.client import TopicPartition

    topic_partitions = [TopicPartition(*parse_topic_partition(text)) for text in partitions] or None
    if topic_partitions is None and election_type == "unclean":
        raise OptionError("--type unclean can lose records; specify the partitions")
    with connect() as admin:
        results = admin.elect_leaders(topic_partitions, election_type=election_type)
    rows = [
        {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "elected": "yes" if is_elected else "not needed",
        }
        for topic_partition, is_elected in sorted(results.items())
    ]
    print_rows(rows, as_json, text_without_rows="no partitions need an election")


@command.command("reassign")
@click.argument("assignments", nargs=-1, metavar="[TOPIC:PARTITION=ID,ID...]...")
@with_admin
@click.option("--cancel", multiple=True, metavar="TOPIC:PARTITION", help="Cancel the reassignment of a partition.")
@as_json_option
def reassign_partitions(assignments: tuple[str, ...], cancel: tuple[str, ...], connect: Connect, as_json: bool) -> None:
    """Move partitions to other brokers, with the preferred leader first, and print the reassignments in progress."""
    from kafkaframes.client import TopicPartition

    changes: dict[TopicPartition, list[int] | None] = {
        TopicPartition(*parse_topic_partition(text)): None for text in cancel
    }
    for name, text in parse_pairs(assignments).items():
        ids = text.split(",")
        if not all(number.isdecimal() for number in ids):
            raise OptionError(f"{name}={text}: the value must be node ids, separated by commas")
        partition = TopicPartition(*parse_topic_partition(name))
        if partition in changes:
            raise OptionError(f"{name} has a new assignment and --cancel; specify only one of them")
        changes[partition] = [int(number) for number in ids]
    with connect() as admin:
        if changes:
            admin.alter_partition_reassignments(changes)
        reassignments = admin.list_partition_reassignments()
    rows = [
        {"topic": reassignment.topic, "partition": reassignment.partition}
        | {name: ",".join(map(str, numbers)) for name, numbers in change._asdict().items()}
        for reassignment, change in sorted(reassignments.items())
    ]
    print_rows(rows, as_json, text_without_rows="no reassignments are in progress")


@command.command("offsets")
@add_topic_argument("names", nargs=-1, metavar="[TOPIC]...")
@with_admin
@click.option(
    "--time",
    "at",
    default="latest",
    show_default=True,
    help="Time to search for: earliest, max-timestamp, a date, or milliseconds.",
)
@as_json_option
def print_offsets(names: tuple[str, ...], connect: Connect, at: str, as_json: bool) -> None:
    """Show each partition's first offset at or after a time; -1 if there is none."""
    from kafkaframes.client import TopicPartition

    time = _SPECIAL_TIMES[at] if at in _SPECIAL_TIMES else parse_milliseconds(at)
    with connect() as admin:
        topics = admin.describe_topics(names or admin.list_topics())
        partitions = [
            TopicPartition(name, number)
            for name, topic_partition in topics.items()
            for number in sorted(topic_partition.partitions)
        ]
        offsets = admin.list_offsets(dict.fromkeys(partitions, time))
    rows = [
        {"topic": topic_partition.topic, "partition": topic_partition.partition, "offset": offsets[topic_partition]}
        for topic_partition in partitions
    ]
    print_rows(rows, as_json)


@command.command("alter")
@add_topic_argument("name", metavar="TOPIC")
@with_admin
@click.option("--partitions", type=click.IntRange(1), required=True, help="New number of partitions.")
def add_partitions(name: str, connect: Connect, partitions: int) -> None:
    """Give a topic more partitions; settings are changed with `configs set topic`."""
    with connect() as admin:
        admin.create_partitions({name: partitions})
    print_text(f"{name} has {count_text(partitions, 'partition')}")


@command.command("delete-records")
@click.argument("offsets", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@with_admin
@add_confirmation("Delete all records before these offsets?")
def delete_records(offsets: tuple[str, ...], connect: Connect) -> None:
    """Delete the records before an offset, or all records with latest."""
    from kafkaframes.client import TopicPartition

    end_offsets = {}
    for name, text in parse_pairs(offsets).items():
        if not text.isdecimal() and text != "latest":
            raise OptionError(f"{name}={text}; expected an offset or latest")
        end_offsets[TopicPartition(*parse_topic_partition(name))] = -1 if text == "latest" else int(text)
    with connect() as admin:
        for partition, start in admin.delete_records(end_offsets).items():
            print_text(f"{partition} begins at {start}")


@command.command("delete")
@add_topic_argument("names", nargs=-1, required=True, metavar="TOPIC...")
@with_admin
@add_confirmation("Delete these topics and all their records?")
def delete_topics(names: tuple[str, ...], connect: Connect) -> None:
    """Delete topics with all their records."""
    with connect() as admin:
        admin.delete_topics(names)
    print_text(f"deleted {', '.join(names)}")


configs = make_connecting_group("configs", "Show and change settings of topics, brokers, groups and client metrics.")


@configs.command("list")
@click.argument("kind", required=False, type=click.Choice(_CONFIG_KINDS))
@with_admin
@as_json_option
def list_configs(kind: str | None, connect: Connect, as_json: bool) -> None:
    """List the entities that have settings: topics, brokers, groups and client-metrics subscriptions.

    Default: every kind.
    """
    with connect() as admin:
        resources = admin.list_config_resources([kind] if kind else [])
    rows = [{"kind": resource.kind, "name": resource.name} for resource in resources]
    print_rows(rows, as_json, text_without_rows="nothing has settings")


@configs.command("show")
@click.argument("kind", type=click.Choice(_CONFIG_KINDS))
@click.argument("name")
@with_admin
@click.option("--all", "everything", is_flag=True, help="Also show settings at their defaults.")
@as_json_option
def show_configs(kind: str, name: str, connect: Connect, **flags: Any) -> None:
    """Show the settings of a topic, broker, group or client-metrics subscription (KIP-714)."""
    with connect() as admin:
        result = admin.describe_configs(kind, name)
    rows = [
        {"name": config.name, "value": config.value, "default": "yes" if config.is_default else ""}
        for config in sorted(result.values())
        if flags["everything"] or not config.is_default
    ]
    if not rows and not flags["as_json"]:
        print_text(f"{kind} {name} only has default settings; use --all to show them")
    print_rows(rows, flags["as_json"])


@configs.command("set")
@click.argument("kind", type=click.Choice(_CONFIG_KINDS))
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...")
@with_admin
def set_configs(kind: str, name: str, changes: tuple[str, ...], connect: Connect) -> None:
    """Change settings, and keep all other settings; KEY= (no value) resets a setting to its default.

    \b
    kafkaframes configs set topic orders retention.ms=86400000
    kafkaframes configs set client-metrics producers interval.ms=60000
    """
    with connect() as admin:
        admin.alter_configs(kind, name, {key: value or None for key, value in parse_pairs(changes).items()})
    print_text(f"changed {', '.join(parse_pairs(changes))} of {kind} {name}")
