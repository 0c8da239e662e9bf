"""``kafkaframes topics``: list, create, describe, alter and delete the topics of a cluster, and their records."""

from __future__ import annotations

from typing import Any

import click

from kafkaframes.cli.connecting import (
    HELP,
    as_json_option,
    confirmed,
    connecting,
    connecting_group,
    pairs_of,
    place_of,
    print_rows,
    reached,
)
from kafkaframes.cli.text import milliseconds, say
from kafkaframes.errors import OptionError

_SPECIAL = {"latest": -1, "earliest": -2, "max-timestamp": -3}


command = connecting_group("topics", "List, create, describe, alter and delete topics and their records.")


@command.command("list", context_settings=HELP)
@connecting
@click.option("--internal", is_flag=True, help="Those of Kafka's own too.")
@as_json_option
def list_topics(
    servers: str | None, properties: tuple[str, ...], timeout: float, internal: bool, as_json: bool
) -> None:
    """List the topics, their partitions and ids."""
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        found = admin.describe_cluster().topics
        rows = [
            {"topic": one.name, "partitions": len(one.partitions), "id": str(one.topic_id)}
            for one in sorted(found.values(), key=lambda one: one.name)
            if internal or not one.is_internal
        ]
    print_rows(rows, as_json)


@command.command("create", context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@connecting
@click.option("--partitions", type=click.IntRange(-1), default=-1, help="Default: the broker's num.partitions.")
@click.option("--replication-factor", type=click.IntRange(-1), default=-1, help="Default: the broker's.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A topic setting (may be repeated).")
def create_topics(
    names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float, **given: Any
) -> None:
    """Create topics."""
    from kafkaframes.client import Admin, NewTopic

    with Admin(**reached(servers, properties, timeout)) as admin:
        admin.create_topics(
            NewTopic(
                name=name,
                num_partitions=given["partitions"],
                replication_factor=given["replication_factor"],
                configs=pairs_of(given["configs"]),
            )
            for name in names
        )
    say(f"created {', '.join(names)}")


@command.command("describe", context_settings=HELP)
@click.argument("names", nargs=-1, metavar="[TOPIC]...")
@connecting
@as_json_option
def describe_topics(
    names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float, as_json: bool
) -> None:
    """Show partitions, leaders, replicas, and first and last offsets; of all topics if none are named."""
    from kafkaframes.client import EARLIEST, LATEST, Admin, TopicPartition

    rows = []
    with Admin(**reached(servers, properties, timeout)) as admin:
        for name, topic in admin.describe_topics(names or admin.list_topics()).items():
            places = [TopicPartition(name, number) for number in sorted(topic.partitions)]
            first = admin.list_offsets(dict.fromkeys(places, EARLIEST))
            last = admin.list_offsets(dict.fromkeys(places, LATEST))
            rows += [
                {
                    "topic": name,
                    "partition": place.partition,
                    "leader": topic.partitions[place.partition].leader,
                    "leader_epoch": topic.partitions[place.partition].leader_epoch,
                    "replicas": ",".join(map(str, topic.partitions[place.partition].replicas)),
                    "isr": ",".join(map(str, topic.partitions[place.partition].isr)),
                    "log_start_offset": first[place],
                    "log_end_offset": last[place],
                }
                for place in places
            ]
    print_rows(rows, as_json)


@command.command("offsets", context_settings=HELP)
@click.argument("names", nargs=-1, metavar="[TOPIC]...")
@connecting
@click.option("--time", "at", default="latest", show_default=True, help="earliest, max-timestamp, a date, or ms.")
@as_json_option
def offsets_of_topics(
    names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float, at: str, as_json: bool
) -> None:
    """Show offsets of partitions by time: the first record at or after it; -1 where there is none."""
    from kafkaframes.client import Admin, TopicPartition

    wanted = _SPECIAL[at] if at in _SPECIAL else milliseconds(at)
    with Admin(**reached(servers, properties, timeout)) as admin:
        topics = admin.describe_topics(names or admin.list_topics())
        places = [TopicPartition(name, number) for name, one in topics.items() for number in sorted(one.partitions)]
        found = admin.list_offsets(dict.fromkeys(places, wanted))
    rows = [{"topic": one.topic, "partition": one.partition, "offset": found[one]} for one in places]
    print_rows(rows, as_json)


@command.command("alter", context_settings=HELP)
@click.argument("name", metavar="TOPIC")
@connecting
@click.option("--partitions", type=click.IntRange(1), required=True, help="How many it has afterwards.")
def alter_topic(name: str, servers: str | None, properties: tuple[str, ...], timeout: float, partitions: int) -> None:
    """Give a topic more partitions; settings are changed with `configs set topic`."""
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        admin.create_partitions({name: partitions})
    say(f"{name} has {partitions} partitions")


@command.command("delete-records", context_settings=HELP)
@click.argument("offsets", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@connecting
@confirmed("Delete all records before these offsets?")
def delete_records(offsets: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float) -> None:
    """Delete the records before an offset, or all with latest."""
    from kafkaframes.client import Admin, TopicPartition

    wanted = {}
    for place, text in pairs_of(offsets).items():
        if not text.isdecimal() and text != "latest":
            raise OptionError(f"{place}={text}: must be an offset or latest")
        wanted[TopicPartition(*place_of(place))] = -1 if text == "latest" else int(text)
    with Admin(**reached(servers, properties, timeout)) as admin:
        for partition, start in admin.delete_records(wanted).items():
            say(f"{partition} begins at {start}")


@command.command("delete", context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@connecting
@confirmed("Delete these topics and all their records?")
def delete_topics(names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float) -> None:
    """Delete topics, records and all."""
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        admin.delete_topics(names)
    say(f"deleted {', '.join(names)}")
