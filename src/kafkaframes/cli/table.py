"""``kafkaframes table SOURCE... --to FORMAT DIR``: live topics or log directories as a table, decoded, exactly once."""

from __future__ import annotations

import sys
from typing import Any

import click

from kafkaframes.cli.connecting import HELP, connecting
from kafkaframes.cli.options import (
    json_option,
    log_option,
    master_option,
    opens_batches,
    reads,
    with_options,
    workers_option,
)
from kafkaframes.jobs.tables.settings import TableSettings

FORMATS = ("delta", "iceberg", "parquet")
EXIT_INCOMPLETE = 1


@click.command("table", context_settings=HELP)
@click.argument("sources", nargs=-1, required=True, metavar="TOPIC|LOGDIR...")
@click.option(
    "--to", nargs=2, type=(click.Choice(FORMATS), str), required=True, metavar="FORMAT DIR",
    help=f"The format ({', '.join(FORMATS)}) and the table's folder, made if missing. Extras: [delta], [iceberg].",
)  # fmt: skip
@log_option
@connecting
@with_options(master_option, workers_option, json_option)
@opens_batches
@reads("sources", kind=TableSettings)
def command(sources: tuple[str, ...], settings: TableSettings, **flags: Any) -> None:
    """Write the records of live topics or log directories into a table; run it again to continue.

    Each record becomes exactly one row, even if the command is killed and run again: each commit also stores the
    offsets that it adds. A value that does not fit its schema goes to the table of dead letters, with topic, partition,
    offset and the reason.

    With -b, sources are topics. Otherwise a source is a log directory if such a path exists, else a topic of the
    cluster in $KAFKA_BOOTSTRAP_SERVERS.

    Exit status: 0 complete; 1 a part of a log could not be read; 2 nothing could be done.

    \b
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --mode json
    kafkaframes table users -b kafka:9092 --to iceberg lake --mode latest
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --continuous \\
        --mode avro --registry http://registry:8081
    kafkaframes table /backup/broker-1 --topic orders --to parquet out/orders \\
        --mode avro --schema order.avsc
    """
    from kafkaframes.cli.tabling import run

    if not run(sources, settings, flags):
        sys.exit(EXIT_INCOMPLETE)
