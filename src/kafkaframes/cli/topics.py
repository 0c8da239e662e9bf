"""``kafkaframes topics``: list, create, describe and delete the topics of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import HELP, as_json_option, connecting, pairs_of, print_rows, settings_of
from kafkaframes.cli.text import say

if TYPE_CHECKING:
    pass


@click.group("topics", context_settings=HELP)
def command() -> None:
    """List, create, describe and delete topics."""


@command.command("list", context_settings=HELP)
@connecting
@click.option("--internal", is_flag=True, help="Those of Kafka's own too.")
@as_json_option
def list_topics(servers: str | None, properties: tuple[str, ...], internal: bool, as_json: bool) -> None:
    """List the topics, their partitions and ids."""
    from kafkaframes.client import Admin

    with Admin(**settings_of(servers, properties)) as admin:
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
def create_topics(names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], **given: Any) -> None:
    """Create topics."""
    from kafkaframes.client import Admin, NewTopic

    with Admin(**settings_of(servers, properties)) as admin:
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
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@connecting
@as_json_option
def describe_topics(names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], as_json: bool) -> None:
    """Show partitions, leaders, and first and last offsets."""
    from kafkaframes.client import EARLIEST, LATEST, Admin, TopicPartition

    rows = []
    with Admin(**settings_of(servers, properties)) as admin:
        for name, topic in admin.describe_topics(names).items():
            places = [TopicPartition(name, number) for number in sorted(topic.partitions)]
            first = admin.list_offsets(dict.fromkeys(places, EARLIEST))
            last = admin.list_offsets(dict.fromkeys(places, LATEST))
            rows += [
                {
                    "topic": name,
                    "partition": place.partition,
                    "leader": topic.partitions[place.partition].leader,
                    "leader_epoch": topic.partitions[place.partition].leader_epoch,
                    "isr": ",".join(map(str, topic.partitions[place.partition].isr)),
                    "log_start_offset": first[place],
                    "log_end_offset": last[place],
                }
                for place in places
            ]
    print_rows(rows, as_json)


@command.command("delete", context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@connecting
@click.confirmation_option(prompt="Delete these topics and all their records?")
def delete_topics(names: tuple[str, ...], servers: str | None, properties: tuple[str, ...]) -> None:
    """Delete topics, records and all."""
    from kafkaframes.client import Admin

    with Admin(**settings_of(servers, properties)) as admin:
        admin.delete_topics(names)
    say(f"deleted {', '.join(names)}")
