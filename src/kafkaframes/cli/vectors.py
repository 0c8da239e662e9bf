"""``kafkaframes vectors``: conformance vectors for other libraries."""

from __future__ import annotations

import click

from kafkaframes.cli.options import specs_option
from kafkaframes.cli.text import say


@click.command("vectors", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("directory", metavar="DIR")
@specs_option
def command(directory: str, specs: str | None) -> None:
    """Write bytes with what they mean into DIR, which is new or empty: vectors for the tests of other libraries.

    Every message at every version with its headers, whole and damaged; batches of every format and codec; varints; keys
    with their hash and partition. JSON lines, and a README.md that explains them. The same version of kafkaframes
    writes the same bytes. With --specs the messages are those of a proposal.
    """
    from kafkaframes.testing.vectors import write_vectors

    for name, count in write_vectors(directory, specs=specs).items():
        say(f"{count:>8,}  {name}")
    say(f"written into {directory}: README.md explains them")
