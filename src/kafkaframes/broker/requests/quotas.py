"""Client quotas, which limit the rates of clients by throttling (KIP-13, 124, 219, 599, 612).

As in Kafka's ClientQuotaManager and Rate, usage is counted in the last eleven samples of one second. A client that
exceeds its quota is throttled until its mean rate equals the quota. The response contains the throttle time as
``throttle_time_ms``, and the connection's next request is read after the throttle time. A new connection above the
quota of its address is closed after the throttle time, without a response.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeAlias, TypeVar

from kafkaframes.broker.requests.request import Request, Session
from kafkaframes.wire.integers import MAX_INT32

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTION_RATE_KEY = "connection_creation_rate"
_SAMPLES, _SAMPLE_MS = 11, 1000  # quota.window.num, quota.window.size.seconds
_MAX_THROTTLE_MS = 1000  # longest throttle time of the request_percentage and connection quotas: one sample
_UNLIMITED_RATE = 1e18  # per second; replaces an infinite quota, with which the refill of a bucket would be NaN
_FIRST_STRICT_VERSIONS = {"CreateTopics": 6, "CreatePartitions": 3, "DeleteTopics": 5}
_UNCOUNTED_APIS = frozenset({"SaslHandshake", "SaslAuthenticate", "ApiVersions"})
_USER_PREFIX = "User:"
_MAX_BUCKETS = 10_000  # bounds the memory, because clients choose their client ids
_SamplesT = TypeVar("_SamplesT")
_Entity: TypeAlias = frozenset[tuple[str, "str | None"]]
_Payer: TypeAlias = tuple[str, str, str]  # quota key, user and client id: the key of a usage count


@dataclass(slots=True)
class UsageRate:
    """The rate of a client's usage, from samples of one second: pairs of start in milliseconds and amount."""

    samples: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, amount: float, now_ms: float) -> None:
        """Add an amount to the current sample."""
        if self.samples and now_ms - self.samples[-1][0] < _SAMPLE_MS:
            start_ms, used_amount = self.samples.pop()
            self.samples.append((start_ms, used_amount + amount))
        else:
            self.samples.append((now_ms, amount))

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Return the milliseconds until the mean is at most ``limit`` a second; 0 if it is not above ``limit``.

        >>> rate = UsageRate()
        >>> rate.add(30_000, 0)
        >>> rate.throttle_ms(1_000, 0), rate.throttle_ms(3_000, 0)
        (20000, 0)
        """
        while self.samples and now_ms - self.samples[0][0] >= _SAMPLES * _SAMPLE_MS:
            self.samples.popleft()
        if not self.samples:
            return 0
        elapsed_ms = now_ms - self.samples[0][0]
        # Like Kafka's Rate.windowSize, this assumes a full window.
        missing_samples = max(_SAMPLES - 1 - int(elapsed_ms // _SAMPLE_MS), 0)
        window_ms = elapsed_ms + missing_samples * _SAMPLE_MS
        mean = sum(used_amount for _, used_amount in self.samples) * _SAMPLE_MS / window_ms
        return round(min((mean - limit) / limit * window_ms, MAX_INT32)) if mean > limit else 0


@dataclass(slots=True)
class TokenBucket:
    """A token bucket that limits the rate of topic and partition changes (Kafka's TokenBucket).

    The bucket is refilled over time, up to the number of tokens for a whole window.
    """

    remaining_tokens: float
    filled_ms: float

    def refill(self, limit: float, now_ms: float) -> None:
        """Add the tokens for the time since the last refill."""
        self.remaining_tokens = min(
            self.remaining_tokens + (now_ms - self.filled_ms) * limit / _SAMPLE_MS, limit * _SAMPLES
        )
        self.filled_ms = now_ms

    def throttle_ms(self, limit: float) -> int:
        """Return the milliseconds until a change is allowed again; 0 if a change is allowed now."""
        return round(min(-self.remaining_tokens / limit * _SAMPLE_MS, MAX_INT32)) if self.remaining_tokens < 0 else 0


@dataclass(slots=True)
class Quotas:
    """The quotas of a broker, and the usage of its clients.

    Attributes:
        limits: quotas by key and entity, as set by AlterClientQuotas; if empty, usage is not counted.
    """

    limits: dict[str, dict[_Entity, float]] = field(default_factory=dict)
    _rates: dict[_Payer, UsageRate] = field(default_factory=dict)
    _buckets: dict[_Payer, TokenBucket] = field(default_factory=dict)

    def load(self, stored_quotas: Iterable[Mapping[str, Any]]) -> None:
        """Replace all quotas with the stored quotas."""
        self.limits.clear()
        for entity_quotas in stored_quotas:
            for key, value in entity_quotas["values"].items():
                self.limits.setdefault(key, {})[_build_entity(entity_quotas["entity"])] = min(
                    float(value), _UNLIMITED_RATE
                )
        if not self.limits:
            self._rates.clear()
            self._buckets.clear()

    def count_connection(self, address: str, now_ms: float) -> int:
        """Count a new connection.

        Return 0, or the milliseconds after which the connection must be closed without a response.
        """
        limits = self.limits.get(CONNECTION_RATE_KEY)
        if not limits:
            return 0
        address = _normalize_address(address)
        limit = limits.get(frozenset({("ip", address)}), limits.get(frozenset({("ip", None)})))
        if limit is None:
            return 0
        rate = _get_or_create(self._rates, (CONNECTION_RATE_KEY, address, ""), UsageRate)
        rate.add(1, now_ms)
        over_ms = min(rate.throttle_ms(limit, now_ms), _MAX_THROTTLE_MS)
        if over_ms:  # rejected connections are not counted
            rate.add(-1, now_ms)
        return over_ms

    def get_max_response_bytes(self, request: Request) -> float:
        """Return the largest size of a Fetch response: the bytes that the client's quota allows in a window."""
        quota = self._find_payer_and_limit(FETCH, request)
        return float("inf") if quota is None else quota[1] * (_SAMPLES - 1)

    def charge(self, request: Request, key: str, amount: float, now_ms: float) -> int:
        """Count usage; return the throttle time in milliseconds."""
        quota = self._find_payer_and_limit(key, request)
        if quota is None:
            return 0
        payer, limit = quota
        rate = _get_or_create(self._rates, payer, UsageRate)
        rate.add(amount, now_ms)
        over_ms = rate.throttle_ms(limit, now_ms)
        return min(over_ms, _MAX_THROTTLE_MS) if key == REQUEST else over_ms

    def refund(self, request: Request, key: str, amount: float, now_ms: float) -> None:
        """Remove usage that was counted for data that is not sent."""
        quota = self._find_payer_and_limit(key, request)
        if quota is not None:
            _get_or_create(self._rates, quota[0], UsageRate).add(-amount, now_ms)

    def may_change(self, request: Request, count: int, now_ms: float) -> bool:
        """Count created or deleted partitions; return whether the change is allowed.

        Requests of versions before KIP-599 are never rejected, only throttled.
        """
        quota = self._find_payer_and_limit(MUTATION, request)
        if quota is None:
            return True
        payer, limit = quota
        bucket = _get_or_create(self._buckets, payer, lambda: TokenBucket(limit * _SAMPLES, now_ms))
        bucket.refill(limit, now_ms)
        only_waits = request.version < _FIRST_STRICT_VERSIONS[request.api.name]
        is_allowed = bucket.remaining_tokens >= 0 or only_waits
        if is_allowed:
            bucket.remaining_tokens -= count
        if not is_allowed or only_waits:
            request.throttle_ms = max(request.throttle_ms, bucket.throttle_ms(limit))
        return is_allowed

    def _find_payer_and_limit(self, key: str, request: Request) -> tuple[_Payer, float] | None:
        """Return the client that a request's usage is charged to, and its limit; None if no quota applies."""
        limits = self.limits.get(key)
        if limits:
            for entity, user, client in _iterate_entities(request.session, request.client_id or ""):
                if entity in limits:
                    return (key, user, client), limits[entity]
        return None


def _get_or_create(
    samples_by_payer: dict[_Payer, _SamplesT], payer: _Payer, create_samples: Callable[[], _SamplesT]
) -> _SamplesT:
    """Return the usage of a client. If there are too many clients, the oldest entry is removed."""
    if payer not in samples_by_payer:
        if len(samples_by_payer) >= _MAX_BUCKETS:
            del samples_by_payer[next(iter(samples_by_payer))]
        samples_by_payer[payer] = create_samples()
    return samples_by_payer[payer]


def _build_entity(names: Mapping[str, str | None]) -> _Entity:
    return frozenset(
        (kind, _normalize_address(name) if kind == "ip" and name else name) for kind, name in names.items()
    )


def _normalize_address(address: str) -> str:
    """Return the canonical form of an IP address; an IPv4-mapped IPv6 address as IPv4.

    >>> _normalize_address("0:0::1"), _normalize_address("::ffff:10.0.0.1"), _normalize_address("fe80::1%eth0")
    ('::1', '10.0.0.1', 'fe80::1')
    """
    ip_or_network = ip_address(address.partition("%")[0])
    return str(getattr(ip_or_network, "ipv4_mapped", None) or ip_or_network)


def is_counted(request: Request) -> bool:
    """Return whether ``request_percentage`` counts a request."""
    return request.api.name not in _UNCOUNTED_APIS


def _iterate_entities(session: Session, client: str) -> Iterator[tuple[_Entity, str, str]]:
    """Yield the entities with quotas that may apply to a request, most specific first, with the payer of each."""
    user = session.principal.removeprefix(_USER_PREFIX)
    for entity_user in (user, None):
        for entity_client in (client, None):
            yield frozenset({("user", entity_user), ("client-id", entity_client)}), user, client
        yield frozenset({("user", entity_user)}), user, ""
    for entity_client in (client, None):
        yield frozenset({("client-id", entity_client)}), "", client
