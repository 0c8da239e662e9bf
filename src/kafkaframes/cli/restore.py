"""``kafkaframes restore SRC... --to DIR``: restores segments or Parquet to a log directory that a broker opens."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.convert import add_run_options
from kafkaframes.cli.text import format_size, print_table, print_text
from kafkaframes.cli.workers import open_runner
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.restore.settings import KRAFT, NO_BOOTSTRAP, RestoreSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.restore.partition import RestoreReport

EXIT_DATA_LOST = 1  # exit status if data of the sources is missing in the result


@click.command("restore")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option(
    "--to",
    metavar="DIR",
    help="The new log directory. It must not exist; it is created when all its files are complete.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be restored; write nothing.")
@click.option("--from", "kind", type=click.Choice(("auto", "segments", "parquet")), default="auto", show_default=True)
@click.option(
    "--into-cluster-ids",
    metavar="FILE",
    help="File with the output of kafka-topics --describe, for an existing cluster.",
)
@add_run_options(RestoreSettings)
def command(
    sources: tuple[str, ...],
    to: str | None,
    dry_run: bool,
    as_json: bool,
    jobs: int | None,
    master: str | None,
    settings: RestoreSettings,
    **flags: Any,
) -> None:
    """Write a log directory that a real broker can open, with indexes, checkpoints, topic ids and group offsets.

    SRC is a log directory, a partition's directory, a segment, or a backup that contains these, as a path or URL;
    several are possible. SRC can also be Parquet, as `export` writes it or with the columns topic, partition and value.
    SRC is only read. DIR is the log directory of a new single KRaft node (3.9 to 4.3) with the topics. With
    --into-cluster-ids, it has partitions for the brokers of an existing cluster with these topics.

    Without --topic, all topics except Kafka's internal ones are restored. A range of times begins at the first record
    at or after its start and ends before the first record at or after its end, in the order of offsets; all records in
    between are kept.

    Exit status: 0 restored; 1 restored, but damaged batches were omitted; 2 failed.

    \b
    kafkaframes restore /backup/kafka-logs --to /var/lib/kafka/restored
    kafkaframes restore /backup/kafka-logs --to restored --topic orders
    """
    from kafkaframes.jobs.restore.job import restore

    if to is None and not dry_run:
        raise OptionError("specify --to DIR, or --dry-run to only show what would be restored")
    kind = flags.pop("kind")
    settings = _add_topic_ids(settings, flags.pop("into_cluster_ids"))
    with open_runner(master, jobs, label="restoring") as run:
        report = restore(sources, to or "", settings, kind=kind, run=run, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps(report.as_json()))
    else:
        _print_restore(report, settings)
    if not report.is_whole:
        sys.exit(EXIT_DATA_LOST)


def _add_topic_ids(settings: RestoreSettings, ids_file: str | None) -> RestoreSettings:
    """Return the settings for a restore into an existing cluster, with its topic ids; without a file, unchanged."""
    if ids_file is None:
        return settings
    settings = _add_topic_ids_from_file(ids_file, settings)
    return replace(settings, bootstrap=NO_BOOTSTRAP, leader_epoch=settings.leader_epoch or 0)


def _add_topic_ids_from_file(path: str, settings: RestoreSettings) -> RestoreSettings:
    """Return the settings with topic ids from a file. Without --topic, all topics in the file are restored."""
    from kafkaframes.jobs.restore.cluster import read_topic_ids

    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LogDirError(f"cannot be read: {error}", file=path) from error
    ids = read_topic_ids(text, file=path)
    old_names = {new_name: old_name for old_name, new_name in settings.topic_map}
    topics = settings.topic_names or tuple(old_names.get(name, name) for name in ids)
    topics_to_restore = {settings.rename_topic(name) for name in topics}
    selected_ids = tuple((name, topic_id) for name, topic_id in ids.items() if name in topics_to_restore)
    return replace(settings, topics=topics, topic_ids=(*selected_ids, *settings.topic_ids))


# --------------------------------------------------------------------------------------------------------- the report


def _print_restore(report: RestoreReport, settings: RestoreSettings) -> None:
    rows = [
        (
            f"{partition.topic}-{partition.partition}",
            f"{partition.segments:,}",
            f"{partition.log_start_offset:,} to {partition.log_end_offset:,}"
            if not report.dry_run
            else f"{partition.log_start_offset:,}",
            format_size(partition.bytes_read if report.dry_run else partition.bytes_written),
            report.topic_ids.get(partition.topic, ""),
        )
        for partition in report.partitions
    ]
    print_table(("partition", "segments", "offsets", "size", "topic id"), rows)
    if not report.dry_run:
        print_text(report.counted)
    for remark in _list_remarks(report):
        print_text(remark)
    if report.dry_run:
        print_text("nothing was written (--dry-run)")
        return
    print_text(report.ending)
    print_text(_describe_next_step(report, settings))


def _list_remarks(report: RestoreReport) -> list[str]:
    """Return lines about merge decisions, omitted data, open transactions, committed offsets and retention."""
    remarks = [
        f"{loss['severity']}: {loss['topic']}-{loss['partition']}: {loss['message']}" for loss in report.decisions
    ]
    remarks += [f"left out: {directory}: {reason}" for directory, reason in report.left_out if reason != "not selected"]
    for entry in report.partitions:
        name = f"{entry.topic}-{entry.partition}"
        remarks += [
            f"{lost_range.file}: bytes {lost_range.start:,} to {lost_range.end:,} are omitted: {lost_range.reason}"
            for lost_range in entry.lost
        ]
        remarks += [f"{name}: {number:,} {kind} left out" for kind, number in sorted(entry.dropped.items()) if number]
        if entry.open_transactions:
            remarks.append(
                f"{name}: {count_text(len(entry.open_transactions), 'open transaction')}: "
                "read_committed consumers stop at the first of them "
                "(--open-transactions abort ends them)"
            )
    if report.groups is not None:
        groups = report.groups
        remarks.append(
            f"{groups.commits:,} committed offsets of {count_text(groups.groups, 'group')}, "
            f"{groups.moved:,} of them with new offsets"
        )
        remarks += [f"{number:,} committed offsets left out: {why}" for why, number in sorted(groups.dropped.items())]
    if report.held:
        remarks.append(
            f"retention.ms=-1 for {', '.join(report.held)}: records do not expire until you alter the setting"
        )
    return remarks


def _describe_next_step(report: RestoreReport, settings: RestoreSettings) -> str:
    """Return how to use the restored directory."""
    destination = Path(report.destination).absolute()
    if settings.bootstrap != KRAFT:
        return (
            "next: stop the broker, replace its partitions' directories with these, start it;\n"
            "committed offsets: kafka-consumer-groups --reset-offsets --from-file group-offsets.csv (docs/restore.md)"
        )
    return (
        "next: start a broker with\n"
        f"  log.dirs={destination}\n"
        f"  node.id={settings.node_id}\n"
        "  process.roles=broker,controller\n"
        "  listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "  controller.listener.names=CONTROLLER\n"
        f"  controller.quorum.voters={settings.node_id}@localhost:9093\n"
        "  offsets.topic.replication.factor=1, transaction.state.log.replication.factor=1, "
        "transaction.state.log.min.isr=1"
    )
