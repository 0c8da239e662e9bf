"""What the commands that read logs share about stores: the key files of encrypted tiered segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kafkaframes.files.filesystem import KEY_FILES

key_file_option = click.option(
    "--key-file",
    "key_files",
    multiple=True,
    metavar="[ID=]FILE",
    help="Private RSA key (PEM) of encrypted tiered segments; may be repeated.",
)


def store_options(key_files: Sequence[str]) -> dict[str, Any]:
    """Return what ``discover`` and its kind take as ``options``."""
    return {KEY_FILES: tuple(key_files)} if key_files else {}


def key_option(key_files: Sequence[str]) -> dict[str, str]:
    """Return the same as an option of ``kafka-log``."""
    return {"keyFile": ",".join(key_files)} if key_files else {}
