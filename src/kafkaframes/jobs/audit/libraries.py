"""Which client library it probably is, where a client does not say: before ApiVersions 3 (KIP-511) none did.

Guesses, with their evidence; they are never part of a verdict. Two kinds: a client id that a library uses by default
or builds a name with; and, for Kafka's own Java client, a release whose highest versions are just those in use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkaframes.protocol.spec.releases import Release, release, releases


class Guess(NamedTuple):
    """A library, perhaps a release of it, and why."""

    library: str
    release: str | None
    evidence: str


BROKER: Final = "an Apache Kafka broker"
# Client ids that libraries make up by themselves. The first group, where there is one, is the library's release.
_IDS: Final = (
    (re.compile(r"^kafka-python-(\d[\w.]*)$"), "kafka-python", "its default client id, with its release"),
    (re.compile(r"^aiokafka-(\d[\w.]*)$"), "aiokafka", "its default client id, with its release"),
    (re.compile(r"^rdkafka$"), "librdkafka", "its default client id"),
    (re.compile(r"^sarama$"), "IBM/sarama", "its default client id"),
    (re.compile(r"^kafkajs$"), "KafkaJS", "its default client id"),
    (re.compile(r"^no-kafka-client$"), "no-kafka", "its default client id"),
    (re.compile(r"^kafka-node-client$"), "kafka-node", "its default client id"),
    (re.compile(r"github\.com/segmentio/kafka-go\)$"), "segmentio/kafka-go", "it ends its client ids so"),
    (re.compile(r"^kgo$"), "franz-go", "its default client id"),
    (re.compile(r"^ruby-kafka$"), "ruby-kafka", "its default client id"),
    (re.compile(r"^(?:producer|consumer|adminclient)-\d+$"), "kafka-clients", "the client id that it counts up"),
    (re.compile(r"^consumer-.+-\d+$"), "kafka-clients", "the client id that it makes of the group"),
    (re.compile(r"^broker-\d+-(?:fetcher-\d+|txn-marker-sender|\w+)$"), BROKER, "its own client id"),
    (re.compile(r"-StreamThread-\d+-"), "kafka-clients (Kafka Streams)", "a stream thread's client id"),
)
_FEWEST_APIS: Final = 3  # fewer would fit many releases


def guess_library(client_id: str | None, versions: Mapping[int, set[int]]) -> Guess | None:
    """Return the probable library of a client.

    Args:
        client_id: what its requests carry.
        versions: the versions that it used, by API key.

    >>> guess_library("kafka-python-1.4.7", {})[:2]
    ('kafka-python', '1.4.7')
    """
    for pattern, library, why in _IDS:
        match = pattern.search(client_id or "")
        if match is not None:
            result = match.group(1) if match.groups() else None
            if library == "kafka-clients" and result is None:
                result = _release_by_versions(versions)
            return Guess(library, result, f"client id {client_id!r}: {why}")
    result = _release_by_versions(versions)
    if result is None:
        return None
    return Guess("kafka-clients", result, f"all {len(versions)} APIs are used at the highest versions of {result}")


def _release_by_versions(versions: Mapping[int, set[int]]) -> str | None:
    """Return the releases (from - to) whose highest versions are those in use, if they are of one minor line or two."""
    if len(versions) < _FEWEST_APIS or any(len(used) != 1 for used in versions.values()):
        return None
    fitting = [name for name in releases() if _fits(release(name), versions)]
    if not fitting or len(fitting) > 2:
        return None
    return fitting[0] if len(fitting) == 1 else f"{fitting[0]} - {fitting[-1]}"


def _fits(entry: Release, versions: Mapping[int, set[int]]) -> bool:
    apis = entry.all_apis
    return all(key in apis and apis[key].accepted.highest == max(used) for key, used in versions.items())
