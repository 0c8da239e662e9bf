"""Selection of a log's topics and partitions by name, pattern and number."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import check_topics, select_partitions

NAMES = ("orders-0", "orders-1", "orders-eu-0", "users-0")
LOG = LogDirectory(
    "/logs",
    LocalFileSystem(),
    tuple(Partition(TopicPartition(name[:-2], int(name[-1])), f"/logs/{name}") for name in NAMES),
)


@pytest.mark.parametrize(
    ("topics", "partitions", "remaining_names"),
    [
        ((), (), NAMES),
        (("orders",), (), ("orders-0", "orders-1")),
        (("orders*",), (0,), ("orders-0", "orders-eu-0")),
        (("users", "orders"), (1,), ("orders-1",)),
        (("[ou]*s",), (), ("orders-0", "orders-1", "users-0")),
    ],
)
def test_selected_partitions_remain(topics, partitions, remaining_names):
    (log_dir,) = select_partitions([LOG], topics, partitions)
    assert tuple(str(partition.topic_partition) for partition in log_dir.partitions) == remaining_names


def test_errors_name_missing_topics_and_partitions():
    with pytest.raises(OptionError, match="no topic order: did you mean orders"):
        select_partitions([LOG], ("order",))
    with pytest.raises(OptionError, match="no partition 7, 9"):
        select_partitions([LOG], (), (9, 7))
    with pytest.raises(OptionError, match="no topic zzz: the logs contain orders, orders-eu, users"):
        select_partitions([LOG], ("zzz",))
    with pytest.raises(OptionError, match="no topic x: the logs contain no topic"):
        check_topics(["x"], [])
