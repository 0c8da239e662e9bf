"""``kafkaframes recompress SRC --codec zstd --to DIR``: the same records in another codec."""

from __future__ import annotations

from typing import Any

import click

from kafkaframes.cli import rewriting


@click.command("recompress", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@rewriting.codec_option(required=True, help="The codec to write.")
@rewriting.level_option
@rewriting.to_option
@rewriting.output_options
@rewriting.run_options
def command(
    sources: tuple[str, ...], codec: str, level: int | None, mode: str, batch_bytes: int, **options: Any
) -> None:
    """Compress a log anew; each batch keeps its format, its header and its records.

    SRC is a log directory, a topic partition's directory or a segment; several are one
    log:
    copies are merged. zstd needs format v2 (see convert).

    Example: kafkaframes recompress /backup/kafka-logs --codec zstd --level 9 --to /backup/smaller
    """
    from kafkaframes.jobs.convert.settings import RewriteSettings
    from kafkaframes.records.codecs import codec_of

    settings = RewriteSettings(codec=codec_of(codec), level=level, batch_bytes=batch_bytes, mode=mode)
    rewriting.rewrite(sources, settings, **options)
