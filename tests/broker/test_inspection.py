"""The report of connected clients: API versions by client, and versions that Kafka 4 does not accept."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkaframes.broker.faults.controls import find_clients, report_clients
from kafkaframes.protocol.spec.catalog import find_api
from kafkaframes.protocol.spec.releases import find_release, list_releases

LATEST_RELEASE = find_release(list_releases()[-1])


def entry(name, version):
    return SimpleNamespace(api=name, version=version, connection=1, client_id="old", software=("librdkafka", "0.9"))


@pytest.mark.parametrize("key", sorted(set(LATEST_RELEASE.all_apis) - {18}))
def test_versions_rejected_by_kafka_4_match_the_release_table(key):
    name, lowest = find_api(key).name, LATEST_RELEASE.all_apis[key].accepted_versions.lowest
    (client,) = find_clients([entry(name, version) for version in range(lowest + 1)])
    assert client.refused_by_kafka_4 == tuple(f"{name} v{version}" for version in range(lowest))


def test_apis_removed_in_kafka_4_are_reported_as_rejected():
    text = report_clients([entry("LeaderAndIsr", 0), entry("ApiVersions", 0), entry("OurOwn", 0)])
    assert "rejected by Kafka 4: LeaderAndIsr v0\n" in f"{text}\n"
