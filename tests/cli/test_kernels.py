"""``kafkaframes kernels``: ready kernels, the directory of new kernels, and removed kernels."""

import os
import time

from tests.cli.calling import ask

from kafkaframes.kernels import demand
from kafkaframes.kernels import directories as places


def test_status_lists_every_unit_and_fails_if_one_is_missing(monkeypatch):
    units = demand.list_kernel_units()
    result = ask("kernels", "status")
    assert result.exit_code == int(any(unit.file is None for unit in units))
    for unit in units:
        assert f"{unit.module.removeprefix('kafkaframes.')}: " in result.output


def test_path_prints_the_cache_folder_or_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv(places.CACHE_FOLDER_VARIABLE, str(tmp_path / "kernels"))
    assert ask("kernels", "path").output.strip() == str(places.cache_folder())
    monkeypatch.setattr(places, "cache_folder", lambda: None)
    result = ask("kernels", "path")
    assert result.exit_code == 1
    assert f"set {places.CACHE_FOLDER_VARIABLE}" in result.output


def test_warm_removes_kernels_unused_for_a_month(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "cache_folder", lambda: tmp_path)
    old = tmp_path / places.file_name("kafkaframes.jobs.report._kernels")
    old.write_bytes(b"")
    os.utime(old, (time.time() - 40 * 86_400,) * 2)
    assert ask("kernels", "warm", "no-such-room").output == "0 kernel files ready\n"
    assert not old.exists()
