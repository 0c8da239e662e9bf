"""``kafkaframes repair LOGDIR``: converts a damaged log to one that a broker opens, and keeps every valid batch."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.options import (
    add_budget_option,
    add_click_options,
    add_settings_flags,
    json_option,
    master_option,
    print_links,
    workers_option,
)
from kafkaframes.cli.text import format_size, print_text
from kafkaframes.cli.workers import open_runner
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.row_counts import format_row_counts
from kafkaframes.jobs.settings import RepairSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.repair.job import RepairReport


def _print_repair(report: RepairReport) -> None:
    for partition in report.partitions:
        name = partition["partition"]
        for action in partition["actions"]:
            print_text(f"{name}: {action}")
        for segment in partition["segments"]:
            for loss in segment["lost"]:
                size = f"bytes {loss['start']:,} to {loss['end']:,}"
                print_text(f"{name}: {segment['name']}: {size} are omitted: {loss['reason']}")
            for first, after in segment["holes"]:
                print_text(
                    f"{name}: {segment['name']}: the offsets {first} to {after - 1} have no records after the repair"
                )
    lost_bytes = sum(entry["bytes_lost"] for entry in report.partitions)
    print_text(f"{count_text(len(report.partitions), 'partition')}; {format_size(lost_bytes)} of segments are omitted")
    read, written_counts = (
        sum(entry.get(name) or 0 for entry in report.partitions) for name in ("records_read", "records_written")
    )
    if report.destination:
        print_text(f"{format_row_counts(read, written_counts, {})} from all valid batches")
    else:
        print_text(f"{count_text(read, 'record')} in valid batches would be copied")
    if report.destination:
        print_text(report.ending)


def _check_flags(to: str | None, backup: str | None, *, in_place: bool, dry_run: bool) -> None:
    if not dry_run and (to is None) == (not in_place):
        raise OptionError("specify --to DIR, or --in-place with --backup DIR, or --dry-run to only print the damage")
    if in_place and not dry_run and backup is None:
        raise OptionError("--in-place requires --backup DIR, to which the damaged log is moved")


@click.command("repair")
@click.argument("logdir")
@click.option(
    "--to", metavar="DIR", help="The new directory. It must not exist; it is created when all its files are complete."
)
@click.option("--in-place", is_flag=True, help="Replace LOGDIR with the repaired log; requires --backup.")
@click.option("--backup", metavar="DIR", help="Path to move the old LOGDIR to, with --in-place.")
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@add_click_options(json_option, workers_option, master_option)
@add_settings_flags(RepairSettings)
@add_budget_option
def command(
    logdir: str,
    to: str | None,
    in_place: bool,
    backup: str | None,
    dry_run: bool,
    as_json: bool,
    jobs: int | None,
    master: str | None,
    **flags: Any,
) -> None:
    """Copy all valid batches of a damaged log directory, and report the lost data.

    A broker that finds a damaged batch during recovery truncates the log there, and deletes all later batches, valid or
    not. A broker does not notice damage below the recovery point. This command keeps the batches after the damage: the
    offsets of lost batches become gaps, as after compaction. With --as-kafka, it truncates like a broker.

    Indexes, producer snapshots and leader epochs are rebuilt. If a partition has replicas, copy it from one of them
    instead. Exit status: 0 repaired, 2 failed.
    """
    _check_flags(to, backup, in_place=in_place, dry_run=dry_run)
    from kafkaframes.jobs.repair.job import repair_directory, repair_in_place
    from kafkaframes.storage.recovery.recover import RecoverySettings

    print_links([logdir])
    settings = RepairSettings(**flags)
    recovery = RecoverySettings(time.time_ns() // 1_000_000, index_interval_bytes=settings.index_interval_bytes)
    with open_runner(master, jobs, label="repairing") as run:
        if in_place and backup is not None and not dry_run:
            report = repair_in_place(logdir, backup, recovery, as_kafka=settings.as_kafka, run=run)
        else:
            report = repair_directory(logdir, None if dry_run else to, recovery, as_kafka=settings.as_kafka, run=run)
    if as_json:
        click.echo(json.dumps(report.as_json()))
    else:
        _print_repair(report)
