"""``kafkaframes convert`` and ``recompress``: a log in another record format, in another codec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from kafkaframes.cli import rewriting
from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import RewriteSettings
from kafkaframes.records.layout import CODECS


@click.command("convert", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option(
    "--record-format",
    type=click.Choice(tuple(rewriting.RECORD_FORMATS)),
    help="The record format; `--to v2` says it, too.",
)
@click.option(
    "--to",
    "directories",
    multiple=True,
    metavar="DIR",
    help="The new directory; it must not exist, and appears complete.",
)
@rewriting.in_place_options
@rewriting.run_options(RewriteSettings, "record_format", "index_interval_bytes")
def command(
    sources: tuple[str, ...],
    record_format: str | None,
    directories: tuple[str, ...],
    settings: RewriteSettings,
    **options: Any,
) -> None:
    """Write a log in another record format, with the same offsets, order, timestamps, keys and values.

    SRC is a log directory, a topic partition's directory or a segment; several are one log:
    copies are merged. Kafka 4 reads formats v0 and v1 as before (it only stopped writing them), so no upgrade needs
    this.

    Example: kafkaframes convert /backup/kafka-logs --record-format v2 --to /backup/kafka-logs-v2
    """
    record_format, to = _said(record_format, directories)
    settings = replace(settings, record_format=rewriting.RECORD_FORMATS[record_format])
    rewriting.rewrite(sources, settings, to=to, **options)


def _said(record_format: str | None, flags: tuple[str, ...]) -> tuple[str, str | None]:
    """Return format and directory: ``--to v2`` names a format where ``--record-format`` does not."""
    directories = list(flags)
    if record_format is None:
        record_format = next((one for one in flags if one in rewriting.RECORD_FORMATS), None)
        if record_format is None:
            raise OptionError(f"give --record-format: {', '.join(rewriting.RECORD_FORMATS)}")
        directories.remove(record_format)
    if len(directories) > 1:
        raise OptionError(f"give --to DIR once, not {', '.join(directories)}")
    return record_format, directories[0] if directories else None


@click.command("recompress", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@rewriting.to_option
@rewriting.in_place_options
@rewriting.run_options(RewriteSettings, "record_format", "on_loss", "index_interval_bytes")
def recompress(sources: tuple[str, ...], settings: RewriteSettings, **options: Any) -> None:
    """Compress a log with another codec or level; each batch keeps its format, its header and its records.

    SRC is a log directory, a topic partition's directory or a segment; several are one
    log:
    copies are merged. zstd needs format v2 (see convert).

    Example: kafkaframes recompress /backup/kafka-logs --codec zstd --level 9 --to /backup/smaller
    """
    if settings.codec is None:
        raise OptionError(f"give --codec: {', '.join(CODECS)}")
    rewriting.rewrite(sources, settings, **options)
