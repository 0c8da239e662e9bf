"""Elect leaders after a node stops or starts, and at a client's request (Kafka's PartitionChangeBuilder)."""

from __future__ import annotations

from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Partition
from kafkaframes.errors import ErrorCode


def stop_node(broker: BrokerState, node_id: int) -> None:
    """Stop a node: remove it from each ISR unless it is the last member, and elect other leaders if possible."""
    broker.nodes.by_id[node_id].is_up = False
    for partition in broker.partitions():
        if len(partition.in_sync) > 1:
            partition.in_sync = tuple(number for number in partition.in_sync if number != node_id)
        if partition.leader_id == node_id:
            _elect(broker, partition, is_unclean=_may_be_unclean(broker, partition))


def start_node(broker: BrokerState, node_id: int) -> None:
    """Start a node: elect it leader where no leader exists, and add it to the ISR of other partitions."""
    broker.nodes.by_id[node_id].is_up = True
    for partition in broker.partitions():
        if node_id not in partition.replicas:
            continue
        is_led = broker.nodes.is_led(partition)
        if is_led or _elect(broker, partition, is_unclean=_may_be_unclean(broker, partition)):
            partition.add_to_isr(node_id)


def elect(broker: BrokerState, partition: Partition, *, is_unclean: bool) -> ErrorCode:
    """Hold an election that a client requests; return NONE, or the error code if there is no new leader.

    Args:
        is_unclean: whether any replica may lead a partition without a leader; if False, the preferred replica, which is
            the first, is elected.
    """
    is_led = broker.nodes.is_led(partition)
    if is_unclean:
        if is_led:
            return ErrorCode.ELECTION_NOT_NEEDED
        is_elected = _elect(broker, partition, is_unclean=True)
        return ErrorCode.NONE if is_elected else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    preferred_replica = partition.replicas[0]
    if is_led and partition.leader_id == preferred_replica:
        return ErrorCode.ELECTION_NOT_NEEDED
    if preferred_replica not in partition.in_sync or not broker.nodes.by_id[preferred_replica].is_up:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    broker.move_leader(partition, preferred_replica)
    return ErrorCode.NONE


def elect_preferred_leaders(broker: BrokerState) -> None:
    """Elect preferred leaders where possible, as Kafka's controller does periodically."""
    for partition in broker.partitions():
        elect(broker, partition, is_unclean=False)


def _elect(broker: BrokerState, partition: Partition, *, is_unclean: bool) -> bool:
    """Elect the first running in-sync replica; in an unclean election, otherwise any running replica.

    Return whether a leader exists.
    """
    running_ids = [number for number in partition.replicas if broker.nodes.by_id[number].is_up]
    in_sync = [number for number in running_ids if number in partition.in_sync]
    new_leader = next(iter(in_sync or (running_ids if is_unclean else ())), None)
    if new_leader is None:
        return False
    if new_leader not in partition.in_sync:
        partition.in_sync = (new_leader,)
    if new_leader != partition.leader_id:
        broker.move_leader(partition, new_leader)
    return True


def _may_be_unclean(broker: BrokerState, partition: Partition) -> bool:
    """Return whether the topic's settings allow an unclean leader election."""
    topic = broker.topics[partition.topic_partition.topic]
    return broker.settings.get_topic_flag("unclean.leader.election.enable", topic.configs)
