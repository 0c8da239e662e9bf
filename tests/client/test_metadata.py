"""What a client keeps of Metadata responses."""

from kafkaframes.client.metadata import Cluster
from kafkaframes.protocol.messages.registry import message


def test_topics_that_were_not_asked_for_are_ignored():
    """A server may send any number of them, with any number of partitions."""
    cls = message("MetadataResponse")
    partitions = [cls.MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(3)]
    topics = [cls.MetadataResponseTopic(name=name, partitions=partitions) for name in ("asked", "not-asked")]
    response = cls(brokers=[cls.MetadataResponseBroker(node_id=1, host="h", port=1)], topics=topics)
    cluster = Cluster()
    cluster.update(response, now=1.0, is_everything=False, requested={"asked"})
    assert list(cluster.topics) == ["asked"]
    cluster.update(response, now=2.0, is_everything=False, requested=())
    assert cluster.refreshed_at == {"asked": 1.0}
    assert list(cluster.brokers) == [1]
    cluster.update(response, now=3.0, is_everything=True)
    assert set(cluster.topics) == {"asked", "not-asked"}
