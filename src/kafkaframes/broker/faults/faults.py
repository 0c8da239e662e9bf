"""Faults for requests: rules that change how the broker answers matching requests. ``Faults`` is a hook of the
dispatcher.

``broker.on("Produce", version=..., topic=...)`` creates a rule, and the rule's methods define its fault. A rule without
a fault only counts requests. Rules are tried in order of their creation; the first rule that matches and has a fault
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from kafkaframes.broker.faults.rules import RuleBase, RuleHistory, find_caller_line, format_call
from kafkaframes.broker.requests.api import Answer, CloseConnection, DeferredResponse, map_answer
from kafkaframes.broker.requests.failures import build_failure_response, flip_bytes
from kafkaframes.broker.requests.request import Request
from kafkaframes.broker.state.clock import Clock
from kafkaframes.broker.state.fetch_sessions import INITIAL_EPOCH
from kafkaframes.errors import ErrorCode, OptionError

if TYPE_CHECKING:
    from kafkaframes.broker.state.state import BrokerState

Handler = Callable[[], Answer]
FAULT_CONDITIONS = ("version", "topic", "partition", "client_id", "node_id", "where")


@dataclass(slots=True, eq=False, repr=False)
class Rule(RuleBase):
    """A rule for requests, created by ``Faults.on``.

    Attributes:
        api: name of the API; None matches every API.
        requests: matching requests, oldest first.
    """

    api: str | None
    clock: Clock
    state: Callable[[], BrokerState | None]
    version: int | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    node_id: int | None = None
    where: Callable[[Request], bool] | None = None
    requests: list[Request] = field(default_factory=list)
    _act: Callable[[Request, Handler], Answer] | None = None
    _held_requests: list[Callable[[], None]] = field(default_factory=list)
    _description: str = ""

    def error(self, code: str | int) -> Self:
        """Answer with an error code, by name or number. The request is not handled.

        Raises:
            OptionError: the error name is unknown.
        """
        if isinstance(code, str) and code not in ErrorCode.__members__:
            suggestions = get_close_matches(code, ErrorCode.__members__, 1)
            raise OptionError(
                f"unknown error code {code!r}" + (f"; did you mean {suggestions[0]}?" if suggestions else "")
            )
        number = ErrorCode[code] if isinstance(code, str) else code
        return self._set_action(
            f"error {code}", lambda request, _: build_failure_response(request, number), "error", code
        )

    def delay(self, seconds: float) -> Self:
        """Handle the request, and delay the response by ``seconds`` of the broker's clock."""
        return self._set_action(
            f"delayed {seconds} s",
            lambda request, call_next: self._delay_response(seconds, call_next),
            "delay",
            seconds,
        )

    def close(self) -> Self:
        """Close the connection without handling the request."""
        return self._set_action("closed", _close, "close")

    def drop_reply(self) -> Self:
        """Handle the request, and close the connection instead of answering. A producer then sends the batch again."""
        return self._set_action("handled, and the response dropped", _drop_response, "drop_reply")

    def ignore(self) -> Self:
        """Neither handle matching requests nor answer them. The connection stays open."""
        return self._set_action("never answered", lambda request, call_next: DeferredResponse(), "ignore")

    def corrupt(self) -> Self:
        """Handle the request, and corrupt the records in the response so that their CRC does not match."""
        return self._set_action("records corrupted", lambda request, call_next: flip_bytes(call_next()), "corrupt")

    def throttle(self, milliseconds: int) -> Self:
        """Handle the request, and set ``throttle_time_ms`` in the response (KIP-219)."""

        def apply_throttle(_: Request, call_next: Handler) -> Answer:
            """Handle the request, and set the throttle time of the response."""
            throttled_answer: Answer = map_answer(call_next(), lambda answer: _set_throttle_time(answer, milliseconds))
            return throttled_answer

        return self._set_action(f"throttled {milliseconds} ms", apply_throttle, "throttle", milliseconds)

    def tag(self, header_tags: Iterable[tuple[int, bytes]]) -> Self:
        """Handle the request, and add tagged fields to the response header if its version supports them."""
        tags = list(header_tags)

        def apply_tags(request: Request, call_next: Handler) -> Answer:
            """Add the tags to the response header, and handle the request."""
            request.answer_tags += tags
            return call_next()

        return self._set_action(f"tagged {', '.join(str(tag) for tag, _ in tags)}", apply_tags, "tag", tags)

    def hold(self) -> Self:
        """Hold requests until ``release`` is called. Requests of other connections are handled in the meantime."""
        return self._set_action("held", self._hold_request, "hold")

    def answer(self, make: Callable[[Request], Any]) -> Self:
        """Answer with the result of ``make(request)``: a ``request.response(...)``, or None to send no response."""
        return self._set_action("answered by a test", lambda request, call_next: make(request), "answer", make)

    def call(self, watch: Callable[[Request], None]) -> Self:
        """Call ``watch`` with each matching request, and handle the request as usual."""

        def apply_call(request: Request, call_next: Handler) -> Answer:
            """Call ``watch``, and handle the request."""
            watch(request)
            return call_next()

        return self._set_action("", apply_call, "call", watch)

    def _set_action(
        self, description: str, apply_fault: Callable[[Request, Handler], Answer], method: str, *arguments: object
    ) -> Self:
        """Set what the rule does with a request, and record the call for its description."""
        self._description, self._act = description, apply_fault
        return self._record_call(method, *arguments)

    @property
    def has_action(self) -> bool:
        """Whether the rule has a fault; otherwise it only counts requests."""
        return self._act is not None

    @property
    def count(self) -> int:
        """The number of matching requests."""
        return len(self.requests)

    def describe(self) -> str:
        """Return the calls that created the rule."""
        conditions = {name: getattr(self, name) for name in FAULT_CONDITIONS}
        return self._chain(format_call("on", self.api, **conditions, optional=self.is_optional))

    def remove(self) -> None:
        """Stop matching requests, and release the held requests."""
        self.is_removed = True
        self.release()

    def release(self) -> int:
        """Handle the held requests in order of their arrival; return their number."""
        held_requests, self._held_requests = self._held_requests, []
        for call_next in held_requests:
            call_next()
        return len(held_requests)

    def matches(self, request: Request) -> bool:
        """Return whether the rule matches a request."""
        if self.is_over or self.api not in (None, request.api.name):
            return False
        conditions = (
            (self.version, request.version),
            (self.client_id, request.client_id),
            (self.node_id, request.session.node_id),
        )
        if any(
            expected_value is not None and expected_value != actual_value for expected_value, actual_value in conditions
        ):
            return False
        if (self.topic is not None or self.partition is not None) and not self._matches_partition(request):
            return False
        return self.where is None or self.where(request)

    def _matches_partition(self, request: Request) -> bool:
        """Return whether the request has a topic partition that the rule selects."""
        return any(
            (self.topic is None or topic == self.topic) and (self.partition is None or index == self.partition)
            for topic, index in iterate_topic_partitions(request.body, self.state())
        )

    def match(self, request: Request) -> Callable[[Handler], Answer] | None:
        """Count a matching request.

        Return a function that applies the fault, or None to handle the request as usual.
        """
        self.requests.append(request)
        if self.skip:
            self.skip -= 1
            return None
        if self._act is None:
            return None
        if self.left is not None:
            self.left -= 1
        self.occurrences += 1
        apply_fault = self._act
        if request.journal_entry is not None and self._description:
            request.journal_entry.fault = self._description
        return lambda call_next: apply_fault(request, call_next)

    def _delay_response(self, seconds: float, call_next: Handler) -> Answer:
        """Handle the request, and send the response after a delay."""
        answer, response = call_next(), DeferredResponse()
        self.clock.call_later(seconds * 1000, lambda: response.follow(answer))
        return response

    def _hold_request(self, request: Request, call_next: Handler) -> Answer:
        """Keep the request until the rule is released."""
        response = DeferredResponse()
        self._held_requests.append(lambda: response.follow(call_next()))
        return response


class Faults:
    """The request rules of a broker. ``state`` returns the current broker state, which maps topic ids to names."""

    def __init__(
        self,
        clock: Clock,
        state: Callable[[], BrokerState | None] = lambda: None,
        history: RuleHistory | None = None,
    ) -> None:
        self._clock = clock
        self._state = state
        self.history = history or RuleHistory()
        self.rules: list[Rule] = []

    def on(self, api: str | None = None, *, optional: bool = False, **conditions: Any) -> Rule:
        """Create a rule for requests, as ``Broker.on`` does."""
        from kafkaframes.broker.dispatch.table import collect_apis

        names = {api_class.name for api_class in collect_apis().values()}
        if api is not None and api not in names:
            suggestions = get_close_matches(api, names, 1)
            hint = f"did you mean {suggestions[0]!r}? " if suggestions else ""
            raise OptionError(f"unknown API {api!r}; {hint}expected {', '.join(sorted(names))}")
        for name in conditions:
            if name not in FAULT_CONDITIONS:
                suggestions = get_close_matches(name, FAULT_CONDITIONS, 1)
                hint = f"did you mean {suggestions[0]!r}? " if suggestions else ""
                raise OptionError(f"unknown condition {name}; {hint}expected {', '.join(FAULT_CONDITIONS)}")
        rule = Rule(
            api,
            self._clock,
            self._state,
            is_optional=optional,
            origin=find_caller_line(),
            history=self.history,
            **conditions,
        )
        self.rules.append(rule)
        self.history.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules, and release the requests that they hold."""
        rules, self.rules = self.rules, []
        for rule in rules:
            rule.remove()

    def before(self, request: Request) -> Callable[[Handler], Answer] | None:
        """Return the fault of the first rule that matches the request and has one; None if no rule does."""
        if not self.rules:
            return None
        self.rules = [rule for rule in self.rules if not rule.is_removed]
        for rule in self.rules:
            if rule.matches(request):
                rule_pass = rule.match(request)
                if rule_pass is not None:
                    return rule_pass
        return None

    def after(self, request: Request, answer: Answer) -> None:
        """Do nothing: faults change the response before this hook is called."""


def iterate_topic_partitions(body: Any, state: BrokerState | None = None) -> Iterator[tuple[str | None, int | None]]:
    """Yield (topic, partition) for each partition in a request of any API.

    Names of topics that are listed by id, and the partitions of a fetch session (KIP-227), require ``state``.
    """
    for topics in ("topic_data", "topics", "v3_and_below_topics"):
        for topic in getattr(body, topics, None) or ():
            name = topic if isinstance(topic, str) else _get_topic_name(topic, state)
            rows = next((rows for key in _PARTITION_FIELDS if (rows := getattr(topic, key, None))), ())
            if not rows:
                yield name, None
            for row in rows:
                yield name, _get_partition_index(row)
    if state is not None and getattr(body, "session_epoch", -1) > INITIAL_EPOCH and hasattr(body, "session_id"):
        for (topic_name, topic_id, index), fetched_partition in state.fetch_sessions.list_partitions(body.session_id):
            yield fetched_partition.name or topic_name or _find_name_by_id(topic_id, state), index


def _get_topic_name(topic: Any, state: BrokerState | None) -> str | None:
    """Return the topic name of an object in a request, from its name or id."""
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    return name or _find_name_by_id(getattr(topic, "topic_id", None), state)


def _find_name_by_id(topic_id: UUID | None, state: BrokerState | None) -> str | None:
    """Return the name of a topic by its id; None if it is unknown."""
    topic = None if state is None or topic_id is None else state.topics_by_id.get(topic_id)
    return None if topic is None else topic.name


_PARTITION_FIELDS = ("partition_data", "partitions", "partition_indexes")


def _get_partition_index(row: Any) -> int | None:
    """Return the partition number of an object in a request."""
    if isinstance(row, int):
        return row
    for key in ("index", "partition_index", "partition"):
        index = getattr(row, key, None)
        if index is not None:
            return int(index)
    return None


def _close(request: Request, call_next: Handler) -> Answer:
    """Close the connection without handling the request."""
    raise CloseConnection("a fault closed the connection")


def _drop_response(request: Request, call_next: Handler) -> Answer:
    """Handle the request, and close the connection without sending the response."""
    call_next()
    raise CloseConnection("a fault dropped the response")


def _set_throttle_time(answer: Any, milliseconds: int) -> Any:
    if hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = milliseconds
    return answer
