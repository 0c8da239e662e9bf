"""What a task of a live topic fetches."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.jobs.tables.files import TopicTask, _stretch
from kafkaframes.records.build import build_records


def test_a_task_ends_where_nothing_is_left_before_its_end(tmp_path):
    """As the cleaner leaves a log: its last segments are empty."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(build_records([{"value": b"v", "timestamp": 1_760_000_000_000}]))
    (directory / f"{100:020d}.log").write_bytes(b"")
    task = TopicTask("t-0", 1, 0, "t", 0, first_offset=0, end_offset=100, client={})
    with Broker(serve=tmp_path) as broker, Consumer(broker.bootstrap_servers) as consumer:
        assert [fetched.next_offset for fetched in iter(_stretch(consumer, task).next, None)] == [1]


def test_offsets_that_went_since_the_plan_was_made_are_an_error_that_says_what_to_do():
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
            with Producer(servers) as producer:
                for number in range(5):
                    producer.send("t", b"%d" % number).result()
            admin.delete_records({TopicPartition("t", 0): 3})
        task = TopicTask("t-0 of here", 1, 0, "t", 0, first_offset=1, end_offset=5, client={})
        said = r"t-0 of here has no offset 1 \(it has 3 to 5\): run again"
        with Consumer(servers, auto_offset_reset="none") as consumer, pytest.raises(OptionError, match=said):
            list(iter(_stretch(consumer, task).next, None))
