"""What the command line calls the settings of a job: the flags of the command, else Spark's options (``--option``)."""

from __future__ import annotations

from collections.abc import Mapping

import click


def flags_of(command: click.Command | None) -> Mapping[str, str]:
    """Return the names of settings in messages by the names that jobs have for them."""
    from kafkaframes.spark.setting_names import setting_names

    parameters = [] if command is None else command.params
    options = [one for one in parameters if isinstance(one, click.Option) and one.name is not None]
    return {**setting_names(), **{str(one.name): max(one.opts, key=len) for one in options}}
