"""Messages name the flags of the command that runs, and Spark's options if the command has no flag."""

import click
import pytest

from kafkaframes.cli.main import LazyGroup, flags_of
from kafkaframes.errors import KafkaframesError, LogDirError, OptionError


@click.command()
@click.option("-f", "--from", "source")
@click.option("--timeout", "seconds")
@click.option("--option", "options", multiple=True)
def copy(source, seconds, options):
    raise OptionError(
        "`source` is empty; `start` says where to begin, `timeout` and `other` and `kafkaframes info` nothing"
    )


class Group(LazyGroup):
    def get_command(self, ctx, name):
        return copy


def test_settings_are_flags_then_options_of_spark():
    group = Group("kafkaframes", sections={"Commands": {"copy": ("", "")}})
    with pytest.raises(
        OptionError,
        match=r"^--from is empty; --option startingOffsets says .* --timeout and `other` and `kafkaframes",
    ):
        group.main(["copy"], standalone_mode=False)


@pytest.mark.parametrize("error", [OptionError("`source` is x"), LogDirError("`source` is x", file="f", position=3)])
def test_every_error_keeps_what_else_it_says(error: KafkaframesError):
    from kafkaframes.errors.exceptions import rename_settings

    before = str(error)
    rename_settings(error, flags_of(copy))
    assert str(error) == before.replace("`source`", "--from")
