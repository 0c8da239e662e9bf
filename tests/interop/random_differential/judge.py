"""Run episodes of random requests to two brokers; find the first response that differs, and the shortest sequence of
requests that causes it.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.interop.random_differential.compare import AnswerDifference, differences, has_diverged, plain_answer
from tests.interop.random_differential.pair import CLOSED, SILENT, BrokerConnection, BrokerSide, ask_both
from tests.interop.random_differential.requests import RECONNECT, WAIT, RandomRequest, draw_opening, draw_request
from tests.interop.random_differential.share import share_episode
from tests.interop.random_differential.sides import delete_topics, learn_topics, wait_for_coordinators
from tests.interop.random_differential.symbols import BrokerMemory

_REQUESTS_PER_EPISODE = 60
_PATIENCE_SECONDS = 60.0
_MAX_REPLAYS = 25
# wait because Kafka responds before it has initialised a group's partitions, or released a session's records
_DELAY_SECONDS = 0.1
# Requests after whose response Kafka's controller still has to update its broker.
_APPLIED_LATER = frozenset(
    {
        *("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs"),
        *("AlterClientQuotas", "AlterUserScramCredentials", "UpdateFeatures", "AlterPartitionReassignments"),
        *("ElectLeaders", "InitProducerId"),
    }
)
_ENDS_TRANSACTION = frozenset({"EndTxn", "InitProducerId", "WriteTxnMarkers"})


class DifferenceFinding(NamedTuple):
    """A request with different responses, and the earlier requests that are required to reproduce it."""

    before: tuple[RandomRequest, ...]
    asked: RandomRequest
    found: tuple[AnswerDifference, ...]

    def __str__(self) -> str:
        lines = [json.dumps(one, separators=(",", ":")) for one in (*self.before, self.asked)]
        return "\n".join([f"{self.asked.api} v{self.asked.version}", *lines, *map(str, self.found[:12])])


@dataclass
class EpisodeJudge:
    """Two brokers, and the comparison of their responses.

    Attributes:
        ours, theirs: addresses of the brokers.
        served_ranges: the APIs and versions that both brokers serve.
        count: number of compared requests.
        kinds: number of requests by API and version.
        is_about_share_groups: whether to draw the episodes of ``share``.
        heard: a list to which an episode's requests and Kafka's responses are appended, or None.
    """

    ours: tuple[str, int]
    theirs: tuple[str, int]
    served_ranges: Mapping[str, tuple[int, int]]
    count: int = 0
    kinds: Counter[tuple[str, int]] = field(default_factory=Counter)
    is_about_share_groups: bool = False
    heard: list[tuple[RandomRequest, Any]] | None = None
    _run: int = field(default_factory=lambda: time.time_ns() // 1_000 % 10**10)  # several runs may share one Kafka
    _episodes: int = 0
    _barriers: int = 0
    _aside: BrokerSide | None = None

    def prepare(self) -> None:
        """Wait until the coordinators of both brokers are available."""
        for address in (self.ours, self.theirs):
            wait_for_coordinators(address)
        self.wait_for_kafka()

    def close(self) -> None:
        """Close the extra connection, so that a test fails only because of differences."""
        if self._aside is not None:
            self._aside.connection.close()

    # ------------------------------------------------------------------------------------------------ an episode

    def episode(
        self,
        requests: Sequence[RandomRequest],
        *,
        last_only: bool = False,
        seen_findings: list[DifferenceFinding] | None = None,
    ) -> DifferenceFinding | None:
        """Send requests in order.

        Return the first request with different responses; with ``last_only``, only if it is the last request.
        """
        self._episodes += 1
        prefix = f"r{self._run}x{self._episodes}-"
        ours, theirs = (BrokerSide(address, BrokerMemory(prefix)) for address in (self.ours, self.theirs))
        parked_requests: list[tuple[int, Any, Any, BrokerConnection, BrokerConnection]] = []
        try:
            for position, one in enumerate(requests):
                if self._is_no_request(one, ours, theirs):
                    continue
                self.count += 1
                self.kinds[one.api, one.version] += 1
                first, second = ask_both(ours, theirs, one)
                if first is SILENT and second is SILENT:
                    parked_requests.append(self._park(position, one, ours, theirs))
                    continue
                own_answer, answer = plain_answer(ours.memory, one, first), plain_answer(theirs.memory, one, second)
                differences_found = differences(one, own_answer, answer)
                if self.heard is not None:
                    self.heard.append((one, answer))
                if differences_found and (not last_only or position == len(requests) - 1):
                    finding = DifferenceFinding(tuple(requests[:position]), one, tuple(differences_found))
                    if seen_findings is None:
                        return finding
                    seen_findings.append(finding)
                if has_diverged(one, own_answer, answer):
                    break
                self._settle(ours, theirs, one, first)
                found_late = self._unpark(parked_requests, ours, theirs, requests)
                if found_late is not None and not last_only:
                    finding = DifferenceFinding(tuple(requests[:position]), one, found_late)
                    if seen_findings is None:
                        return finding
                    seen_findings.append(finding)
        finally:
            self._clean(ours, theirs, parked_requests)
        return None

    @staticmethod
    def _is_no_request(one: RandomRequest, ours: BrokerSide, theirs: BrokerSide) -> bool:
        """Wait, or close the connections, so that the next request uses new ones."""
        if one.api == RECONNECT:
            ours.connection.close()
            theirs.connection.close()
            time.sleep(_DELAY_SECONDS)
        elif one.api == WAIT:
            time.sleep(one.version / 1000)
        return one.api in (RECONNECT, WAIT)

    def _park(self, position: int, one: RandomRequest, ours: BrokerSide, theirs: BrokerSide) -> Any:
        parked_request = (position, one, None, ours.connection, theirs.connection)
        ours.connection, theirs.connection = BrokerConnection(self.ours), BrokerConnection(self.theirs)
        return parked_request

    def _unpark(
        self, parked_requests: list[Any], ours: BrokerSide, theirs: BrokerSide, requests: Sequence[RandomRequest]
    ) -> Any:
        """Compare the responses to parked requests once they have arrived."""
        for parked_request in list(parked_requests):
            _, one, _, own_side, other = parked_request
            data = own_side.receive(0.0)
            if data is SILENT:
                continue
            parked_requests.remove(parked_request)
            theirs_data = other.receive(10.0)
            body = _body_of(ours, one)
            first, second = ours.read(one, body, data), theirs.read(one, _body_of(theirs, one), theirs_data)
            own_side.close()
            other.close()
            differences_found = differences(
                one, plain_answer(ours.memory, one, first), plain_answer(theirs.memory, one, second)
            )
            if differences_found:
                return tuple(differences_found)
        return None

    def _settle(self, ours: BrokerSide, theirs: BrokerSide, one: RandomRequest, answer: Any) -> None:
        """Wait until Kafka has completed the request, and record the ids that both brokers created."""
        if answer is CLOSED:
            return
        if one.api in _APPLIED_LATER:
            self.wait_for_kafka()
        if one.api == "ShareGroupHeartbeat" or one.body.get("shareSessionEpoch") == -1:
            time.sleep(_DELAY_SECONDS)
        if one.api in _ENDS_TRANSACTION:
            self._wait_for_transactions(theirs)
        for side in (ours, theirs):
            learn_topics(side, one)

    @property
    def _barrier(self) -> str:
        """The topic whose setting is changed to wait for Kafka; each run has another one."""
        return f"zz-barrier-{self._run}"  # the last topic by name, so that cursors reach it last

    def wait_for_kafka(self) -> None:
        """Wait, by two changes, until Kafka's broker has applied all changes that its controller confirmed."""
        if self._aside is None:
            self._aside = BrokerSide(self.theirs, BrokerMemory(""))
            topic = {
                "name": self._barrier,
                "numPartitions": 1,
                "replicationFactor": 1,
                "assignments": [],
                "configs": [],
            }
            self._aside.ask("CreateTopics", 5, topics=[topic], timeoutMs=20_000, validateOnly=False)
        for _ in range(2):
            self._barriers += 1
            value = str(1_000_000 + self._barriers)
            config = {"name": "retention.ms", "configOperation": 0, "value": value}
            row = {"resourceType": 2, "resourceName": self._barrier, "configs": [config]}
            end = time.monotonic() + _PATIENCE_SECONDS
            while (
                self._aside.ask("IncrementalAlterConfigs", 1, resources=[row], validateOnly=False)
                .responses[0]
                .error_code
            ):
                assert time.monotonic() < end
            resource = {"resourceType": 2, "resourceName": self._barrier, "configurationKeys": ["retention.ms"]}
            fields = {"resources": [resource], "includeSynonyms": False, "includeDocumentation": False}
            while True:
                configs = self._aside.ask("DescribeConfigs", 4, **fields).results[0].configs
                if configs and configs[0].value == value:
                    break
                assert time.monotonic() < end, "Kafka's broker does not apply its controller's changes"

    def _wait_for_transactions(self, theirs: BrokerSide) -> None:
        """Wait until Kafka has written the markers of ending transactions."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            fields = {"stateFilters": ["PrepareCommit", "PrepareAbort"], "producerIdFilters": []}
            if not theirs.ask("ListTransactions", 0, **fields).transaction_states:
                return
            time.sleep(0.005)

    def _clean(self, ours: BrokerSide, theirs: BrokerSide, parked_requests: Sequence[Any]) -> None:
        """Delete the topics of an episode on both sides, and close pending connections."""
        for side in (ours, theirs):
            delete_topics(side)
        for *_, own_side, other in parked_requests:
            own_side.close()
            other.close()

    # ------------------------------------------------------------------------------------------------ a campaign

    def draw(self, seed: int, number: int) -> list[RandomRequest]:
        """Return the requests of an episode, which depend only on the seed and the number."""
        rng = random.Random(f"{seed}/{number}")
        if self.is_about_share_groups:
            return share_episode(rng)
        return [
            *draw_opening(rng, self.served_ranges),
            *(draw_request(rng, self.served_ranges) for _ in range(_REQUESTS_PER_EPISODE)),
        ]

    def shorten_finding(self, finding: DifferenceFinding) -> DifferenceFinding:
        """Remove requests before a difference while the difference remains: first halves, then single requests."""
        best, replays = finding, 0
        size = max(len(best.before) // 2, 1)
        while size and replays < _MAX_REPLAYS:
            start = 0
            while start < len(best.before) and replays < _MAX_REPLAYS:
                shorter = best.before[:start] + best.before[start + size :]
                replays += 1
                finding_again = self.episode([*shorter, best.asked], last_only=True)
                if finding_again is not None and _same(finding_again, best):
                    best = finding_again
                else:
                    start += size
            size //= 2
        return best


def _same(one: DifferenceFinding, other: DifferenceFinding) -> bool:
    return {row.path for row in one.found} & {row.path for row in other.found} != set()


def _body_of(side: BrokerSide, one: RandomRequest) -> Any:
    from kafkaframes.protocol.messages import message

    return message(f"{one.api}Request").from_json(side.memory.fill_symbols(one.body), one.version)


def common_ranges(ours: tuple[str, int], theirs: tuple[str, int]) -> dict[str, tuple[int, int]]:
    """Return the APIs and versions that both brokers serve."""
    from kafkaframes.protocol.spec.catalog import find_api as catalog_api

    ranges_by_key = []
    for address in (ours, theirs):
        side = BrokerSide(address, BrokerMemory(""))
        answer = side.ask("ApiVersions", 0)
        side.connection.close()
        ranges_by_key.append({row.api_key: (row.min_version, row.max_version) for row in answer.api_keys})
    own_range, other = ranges_by_key
    both = {
        key: (max(own_range[key][0], other[key][0]), min(own_range[key][1], other[key][1]))
        for key in own_range
        if key in other
    }
    ranges_by_name = {catalog_api(key).name: span for key, span in both.items() if span[0] <= span[1]}
    if "Produce" in ranges_by_name:
        ranges_by_name["Produce"] = (
            3,
            ranges_by_name["Produce"][1],
        )  # Kafka 4 advertises versions 0 to 2 for old clients, but rejects them
    return ranges_by_name
