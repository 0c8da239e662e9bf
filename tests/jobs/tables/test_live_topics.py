"""The records that a task of a live topic fetches."""

import re
from dataclasses import replace

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.live_planning import make_topic_planner
from kafkaframes.jobs.export.positions import Gap
from kafkaframes.jobs.export.topic_task import TopicTask, _open_range_reader
from kafkaframes.jobs.tables.planning import make_log_planner
from kafkaframes.records.build import build_records
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.storage.log.notes import NO_NOTES


def topic_options(client, **options):
    return TopicOptions(client, subscribe=frozenset({"t"}), **options)


def test_a_task_completes_when_no_record_remains_before_its_end(tmp_path):
    """The last segments are empty, as cleaning can leave them."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(build_records([{"value": b"v", "timestamp": 1_760_000_000_000}]))
    (directory / f"{100:020d}.log").write_bytes(b"")
    task = TopicTask("t-0", 1, 0, "t", 0, first_offset=0, end_offset=100, client={})
    with Broker(serve=tmp_path) as broker, Consumer(broker.bootstrap_servers) as consumer:
        assert [
            fetched_batches.next_offset for fetched_batches in iter(_open_range_reader(consumer, task).read_next, None)
        ] == [1]


def test_offsets_deleted_since_the_plan_are_an_error_with_a_remedy():
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
            with Producer(servers) as producer:
                for number in range(5):
                    producer.send("t", b"%d" % number).result()
            admin.delete_records({TopicPartition("t", 0): 3})
        task = TopicTask("t-0 of here", 1, 0, "t", 0, first_offset=1, end_offset=5, client={})
        message = r"t-0 of here has no offset 1 \(it has 3 to 5\); run the job again"
        with Consumer(servers, auto_offset_reset="none") as consumer, pytest.raises(OptionError, match=message):
            list(iter(_open_range_reader(consumer, task).read_next, None))


def test_an_open_transaction_that_ends_the_read_is_reported():
    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="orders") as producer:
        with Producer(broker.bootstrap_servers) as other:
            other.send("t", b"before", partition=0).result()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0).result()
        client = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
        (finding,) = make_topic_planner(topic_options(client))(None).notes.findings
        assert (finding.check, finding.offset) == ("open-transaction", 1)
        assert re.search(
            r"t-0: the transaction of producer \d+ has been open since offset 1; .*up to 1 are", finding.message
        )
        assert (
            make_topic_planner(topic_options({**client, "isolation.level": "read_uncommitted"}))(None).notes == NO_NOTES
        )
        producer.commit_transaction()
        assert make_topic_planner(topic_options(client))(None).notes == NO_NOTES


def test_lost_first_records_of_a_new_partition_are_a_loss():
    """Earlier records of a partition that exists in the first plan are unknown, and therefore not a loss."""
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name="t", num_partitions=1)])
        client = {"bootstrap.servers": broker.bootstrap_servers}
        strict, lenient = (
            make_topic_planner(topic_options(client)),
            make_topic_planner(topic_options(client, fail_on_data_loss=False)),
        )
        assert (strict(None).gaps, lenient(None).gaps) == ((), ())
        admin.create_partitions({"t": 2})
        assert strict(None).gaps == ()
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(5):
                producer.send("t", b"%d" % number, partition=1).result()
        admin.delete_records({TopicPartition("t", 1): 3})
        for _ in range(2):  # it is reported again although it was reported before
            with pytest.raises(OptionError, match=r"offsets 0 to 2 of t-1.*fail_on_data_loss"):
                strict(None)
        assert lenient(None).gaps == (Gap("t", 1, 0, 3),)
        assert make_topic_planner(topic_options(client))(None).gaps == ()


def test_lost_first_records_of_a_new_log_partition_are_a_loss(tmp_path):
    def write(partition, base):
        (tmp_path / f"t-{partition}").mkdir()
        raw = build_records([{"value": b"v", "timestamp": 1_760_000_000_000}], base_offset=base)
        (tmp_path / f"t-{partition}" / f"{base:020d}.log").write_bytes(raw)

    options = ReadOptions((str(tmp_path),))
    strict, lenient = make_log_planner(options), make_log_planner(replace(options, fail_on_data_loss=False))
    write(0, 50)
    assert (strict(None).gaps, lenient(None).gaps) == ((), ())
    write(1, 0)
    assert strict(None).gaps == ()
    write(2, 100)
    with pytest.raises(OptionError, match="offsets 0 to 99 of t-2"):
        strict(None)
    assert lenient(None).gaps == (Gap("t", 2, 0, 100),)
