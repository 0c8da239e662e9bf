"""Performances of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.interop.peers.behaviours import next_to_peers
from tests.interop.peers.interface import Client, attempt, fails, wait_for

if TYPE_CHECKING:
    from tests.interop.peers.stage import Stage

READ_COMMITTED = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
READ_UNCOMMITTED = {"auto_offset_reset": "earliest", "isolation_level": "read_uncommitted"}


def read_values(client: Client, topic: str, count: int, settings: dict[str, str], patience_s: float = 3) -> list[Any]:
    """Return the values that a consumer reads from partition 0, including any after ``count`` values."""
    with client.consumer(**settings) as consumer:
        consumer.assign([(topic, 0)])
        records = consumer.read(count, patience_s=patience_s if count == 0 else 20)
        return [record.value for record in [*records, *consumer.poll(0.5)]]


@next_to_peers(sees=["v"])
def a_committed_transaction_is_read(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"v", partition=0)
        producer.commit()
    return read_values(client, topic, 1, READ_COMMITTED)


@next_to_peers(sees=[[], ["v"]])
def an_aborted_transaction_is_not_read(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"v", partition=0).result()
        producer.abort()
    return read_values(client, topic, 0, READ_COMMITTED), read_values(client, topic, 1, READ_UNCOMMITTED)


@next_to_peers(sees=["again"])
def records_of_an_aborted_transaction_can_be_sent_again(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"first", partition=0).result()
        producer.abort()
        producer.begin()
        producer.send(topic, b"again", partition=0)
        producer.commit()
    return read_values(client, topic, 1, READ_COMMITTED)


@next_to_peers(sees=[["before"], ["before", "open", "after"]])
def an_open_transaction_hides_later_records_from_read_committed(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(transactional_id=topic) as producer, client.producer() as other:
        other.send(topic, b"before", partition=0).result()
        producer.begin()
        producer.send(topic, b"open", partition=0).result()
        other.send(topic, b"after", partition=0).result()
        answer = read_values(client, topic, 1, READ_COMMITTED), read_values(client, topic, 3, READ_UNCOMMITTED)
        producer.abort()
    return answer


@next_to_peers(sees=[1, 3])
def the_end_offset_is_the_last_stable_offset_with_read_committed(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(transactional_id=topic) as producer, client.producer() as other:
        other.send(topic, b"before", partition=0).result()
        producer.begin()
        producer.send(topic, b"open", partition=0).result()
        other.send(topic, b"after", partition=0).result()
        ends = []
        for settings in (READ_COMMITTED, READ_UNCOMMITTED):
            with client.consumer(**settings) as consumer:
                ends.append(consumer.end_offset((topic, 0)))
        producer.abort()
    return ends


@next_to_peers(sees="no error")
def an_empty_transaction_can_be_committed_and_aborted(stage: Stage, client: Client) -> Any:
    with client.producer(transactional_id=stage.name()) as producer:

        def end_both() -> None:
            producer.begin()
            producer.commit()
            producer.begin()
            producer.abort()

        return attempt(client, end_both)


@next_to_peers(sees=[["v"], ["v"]])
def a_transaction_covers_several_topics(stage: Stage, client: Client) -> Any:
    topics = [stage.topic(), stage.topic()]
    with client.producer(transactional_id=topics[0]) as producer:
        producer.begin()
        for topic in topics:
            producer.send(topic, b"v", partition=0)
        producer.commit()
    return [read_values(client, topic, 1, READ_COMMITTED) for topic in topics]


@next_to_peers(sees=[str(number) for number in range(20)])
def committing_a_transaction_sends_all_pending_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(transactional_id=topic, linger_ms=3_000) as producer:
        producer.begin()
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=0)
        producer.commit()
    return read_values(client, topic, 20, READ_COMMITTED)


@next_to_peers(sees=["refused by the client", []])
def send_outside_a_transaction_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(transactional_id=topic) as producer:
        kind = attempt(client, lambda: producer.send(topic, b"v").result())
    return kind, stage.values(topic)


@next_to_peers(sees="refused by the client")
def a_transaction_needs_a_transactional_id(stage: Stage, client: Client) -> Any:
    with client.producer() as producer:
        return attempt(client, producer.begin)


@next_to_peers(sees="refused by the client")
def a_second_begin_is_rejected(stage: Stage, client: Client) -> Any:
    with client.producer(transactional_id=stage.name()) as producer:
        producer.begin()
        kind = attempt(client, producer.begin)
        producer.abort()
    return kind


@next_to_peers(sees=["refused by the client", "refused by the client"])
def ending_without_a_transaction_is_rejected(stage: Stage, client: Client) -> Any:
    with client.producer(transactional_id=stage.name()) as producer:
        return attempt(client, producer.commit), attempt(client, producer.abort)


@next_to_peers(sees=["fenced", ["new"]])
def a_second_producer_of_the_same_id_fences_the_first(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    first = client.producer(transactional_id=topic)
    first.begin()
    first.send(topic, b"old", partition=0).result()
    with client.producer(transactional_id=topic) as second:
        second.begin()
        second.send(topic, b"new", partition=0).result()
        second.commit()
        kind = attempt(client, lambda: first.send(topic, b"old", partition=0).result())
    fails(client, first.close)
    return kind, read_values(client, topic, 1, READ_COMMITTED)


@next_to_peers(sees="fenced")
def a_fenced_producer_cannot_commit(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    first = client.producer(transactional_id=topic)
    first.begin()
    first.send(topic, b"old", partition=0).result()
    with client.producer(transactional_id=topic):
        kind = attempt(client, first.commit)
    fails(client, first.close)
    return kind


@next_to_peers(sees=["new"])
def a_new_producer_aborts_the_open_transaction_of_a_lost_one(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    lost_producer = client.producer(transactional_id=topic)
    lost_producer.begin()
    lost_producer.send(topic, b"lost", partition=0).result()
    with client.producer(transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"new", partition=0)
        producer.commit()
    fails(client, lost_producer.close)
    return read_values(client, topic, 1, READ_COMMITTED)


@next_to_peers(sees=[7, ""])
def offsets_are_committed_with_the_transaction(stage: Stage, client: Client) -> Any:
    topic, group = stage.topic(), stage.name()
    with client.producer(transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"v", partition=0)
        producer.send_offsets({(topic, 0): 7}, group)
        producer.commit()
    with client.consumer(group_id=group, enable_auto_commit=False) as consumer:
        wait_for(lambda: consumer.committed_offset((topic, 0)))
        return consumer.committed_offset((topic, 0))


@next_to_peers(sees=None)
def offsets_are_not_committed_by_an_aborted_transaction(stage: Stage, client: Client) -> Any:
    topic, group = stage.topic(), stage.name()
    with client.producer(transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"v", partition=0).result()
        producer.send_offsets({(topic, 0): 7}, group)
        producer.abort()
    with client.consumer(group_id=group, enable_auto_commit=False) as consumer:
        return consumer.committed_offset((topic, 0))


@next_to_peers(sees=["MESSAGE_TOO_LARGE", True, ["again"]], aio="committed without the record")
def a_transaction_with_a_failed_record_cannot_be_committed(stage: Stage, client: Client) -> Any:
    topic = stage.topic(max_message_bytes=500)
    with client.producer(transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"small", partition=0).result()
        kind = attempt(client, producer.send(topic, b"x" * 1_000, partition=1).result)
        if is_refused := fails(client, producer.commit):
            producer.abort()
        producer.begin()
        producer.send(topic, b"again", partition=0)
        producer.commit()
    return kind, is_refused, read_values(client, topic, 1, READ_COMMITTED)


@next_to_peers(sees="refused by the client")
def a_transactional_id_with_fewer_acks_is_rejected(stage: Stage, client: Client) -> Any:
    return attempt(client, lambda: client.producer(transactional_id=stage.name(), acks=1))


@next_to_peers(sees="refused by the client", aio="accepted")
def a_transactional_id_without_idempotence_is_rejected(stage: Stage, client: Client) -> Any:
    return attempt(client, lambda: client.producer(transactional_id=stage.name(), enable_idempotence=False))


@next_to_peers(sees=[[2, "committed"]])
def a_reader_waits_across_aborted_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.consumer(**READ_COMMITTED) as consumer, client.producer(transactional_id=topic) as producer:
        consumer.assign([(topic, 0)])
        producer.begin()
        producer.send(topic, b"aborted", partition=0).result()
        producer.abort()
        producer.begin()
        producer.send(topic, b"committed", partition=0)
        producer.commit()
        return [(record.offset, record.value) for record in consumer.read(1)]
