"""Stored settings of jobs stay readable: a later release continues the job of an earlier one.

The expected values were stored by commit 67f903a1, before ``mode`` became ``on_damage``.
"""

import pytest

from kafkaframes.jobs.export.task import ExportTaskSettings
from kafkaframes.jobs.job import settings_as_json
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.settings import ConvertSettings, RecompressSettings

REWRITE = {
    "record_format": None,
    "codec": None,
    "level": None,
    "on_loss": "error",
    "mode": "FAILFAST",
    "batch_bytes": 16384,
    "index_interval_bytes": 4096,
}
RESTORE = {
    "topics": (),
    "partitions": (),
    "topic_map": (),
    "topic_ids": (),
    "topic_configs": (),
    "keep_retention": False,
    "offsets": "keep",
    "start_offset": 0,
    "from_offset": None,
    "until_offset": None,
    "from_timestamp_ms": None,
    "until_timestamp_ms": None,
    "mode": "FAILFAST",
    "open_transactions": "keep",
    "leader_epoch": None,
    "segment_bytes": None,
    "index_interval_bytes": 4096,
    "groups": True,
    "offsets_partitions": None,
    "keep_commit_times": False,
    "record_format": 2,
    "codec": "none",
    "level": None,
    "batch_bytes": 16384,
    "bootstrap": "kraft",
    "node_id": 1,
    "cluster_id": None,
    "release": "3.9",
}


@pytest.mark.parametrize(
    ("settings", "stored_values"),
    [
        (RecompressSettings(codec="zstd"), REWRITE | {"codec": "zstd"}),
        (ConvertSettings(record_format=2, on_damage="keep"), REWRITE | {"record_format": 2, "mode": "PERMISSIVE"}),
        (RestoreSettings(), RESTORE),
        (RestoreSettings(on_damage="drop"), RESTORE | {"mode": "DROPMALFORMED"}),
    ],
)
def test_reports_store_settings_under_the_names_that_earlier_releases_used(settings, stored_values):
    assert settings_as_json(settings) == stored_values


@pytest.mark.parametrize(
    ("on_damage", "mode"), [("keep", "PERMISSIVE"), ("drop", "DROPMALFORMED"), ("fail", "FAILFAST")]
)
def test_exports_store_settings_under_the_names_that_earlier_releases_used(on_damage, mode):
    conditions = ("from_offset", "from_timestamp", "key_pattern", "keys", "until_offset", "until_timestamp")
    assert ExportTaskSettings("out", on_damage=on_damage).stored_fingerprint() == {
        "base64": False,
        "form": "parquet",
        "headers": True,
        "keep": {"control": False, **dict.fromkeys(conditions)},
        "mode": mode,
        "verify_crc": True,
    }
