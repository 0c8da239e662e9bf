"""Coordinators load their state from logs that the cleaner has compacted."""

from itertools import count

from kafkaframes import Admin, Broker, Consumer, Producer
from kafkaframes.client import NewTopic, TopicPartition
from kafkaframes.records.batch import read_batches
from kafkaframes.records.scan import FILE
from kafkaframes.storage.partition.fetch import LOG_END

COMPACTED_OFFSETS = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 400,
    "log.cleaner.backoff.ms": 5,
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": 50,
}


def read_first_segment(state):
    log = state.topics["__consumer_offsets"].partitions[0].log
    return list(read_batches(log.read(log.log_start_offset, max_bytes=1 << 20, isolation=LOG_END).records, rules=FILE))


def test_offsets_are_loaded_after_a_segment_whose_records_are_all_compacted(tmp_path):
    """The cleaner keeps the last batch of a transactional producer, without its records."""
    with Broker(data_dir=tmp_path, config=COMPACTED_OFFSETS) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
            broker.append("t", {"value": [b"v"] * 100})
            with Producer(servers, transactional_id="x") as producer:
                for offset in range(1, 4):
                    producer.begin_transaction()
                    producer.send_offsets_to_transaction({TopicPartition("t", 0): offset}, "g")
                    producer.commit_transaction()
            broker.configure_topic("__consumer_offsets", delete_retention_ms=0)
            next_offset = count(4)

            def is_first_segment_empty():
                """Commit another offset, so that the cleaner has work."""
                admin.alter_group_offsets("g", {TopicPartition("t", 0): next(next_offset)})
                batches = broker.call(read_first_segment)
                return len(batches) > 0 and not any(batch.records for batch in batches)

            broker.wait_for(is_first_segment_empty)
            admin.alter_group_offsets("h", {TopicPartition("t", 0): 7})
            last_offset = next(next_offset)
            admin.alter_group_offsets("g", {TopicPartition("t", 0): last_offset})
        broker.restart()
        for group, offset in (("g", last_offset), ("h", 7)):
            with Consumer(servers, group_id=group) as consumer:
                assert consumer.committed([TopicPartition("t", 0)])[TopicPartition("t", 0)].offset == offset
        assert {record.key is None for record in broker.records("__consumer_offsets")} == {False}
