"""Messages name the flags of the command that runs."""

import click
import pytest

from kafkaframes.cli.main import LazyGroup, list_flags_by_setting
from kafkaframes.errors import KafkaframesError, LogDirError, OptionError


@click.command()
@click.option("-f", "--from", "source")
@click.option("--timeout", "seconds")
@click.option("--verify-crc/--no-verify-crc", "verify_crc", default=True)
def copy(source, seconds, verify_crc):
    raise OptionError(
        "`source` is empty; `verify_crc`=false reads it, `timeout`=false and `other` and `kafkaframes info` do not"
    )


class FakeGroup(LazyGroup):
    def get_command(self, ctx, name):
        return copy


def test_messages_name_flags_instead_of_settings():
    group = FakeGroup("kafkaframes", sections={"Commands": {"copy": ("", "")}})
    with pytest.raises(
        OptionError,
        match=r"^--from is empty; --no-verify-crc reads it, --timeout=false and `other` and `kafkaframes",
    ):
        group.main(["copy"], standalone_mode=False)


@pytest.mark.parametrize("error", [OptionError("`source` is x"), LogDirError("`source` is x", file="f", position=3)])
def test_other_words_of_errors_are_unchanged(error: KafkaframesError):
    from kafkaframes.errors.exceptions import rename_settings

    before = str(error)
    rename_settings(error, list_flags_by_setting(copy))
    assert str(error) == before.replace("`source`", "--from")
