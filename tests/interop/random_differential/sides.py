"""Send additional requests to one broker of a comparison: before all episodes, after a request, or after an episode."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.interop.random_differential.pair import BrokerSide
from tests.interop.random_differential.requests import RandomRequest
from tests.interop.random_differential.symbols import BrokerMemory

PATIENCE_SECONDS = 60.0
_MEMBER_ID_REQUIRED = 79
_TOPIC_CHANGING_APIS = frozenset({"CreateTopics", "DeleteTopics", "Metadata"})


def wait_for_coordinators(address: tuple[str, int]) -> None:
    """Wait until a broker's coordinators and all partitions of their topics are available."""
    side, end = BrokerSide(address, BrokerMemory("")), time.monotonic() + PATIENCE_SECONDS

    def wait(code: Callable[[Any], int], api: str, version: int, **fields: Any) -> None:
        while code(side.ask(api, version, **fields)):
            assert time.monotonic() < end, f"{api} of {address} is not ready"
            time.sleep(0.1)

    def error(answer: Any) -> int:
        return int(answer.error_code)

    wait(error, "FindCoordinator", 1, key="prepare", keyType=0)
    wait(error, "FindCoordinator", 1, key="prepare", keyType=1)
    keys = ["prepare:AAAAAAAAAAAAAAAAAAAAAQ:0"]
    wait(lambda answer: error(answer.coordinators[0]), "FindCoordinator", 6, keyType=2, coordinatorKeys=keys)
    producer = {"transactionTimeoutMs": 60_000, "producerId": -1, "producerEpoch": -1}
    for number in range(20):
        wait(error, "OffsetFetch", 7, groupId=f"r0x0-{number}", topics=None, requireStable=False)
        wait(error, "InitProducerId", 3, transactionalId=f"r0x0-{number}", **producer)
    # A response that requires a second JoinGroup with a member id has created the group and the offsets topic.
    joining = {"groupId": "r0x0-join", "protocolType": "consumer", "protocols": [{"name": "range", "metadata": ""}]}
    joining |= {"sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000, "memberId": ""}
    wait(lambda answer: error(answer) not in (0, _MEMBER_ID_REQUIRED), "JoinGroup", 4, **joining)
    side.connection.close()


def learn_topics(side: BrokerSide, request: RandomRequest) -> None:
    """Fetch the ids of topics after a request that may have created some."""
    if request.api in _TOPIC_CHANGING_APIS:
        side.ask("Metadata", 12, topics=None, allowAutoTopicCreation=False)


def delete_topics(side: BrokerSide) -> None:
    """Delete the topics of an episode."""
    side.connection.close()
    answer = side.ask("Metadata", 12, topics=None, allowAutoTopicCreation=False)
    names = [topic.name for topic in answer.topics if topic.name.startswith(side.memory.prefix)]
    if names:
        side.ask("DeleteTopics", 5, topicNames=names, timeoutMs=20_000)
    side.connection.close()
