"""The admin client passes its embedded-broker tests on Apache Kafka, and has each method of Java's Admin."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client import test_administration as behaviours
from tests.interop.releases import fetch

from kafkaframes.client import Admin, TopicPartition
from kafkaframes.errors import BrokerError, OptionError, UnknownTopicError

ROOT = Path(__file__).parents[2]
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def servers(kafka, tmp_path_factory) -> Iterator[str]:
    properties = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    if kafka.version.startswith("3."):
        properties = {name: value for name, value in properties.items() if not name.startswith("share.")}
    with kafka(tmp_path_factory.mktemp("kafka"), properties) as node:
        yield node.bootstrap


@pytest.fixture(scope="module")
def admin(servers) -> Iterator[Admin]:
    with Admin(servers) as client:
        yield client


topic = behaviours.topic
test_access_rules = behaviours.test_access_rules_are_created_described_and_deleted
test_one_rejected_rule = behaviours.test_a_rejected_acl_does_not_affect_the_others_and_all_results_are_returned
test_authorized_operations = behaviours.test_authorized_operations_of_the_cluster_topics_and_groups_are_described
test_users = behaviours.test_the_change_of_one_user_fails_and_the_others_take_effect
test_quotas = behaviours.test_quotas_are_set_described_and_removed
test_bad_quotas = behaviours.test_a_quota_requires_a_valid_entity_and_setting
test_log_directories = behaviours.test_log_directories_show_the_size_of_each_replica
test_features = behaviours.test_features_are_described_and_updated
test_lists = behaviours.test_values_are_appended_to_and_subtracted_from_lists
test_topics_by_id = behaviours.test_topics_are_described_and_deleted_by_id
test_fencing = behaviours.test_producers_are_fenced_by_transactional_id
test_hanging_transaction = behaviours.test_a_hanging_transaction_of_one_partition_is_aborted
test_missing_transactions = behaviours.test_missing_transactions_are_an_error_with_their_id
test_group_members = behaviours.test_members_are_removed_from_a_classic_group


@pytest.fixture
def known_topic(admin, topic) -> str:
    """A topic that the group coordinator also knows; it receives metadata with a delay."""
    deadline = time.monotonic() + 60
    while True:
        try:
            admin.alter_share_group_offsets(f"probe-{topic}", {TopicPartition(topic, 1): 0})
        except UnknownTopicError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return topic


@pytest.fixture
def require_4_1(kafka) -> None:
    if kafka.version.startswith("3."):
        pytest.skip("share groups and ListConfigResources require 4.1")


def test_share_groups(require_4_1, admin, known_topic):
    behaviours.test_share_group_offsets_are_set_and_deleted(admin, known_topic)


def test_config_resources(require_4_1, admin, topic):
    behaviours.test_resources_with_a_configuration_are_listed(admin, topic)


def test_open_transaction(require_4_1, servers, admin, topic):
    behaviours.test_an_open_transaction_is_listed_described_and_terminated(servers, admin, topic)


def test_filters_that_a_release_does_not_support_are_rejected(kafka, admin):
    if kafka.version.startswith("4."):
        pytest.skip("4.1 and later support them")
    with pytest.raises(OptionError, match="transactional_id_pattern is not supported by broker"):
        admin.list_transactions(transactional_id_pattern="tx-.*")
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION"):
        admin.list_config_resources(["topic"])
    assert admin.list_config_resources() == []


def test_the_table_in_the_docs_has_every_method_of_javas_admin():
    table = json.loads((ROOT / "docs" / "java_admin.json").read_text())
    jar = fetch(f"org.apache.kafka:kafka-clients:{table['release']}")
    command = ["javap", "-cp", str(jar), "org.apache.kafka.clients.admin.Admin"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"(\w+)\(", text)) == table["methods"].keys()
