"""Which replica leads a partition when nodes go and come back, as Kafka's PartitionChangeBuilder decides."""

from __future__ import annotations

from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Partition
from kafkaframes.errors import ErrorCode


def node_down(broker: BrokerState, node_id: int) -> None:
    """Take a node out: it is in sync only where it is the last one, and others lead what it led, if any may."""
    broker.nodes.by_id[node_id].is_up = False
    for partition in broker.partitions():
        if len(partition.in_sync) > 1:
            partition.in_sync = tuple(number for number in partition.in_sync if number != node_id)
        if partition.leader_id == node_id:
            _elect(broker, partition, is_unclean=_may_be_unclean(broker, partition))


def node_up(broker: BrokerState, node_id: int) -> None:
    """Let a node serve again: it leads what nobody leads, if it may, and is in sync with those that are led."""
    broker.nodes.by_id[node_id].is_up = True
    for partition in broker.partitions():
        if node_id not in partition.replicas:
            continue
        is_led = broker.nodes.is_led(partition)
        if is_led or _elect(broker, partition, is_unclean=_may_be_unclean(broker, partition)):
            partition.take_in(node_id)


def elect(broker: BrokerState, partition: Partition, *, is_unclean: bool) -> ErrorCode:
    """Hold an election that somebody asks for; return NONE, or why there is no new leader.

    Args:
        is_unclean: any replica will do for a partition without a leader; else it is to be the preferred one, the first.
    """
    is_led = broker.nodes.is_led(partition)
    if is_unclean:
        if is_led:
            return ErrorCode.ELECTION_NOT_NEEDED
        is_elected = _elect(broker, partition, is_unclean=True)
        return ErrorCode.NONE if is_elected else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    preferred = partition.replicas[0]
    if is_led and partition.leader_id == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED
    if preferred not in partition.in_sync or not broker.nodes.by_id[preferred].is_up:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    broker.move_leader(partition, preferred)
    return ErrorCode.NONE


def bring_home(broker: BrokerState) -> None:
    """Let preferred replicas lead wherever they may, as Kafka's controller does by itself from time to time."""
    for partition in broker.partitions():
        elect(broker, partition, is_unclean=False)


def _elect(broker: BrokerState, partition: Partition, *, is_unclean: bool) -> bool:
    """Let the first replica lead that is up and in sync; unclean: else one that is up. Return whether there is one."""
    up = [number for number in partition.replicas if broker.nodes.by_id[number].is_up]
    in_sync = [number for number in up if number in partition.in_sync]
    chosen = next(iter(in_sync or (up if is_unclean else ())), None)
    if chosen is None:
        return False
    if chosen not in partition.in_sync:
        partition.in_sync = (chosen,)
    if chosen != partition.leader_id:
        broker.move_leader(partition, chosen)
    return True


def _may_be_unclean(broker: BrokerState, partition: Partition) -> bool:
    topic = broker.topics[partition.topic_partition.topic]
    return broker.settings.flag_of_topic("unclean.leader.election.enable", topic.configs)
