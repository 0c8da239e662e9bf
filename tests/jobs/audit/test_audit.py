"""The audit's verdicts: every rule with its evidence, and the command on real traffic, logs and request logs."""

from __future__ import annotations

import pytest

from kafkaframes.jobs.audit.audit import (
    ApiUse,
    ClientIdentity,
    FormatUse,
    UsageSummary,
    UseCounts,
    audit_uses,
    find_first_fitting_release,
    guess_library,
    judge_api_use,
    judge_format_use,
)
from kafkaframes.jobs.audit.audit_text import format_audit
from kafkaframes.protocol.spec.releases import find_release

UNKNOWN_CLIENT = ClientIdentity("somebody", "10.0.0.1", None, None)


def java(version):
    return ClientIdentity("somebody", "10.0.0.1", "apache-kafka-java", version)


@pytest.mark.parametrize(
    ("target", "client", "key", "version", "verdict"),
    [
        ("4.0.1", UNKNOWN_CLIENT, 0, 2, "removed"),  # Produce: advertised from 0 on, accepted from 3 on (KAFKA-18659)
        ("4.0.1", UNKNOWN_CLIENT, 0, 3, "fine"),
        ("4.0.1", UNKNOWN_CLIENT, 1, 3, "removed"),
        ("4.0.1", UNKNOWN_CLIENT, 1, 4, "fine"),
        ("4.0.0", UNKNOWN_CLIENT, 11, 1, "removed"),  # JoinGroup 0 and 1 were removed in 4.0.0 ...
        ("4.0.1", UNKNOWN_CLIENT, 11, 1, "fine"),  # ... and restored
        ("4.0.1", UNKNOWN_CLIENT, 4, 5, "removed"),  # LeaderAndIsr was removed
        ("4.0.1", UNKNOWN_CLIENT, 18, 99, "fine"),  # ApiVersions may be requested at any version
        ("4.0.1", UNKNOWN_CLIENT, 999, 0, "unknown"),
        ("3.9.1", UNKNOWN_CLIENT, 1, 3, "deprecated"),
        ("3.9.1", UNKNOWN_CLIENT, 3, 13, "unknown"),  # newer than the target: the client's lowest version is unknown
        ("3.9.1", java("4.3.1"), 3, 13, "fine"),
        ("2.0", java("4.0.0"), 1, 17, "fine"),
        ("2.0", java("4.0.0"), 23, 4, "removed"),  # OffsetForLeaderEpoch: 4.x from 2 on, 2.0 up to 1
        ("1.0", UNKNOWN_CLIENT, 60, 0, "unknown"),  # DescribeCluster was added later
    ],
)
def test_calls_have_the_expected_verdicts(target, client, key, version, verdict):
    judgement = judge_api_use(ApiUse(client, key, version), UseCounts(1), find_release(target))
    assert judgement.verdict == verdict, judgement.reason


def test_the_highest_version_of_an_old_broker_proves_nothing():
    target = find_release("4.0.1")
    assert judge_api_use(ApiUse(UNKNOWN_CLIENT, 1, 3, at_broker_limit=True), UseCounts(1), target).verdict == "unknown"
    assert judge_api_use(ApiUse(UNKNOWN_CLIENT, 1, 3, at_broker_limit=False), UseCounts(1), target).verdict == "removed"


def test_a_known_client_that_uses_the_highest_versions_of_an_old_broker_is_fine():
    librdkafka = ClientIdentity("somebody", "10.0.0.1", "librdkafka", "2.3.0")
    judgement = judge_api_use(ApiUse(librdkafka, 1, 3, at_broker_limit=True), UseCounts(1), find_release("4.0.1"))
    assert (judgement.verdict, judgement.reason.startswith("works after the upgrade")) == ("fine", True)
    assert judge_api_use(ApiUse(librdkafka, 1, 3), UseCounts(1), find_release("4.0.1")).verdict == "removed"


@pytest.mark.parametrize(("client_id", "key"), [("1", 4), ("broker-1-fetcher-0", 1), ("2", 84)])
def test_brokers_of_the_cluster_are_not_clients(client_id, key):
    uses = UsageSummary()
    uses.add_use(ApiUse(ClientIdentity(client_id, "10.0.0.1", None, None), key, 0), 1, None, None)
    audit_report = audit_uses(uses, find_release("4.0.1"))
    assert (audit_report.clients, audit_report.exit_status) == ((), 0)
    assert [broker.client.client_id for broker in audit_report.brokers] == [client_id]
    assert any("not checked: " in line for line in format_audit(audit_report))


def test_a_client_is_a_line_with_its_library_and_a_remedy():
    uses = UsageSummary()
    for key, version in {0: 2, 1: 2, 3: 1, 10: 0, 11: 0}.items():
        uses.add_use(ApiUse(ClientIdentity("billing", "10.0.0.7", None, None), key, version), 3, None, None)
    _, line, more = format_audit(audit_uses(uses, find_release("4.0.1")))
    assert line.split()[:3] == ["removed", "billing", "10.0.0.7"]
    assert line.endswith("upgrade to kafka-clients 2.1.1 or later (Produce 2, Fetch 2)")
    assert more == "Use -v to list each request with the reason for its verdict."
    assert len(list(format_audit(audit_uses(uses, find_release("4.0.1")), verbose=True))) > 5


def test_a_remedy_names_each_api_once():
    uses = UsageSummary()
    for key, version in [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3)]:
        uses.add_use(ApiUse(ClientIdentity("raw", "10.0.0.7", "own", "1"), key, version), 3, None, None)
    _, line, _ = format_audit(audit_uses(uses, find_release("4.0.1")))
    needs = "upgrade to a release that supports Produce 3, Fetch 4 or later"
    assert line.endswith(f"own 1  {needs} (Produce 0, Produce 1, Produce 2 and 2 more)")


@pytest.mark.parametrize(
    ("target", "where", "magic", "verdict"),
    [
        ("4.0.1", "disk", 1, "deprecated"),
        ("4.0.1", "produce", 0, "removed"),
        ("4.0.1", "fetch", 1, "deprecated"),
        ("3.9.1", "produce", 0, "deprecated"),
        ("4.0.1", "disk", 2, "fine"),
    ],
)
def test_formats(target, where, magic, verdict):
    assert judge_format_use(FormatUse(None, where, magic, "t"), UseCounts(1), find_release(target)).verdict == verdict


def test_several_inputs_make_one_audit_with_the_most_severe_verdict():
    uses = UsageSummary()
    uses.add_use(ApiUse(UNKNOWN_CLIENT, 1, 12), 5, 100, 200)
    assert audit_uses(uses, find_release("4.0.1")).exit_status == 0
    uses.add_format_use(FormatUse(None, "disk", 1, "t"), 1, None, None)
    assert audit_uses(uses, find_release("4.0.1")).exit_status == 3
    uses.add_use(ApiUse(UNKNOWN_CLIENT, 1, 2), 1, 50, 60)
    uses.add_use(ApiUse(UNKNOWN_CLIENT, 1, 2), 1, 300, 400)
    audit_report = audit_uses(uses, find_release("4.0.1"))
    assert audit_report.exit_status == 4
    (client,) = audit_report.clients
    assert (
        client.findings[0].use_count.count,
        client.findings[0].use_count.first,
        client.findings[0].use_count.last,
    ) == (2, 50, 400)


def test_kafka_4_accepts_clients_from_2_1_on():
    """The oldest client release that Kafka 4.0 accepts (KIP-896) is computed from the API versions of the releases."""
    assert find_first_fitting_release(find_release("4.0.1")) == "2.1.1"


def test_guesses_have_evidence():
    assert guess_library("kafka-python-1.4.7", {})[:2] == ("kafka-python", "1.4.7")
    old = {
        key: {one.accepted_versions.highest}
        for key, one in find_release("0.9.0.1").all_apis.items()
        if key in (0, 1, 2, 3, 10, 11)
    }
    assert guess_library("billing", old)[:2] == ("kafka-clients", "0.9.0.1")
    assert guess_library("billing", {1: {4}}) is None
    assert guess_library(None, {}) is None
