"""The command ``kafkaframes audit``: its exit status, and releases that it does not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calling import ask

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec.releases import list_releases

DATA = Path(__file__).parent.parent / "data"
CAPTURES, LOGS = DATA / "captures", DATA / "request-logs"


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["captures/share-groups-broker43.pcap.zst"], 0),
        (["captures/sasl-raw-tokens-broker39.pcap.gz"], 4),
        (["request-logs/broker-3.9.1-info-old-clients.log.gz"], 4),
        (["request-logs/broker-4.3.1-trace.log.gz", "captures/share-groups-broker43.pcap.zst"], 0),
    ],
)
def test_the_command_audits_recorded_traffic(names, status):
    result = ask("audit", *(DATA / name for name in names), "--target", "4.0.1", "--json")
    assert result.exit_code == status, result.output
    report = json.loads(result.stdout)
    assert report["exitStatus"] == status
    assert report["clients"]


def test_an_unknown_release_lists_those_known():
    result = ask("audit", CAPTURES / "share-groups-broker43.pcap.zst", "--target", "9.9")
    assert isinstance(result.exception, OptionError)
    assert "4.0.1" in str(result.exception)


def test_the_newest_release_is_the_default_target():
    result = ask("audit", CAPTURES / "share-groups-broker43.pcap.zst", "--json")
    assert json.loads(result.stdout)["target"] == list_releases()[-1]
