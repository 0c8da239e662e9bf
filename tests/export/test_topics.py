"""What a task of a live topic fetches."""

from kafkaframes.broker import Broker
from kafkaframes.client import Consumer
from kafkaframes.export.topics import TopicTask, _fetches
from kafkaframes.records.build import build_records


def test_a_task_ends_where_nothing_is_left_before_its_end(tmp_path):
    """As the cleaner leaves a log: its last segments are empty."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(build_records([{"value": b"v", "timestamp": 1_760_000_000_000}]))
    (directory / f"{100:020d}.log").write_bytes(b"")
    task = TopicTask("t-0", 1, 0, "t", 0, first_offset=0, end_offset=100, client={})
    with Broker(serve=tmp_path) as broker, Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign({task.place: 0}, ends={task.place: 100})
        assert [fetched.next_offset for fetched in _fetches(consumer, task)] == [1]
