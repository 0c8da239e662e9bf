"""Quotas in force: who is over one, and for how long its connection is not heard (KIP-13, 124, 219, 599, 612).

As Kafka's ClientQuotaManager and Rate count: what was used in the last eleven samples of a second each. Who uses more
than its quota waits as long as it takes until the mean is at the quota again. The answer says so in
``throttle_time_ms``, and the connection's next request is read after that time. A new connection above the quota of its
address is closed after that time, unheard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeAlias, TypeVar

from kafkaframes.broker.request import Request, Session

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTION = "connection_creation_rate"
_SAMPLES, _SAMPLE_MS = 11, 1000  # quota.window.num, quota.window.size.seconds
_LONGEST_MS = 1000  # for request_percentage and connections: one sample
_MOST_MS = 2**31 - 1  # that throttle_time_ms can say
_UNLIMITED = 1e18  # a second; an infinite quota, which is allowed, would make a bucket's refill no number
_STRICT_SINCE = {"CreateTopics": 6, "CreatePartitions": 3, "DeleteTopics": 5}
_NOT_COUNTED = frozenset({"SaslHandshake", "SaslAuthenticate", "ApiVersions"})
_USER = "User:"
_MOST_PAYERS = 10_000  # client ids are the clients' own words
_Counted = TypeVar("_Counted")
_Entity: TypeAlias = frozenset[tuple[str, "str | None"]]
_Payer: TypeAlias = tuple[str, str, str]  # the quota, and the user or the client id whose use is counted together


@dataclass(slots=True)
class Rate:
    """What was used, in samples of a second: (when a sample began, in milliseconds; how much)."""

    samples: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, amount: float, now_ms: float) -> None:
        """Count a use."""
        if self.samples and now_ms - self.samples[-1][0] < _SAMPLE_MS:
            began, used = self.samples.pop()
            self.samples.append((began, used + amount))
        else:
            self.samples.append((now_ms, amount))

    def over_ms(self, limit: float, now_ms: float) -> int:
        """Return for how many milliseconds nothing may be used until the mean is ``limit`` a second; 0: it is not over.

        >>> rate = Rate()
        >>> rate.add(30_000, 0)
        >>> rate.over_ms(1_000, 0), rate.over_ms(3_000, 0)
        (20000, 0)
        """
        while self.samples and now_ms - self.samples[0][0] >= _SAMPLES * _SAMPLE_MS:
            self.samples.popleft()
        if not self.samples:
            return 0
        elapsed = now_ms - self.samples[0][0]
        missing = max(_SAMPLES - 1 - int(elapsed // _SAMPLE_MS), 0)  # Rate.windowSize: as if it had begun earlier
        window_ms = elapsed + missing * _SAMPLE_MS
        mean = sum(used for _, used in self.samples) * _SAMPLE_MS / window_ms
        return round(min((mean - limit) / limit * window_ms, _MOST_MS)) if mean > limit else 0


@dataclass(slots=True)
class Bucket:
    """Changes that may still be made (TokenBucket): refilled with time, up to what a whole window has."""

    left: float
    filled_ms: float

    def refill(self, limit: float, now_ms: float) -> None:
        """Add what has come since the last time."""
        self.left = min(self.left + (now_ms - self.filled_ms) * limit / _SAMPLE_MS, limit * _SAMPLES)
        self.filled_ms = now_ms

    def over_ms(self, limit: float) -> int:
        """Return after how many milliseconds a change may be made again."""
        return round(min(-self.left / limit * _SAMPLE_MS, _MOST_MS)) if self.left < 0 else 0


@dataclass(slots=True)
class Quotas:
    """The quotas of one broker, and what is counted for them.

    Attributes:
        limits: by quota and entity, as AlterClientQuotas has set them; empty: nothing is counted.
    """

    limits: dict[str, dict[_Entity, float]] = field(default_factory=dict)
    _rates: dict[_Payer, Rate] = field(default_factory=dict)
    _buckets: dict[_Payer, Bucket] = field(default_factory=dict)

    def take_over(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Put stored quotas in force, instead of those before."""
        self.limits.clear()
        for entity_quotas in stored:
            for key, value in entity_quotas["values"].items():
                self.limits.setdefault(key, {})[_entity(entity_quotas["entity"])] = min(float(value), _UNLIMITED)
        if not self.limits:
            self._rates.clear()
            self._buckets.clear()

    def refused_ms(self, address: str, now_ms: float) -> int:
        """Count a new connection; return after how many milliseconds it is to be closed unheard, 0 if it may stay."""
        limits = self.limits.get(CONNECTION)
        if not limits:
            return 0
        address = _canonical(address)
        limit = limits.get(frozenset({("ip", address)}), limits.get(frozenset({("ip", None)})))
        if limit is None:
            return 0
        rate = _kept(self._rates, (CONNECTION, address, ""), Rate)
        rate.add(1, now_ms)
        over_ms = min(rate.over_ms(limit, now_ms), _LONGEST_MS)
        if over_ms:  # those that are refused are not counted
            rate.add(-1, now_ms)
        return over_ms

    def most_bytes(self, request: Request) -> float:
        """Return how many bytes one Fetch may have: what its quota allows in a window."""
        quota = self._of(FETCH, request)
        return float("inf") if quota is None else quota[1] * (_SAMPLES - 1)

    def charge(self, request: Request, key: str, amount: float, now_ms: float) -> int:
        """Count a use; return for how many milliseconds its connection is not to be heard."""
        quota = self._of(key, request)
        if quota is None:
            return 0
        payer, limit = quota
        rate = _kept(self._rates, payer, Rate)
        rate.add(amount, now_ms)
        over_ms = rate.over_ms(limit, now_ms)
        return min(over_ms, _LONGEST_MS) if key == REQUEST else over_ms

    def give_back(self, request: Request, key: str, amount: float, now_ms: float) -> None:
        """Take back a use that was counted now: nothing was sent."""
        quota = self._of(key, request)
        if quota is not None:
            _kept(self._rates, quota[0], Rate).add(-amount, now_ms)

    def may_change(self, request: Request, count: int, now_ms: float) -> bool:
        """Count partitions that are made or deleted; return whether they may be.

        Versions before KIP-599 know no refusal: they only wait.
        """
        quota = self._of(MUTATION, request)
        if quota is None:
            return True
        payer, limit = quota
        bucket = _kept(self._buckets, payer, lambda: Bucket(limit * _SAMPLES, now_ms))
        bucket.refill(limit, now_ms)
        only_waits = request.version < _STRICT_SINCE[request.api.name]
        may = bucket.left >= 0 or only_waits
        if may:
            bucket.left -= count
        if not may or only_waits:
            request.throttle_ms = max(request.throttle_ms, bucket.over_ms(limit))
        return may

    def _of(self, key: str, request: Request) -> tuple[_Payer, float] | None:
        """Return who pays for a request, and the quota; None if there is none."""
        limits = self.limits.get(key)
        if limits:
            for entity, user, client in _entities(request.session, request.client_id or ""):
                if entity in limits:
                    return (key, user, client), limits[entity]
        return None


def _kept(counted: dict[_Payer, _Counted], payer: _Payer, new: Callable[[], _Counted]) -> _Counted:
    """Return what is counted of a client; the one that came first makes way where there are too many."""
    if payer not in counted:
        if len(counted) >= _MOST_PAYERS:
            del counted[next(iter(counted))]
        counted[payer] = new()
    return counted[payer]


def _entity(names: Mapping[str, str | None]) -> _Entity:
    return frozenset((kind, _canonical(name) if kind == "ip" and name else name) for kind, name in names.items())


def _canonical(address: str) -> str:
    """Return an address in its one form; one of IPv4 as such, where IPv6 carries it.

    >>> _canonical("0:0::1"), _canonical("::ffff:10.0.0.1"), _canonical("fe80::1%eth0")
    ('::1', '10.0.0.1', 'fe80::1')
    """
    parsed = ip_address(address.partition("%")[0])
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def is_counted(request: Request) -> bool:
    """Return whether ``request_percentage`` counts a request."""
    return request.api.name not in _NOT_COUNTED


def _entities(session: Session, client: str) -> Iterator[tuple[_Entity, str, str]]:
    """Yield the entities whose quota a request may have, the narrowest first, each with who pays for it together."""
    user = session.principal.removeprefix(_USER)
    for of_user in (user, None):
        for of_client in (client, None):
            yield frozenset({("user", of_user), ("client-id", of_client)}), user, client
        yield frozenset({("user", of_user)}), user, ""
    for of_client in (client, None):
        yield frozenset({("client-id", of_client)}), "", client
