"""Request faults and the journal of a running broker."""

from __future__ import annotations

import pytest
from tests.versions import at_every_version

from kafkaframes.broker import Broker
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.faults.controls import report_clients
from kafkaframes.broker.faults.faults import Faults
from kafkaframes.broker.faults.journal import Journal
from kafkaframes.broker.requests.api import CloseConnection, DeferredResponse
from kafkaframes.client import Admin, NewTopic
from kafkaframes.errors import ErrorCode, OptionError
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records

ONE_RECORD = build_records({"value": [b"x"]})


@pytest.fixture
def faulty(client):
    client.create(partitions=2)
    client.journal = Journal(lambda: client.state.clock.monotonic_ms)
    client.faults = Faults(client.state.clock, lambda: client.state)
    client.dispatcher.hooks = [client.journal, client.faults]
    return client


def test_an_error_fault_answers_once_without_handling_the_request(faulty):
    rule = faulty.faults.on("Produce", topic="orders").error("NOT_LEADER_OR_FOLLOWER").once()
    assert faulty.produce(ONE_RECORD).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert faulty.fetch(0).high_watermark == 0
    assert faulty.produce(ONE_RECORD).error_code == 0
    assert rule.count == 1


def test_faults_match_by_partition_version_client_and_predicate(faulty):
    faulty.faults.on("Produce", partition=1).error(7)
    faulty.faults.on("Produce", version=8).error(8)
    faulty.faults.on("Produce", client_id="other").error(9)
    faulty.faults.on("Produce", where=lambda request: request.body.timeout_ms == 77).error(10)
    assert faulty.produce(ONE_RECORD).error_code == 0
    assert faulty.produce(ONE_RECORD, partition=1).error_code == 7
    assert faulty.produce(ONE_RECORD, version=8).error_code == 8
    assert faulty.produce(ONE_RECORD, client_id="other").error_code == 9


@pytest.mark.parametrize("version", [12, 13])
def test_a_fault_matches_a_topic_by_id_and_in_incremental_fetches_that_omit_it(faulty, version):
    first = faulty.ask("Fetch", version, body=faulty.fetch_request(version=version, session_epoch=0))
    rule = faulty.faults.on("Fetch", topic="orders", partition=0).error(7)
    faulty.faults.on("Fetch", topic="others").error(8)
    again = faulty.types("Fetch")(session_id=first.session_id, session_epoch=1, max_wait_ms=0)
    assert faulty.ask("Fetch", version, body=again).error_code == 7
    assert faulty.ask("Fetch", version, body=faulty.fetch_request(version=version)).error_code == 7
    assert rule.count == 2


def test_a_fault_skips_some_requests_and_ends_after_a_given_number(faulty):
    faulty.faults.on("Produce").after(1).times(2).error(7)
    assert [faulty.produce(ONE_RECORD).error_code for _ in range(4)] == [0, 7, 7, 0]


def test_a_response_is_dropped_after_the_records_are_written(faulty):
    faulty.faults.on("Produce").once().drop_reply()
    with pytest.raises(CloseConnection):
        faulty.produce(ONE_RECORD)
    assert faulty.fetch(0).high_watermark == 1


def test_a_delay_uses_the_brokers_clock(faulty):
    faulty.faults.on("Metadata").delay(5)
    later = faulty.send("Metadata", 9, topics=None)
    assert isinstance(later, DeferredResponse)
    faulty.state.clock.advance(4)
    assert not later.is_done
    faulty.state.clock.advance(2)
    assert later.is_done


def test_held_requests_are_overtaken_by_others_and_resume_in_order(faulty):
    rule = faulty.faults.on("Produce").hold()
    rows = [
        faulty.types("Produce").PartitionProduceData(index=0, records=build_records({"value": [v]}))
        for v in (b"1", b"2")
    ]
    data = [faulty.types("Produce").TopicProduceData(name="orders", partition_data=[row]) for row in rows]
    held_requests = [faulty.send("Produce", 9, acks=1, topic_data=[one]) for one in data]
    rule.remove()
    assert faulty.fetch(0).high_watermark == 2
    assert [later.answer.responses[0].partition_responses[0].base_offset for later in held_requests] == [0, 1]


def test_records_are_corrupted_in_the_response_only(faulty):
    faulty.produce(ONE_RECORD)
    faulty.faults.on("Fetch").corrupt().once()
    assert not next(iter(read_batches(faulty.fetch(0).records))).valid
    assert next(iter(read_batches(faulty.fetch(0).records))).valid


def test_a_throttle_fault_sets_the_throttle_time(faulty):
    faulty.faults.on("Produce").throttle(250)
    types = faulty.types("Produce")
    assert faulty.ask("Produce", 9, acks=1, topic_data=[types.TopicProduceData(name="none")]).throttle_time_ms == 250


def test_faults_with_unknown_names_are_rejected(faulty):
    with pytest.raises(OptionError, match="unknown API 'Produced'"):
        faulty.faults.on("Produced")
    with pytest.raises(OptionError, match="unknown condition color"):
        faulty.faults.on("Produce", color="red")


@pytest.mark.parametrize("version", range(4, 19))
def test_a_failed_fetch_has_empty_records_as_in_kafka(faulty, version):
    """librdkafka rejects null records ("invalid MessageSetSize -1"), so its users would not see the injected error."""
    faulty.faults.on("Fetch").error("TOPIC_AUTHORIZATION_FAILED")
    answer = faulty.ask("Fetch", version, body=faulty.fetch_request(version=version))
    (row,) = answer.responses[0].partitions
    assert (row.error_code, row.records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")


@pytest.mark.parametrize("api", collect_apis().values(), ids=lambda api: api.name)
@at_every_version("api", lambda api: range(api.range[0], api.range[1] + 1))
def test_every_api_can_be_answered_with_an_error(faulty, api, version):
    faulty.faults.on(api.name).error(41)
    answer = faulty.ask(api.name, version, body=message(f"{api.name}Request")())
    assert answer is None or answer.spec.name == f"{api.name}Response"


def test_an_error_response_contains_the_requested_topics_and_partitions(faulty):
    faulty.faults.on().error(41)
    types = faulty.types("ListOffsets")
    rows = [types.ListOffsetsPartition(partition_index=n) for n in (0, 1)]
    answer = faulty.ask("ListOffsets", 5, topics=[types.ListOffsetsTopic(name="orders", partitions=rows)])
    errors = [(answer.topics[0].name, row.partition_index, row.error_code) for row in answer.topics[0].partitions]
    assert errors == [("orders", 0, 41), ("orders", 1, 41)]
    answer = faulty.ask("DeleteTopics", 3, topic_names=["orders"])
    assert [(row.name, row.error_code) for row in answer.responses] == [("orders", 41)]


def test_the_journal_lists_requests_and_failed_assertions_print_it(faulty):
    faulty.ask("Metadata", 9, topics=None)
    faulty.produce(ONE_RECORD)
    journal = faulty.journal
    assert [entry.api for entry in journal] == ["Metadata", "Produce"]
    journal.assert_requested("Produce", times=1)
    journal.assert_order("Metadata", "Produce")
    journal.assert_not_requested("Fetch")
    with pytest.raises(AssertionError, match=r"2 Fetch expected, 0 came\n.*Metadata v9.*\n.*Produce v9"):
        journal.assert_requested("Fetch", times=2)
    with pytest.raises(AssertionError, match="no Metadata in the order"):
        journal.assert_order("Produce", "Metadata")
    assert journal.requests("Produce")[0].answer.responses[0].partition_responses[0].base_offset == 0


def test_unknown_tags_are_in_the_journal(faulty):
    request = message("MetadataRequest")(topics=None)
    request.unknown_tags = [(100, b"hi")]
    faulty.ask("Metadata", 9, body=request)
    assert faulty.journal.requests("Metadata")[0].unknown_tags == [(100, b"hi")]


def test_the_journal_holds_a_bounded_number_of_bytes(faulty):
    big = build_records({"value": [bytes(900_000)]})
    for _ in range(100):
        faulty.produce(big)
    with_bodies = [entry for entry in faulty.journal if entry.body is not None]
    assert len(faulty.journal) == 100
    assert 60 <= len(with_bodies) <= 75


def test_the_client_report_lists_requests_that_kafka_4_rejects(faulty):
    faulty.ask("ApiVersions", 3, client_software_name="oldlib", client_software_version="1.0")
    faulty.produce(build_records({"value": [b"x"]}, record_format=0), version=1)
    text = report_clients(faulty.journal)
    assert "oldlib 1.0" in text
    assert "rejected by Kafka 4: Produce v1" in text


def test_header_tags_are_sent_in_both_directions_and_are_in_the_journal():
    """KIP-482 tagged fields carry trace ids in each request of a client, and in the responses that a rule matches."""
    trace, span = (10_001, b"trace-7"), (10_002, b"span")
    with Broker() as broker:
        broker.on("Metadata").tag([span, trace])
        with Admin(broker.bootstrap_servers, header_tags=[trace]) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
            assert "t" in admin.list_topics()
        for entry in broker.journal:
            assert entry.header_tags == [trace]
            assert sorted(entry.answer_tags) == ([trace, span] if entry.api == "Metadata" else [])
        assert broker.journal.requests("Metadata")


def test_header_tags_require_a_flexible_version():
    connection = ClientConnection(client_id="c", header_tags=[(0, b"x")])
    sent_frames = []
    for version in (8, 9):
        connection.send_request(message("MetadataRequest")(), version)
        sent_frames.append(connection.data_to_send())
    assert [b"\x01\x00\x01x" in data for data in sent_frames] == [False, True]
