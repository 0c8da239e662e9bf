"""What the command line calls the settings of a job: the flags of the command, else Spark's options (``--option``)."""

from __future__ import annotations

from collections.abc import Mapping

import click


def flags_of(command: click.Command | None) -> Mapping[str, str]:
    """Return what stands for a setting's name in messages, by the settings' names."""
    commands = [command, *getattr(command, "commands", {}).values()] if command else []  # of a group: those below it
    options = [one for each in commands for one in each.params if isinstance(one, click.Option)]
    names = {str(one.name): max(one.opts, key=len) for one in options}
    flags = {flag.removeprefix("--").replace("-", "_"): flag for flag in names.values()}
    return {**(_spark_options() if "options" in names else {}), **flags, **names}


def _spark_options() -> dict[str, str]:
    from kafkaframes.spark.setting_names import setting_names

    return {name: f"--option {option}" for name, option in setting_names().items()}
