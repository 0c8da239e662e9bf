"""``kafkaframes table SOURCE... --to FORMAT DIR``: live topics or log directories as a table, decoded, exactly once."""

from __future__ import annotations

import sys
from typing import Any

import click

from kafkaframes.cli.connecting import HELP, connecting
from kafkaframes.cli.options import (
    commit_option,
    json_option,
    log_option,
    master_option,
    opens_batches,
    reads,
    topic_option,
    with_options,
    workers_option,
)

MODES = ("raw", "json", "avro", "protobuf", "latest")
VALUES = ("raw", "json", "avro", "protobuf")
FORMATS = ("delta", "iceberg", "parquet")
EXIT_INCOMPLETE = 1


@click.command("table", context_settings=HELP)
@click.argument("sources", nargs=-1, required=True, metavar="TOPIC|LOGDIR...")
@click.option(
    "--to", nargs=2, type=(click.Choice(FORMATS), str), required=True, metavar="FORMAT DIR",
    help=f"{', '.join(FORMATS)}, and where the table is or is made (the extras [delta], [iceberg]).",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(MODES), default="raw", show_default=True,
    help="What values become: bytes as they are; columns of JSON, Avro, Protobuf; latest: one row a key.",
)  # fmt: skip
@click.option("--value", type=click.Choice(VALUES), help="With --mode latest: what values become. Default: raw.")
@click.option(
    "--schema", "schemas", multiple=True, metavar="[ID=]FILE",
    help="JSON Schema, .avsc, or protoc's descriptors; with ID: of values with a schema registry's prefix; repeatable.",
)  # fmt: skip
@click.option("--registry", metavar="URL", help="A schema registry, http(s)://[user:password@]host[:port].")
@click.option("--subject", metavar="NAME", help="Whose newest schema the table has. Default: TOPIC-value.")
@click.option("--message", metavar="NAME", help="Protobuf: the message's full name. Default: the first of the file.")
@click.option("--dead-letters", metavar="DIR", help="The table of records that make no row. Default: DIR-dead-letters.")
@click.option("--continuous", is_flag=True, help="Go on with what arrives, until Ctrl-C or SIGTERM.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), metavar="SECONDS", default=60.0, show_default=True,
    help="With --continuous: the least time between two commits; less of it makes smaller files.",
)  # fmt: skip
@click.option(
    "--isolation", type=click.Choice(("read_committed", "read_uncommitted")), default="read_committed",
    show_default=True, help="Whether records of aborted transactions are left out.",
)  # fmt: skip
@commit_option
@click.option("--allow-loss", is_flag=True, help="Go on where the log has lost records that the table does not have.")
@click.option("--catalog", metavar="NAME", help="Iceberg: of pyiceberg's configuration. Default: DIR/catalog.db.")
@click.option("--table", metavar="NS.NAME", help="Iceberg: the table in the catalog. Default: kafka.records.")
@with_options(topic_option, log_option)
@connecting
@with_options(master_option, workers_option, json_option)
@opens_batches
@reads("sources")
def command(sources: tuple[str, ...], **flags: Any) -> None:
    """Write the records of live topics or of log directories into a table; run again, it goes on where it was.

    What a table has of each partition stands in the very commit that brings the records: each record makes one row,
    whenever the command is killed and run again. A value that does not fit its schema goes to the table of dead
    letters, with topic, partition, offset and the reason.

    A source is a topic where -b is given, a log directory where there is such a path, else a topic of the cluster that
    $KAFKA_BOOTSTRAP_SERVERS names.

    Exit status: 0 all is in the table; 1 a part of a log could not be read; 2 nothing could be done.

    \b
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --mode json
    kafkaframes table users -b kafka:9092 --to iceberg lake --mode latest
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --continuous \\
        --mode avro --registry http://registry:8081
    kafkaframes table /backup/broker-1 --topic orders --to parquet out/orders \\
        --mode avro --schema order.avsc
    """
    from kafkaframes.cli.tabling import run

    if not run(sources, flags):
        sys.exit(EXIT_INCOMPLETE)
