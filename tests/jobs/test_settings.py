"""Settings of jobs: what is refused, what functions and commands are made of."""

import inspect
from dataclasses import fields

import click
import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.options import reads
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import ExportSettings
from kafkaframes.jobs.job import described
from kafkaframes.jobs.settings import (
    CompactSettings,
    RepairSettings,
    RewriteSettings,
    SelectionSettings,
    VerifySettings,
)
from kafkaframes.jobs.tables.settings import TableSettings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RewriteSettings(on_damage="drop"), "`on_damage` is one of fail, keep, not 'drop'"),
        (lambda: RewriteSettings(codec="lzma"), "`codec` is one of none, gzip, snappy, lz4, zstd, not 'lzma'"),
        (lambda: RewriteSettings(batch_bytes=0), "`batch_bytes` is at least 1, not 0"),
        (lambda: RewriteSettings(codec="none", level=1), "a level needs a codec that has levels: gzip, lz4 or zstd"),
        (lambda: CompactSettings(broker_release="4"), "`broker_release` is one of 2.8, 3.9, 4.x, not '4'"),
        (lambda: CompactSettings(delete_retention_ms=-1), "`delete_retention_ms` is at least 0, not -1"),
        (lambda: RepairSettings(index_interval_bytes=-1), "`index_interval_bytes` is at least 0, not -1"),
        (lambda: kafkaframes.convert_log("a", "b"), "`record_format` is missing: 0, 1 or 2"),
        (lambda: kafkaframes.recompress_log("a", "b"), "`codec` is missing: none, gzip, snappy, lz4 or zstd"),
        (lambda: kafkaframes.repair_log("a", as_kafke=True), "no setting as_kafke: did you mean as_kafka?"),
    ],
)
def test_mistakes_name_the_setting(make, message):
    with pytest.raises(OptionError) as wrong:
        make()
    assert str(wrong.value) == message


def test_functions_have_the_keywords_of_their_settings_and_say_what_each_means():
    for function, kind, ends in (
        (kafkaframes.verify_log, VerifySettings, 1),
        (kafkaframes.compact_log, CompactSettings, 2),
    ):
        assert list(inspect.signature(function).parameters)[ends:] == [entry.name for entry in fields(kind)]
        for entry in fields(kind):
            assert f"{entry.name}: {entry.metadata['meaning']}" in inspect.getdoc(function)


def test_what_may_hold_a_password_is_not_printed():
    shown = repr([TableSettings(mode="json", registry="http://u:sesame@h"), ExportSettings(storage={"key": "sesame"})])
    assert "mode='json'" in shown
    assert "sesame" not in shown


def test_where_keys_lie_makes_no_other_job():
    assert described(RewriteSettings(key_files=("k.pem",), follow_links=True)) == described(RewriteSettings())
    assert "key_files" not in described(RewriteSettings())


def test_a_command_is_handed_settings_made_of_its_flags(tmp_path):
    seen = []

    @click.command()
    @click.argument("paths", nargs=-1)
    @reads("paths", kind=SelectionSettings, leave_out=("partitions",))
    def command(paths, settings):
        seen.append(settings)

    assert CliRunner().invoke(command, [str(tmp_path), "-t", "orders", "--topic", "p*"]).exit_code == 0
    assert seen == [SelectionSettings(topics=("orders", "p*"))]
    assert "no such option" in CliRunner().invoke(command, [str(tmp_path), "-p", "1"]).output.lower()
