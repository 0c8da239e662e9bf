"""The share consumer reads share groups of Apache Kafka as it reads those of the embedded broker (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client import test_share_consumer as behaviours


@pytest.fixture(scope="module")
def servers(kafka, tmp_path_factory) -> Iterator[str]:
    if kafka.version.startswith("3."):
        pytest.skip("share groups came with 4.1")
    properties = {
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.heartbeat.interval.ms": "500",
    }
    with kafka(tmp_path_factory.mktemp("kafka"), properties) as node:
        yield node.bootstrap


topic = behaviours.topic
test_implicit = behaviours.test_records_are_accepted_by_the_next_poll_and_by_commit
test_close_releases = behaviours.test_records_that_are_not_acknowledged_go_to_another_member_when_the_consumer_closes
test_release_and_reject = behaviours.test_release_gives_a_record_again_and_reject_does_not
test_explicit = behaviours.test_an_explicit_consumer_must_acknowledge_every_record_before_it_polls_again
test_columns = behaviours.test_columns_are_acknowledged_by_a_mask
test_listener = behaviours.test_the_listener_learns_which_acknowledgements_a_broker_has_taken
test_two_members = behaviours.test_two_members_share_the_records_of_one_partition
test_gaps = behaviours.test_gaps_of_transactions_and_compaction_do_not_stop_a_group
test_asyncio = behaviours.test_the_asyncio_consumer_reads_and_acknowledges
