"""``kafkaframes mirror``: copy topics between clusters and log directories."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import parse_client_properties, timeout_option
from kafkaframes.cli.options import add_settings_flags, json_option
from kafkaframes.cli.placeholders import PLACEHOLDER_HELP
from kafkaframes.cli.text import print_note, print_text
from kafkaframes.jobs.mirror.settings import MirrorSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.mirror.settings import MirrorReport

EXIT_INCOMPLETE = 1  # exit status if a part of the source directory could not be read
_SETTINGS_WITH_OWN_FLAGS = (
    *("timeout_s", "source_properties", "target_properties"),  # settings with flags of their own
    *("group_interval_s", "topic_interval_s"),
)
_EXIT_STOPPED = 3  # exit status of a copy that was stopped before it was complete


@click.command("mirror")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="A",
    help="Source: bootstrap servers (host:port), or a log directory.",
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="B",
    help="Target: bootstrap servers (host:port), or a log directory, which is created if missing.",
)
@add_settings_flags(MirrorSettings, *_SETTINGS_WITH_OWN_FLAGS)
@click.option(
    "--from-property",
    "source_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"Client property for the source; repeatable. {PLACEHOLDER_HELP}",
)
@click.option(
    "--to-property",
    "target_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"Client property for the target; repeatable. {PLACEHOLDER_HELP}",
)
@timeout_option
@json_option
def command(source: str, target: str, as_json: bool, timeout: float, **flags: Any) -> None:
    """Copy topics batch by batch, with their settings, partitions and the committed offsets of groups.

    Into a kafkaframes broker or a directory, bytes and offsets stay the same. All other brokers assign new offsets:
    committed transactions are copied as plain batches, aborted transactions and markers are omitted, and batches that
    the broker would reject (formats 0 and 1, offset gaps) are rewritten. Run it again to continue.

    Exit status: 0 complete; 1 a part of the directory could not be read; 2 the copy failed; 3 the command was stopped
    before the end.

    \b
    kafkaframes mirror --from old:9092 --to /backup/kafka
    kafkaframes mirror --from /backup/kafka --to new:9092 --state state
    kafkaframes mirror --from old:9092 --to new:9092 --state state --follow
    """
    import asyncio

    for end in ("source_properties", "target_properties"):
        flags[end] = parse_client_properties(flags[end], option=f"--{'from' if end[0] == 's' else 'to'}-property ")
    report = asyncio.run(_run_mirror(source, target, MirrorSettings(**flags, timeout_s=timeout)))
    print_text(json.dumps(report.to_dict(), indent=2) if as_json else str(report))
    if report.was_stopped:
        raise SystemExit(_EXIT_STOPPED)
    if report.not_read:
        raise SystemExit(EXIT_INCOMPLETE)


async def _run_mirror(source: str, target: str, settings: MirrorSettings) -> MirrorReport:
    """Run the copy. Ctrl-C and SIGTERM end the copy after the batches in flight."""
    import asyncio

    from kafkaframes.jobs.mirror.job import mirror_clusters

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await mirror_clusters(source, target, settings, stop=stop, print_message=print_note)
