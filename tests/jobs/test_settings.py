"""Settings of jobs: invalid values, and the signatures of functions and commands built from them."""

import inspect
from dataclasses import MISSING, fields

import click
import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.options import add_log_settings
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import ExportSettings, TopicExportSettings
from kafkaframes.jobs.job import settings_as_json
from kafkaframes.jobs.mirror.settings import MirrorSettings
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.settings import (
    AuditSettings,
    CompactSettings,
    ConvertSettings,
    DescribeSettings,
    PartitionSettings,
    RecompressSettings,
    RepairSettings,
    ReportSettings,
    VerifySettings,
)
from kafkaframes.jobs.tables.settings import TableSettings, TopicTableSettings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RecompressSettings(codec="gzip", on_damage="drop"),
            "`on_damage` must be one of fail, keep, not 'drop'",
        ),
        (lambda: RecompressSettings(codec="lzma"), "`codec` must be one of none, gzip, snappy, lz4, zstd, not 'lzma'"),
        (lambda: RecompressSettings(codec="gzip", batch_bytes=0), "`batch_bytes` must be at least 1, not 0"),
        (
            lambda: RecompressSettings(codec="none", level=1),
            "`level` requires a codec that has levels: gzip, lz4 or zstd",
        ),
        (lambda: CompactSettings(broker_release="4"), "`broker_release` must be one of 2.8, 3.9, 4.x, not '4'"),
        (lambda: CompactSettings(delete_retention_ms=-1), "`delete_retention_ms` must be at least 0, not -1"),
        (lambda: RepairSettings(index_interval_bytes=-1), "`index_interval_bytes` must be at least 0, not -1"),
        (lambda: kafkaframes.convert_log("a", "b", record_format=3), "`record_format` must be one of 0, 1, 2, not 3"),
        (
            lambda: kafkaframes.recompress_log("a", "b", codec=None),
            "`codec` must be one of none, gzip, snappy, lz4, zstd, not None",
        ),
    ],
)
def test_errors_name_the_setting(make, message):
    with pytest.raises(OptionError) as wrong:
        make()
    assert str(wrong.value) == message


SETTINGS = {
    "verify_log": VerifySettings,
    "describe_log": DescribeSettings,
    "report_log": ReportSettings,
    "export_log": ExportSettings,
    "export_topics": TopicExportSettings,
    "convert_log": ConvertSettings,
    "recompress_log": RecompressSettings,
    "compact_log": CompactSettings,
    "repair_log": RepairSettings,
    "restore_log": RestoreSettings,
    "mirror_topics": MirrorSettings,
    "table_log": TableSettings,
    "table_topics": TopicTableSettings,
    "audit_upgrade": AuditSettings,
}
# Keywords that are not settings: the connection to the cluster, the output file, and callbacks.
OTHER_KEYWORDS = {
    "export_topics": {"client"},
    "audit_upgrade": {"to", "format"},
    "table_log": {"stop", "report"},
    "table_topics": {"client", "stop", "report"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_signature_is_explicit_and_has_the_settings_of_its_job(name):
    function, settings = getattr(kafkaframes, name), {entry.name: entry for entry in fields(SETTINGS[name])}
    signature = inspect.signature(function)
    keywords = {
        parameter.name: parameter
        for parameter in signature.parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert set(keywords) == set(settings) | OTHER_KEYWORDS.get(name, set())
    targets = [one for one in signature.parameters if one not in keywords]
    assert len(targets) <= 2 or targets == ["servers", "topics", "to"]  # the source and the target
    for setting, entry in settings.items():
        default = entry.default
        if default is MISSING:  # required, or a dict that each call creates
            default = inspect.Parameter.empty if entry.default_factory is MISSING else None
        assert keywords[setting].default == default, setting
        assert keywords[setting].annotation is not inspect.Parameter.empty
        assert f"    {setting}: " in inspect.getdoc(function)
    assert signature.return_annotation is not inspect.Parameter.empty
    assert "--" not in inspect.getdoc(function)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_keyword_of_a_function_reaches_its_settings(name, monkeypatch):
    """A keyword that is not passed on, or under another name, would be ignored silently."""
    module = inspect.getmodule(getattr(kafkaframes, name))
    kind = SETTINGS[name]
    values = {entry.name: object() for entry in fields(kind)}

    def stop(**keywords):
        assert keywords == values
        raise KeyboardInterrupt

    monkeypatch.setattr(module, kind.__name__, stop)
    ends = [
        parameter
        for parameter in inspect.signature(getattr(kafkaframes, name)).parameters.values()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    with pytest.raises(KeyboardInterrupt):
        getattr(kafkaframes, name)(*["/nowhere"] * len(ends), **values)


def test_a_setting_of_another_job_is_rejected_and_required_ones_have_no_default():
    for call in (
        lambda: kafkaframes.recompress_log("a", "b", codec="zstd", record_format=2),
        lambda: kafkaframes.convert_log("a", "b"),
        lambda: kafkaframes.recompress_log("a", "b"),
        lambda: kafkaframes.repair_log("a", as_kafke=True),
        lambda: kafkaframes.verify_log("a", (), ("orders",)),
    ):
        with pytest.raises(TypeError):
            call()


def test_settings_that_may_contain_a_password_are_not_printed():
    settings_text = repr(
        [TableSettings(mode="json", registry="http://u:sesame@h"), ExportSettings(storage={"key": "sesame"})]
    )
    assert "mode='json'" in settings_text
    assert "sesame" not in settings_text


def test_another_spill_directory_is_not_another_job():
    assert settings_as_json(
        RecompressSettings(codec="gzip", key_files=("k.pem",), follow_links=True)
    ) == settings_as_json(RecompressSettings(codec="gzip"))
    assert "key_files" not in settings_as_json(RecompressSettings(codec="gzip"))


def test_a_command_receives_the_settings_of_its_flags(tmp_path):
    received_settings = []

    @click.command()
    @click.argument("paths", nargs=-1)
    @add_log_settings("paths", kind=PartitionSettings, leave_out=("partitions",))
    def command(paths, settings):
        received_settings.append(settings)

    assert CliRunner().invoke(command, [str(tmp_path), "-t", "orders", "--topic", "p*"]).exit_code == 0
    assert received_settings == [PartitionSettings(topics=("orders", "p*"))]
    assert "no such option" in CliRunner().invoke(command, [str(tmp_path), "-p", "1"]).output.lower()
