"""``kafkaframes dump-log``: prints the files of a log as Kafka does, or as data. The flags are those of kafka-dump-log.

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
    "--files",
    "named",
    multiple=True,
    metavar="FILE[,FILE]",
    help="Files to print, as in kafka-dump-log. Equivalent to PATHS.",
)
@click.option("--deep-iteration", is_flag=True, help="Text: print the records of each batch.")
@click.option("--print-data-log", is_flag=True, help="Text: print the records with keys and payloads.")
@click.option("--skip-record-metadata", is_flag=True, help="Text: print only the key and payload of records.")
@click.option("--index-sanity-check", is_flag=True, help="Indexes: only run the checks that a broker runs at startup.")
@click.option(
    "--verify-index-only", is_flag=True, help="Indexes: compare entries with the segment, without printing them."
)
@click.option("--max-bytes", type=click.IntRange(0), help="Only read batches in the first N bytes of a segment.")
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    default=MAX_CHECKED_BATCH_BYTES,
    show_default=True,
    help="Indexes: number of bytes to read from the segment for each entry.",
)
@click.option("--offsets-decoder", is_flag=True, help="Text: decode keys and payloads of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Text: decode keys and payloads of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Text: decode keys and payloads of __cluster_metadata.")
@click.option(
    "--remote-log-metadata-decoder", is_flag=True, help="Text: decode keys and payloads of __remote_log_metadata."
)
@click.option(
    "--share-group-state-decoder", is_flag=True, help="Text: decode keys and payloads of __share_group_state."
)
@click.option(
    "--style",
    default=NEWEST_STYLE,
    show_default=True,
    help=f"Text: output style of this Kafka release: {', '.join(STYLE_NAMES)}, or another.",
)
@click.option(
    "--format", "form", type=click.Choice(OUTPUT_FORMATS), default="text", show_default=True, help="See above."
)
@click.option("-f", "pattern", metavar="FORMAT", help=r"kcat format: %t %p %o %T %k %K %s %S %h, \n, \xHH.")
@click.option("-J", "envelopes", is_flag=True, help="JSON envelopes of kcat, one per line.")
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    metavar="OFFSET",
    help="Start position, as in kcat: beginning, end, N, -N, s@MS, e@MS.",
)
@click.option("-c", "count", type=click.IntRange(0), help="Maximum number of records to print.")
@add_click_options(*selection_options, *range_options, *key_options)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice((*FILE_KINDS, "all")),
    multiple=True,
    help="Kinds of files to print from directories. Default: segments and KRaft "
    "snapshots, or indexes with an index flag.",
)
@click.option("--full-values", is_flag=True, help=f"JSON lines: print values above {MAX_PRINTED_VALUE_BYTES} bytes.")
@click.option(
    "--base64", is_flag=True, help="CSV: write keys, values and header values in base64, which preserves every byte."
)
@replicas_option
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="File to write instead of standard output.")
@add_budget_option
@add_log_settings("paths", "named", kind=SourceSettings)
def command(**flags: Any) -> None:
    """Print the segments, indexes and snapshots of Kafka logs, without a broker and without Java.

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

    If the directories have several copies of a partition (brokers, disks), they are merged and printed as one log, and
    standard error lists the decisions. Files among the PATHS are printed unmerged.

    Damaged batches are reported on standard error with file and position. All readable data is printed, and the exit
    status is 1. Control records are omitted from csv, arrow, -f and -J.

    \b
    kafkaframes dump-log --print-data-log /logs/orders-0
    kafkaframes dump-log /logs -f '%t/%p@%o %T: %s\\n' --offset -10 -c 5
    kafkaframes dump-log /logs/orders-0 --format jsonl --key order-17
    kafkaframes dump-log /logs/__consumer_offsets-* --offsets-decoder
    """
    from kafkaframes.cli.dumping import run_dump

    run_dump(flags)
