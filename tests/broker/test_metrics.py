"""Prometheus text is valid for any topic name."""

from kafkaframes.broker.network.metrics import build_metrics_text
from kafkaframes.broker.state.topics import Partition
from kafkaframes.storage.files.names import TopicPartition


def test_label_values_are_escaped_for_prometheus(client):
    topic = client.create()
    (partition,) = topic.partitions
    partition_to_escape = TopicPartition('a"b\\c\nd', 0)
    topic.partitions[0] = Partition(partition_to_escape, partition.log)
    client.state.counters['lost "all"'] = 2
    text = build_metrics_text(client.state, 1)
    assert 'kafka_log_log_size{topic="a\\"b\\\\c\\nd",partition="0"} 0\n' in text
    assert '{what="\\"all\\""} 2\n' in text
    assert all(line.startswith(("#", "kafka")) for line in text.splitlines())
