"""``kafkaframes export LOGDIR... --to DIR``: to files (resumable) or a table (incremental); on Spark if asked."""

from __future__ import annotations

import sys
from typing import Any

import click

from kafkaframes.cli.options import (
    FORMATS,
    TABLE_FORMATS,
    commit_option,
    json_option,
    key_options,
    log_option,
    master_option,
    opens_batches,
    range_options,
    reads,
    settings_options,
    with_options,
    workers_option,
)
from kafkaframes.jobs.export.settings import ExportSettings

EXIT_INCOMPLETE = 1
_ELSEWHERE = (  # have flags of their own, of other commands too, or are options of kafka-log
    *("format", "start", "end", "offset", "timestamp", "keys", "key_regex", "headers", "storage"),
    *("mode", "verify_crc", "control_records", "internal_topics", "partitions"),
)


@click.command("export", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--to", metavar="DIR", help="The folder to write to (topic=T/partition=P/SEGMENT.FORMAT), or the table.")
@click.option(
    "--format",
    "form",
    type=click.Choice((*FORMATS, *TABLE_FORMATS)),
    default="parquet",
    show_default=True,
    help="The format of the files, or a table of Delta or Iceberg (extras [delta], [iceberg]).",
)
@click.option(
    "-o", "--output", metavar="FILE.parquet", help="Write everything to one file, with topic and partition as columns."
)
@commit_option
@click.option("--incremental", is_flag=True, help="Tables: add only what the table does not have yet.")
@click.option(
    "--catalog", metavar="NAME", help="Iceberg: a catalog of pyiceberg's configuration. Default: DIR/catalog.db."
)
@click.option("--table", metavar="NS.NAME", help="Iceberg: the table in the catalog. Default: kafka.records.")
@with_options(*range_options, *key_options, settings_options(ExportSettings, *_ELSEWHERE))
@with_options(log_option, master_option, workers_option, json_option)
@opens_batches
@reads("paths")
def command(paths: tuple[str, ...], as_json: bool, master: str | None, jobs: int | None, **flags: Any) -> None:
    """Export the records of Kafka logs to files, one for each segment, or to a table of Delta or Iceberg.

    Run it again to continue an interrupted export, or to add what was appended since. A file appears when it is
    complete, _SUCCESS when all files are there.

    A table gets every record exactly once: each commit stores the offsets that it adds. --incremental adds new records;
    two exporters at once cannot both add the same offsets.

    Exit status: 0 complete and undamaged; 1 the log is damaged (see standard error; the rest is exported), or a segment
    could not be read (then there is no _SUCCESS); 2 nothing could be done.

    \b
    kafkaframes export /var/lib/kafka/data --to out
    kafkaframes export /backup/broker-1 -o backup.parquet
    kafkaframes export /backup/broker-1 --to out --topic orders --format csv
    kafkaframes export s3://backup/logs --to /mnt/lake --master spark://host:7077
    kafkaframes export /backup/broker-1 --to lake --format delta --incremental
    """
    from kafkaframes.cli.exporting import run

    if not run(paths, flags, as_json=as_json, master=master, jobs=jobs):
        sys.exit(EXIT_INCOMPLETE)
