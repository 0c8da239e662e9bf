"""``kafkaframes verify LOGDIR...``: is every byte of a log as a broker wrote it? The exit status says."""

from __future__ import annotations

import sys
from typing import Any

import click

from kafkaframes.cli.options import (
    json_option,
    master_option,
    opens_batches,
    reads,
    replicas_option,
    with_options,
    workers_option,
)
from kafkaframes.jobs.settings import VerifySettings

EXIT_DAMAGED = 1


@click.command("verify", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--all", "show_all", is_flag=True, help="Print every finding, not only the first twenty of each kind.")
@click.option("--strict", is_flag=True, help="Exit 1 on warnings, too.")
@with_options(workers_option, master_option, json_option, replicas_option)
@opens_batches
@reads("paths", kind=VerifySettings)
def command(**flags: Any) -> None:
    """Verify logs: CRCs, framing, offsets, epochs, sequences, indexes, transactions, checkpoints.

    Exit status: 0 sound, 1 damaged (an error was found; with --strict a warning, too), 2 nothing to verify.
    Notes and warnings lose no record: a broker rebuilds indexes and snapshots.

    Every copy of a partition is verified. If there are several (brokers, disks), the output also shows how they would
    be merged, and whether the merged log has every offset undamaged.
    """
    from kafkaframes.cli.verifying import run

    if run(**flags):
        sys.exit(EXIT_DAMAGED)
