"""librdkafka's own tests of share groups, 0170 to 0182, pass on the embedded broker."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkaframes.broker import Broker

TEST_NUMBERS = range(170, 183)
_SETTINGS = {"group.share.heartbeat.interval.ms": "1000", "auto.create.topics.enable": "true"}


@pytest.fixture(scope="module")
def sources() -> Path:
    """The built folder ``tests`` of librdkafka's sources, whose checkout is in ``LIBRDKAFKA``."""
    checkout = os.environ.get("LIBRDKAFKA", "")
    folder = Path(checkout) / "tests"
    if not checkout or not folder.is_dir():
        pytest.skip("the sources of librdkafka are missing (set LIBRDKAFKA to a checkout with its tests)")
    if not (folder / "test-runner").exists():
        if shutil.which("make") is None or shutil.which("cc") is None:
            pytest.skip("the tools to build librdkafka's tests are missing")
        for words in (["./configure"], ["make", "-j2", "libs"], ["make", "-C", "tests", "build"]):
            subprocess.run(words, cwd=checkout, check=True, capture_output=True, timeout=1_200)
    return folder


@pytest.mark.parametrize("number", TEST_NUMBERS, ids=lambda number: f"{number:04}")
def test_librdkafkas_test_of_share_groups_passes(sources, tmp_path, number):
    if not any(sources.glob(f"{number:04}-*.c*")):
        pytest.skip(f"these sources of librdkafka do not have the test {number:04}")
    with Broker(data_dir=tmp_path / "data", config=_SETTINGS, journal=False) as broker:
        settings = tmp_path / "test.conf"
        settings.write_text(f"bootstrap.servers={broker.bootstrap_servers}\n")
        test_environment = {"TESTS": f"{number:04}", "RDKAFKA_TEST_CONF": str(settings), "TEST_KAFKA_VERSION": "4.3.1"}
        process = subprocess.run(
            ["./test-runner", "-p1"],
            cwd=sources,
            env=os.environ | test_environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert process.returncode == 0, (process.stdout + process.stderr)[-4_000:]
