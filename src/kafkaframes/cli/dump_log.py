"""``kafkaframes dump-log``: prints the files of a log as Kafka does, or as data. The flags are kafka-dump-log's.

This module only has the flags, so that ``--help`` and wrong flags import no reader of logs. ``dumping.py`` does the
work.
"""

from __future__ import annotations

from typing import Any

import click

from kafkaframes.cli.options import (
    add_budget_option,
    add_click_options,
    add_log_settings,
    key_options,
    range_options,
    replicas_option,
    selection_options,
)
from kafkaframes.jobs.dump.names import (
    FILE_KINDS,
    MAX_CHECKED_BATCH_BYTES,
    MAX_PRINTED_VALUE_BYTES,
    NEWEST_STYLE,
    STYLE_NAMES,
)
from kafkaframes.jobs.settings import SourceSettings

OUTPUT_FORMATS = ("text", "jsonl", "csv", "arrow")


@click.command("dump-log")
@click.argument("paths", nargs=-1)
@click.option(
    "--files", "named", multiple=True, metavar="FILE[,FILE]", help="The same as PATHS, under Kafka's name for it."
)
@click.option("--deep-iteration", is_flag=True, help="Text: print the records under each batch.")
@click.option("--print-data-log", is_flag=True, help="Text: print keys and payloads (and the records).")
@click.option("--skip-record-metadata", is_flag=True, help="Text: print only key and payload of a record.")
@click.option("--index-sanity-check", is_flag=True, help="Indexes: only what a broker checks when it starts.")
@click.option("--verify-index-only", is_flag=True, help="Indexes: compare with the segment, print no entries.")
@click.option("--max-bytes", type=click.IntRange(0), help="Read only batches in the first N bytes of a segment.")
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    default=MAX_CHECKED_BATCH_BYTES,
    show_default=True,
    help="Indexes: how many bytes of the segment are read after each entry.",
)
@click.option("--offsets-decoder", is_flag=True, help="Text output: decode the records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Text output: decode the records of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Text output: decode the records of __cluster_metadata.")
@click.option(
    "--remote-log-metadata-decoder", is_flag=True, help="Text output: decode the records of __remote_log_metadata."
)
@click.option(
    "--share-group-state-decoder", is_flag=True, help="Text output: decode the records of __share_group_state."
)
@click.option(
    "--style",
    default=NEWEST_STYLE,
    show_default=True,
    help=f"Text: as this release prints: {', '.join(STYLE_NAMES)}, or another.",
)
@click.option(
    "--format", "form", type=click.Choice(OUTPUT_FORMATS), default="text", show_default=True, help="See above."
)
@click.option("-f", "pattern", metavar="FORMAT", help=r"kcat's format string: %t %p %o %T %k %K %s %S %h, \n, \xHH.")
@click.option("-J", "envelopes", is_flag=True, help="kcat's JSON envelope, one on each line.")
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    metavar="OFFSET",
    help="Where to start, as in kcat: beginning, end, N, -N, s@MS, e@MS.",
)
@click.option("-c", "count", type=click.IntRange(0), help="Stop after this many records.")
@add_click_options(*selection_options, *range_options, *key_options)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice((*FILE_KINDS, "all")),
    multiple=True,
    help="Which files of a directory; default: segments and KRaft snapshots, with an index flag the indexes.",
)
@click.option(
    "--full-values", is_flag=True, help=f"JSON lines: no digests for values above {MAX_PRINTED_VALUE_BYTES} bytes."
)
@click.option(
    "--base64", is_flag=True, help="CSV: write keys, values and header values in base64, so that no byte is lost."
)
@replicas_option
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to a file, not to standard output.")
@add_budget_option
@add_log_settings("paths", "named", kind=SourceSettings)
def command(**flags: Any) -> None:
    """Print the files of Kafka logs: segments, indexes, snapshots; without a broker and without Java.

    PATHS are files, partition directories, log directories, patterns, or URLs such as s3://bucket/logs.

    \b
    --format text    what kafka-dump-log prints, line for line
    --format jsonl   every batch, record, error and end as a JSON object; keys
                     and values in base64, values above 200 bytes as their
                     SHA-256 unless --full-values is given; a directory's
                     .deleted, .swap and .cleaned segments too
    --format csv     the records: key, value, topic, partition, offset,
                     timestamp, timestampType, headers
    --format arrow   the same as an Arrow IPC stream, the bytes as they are

    If directories hold a partition more than once (brokers, disks), its copies are printed as one log, each offset
    once, and standard error lists the decisions. Files named in PATHS are printed as they are.

    Damaged batches are reported on standard error with file and position; everything readable is printed, and the exit
    status is 1. Control records are left out of csv, arrow, -f and -J.

    \b
    kafkaframes dump-log --print-data-log /logs/orders-0
    kafkaframes dump-log /logs -f '%t/%p@%o %T: %s\\n' --offset -10 -c 5
    kafkaframes dump-log /logs/orders-0 --format jsonl --key order-17
    kafkaframes dump-log /logs/__consumer_offsets-* --offsets-decoder
    """
    from kafkaframes.cli.dumping import run_dump

    run_dump(flags)
