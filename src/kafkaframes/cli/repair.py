"""``kafkaframes repair LOGDIR``: a damaged log into one that a broker opens, with every good batch still in it."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kafkaframes.cli import rewriting
from kafkaframes.cli.info import size_text
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.log import names
from kafkaframes.log.broker_lock import take_lock
from kafkaframes.log.directory import LogDirectory, discover
from kafkaframes.log.filesystem import split
from kafkaframes.log.recovery import RecoverySettings
from kafkaframes.log.repair import PartitionRepair, plan_repair, repair
from kafkaframes.log.rewrite import files

REPAIRED = ".kafkaframes-repaired"


@contextmanager
def not_open(path: str) -> Iterator[None]:
    """Hold the lock that a broker holds on its log directory, if the directory has the file.

    Raises:
        LogDirError: a broker has the directory open.
    """
    lock = Path(path) / names.BROKER_LOCK
    try:
        let_go = take_lock(str(lock), create=False)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise LogDirError(f"cannot be opened: {error.strerror}", file=str(lock)) from error
    if let_go is None:
        raise LogDirError("a broker has this directory open: stop it first", file=str(lock))
    try:
        yield
    finally:
        let_go()


def _only(path: str) -> LogDirectory:
    found = discover(path)
    if len(found) != 1 or found[0].path.rstrip("/") != path.rstrip("/"):
        raise OptionError(f"{path} is not one log directory; it holds {', '.join(one.path for one in found[:5])}")
    return found[0]


def _print(repairs: list[PartitionRepair]) -> None:
    for one in repairs:
        for action in one.plan.actions:
            click.echo(f"{one.name}: {action.kind} {split(action.path)[1]}: {action.reason}")
        for segment in one.segments:
            for loss in segment.lost:
                size = f"bytes {loss.start:,} to {loss.end:,}"
                click.echo(f"{one.name}: {segment.name}: {size} are left out: {loss.reason}")
            for first, after in segment.holes:
                click.echo(f"{one.name}: {segment.name}: no records left of the offsets {first} to {after - 1}")
    lost = sum(one.bytes_lost for one in repairs)
    click.echo(f"{len(repairs)} partitions; {size_text(lost)} of segments are not kept")


def _in_place(path: Path, repaired: Path, backup: Path) -> None:
    """Move the log away and the repaired one into its place; if that fails, back again."""
    with files.writing(backup):
        path.rename(backup)
    try:
        repaired.rename(path)
    except OSError as error:
        backup.rename(path)
        raise LogDirError(f"could not be put into place: {error.strerror}", file=str(repaired)) from error
    files.sync_directories(path)


def _check(path: Path, to: Path | None, backup: Path | None, *, in_place: bool, dry_run: bool) -> None:
    if not dry_run and (to is None) == (not in_place):
        raise OptionError("give either --to DIR, or --in-place with --backup DIR; or --dry-run to look first")
    if in_place and not dry_run:
        if backup is None:
            raise OptionError("--in-place needs --backup DIR: the log as it is now is moved there")
        if backup.exists():
            raise LogDirError("is there already; nothing is overwritten", file=str(backup))
        if os.path.ismount(path) or path.stat().st_dev != backup.parent.stat().st_dev:
            reason = os.strerror(errno.EXDEV) + ": --in-place renames directories; use --to"
            raise LogDirError(reason, file=str(backup))


@click.command("repair", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("logdir", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--to", type=click.Path(path_type=Path), help="Write the repaired log here; LOGDIR is only read.")
@click.option("--in-place", is_flag=True, help="Put the repaired log in LOGDIR's place; needs --backup.")
@click.option("--backup", type=click.Path(path_type=Path), help="Where --in-place moves LOGDIR as it is now.")
@click.option("--as-kafka", is_flag=True, help="Recover as a broker does: cut each log off at the first damage.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@click.option("--workers", "jobs", type=click.IntRange(1), help="Processes; the cores by default.")
@click.option("--master", metavar="URL", help="Run on Spark: local[2], spark://host:7077, ...")
@click.option("--index-interval-bytes", type=click.IntRange(0), default=4096, show_default=True)
def command(
    logdir: Path,
    to: Path | None,
    in_place: bool,
    backup: Path | None,
    as_kafka: bool,
    dry_run: bool,
    as_json: bool,
    jobs: int | None,
    master: str | None,
    index_interval_bytes: int,
) -> None:
    """Keep every good batch of a damaged log directory, and say what was lost.

    A broker that finds a damaged batch in its recovery cuts the log off there and deletes all that follows, good or
    not; damage below the recovery point it does not see. This command keeps what follows, too: the offsets of the lost
    batches become holes, as after compaction. --as-kafka does what the broker would do.

    Indexes, producer snapshots and leader epochs are made again. A partition that has replicas is better fetched from
    one of them. Exit status: 0 done, 2 refused.
    """
    _check(logdir, to, backup, in_place=in_place, dry_run=dry_run)
    path = str(logdir).rstrip("/") or "/"
    with not_open(path), rewriting.runner(master, jobs, label="repairing") as run:
        directory = _only(path)
        repairs = plan_repair(directory, as_kafka=as_kafka, run=run)
        if not dry_run:
            settings = RecoverySettings(time.time_ns() // 1_000_000, index_interval_bytes=index_interval_bytes)
            target = to or logdir.with_name(logdir.name + REPAIRED)
            repair(directory, repairs, settings, target, run=run)
            if backup is not None and in_place:
                _in_place(logdir, target, backup)
    if as_json:
        click.echo(json.dumps({"source": path, "partitions": [one.as_json() for one in repairs]}))
    else:
        _print(repairs)
