"""``kafkaframes convert`` and ``recompress``: a log in another record format, in another codec."""

from __future__ import annotations

from typing import Any

import click

from kafkaframes.cli import rewriting
from kafkaframes.errors import OptionError

ON_LOSS = ("error", "warn", "drop")


@click.command("convert", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option(
    "--record-format",
    type=click.Choice(tuple(rewriting.RECORD_FORMATS)),
    help="The record format; `--to v2` says it, too.",
)
@click.option(
    "--to", "given", multiple=True, metavar="DIR", help="The new directory; it must not exist, and appears complete."
)
@rewriting.codec_option(help="Also another codec; each batch keeps its own by default.")
@rewriting.level_option
@click.option(
    "--on-loss",
    type=click.Choice(ON_LOSS),
    default="error",
    show_default=True,
    help="What the older format cannot say.",
)
@rewriting.output_options
@rewriting.run_options
def command(
    sources: tuple[str, ...],
    record_format: str | None,
    given: tuple[str, ...],
    codec: str | None,
    level: int | None,
    on_loss: str,
    mode: str,
    batch_bytes: int,
    **options: Any,
) -> None:
    """Write a log in another record format: offsets, order, timestamps, keys and values stay.

    SRC is a log directory, a topic partition's directory or a segment; several are one log:
    copies are merged. Kafka 4 reads formats v0 and v1 as before (it only stopped writing them), so no upgrade needs
    this.

    Example: kafkaframes convert /backup/kafka-logs --record-format v2 --to /backup/kafka-logs-v2
    """
    from kafkaframes.jobs.convert.settings import RewriteSettings
    from kafkaframes.records.codecs import codec_of

    record_format, to = _said(record_format, given)
    settings = RewriteSettings(
        record_format=rewriting.RECORD_FORMATS[record_format],
        codec=None if codec is None else codec_of(codec),
        level=level,
        batch_bytes=batch_bytes,
        on_loss=on_loss,
        mode=mode,
    )
    rewriting.rewrite(sources, settings, to=to, **options)


def _said(record_format: str | None, flags: tuple[str, ...]) -> tuple[str, str | None]:
    """Return format and directory: ``--to v2`` names a format where ``--record-format`` does not."""
    places = list(flags)
    if record_format is None:
        record_format = next((one for one in flags if one in rewriting.RECORD_FORMATS), None)
        if record_format is None:
            raise OptionError(f"give --record-format: {', '.join(rewriting.RECORD_FORMATS)}")
        places.remove(record_format)
    if len(places) > 1:
        raise OptionError(f"give --to DIR once, not {', '.join(places)}")
    return record_format, places[0] if places else None


@click.command("recompress", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@rewriting.codec_option(required=True, help="The codec to write.")
@rewriting.level_option
@rewriting.to_option
@rewriting.output_options
@rewriting.run_options
def recompress(
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
