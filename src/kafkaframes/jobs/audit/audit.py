"""Find out whether an upgrade of the brokers breaks clients: compare the versions in use with those of a release.

The functions are pure.

Kafka 4.0 removed many versions (KIP-896). Kafka 4.0 still reads record formats 0 and 1, but does not write them
(KIP-724). Three cases need care:

* A client uses the highest version that both ends support. If this is the highest version of the old broker, the client
  may support higher versions. The verdict is ``fine`` if the client sends its software name (KIP-511, 2019), because
  these clients support versions that Kafka 4 accepts. For other clients the verdict is ``unknown``.
* A version above the target's range does not break a client that negotiates. It does break a client whose lowest
  version is known to be above the range (kafka-clients 4 with brokers before 2.1).
* ApiVersions requests may have any version, because brokers also answer unknown versions (KIP-511).

Brokers and controllers that send requests to each other are not checked: the upgrade replaces them.

Before ApiVersions 3 (KIP-511), clients did not send the name of their library. The library of these clients is guessed,
and reported with the evidence. A guess never changes a verdict. There are two kinds of evidence: a client id like a
library's default; and, for Kafka's Java client, a release whose highest versions are exactly those in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafkaframes.capture.coverage import Coverage, UnreadData
from kafkaframes.errors import OptionError
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.spec import releases
from kafkaframes.protocol.spec.releases import Release, list_releases


class LibraryGuess(NamedTuple):
    """A library that a client probably uses, its release if that can be guessed, and the evidence."""

    library: str
    release: str | None
    evidence: str


BROKER_SOFTWARE: Final = "an Apache Kafka broker"
# Default client ids of libraries. The first group, if there is one, is the library's release.
_CLIENT_ID_PATTERNS: Final = (
    (re.compile(r"^kafka-python-(\d[\w.]*)$"), "kafka-python", "the library's default client id, with its release"),
    (re.compile(r"^aiokafka-(\d[\w.]*)$"), "aiokafka", "the library's default client id, with its release"),
    (re.compile(r"^rdkafka$"), "librdkafka", "the library's default client id"),
    (re.compile(r"^sarama$"), "IBM/sarama", "the library's default client id"),
    (re.compile(r"^kafkajs$"), "KafkaJS", "the library's default client id"),
    (re.compile(r"^no-kafka-client$"), "no-kafka", "the library's default client id"),
    (re.compile(r"^kafka-node-client$"), "kafka-node", "the library's default client id"),
    (re.compile(r"github\.com/segmentio/kafka-go\)$"), "segmentio/kafka-go", "the suffix of the library's client ids"),
    (re.compile(r"^kgo$"), "franz-go", "the library's default client id"),
    (re.compile(r"^ruby-kafka$"), "ruby-kafka", "the library's default client id"),
    (
        re.compile(r"^(?:producer|consumer|adminclient)-\d+$"),
        "kafka-clients",
        "the library's numbered default client id",
    ),
    (re.compile(r"^consumer-.+-\d+$"), "kafka-clients", "the library's client id with the name of the group"),
    (re.compile(r"^broker-\d+-(?:fetcher-\d+|txn-marker-sender|\w+)$"), BROKER_SOFTWARE, "a broker's client id"),
    (re.compile(r"-StreamThread-\d+-"), "kafka-clients (Kafka Streams)", "the client id of a Kafka Streams thread"),
)
_MIN_APIS_FOR_GUESS: Final = 3  # requests of fewer APIs are compatible with too many releases


def guess_library(client_id: str | None, versions: Mapping[int, set[int]]) -> LibraryGuess | None:
    """Return the probable library of a client, from its id and the versions in use by API key.

    >>> guess_library("kafka-python-1.4.7", {})[:2]
    ('kafka-python', '1.4.7')
    """
    for pattern, library, evidence in _CLIENT_ID_PATTERNS:
        match = pattern.search(client_id or "")
        if match is not None:
            result = match.group(1) if match.groups() else None
            if library == "kafka-clients" and result is None:
                result = _guess_release(versions)
            return LibraryGuess(library, result, f"client id {client_id!r}: {evidence}")
    result = _guess_release(versions)
    if result is None:
        return None
    return LibraryGuess(
        "kafka-clients", result, f"all {len(versions)} APIs are used at the highest versions of {result}"
    )


def _guess_release(versions: Mapping[int, set[int]]) -> str | None:
    """Return the release whose highest versions are in use, or a range of two; None if more releases match."""
    if len(versions) < _MIN_APIS_FOR_GUESS or any(len(versions_in_use) != 1 for versions_in_use in versions.values()):
        return None
    fitting = [name for name in list_releases() if _matches_versions(find_release(name), versions)]
    if not fitting or len(fitting) > 2:
        return None
    return fitting[0] if len(fitting) == 1 else f"{fitting[0]} - {fitting[-1]}"


def _matches_versions(entry: Release, versions: Mapping[int, set[int]]) -> bool:
    """Return whether the highest version that a client uses of each API is the highest that a release accepts."""
    apis = entry.all_apis
    return all(
        key in apis and apis[key].accepted_versions.highest == max(versions_in_use)
        for key, versions_in_use in versions.items()
    )


FINE, UNKNOWN, DEPRECATED, REMOVED = "fine", "unknown", "deprecated", "removed"
VERDICTS: Final = (FINE, UNKNOWN, DEPRECATED, REMOVED)  # in ascending severity
EXIT_STATUS_BY_VERDICT: Final = {FINE: 0, UNKNOWN: 0, DEPRECATED: 3, REMOVED: 4}
# How much of the input was checked.
ALL, PART, NOTHING = "all", "part", "nothing"
EXIT_STATUS_UNCHECKED: Final = 5  # exit status if too little of the input could be read
JAVA_SOFTWARE_NAME: Final = "apache-kafka-java"  # software name that Kafka's Java client sends (KIP-511)
_NEWEST_RECORD_FORMAT: Final = 2
# WriteTxnMarkers and the share group state APIs: only brokers send them, although they use the client listener.
_BROKER_APIS: Final = frozenset({27, 83, 84, 85, 86, 87})
_OLD_FORMATS_REMOVED_RELEASE: Final = (4, 0)  # brokers of this release and later do not write record formats 0 and 1


class ClientIdentity(NamedTuple):
    """A client's id, address and software, as far as the traffic has them."""

    client_id: str | None
    address: str | None
    software_name: str | None
    software_version: str | None


class ApiUse(NamedTuple):
    """A client's use of one version of one API.

    Attributes:
        at_broker_limit: whether the version is the highest that the broker advertised on that connection.
    """

    client: ClientIdentity
    api_key: int
    api_version: int
    at_broker_limit: bool = False


class FormatUse(NamedTuple):
    """A use of records in an old format.

    ``where`` is ``produce``, ``fetch`` or ``disk``; ``topic`` is set only for ``disk``.
    """

    client: ClientIdentity | None
    where: str
    magic: int
    topic: str | None = None


@dataclass
class UseCounts:
    """The number of uses, and the first and last time, in microseconds since 1970; None if unknown."""

    count: int = 0
    first: int | None = None
    last: int | None = None

    def add_uses(self, count: int, first: int | None, last: int | None) -> None:
        """Add uses, and extend the time range."""
        self.count += count
        self.first = min((time for time in (self.first, first) if time is not None), default=None)
        self.last = max((time for time in (self.last, last) if time is not None), default=None)


@dataclass
class UsageSummary:
    """The APIs and record formats that the clients in all inputs of an audit use."""

    apis: dict[ApiUse, UseCounts] = field(default_factory=dict)
    formats: dict[FormatUse, UseCounts] = field(default_factory=dict)
    without_api: int = 0  # requests whose API key is missing in the input
    notes: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)  # parts of the input that could not be read

    def add_use(self, use: ApiUse, count: int, first: int | None, last: int | None) -> None:
        """Count uses of an API."""
        self.apis.setdefault(use, UseCounts()).add_uses(count, first, last)

    def add_format_use(self, use: FormatUse, count: int, first: int | None, last: int | None) -> None:
        """Count batches or messages in a format."""
        self.formats.setdefault(use, UseCounts()).add_uses(count, first, last)


@dataclass(frozen=True)
class AuditVerdict:
    """A verdict on one version of an API or on a record format, with its reason and the uses."""

    verdict: str
    subject: str
    reason: str
    use_count: UseCounts
    api_key: int | None = None
    api_version: int | None = None
    lowest: int | None = None
    highest: int | None = None
    format_use: FormatUse | None = None


@dataclass(frozen=True)
class ClientAudit:
    """An audit's findings on one client.

    ``guess`` is its probable library if the client does not send a software name.
    """

    client: ClientIdentity
    findings: tuple[AuditVerdict, ...]
    guess: LibraryGuess | None

    @property
    def verdict(self) -> str:
        """The most severe of the findings' verdicts."""
        return find_worst_verdict(finding.verdict for finding in self.findings)

    @property
    def is_broker(self) -> bool:
        """Whether the client is a broker or controller of the cluster."""
        if self.guess is not None and self.guess.library == BROKER_SOFTWARE:
            return True
        return any(is_between_brokers(finding.api_key) for finding in self.findings if finding.api_key is not None)


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        target: release to upgrade to.
        clients: findings on clients.
        disk: findings on the record formats in log directories.
        notes: limits of the verdicts, as sentences.
        brokers: brokers and controllers of the cluster, which do not count for the verdict.
        unread: unread parts of the input that may contain API calls or records.
        harmless: unread parts of the input that cannot contain API calls or records.
        is_strict: whether the exit status is 5 if parts of the input are unread.
    """

    target: Release
    clients: tuple[ClientAudit, ...]
    disk: tuple[AuditVerdict, ...]
    notes: tuple[str, ...]
    brokers: tuple[ClientAudit, ...] = ()
    unread: tuple[UnreadData, ...] = ()
    harmless: tuple[UnreadData, ...] = ()
    is_strict: bool = False

    @property
    def judged(self) -> str:
        """The part of the input that the audit could assess: ``all``, ``part`` or ``nothing``."""
        if not self.clients and not self.brokers and not self.disk:
            return NOTHING
        return PART if self.unread else ALL

    @property
    def verdict(self) -> str:
        """The most severe of all verdicts; ``unknown`` if the audit could not assess any input."""
        if self.judged == NOTHING:
            return UNKNOWN
        return find_worst_verdict(
            [*(client.verdict for client in self.clients), *(finding.verdict for finding in self.disk)]
        )

    @property
    def exit_status(self) -> int:
        """0 if the upgrade is safe, 3 for deprecated uses, 4 for removed ones, 5 if too little was checked."""
        if self.judged == NOTHING or (self.judged == PART and self.is_strict):
            return EXIT_STATUS_UNCHECKED
        return EXIT_STATUS_BY_VERDICT[self.verdict]


def find_worst_verdict(verdicts: Iterable[str]) -> str:
    """Return the most severe verdict.

    >>> find_worst_verdict(["fine", "removed", "deprecated"]), find_worst_verdict([])
    ('removed', 'fine')
    """
    return max(verdicts, key=VERDICTS.index, default=FINE)


def is_between_brokers(api_key: int) -> bool:
    """Return whether only brokers and controllers send an API's requests.

    >>> is_between_brokers(4), is_between_brokers(1)
    (True, False)
    """
    api = CATALOG.apis_by_key.get(api_key)
    return api_key in _BROKER_APIS or (api is not None and "broker" not in api.listeners)


def find_release(name: str | None) -> Release:
    """Return the release with this name, or the newest for None.

    Raises:
        OptionError: the release is unknown. The message lists the known releases.
    """
    try:
        return releases.find_release(list_releases()[-1] if name is None else name)
    except OptionError as error:
        raise OptionError(f"`target` {name}: {error}") from None


def audit_uses(uses: UsageSummary, target: Release, apis: ApiRegistry = CATALOG, *, is_strict: bool = False) -> Audit:
    """Audit all uses of APIs and record formats against a release.

    With ``is_strict``, unread input sets the exit status to 5.
    """
    findings_by_client: dict[ClientIdentity, list[AuditVerdict]] = {}
    versions: dict[ClientIdentity, dict[int, set[int]]] = {}
    for use, occurrences in uses.apis.items():
        findings_by_client.setdefault(use.client, []).append(judge_api_use(use, occurrences, target, apis))
        versions.setdefault(use.client, {}).setdefault(use.api_key, set()).add(use.api_version)
    uses_on_disk = []
    for format_use, occurrences in uses.formats.items():
        finding = judge_format_use(format_use, occurrences, target)
        if format_use.client is None:
            uses_on_disk.append(finding)
        else:
            findings_by_client.setdefault(format_use.client, []).append(finding)
    clients = [
        ClientAudit(
            client,
            tuple(sorted(findings, key=_make_sort_key)),
            _guess_unnamed_library(client, versions.get(client, {})),
        )
        for client, findings in findings_by_client.items()
    ]
    clients.sort(key=lambda judged: (-VERDICTS.index(judged.verdict), *(text or "" for text in judged.client)))
    brokers = tuple(client_audit for client_audit in clients if client_audit.is_broker)
    others = tuple(client_audit for client_audit in clients if not client_audit.is_broker)
    return Audit(
        target,
        others,
        tuple(sorted(uses_on_disk, key=_make_sort_key)),
        tuple(_list_notes(uses)),
        brokers,
        unread=tuple(uses.coverage.unread),
        harmless=tuple(uses.coverage.harmless),
        is_strict=is_strict,
    )


def _make_sort_key(finding: AuditVerdict) -> tuple[Any, ...]:
    """Return the sort key of a finding: the most severe first, then by API, version and subject."""
    return (
        -VERDICTS.index(finding.verdict),
        finding.api_key is None,
        finding.api_key or 0,
        finding.api_version or 0,
        finding.subject,
    )


def _list_notes(uses: UsageSummary) -> Iterator[str]:
    """Yield notes about the parts of the input that an audit cannot assess."""
    yield from uses.notes
    if uses.without_api:
        yield f"{uses.without_api} requests were not checked, because the input does not have their API keys"


def judge_api_use(use: ApiUse, occurrences: UseCounts, target: Release, apis: ApiRegistry = CATALOG) -> AuditVerdict:
    """Return the verdict on a client's use of one API version.

    >>> judge_api_use(ApiUse(ClientIdentity("a", None, None, None), 1, 3), UseCounts(1), find_release("4.0.1")).verdict
    'removed'
    """
    key, version = use.api_key, use.api_version
    name = apis.name_of(key) or format_api_name(key)
    subject = f"{name} {version}"
    accepted_range = target.all_apis.get(key)
    if accepted_range is None:
        verdict, reason = _judge_missing_api(key, target)
        return AuditVerdict(verdict, subject, reason, occurrences, key, version)
    min_version, max_version = accepted_range.accepted_versions.lowest, accepted_range.accepted_versions.highest
    bounds = key, version, min_version, max_version
    if key == API_VERSIONS or min_version <= version <= max_version:
        verdict, reason = FINE, f"{target.name} accepts {name} {min_version} to {max_version}"
        if version in accepted_range.deprecated_versions:
            verdict, reason = DEPRECATED, f"{target.name} deprecates this version; later releases do not have it"
    elif version > max_version:
        verdict, reason = _judge_newer_version(use, name, target, max_version)
    elif use.at_broker_limit and use.client.software_name is not None:
        verdict = FINE
        reason = (
            f"works after the upgrade: the client negotiates versions, and the broker offered no more than {version}"
        )
    elif use.at_broker_limit:
        verdict = UNKNOWN
        reason = (
            f"{target.name} accepts {name} from {min_version} on; the broker offered no more than {version}, "
            "so the client may support newer versions"
        )
    else:
        verdict, reason = REMOVED, f"{target.name} accepts {name} from {min_version} on"
    return AuditVerdict(verdict, subject, reason, occurrences, *bounds)


def _judge_missing_api(key: int, target: Release) -> tuple[str, str]:
    """Return the verdict and the reason for an API that the target does not have: it was removed, or is newer."""
    known_releases = list_releases()
    releases_with_api = [name for name in known_releases if key in find_release(name).all_apis]
    if not releases_with_api:
        return UNKNOWN, f"no known release has API {key}"
    if known_releases.index(releases_with_api[0]) > known_releases.index(target.name):
        reason = (
            f"{target.name} does not have this API yet; it was added in {releases_with_api[0]}. Clients that "
            "negotiate versions adapt"
        )
        return UNKNOWN, reason
    return (
        REMOVED,
        f"{target.name} no longer has this API; {releases_with_api[-1]} is the last known release with it",
    )


def _judge_newer_version(use: ApiUse, name: str, target: Release, highest: int) -> tuple[str, str]:
    """Return the verdict and the reason for a version above the target's highest."""
    client_release = _find_java_release(use.client)
    if client_release is None:
        reason = f"{target.name} accepts {name} up to {highest} only; it is unknown whether the client supports that"
        return UNKNOWN, reason
    min_version = (
        client_release.all_apis[use.api_key].accepted_versions.lowest if use.api_key in client_release.all_apis else 0
    )
    if min_version > highest:
        reason = (
            f"{target.name} accepts {name} up to version {highest}, but kafka-clients {client_release.name} sends at "
            "least "
            f"{min_version}"
        )
        return REMOVED, reason
    return (
        FINE,
        f"kafka-clients {client_release.name} supports {name} from version {min_version}, and {target.name} accepts "
        f"up to {highest}",
    )


def _find_java_release(client: ClientIdentity) -> Release | None:
    """Return the Kafka release of a Java client; None for other clients or unknown releases."""
    if client.software_name != JAVA_SOFTWARE_NAME or not client.software_version:
        return None
    try:
        return find_release(client.software_version)
    except OptionError:
        return None


def judge_format_use(use: FormatUse, occurrences: UseCounts, target: Release) -> AuditVerdict:
    """Return the verdict on the use of a record format.

    Brokers since 4.0 read formats 0 and 1 from disk, and do not write them (KIP-724).
    """
    subject = f"record format {use.magic} ({use.where}{'' if use.topic is None else ' of ' + use.topic})"
    verdict = DEPRECATED
    if use.magic >= _NEWEST_RECORD_FORMAT:
        verdict, reason = FINE, "the current format"
    elif _parse_version(target) < _OLD_FORMATS_REMOVED_RELEASE:
        reason = f"{target.name} accepts it; Kafka 4.0 does not write it (KIP-724)"
    elif use.where == "disk":
        reason = f"{target.name} reads it from disk; plan to convert it"
    elif use.where == "fetch":
        reason = f"{target.name} reads it from disk, but does not convert it for old clients; convert the log"
    else:
        verdict, reason = REMOVED, f"{target.name} only accepts records of format 2 (KIP-724)"
    return AuditVerdict(verdict, subject, reason, occurrences, format_use=use)


def _parse_version(release: Release) -> tuple[int, ...]:
    """Return a release's version as numbers, for comparisons."""
    return tuple(int(part) for part in release.name.split("."))


def format_api_name(key: int) -> str:
    """Return an API's name, or "API" and its key if the name is unknown.

    >>> format_api_name(3), format_api_name(999)
    ('Metadata', 'API 999')
    """
    return CATALOG.name_of(key) or f"API {key}"


def _guess_unnamed_library(client: ClientIdentity, versions: Mapping[int, set[int]]) -> LibraryGuess | None:
    """Return the probable library of a client that does not send its software name."""
    return None if client.software_name else guess_library(client.client_id, versions)


def find_first_fitting_release(target: Release) -> str | None:
    """Return the oldest release of Kafka's Java client that works with the target in all APIs.

    A client that supports version N of an API also negotiates lower versions. Therefore the result is the first release
    whose highest versions all reach the lowest versions that the target accepts.

    >>> find_first_fitting_release(find_release("4.0.1"))
    '2.1.1'
    """
    min_version = {
        key: api.accepted_versions.lowest for key, api in target.all_apis.items() if not is_between_brokers(key)
    }
    for name in list_releases():
        release_apis = find_release(name).apis_of_listener()
        if all(
            release_apis[key].accepted_versions.highest >= min_version.get(key, 0)
            for key in release_apis
            if not is_between_brokers(key)
        ):
            return name
    return None


def find_required_upgrade(client_audit: ClientAudit, target: Release) -> str | None:
    """Return the version to which a client must be upgraded; None if the upgrade does not break it."""
    removed_findings = [finding for finding in client_audit.findings if finding.verdict == REMOVED]
    if not removed_findings:
        return None
    name = find_first_fitting_release(target)
    is_java = client_audit.client.software_name == JAVA_SOFTWARE_NAME or (
        client_audit.guess is not None and client_audit.guess.library == "kafka-clients"
    )
    if name is not None and is_java:
        return f"kafka-clients {name} or later"
    required_releases = dict.fromkeys(  # removes duplicates: an API has a finding for each version
        f"{format_api_name(finding.api_key)} {finding.lowest}"
        for finding in removed_findings
        if finding.api_key is not None and finding.lowest is not None
    )
    return f"a release that supports {', '.join(required_releases)} or later" if required_releases else None
