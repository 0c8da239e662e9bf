"""What an upgrade of the brokers would break: versions in use beside those that a release accepts. Pure functions.

Kafka 4.0 took many versions away (KIP-896) and writes record formats 0 and 1 no more (KIP-724; it still reads them).
A verdict needs care in three places:

* A client takes the highest version that both ends know. One that is the old broker's own highest says nothing about
  the client: ``fine`` if the client names itself (KIP-511, 2019: it speaks what Kafka 4 accepts), else ``unknown``.
* A version above what the target has is no harm to a client that negotiates; one that is known not to go low enough
  (kafka-clients 4 beside brokers before 2.1) is refused.
* ApiVersions itself may be asked at any version: a broker answers those that it does not know (KIP-511).

Brokers and controllers that talk to each other are no clients: the upgrade replaces them.

A client that does not say which library it is (before ApiVersions 3, KIP-511, none did) is guessed, with the evidence;
guesses are never part of a verdict. Two kinds: a client id that a library uses by default or builds a name with; and,
for Kafka's own Java client, a release whose highest versions are just those in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafkaframes.capture.coverage import Coverage, UnreadData
from kafkaframes.errors import OptionError
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.registry import CATALOG, Apis
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
_MIN_APIS: Final = 3  # fewer would fit many releases


def guess_library(client_id: str | None, versions: Mapping[int, set[int]]) -> Guess | None:
    """Return the probable library of a client, by its id and the versions that it used, by API key.

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
    if len(versions) < _MIN_APIS or any(len(versions_in_use) != 1 for versions_in_use in versions.values()):
        return None
    fitting = [name for name in releases() if _fits(release(name), versions)]
    if not fitting or len(fitting) > 2:
        return None
    return fitting[0] if len(fitting) == 1 else f"{fitting[0]} - {fitting[-1]}"


def _fits(entry: Release, versions: Mapping[int, set[int]]) -> bool:
    apis = entry.all_apis
    return all(
        key in apis and apis[key].accepted.highest == max(versions_in_use) for key, versions_in_use in versions.items()
    )


FINE, UNKNOWN, DEPRECATED, REMOVED = "fine", "unknown", "deprecated", "removed"
VERDICTS: Final = (FINE, UNKNOWN, DEPRECATED, REMOVED)  # each outweighs those before it
EXIT_STATUS: Final = {FINE: 0, UNKNOWN: 0, DEPRECATED: 3, REMOVED: 4}
# How much of the input the verdict rests on.
ALL, PART, NOTHING = "all", "part", "nothing"
EXIT_NOT_JUDGED: Final = 5
JAVA: Final = "apache-kafka-java"
_NEWEST_FORMAT: Final = 2
# WriteTxnMarkers and the state of share groups: for brokers only, although their listener is the clients'.
_FROM_BROKERS: Final = frozenset({27, 83, 84, 85, 86, 87})
_FORMATS_GONE: Final = (4, 0)


class Client(NamedTuple):
    """Who asks, as far as the traffic tells."""

    client_id: str | None
    address: str | None
    software_name: str | None
    software_version: str | None


class Use(NamedTuple):
    """One version of one API that a client asked for.

    ``at_broker_limit``: it is the highest that the broker offered on that connection.
    """

    client: Client
    api_key: int
    api_version: int
    at_broker_limit: bool = False


class FormatUse(NamedTuple):
    """Records of an old format: ``where`` is ``produce``, ``fetch`` or ``disk`` (then ``topic`` says which)."""

    client: Client | None
    where: str
    magic: int
    topic: str | None = None


@dataclass
class Seen:
    """How often, and from when to when (microseconds since 1970; None where nothing tells)."""

    count: int = 0
    first: int | None = None
    last: int | None = None

    def add(self, count: int, first: int | None, last: int | None) -> None:
        """Add what was seen elsewhere."""
        self.count += count
        self.first = min((time for time in (self.first, first) if time is not None), default=None)
        self.last = max((time for time in (self.last, last) if time is not None), default=None)


@dataclass
class Uses:
    """What was seen in all inputs."""

    apis: dict[Use, Seen] = field(default_factory=dict)
    formats: dict[FormatUse, Seen] = field(default_factory=dict)
    without_api: int = 0  # requests whose API is not in the input
    notes: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)  # what was not read

    def add(self, use: Use, count: int, first: int | None, last: int | None) -> None:
        """Count a use of an API."""
        self.apis.setdefault(use, Seen()).add(count, first, last)

    def add_format(self, use: FormatUse, count: int, first: int | None, last: int | None) -> None:
        """Count batches or messages of a format."""
        self.formats.setdefault(use, Seen()).add(count, first, last)


@dataclass(frozen=True)
class Finding:
    """One verdict, with what it rests on."""

    verdict: str
    what: str
    reason: str
    seen: Seen
    api_key: int | None = None
    api_version: int | None = None
    lowest: int | None = None
    highest: int | None = None
    format_use: FormatUse | None = None


@dataclass(frozen=True)
class ClientAudit:
    """What is said of one client; ``guess`` names a probable library where the client does not name itself."""

    client: Client
    findings: tuple[Finding, ...]
    guess: Guess | None

    @property
    def verdict(self) -> str:
        """The gravest of its verdicts."""
        return worst(finding.verdict for finding in self.findings)

    @property
    def is_broker(self) -> bool:
        """Say whether it is a broker or controller of the cluster."""
        if self.guess is not None and self.guess.library == BROKER:
            return True
        return any(is_between_brokers(finding.api_key) for finding in self.findings if finding.api_key is not None)


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        target: the release to upgrade to.
        clients: the verdicts on clients.
        disk: the verdicts on the record formats of logs.
        notes: what a reader of the verdicts has to know.
        brokers: those of the cluster, whose requests are not judged.
        unread: data of the input that were not read and may hide what the audit looks for.
        harmless: data that were not read and cannot hide it.
        is_strict: whether unread data make the exit status 5.
    """

    target: Release
    clients: tuple[ClientAudit, ...]
    disk: tuple[Finding, ...]
    notes: tuple[str, ...]
    brokers: tuple[ClientAudit, ...] = ()
    unread: tuple[UnreadData, ...] = ()
    harmless: tuple[UnreadData, ...] = ()
    is_strict: bool = False

    @property
    def judged(self) -> str:
        """How much of the input the verdict rests on: all, part or nothing."""
        if not self.clients and not self.brokers and not self.disk:
            return NOTHING
        return PART if self.unread else ALL

    @property
    def verdict(self) -> str:
        """The gravest of all verdicts; unknown where nothing was judged."""
        if self.judged == NOTHING:
            return UNKNOWN
        return worst([*(client.verdict for client in self.clients), *(finding.verdict for finding in self.disk)])

    @property
    def exit_status(self) -> int:
        """0: nothing stands against the upgrade; 3: something is deprecated; 4: something is removed; 5: not judged."""
        if self.judged == NOTHING or (self.judged == PART and self.is_strict):
            return EXIT_NOT_JUDGED
        return EXIT_STATUS[self.verdict]


def worst(verdicts: Iterable[str]) -> str:
    """Return the gravest verdict.

    >>> worst(["fine", "removed", "deprecated"]), worst([])
    ('removed', 'fine')
    """
    return max(verdicts, key=VERDICTS.index, default=FINE)


def is_between_brokers(api_key: int) -> bool:
    """Say whether only brokers and controllers send an API's requests.

    >>> is_between_brokers(4), is_between_brokers(1)
    (True, False)
    """
    api = CATALOG.table.get(api_key)
    return api_key in _FROM_BROKERS or (api is not None and "broker" not in api.listeners)


def target_release(name: str | None) -> Release:
    """Return the release to upgrade to, the newest for None; the error of an unknown one lists those that are known."""
    try:
        return release(releases()[-1] if name is None else name)
    except OptionError as error:
        raise OptionError(f"`target` {name}: {error}") from None


def audit(uses: Uses, target: Release, apis: Apis = CATALOG, *, is_strict: bool = False) -> Audit:
    """Judge what was seen by what a release accepts; with ``is_strict``, unread data make the exit status 5."""
    by_client: dict[Client, list[Finding]] = {}
    versions: dict[Client, dict[int, set[int]]] = {}
    for use, occurrences in uses.apis.items():
        by_client.setdefault(use.client, []).append(judge(use, occurrences, target, apis))
        versions.setdefault(use.client, {}).setdefault(use.api_key, set()).add(use.api_version)
    disk = []
    for format_use, occurrences in uses.formats.items():
        finding = judge_format(format_use, occurrences, target)
        if format_use.client is None:
            disk.append(finding)
        else:
            by_client.setdefault(format_use.client, []).append(finding)
    clients = [
        ClientAudit(client, tuple(sorted(findings, key=_order)), _guess(client, versions.get(client, {})))
        for client, findings in by_client.items()
    ]
    clients.sort(key=lambda judged: (-VERDICTS.index(judged.verdict), *(text or "" for text in judged.client)))
    brokers = tuple(client_audit for client_audit in clients if client_audit.is_broker)
    others = tuple(client_audit for client_audit in clients if not client_audit.is_broker)
    return Audit(
        target,
        others,
        tuple(sorted(disk, key=_order)),
        tuple(_notes(uses)),
        brokers,
        unread=tuple(uses.coverage.unread),
        harmless=tuple(uses.coverage.harmless),
        is_strict=is_strict,
    )


def _order(finding: Finding) -> tuple[Any, ...]:
    return (
        -VERDICTS.index(finding.verdict),
        finding.api_key is None,
        finding.api_key or 0,
        finding.api_version or 0,
        finding.what,
    )


def _notes(uses: Uses) -> Iterator[str]:
    yield from uses.notes
    if uses.without_api:
        yield f"{uses.without_api} requests are not in the input as far as their API: nothing is said of them"


def judge(use: Use, occurrences: Seen, target: Release, apis: Apis = CATALOG) -> Finding:
    """Judge one version of one API.

    >>> judge(Use(Client("a", None, None, None), 1, 3), Seen(1), release("4.0.1")).verdict
    'removed'
    """
    key, version = use.api_key, use.api_version
    name = apis.name(key) or api_name(key)
    what = f"{name} {version}"
    accepted_range = target.all_apis.get(key)
    if accepted_range is None:
        verdict, reason = _of_missing_api(key, target)
        return Finding(verdict, what, reason, occurrences, key, version)
    lowest, highest = accepted_range.accepted.lowest, accepted_range.accepted.highest
    bounds = key, version, lowest, highest
    if key == API_VERSIONS or lowest <= version <= highest:
        verdict, reason = FINE, f"{target.name} accepts {name} {lowest} to {highest}"
        if version in accepted_range.deprecated:
            verdict, reason = DEPRECATED, f"{target.name} calls it deprecated; later releases do not have it"
    elif version > highest:
        verdict, reason = _of_newer(use, name, target, highest)
    elif use.at_broker_limit and use.client.software_name is not None:
        verdict = FINE
        reason = f"fine after the upgrade: it asks for versions, and the broker offered no more than {version}"
    elif use.at_broker_limit:
        verdict = UNKNOWN
        reason = (
            f"{target.name} accepts {name} from {lowest} on; the broker offered no more than {version}, "
            "so the client may know newer versions"
        )
    else:
        verdict, reason = REMOVED, f"{target.name} accepts {name} from {lowest} on"
    return Finding(verdict, what, reason, occurrences, *bounds)


def _of_missing_api(key: int, target: Release) -> tuple[str, str]:
    """Judge an API that the target does not have: was it taken away, or is it newer?"""
    known_releases = releases()
    having = [name for name in known_releases if key in release(name).all_apis]
    if not having:
        return UNKNOWN, f"no release is known that has API {key}"
    if known_releases.index(having[0]) > known_releases.index(target.name):
        reason = f"{target.name} does not have it yet ({having[0]} has); a client that asks for versions sees that"
        return UNKNOWN, reason
    return REMOVED, f"{target.name} does not have it any more; {having[-1]} was the last release known that had"


def _of_newer(use: Use, name: str, target: Release, highest: int) -> tuple[str, str]:
    """Judge a version above what the target has."""
    own = _java_release(use.client)
    if own is None:
        reason = f"{target.name} accepts {name} up to {highest} only; whether this client goes so low is not known"
        return UNKNOWN, reason
    lowest = own.all_apis[use.api_key].accepted.lowest if use.api_key in own.all_apis else 0
    if lowest > highest:
        reason = f"{target.name} accepts {name} up to {highest}, kafka-clients {own.name} speaks it from {lowest} on"
        return REMOVED, reason
    return FINE, f"kafka-clients {own.name} goes down to {name} {lowest}, {target.name} accepts up to {highest}"


def _java_release(client: Client) -> Release | None:
    if client.software_name != JAVA or not client.software_version:
        return None
    try:
        return release(client.software_version)
    except OptionError:
        return None


def judge_format(use: FormatUse, occurrences: Seen, target: Release) -> Finding:
    """Judge a record format: brokers from 4.0 on read 0 and 1 from disk, and write neither (KIP-724)."""
    what = f"record format {use.magic} ({use.where}{'' if use.topic is None else ' of ' + use.topic})"
    verdict = DEPRECATED
    if use.magic >= _NEWEST_FORMAT:
        verdict, reason = FINE, "the current format"
    elif _numbers(target) < _FORMATS_GONE:
        reason = f"{target.name} takes it; Kafka 4.0 does not write it (KIP-724)"
    elif use.where == "disk":
        reason = f"{target.name} reads it from disk; converting it is advised"
    elif use.where == "fetch":
        reason = (
            f"{target.name} reads it from disk, and does not convert for old clients; converting the log is advised"
        )
    else:
        verdict, reason = REMOVED, f"{target.name} takes records of format 2 only (KIP-724)"
    return Finding(verdict, what, reason, occurrences, format_use=use)


def _numbers(release: Release) -> tuple[int, ...]:
    return tuple(int(part) for part in release.name.split("."))


def api_name(key: int) -> str:
    """Return an API's name, or its number in words.

    >>> api_name(3), api_name(999)
    ('Metadata', 'API 999')
    """
    return CATALOG.name(key) or f"API {key}"


def _guess(client: Client, versions: Mapping[int, set[int]]) -> Guess | None:
    return None if client.software_name else guess_library(client.client_id, versions)


def first_fit(target: Release) -> str | None:
    """Return the oldest release of Kafka's own clients that the target serves, whatever it is used for.

    A client that speaks version N of an API negotiates anything up to N; so the first release is fit whose highest
    versions all reach the lowest that the target accepts.

    >>> first_fit(release("4.0.1"))
    '2.1.1'
    """
    lowest = {key: api.accepted.lowest for key, api in target.all_apis.items() if not is_between_brokers(key)}
    for name in releases():
        mine = release(name).apis()
        if all(mine[key].accepted.highest >= lowest.get(key, 0) for key in mine if not is_between_brokers(key)):
            return name
    return None


def advice(client_audit: ClientAudit, target: Release) -> str | None:
    """Say what a client must become; None where nothing is wrong with it."""
    removed_findings = [finding for finding in client_audit.findings if finding.verdict == REMOVED]
    if not removed_findings:
        return None
    name = first_fit(target)
    is_java = client_audit.client.software_name == JAVA or (
        client_audit.guess is not None and client_audit.guess.library == "kafka-clients"
    )
    if name is not None and is_java:
        return f"kafka-clients {name} or later"
    needs = dict.fromkeys(  # an API has a finding for each version
        f"{api_name(finding.api_key)} {finding.lowest}"
        for finding in removed_findings
        if finding.api_key is not None and finding.lowest is not None
    )
    return f"a release that speaks {', '.join(needs)} or later" if needs else None
