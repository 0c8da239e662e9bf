"""Control an embedded broker over HTTP with JSON, for tests in other languages and other processes.

``GET /`` lists the routes. Records have the form of JSON lines (``records/json_lines.py``): keys and values are text if
they are UTF-8, else ``{"base64": "..."}``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from kafkaframes.broker.network.http_server import HttpError, HttpRequest, HttpServer, Route
from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.json_lines import from_json_record, to_json_bytes, to_json_headers

if TYPE_CHECKING:
    from kafkaframes.broker import Broker

_DEFAULT_JOURNAL_LIMIT = 100  # default number of requests that GET /journal returns
_MAX_BODY_BYTES = 256 << 20  # enough for a million records of 100 bytes; only requests with a valid token are read
_OPTIONAL_STRING_TYPES = (str, type(None))
_NUMBER_TYPES = (int, float)
# Fault action -> body field that contains the action's argument, method of the rule, and type of the field.
_FAULT_ACTIONS: Mapping[str, tuple[str, str, type | tuple[type, ...]] | None] = {
    "error": ("code", "error", (str, int)),
    "delay": ("seconds", "delay", _NUMBER_TYPES),
    "throttle": ("milliseconds", "throttle", int),
    "close": None,
    "drop_reply": None,
    "ignore": None,
    "corrupt": None,
    "hold": None,
    "observe": None,
}
_OCCURRENCE_FIELDS = ("after", "times", "optional")
_CONDITION_TYPES: Mapping[str, type] = {
    "version": int,
    "topic": str,
    "partition": int,
    "client_id": str,
    "node_id": int,
}
_DISK_FAULT_ACTIONS: Mapping[str, tuple[str, type | tuple[type, ...]]] = {
    "slow": ("seconds", _NUMBER_TYPES),
    "full": ("after_bytes", int),
    "error": ("name", str),
    "torn": ("keep_bytes", int),
}


class Control:
    """An HTTP server that controls a running broker. The server listens at ``url`` until ``close``.

    Args:
        broker: broker that runs in its own thread.
        host: address to listen on.
        port: port to listen on; 0 for a free one.
        token: token that every request must contain; None for a random one.

    Attributes:
        url: URL of the server.
        token: token for the header ``Authorization: Bearer TOKEN``.
    """

    def __init__(self, broker: Broker, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        self.token = secrets.token_urlsafe(32) if token is None else token
        self._broker = broker
        self._rules: dict[int, Any] = {}
        self._disk_rules: dict[int, Any] = {}
        self._snapshots: dict[int, Any] = {}
        self._server = HttpServer(
            self._create_routes(), host=host, port=port, token=self.token, max_body_bytes=_MAX_BODY_BYTES
        )
        self.url = self._server.url
        self.port = self._server.port

    def close(self) -> None:
        """Stop the HTTP server. The broker continues to run."""
        self._server.close()

    def _create_routes(self) -> list[Route]:
        broker = self._broker
        return [
            Route("GET", "/", self._list_routes, "this list"),
            Route("GET", "/topics", self._list_topics, "topics with partitions, settings and end offsets", ()),
            Route(
                "POST",
                "/topics",
                self._create_topic,
                "create a topic; body: name, partitions, configs",
                ("name", "partitions", "configs"),
            ),
            Route("GET", "/topics/{}/records", self._list_records, "decoded records; ?partition=", ("partition",)),
            Route(
                "POST",
                "/topics/{}/records",
                self._append_records,
                "append records; body: records, partition",
                ("records", "partition"),
            ),
            Route("PUT", "/topics/{}/configs", self._configure, "change settings"),
            Route(
                "PUT", "/topics/{}/partitions/{}/leader", self._move_leader, "move the leader; body: node", ("node",)
            ),
            Route(
                "POST",
                "/topics/{}/partitions/{}/truncate",
                self._truncate,
                "truncate the log; body: offset",
                ("offset",),
            ),
            Route(
                "POST",
                "/topics/{}/partitions/{}/tear",
                self._tear_tail,
                "remove the last bytes of a killed broker's log; body: bytes",
                ("bytes",),
            ),
            Route("GET", "/groups", self._list_groups, "groups with members and offsets", ()),
            Route(
                "PUT",
                "/coordinators/{}/{}",
                self._move_coordinator,
                "move a coordinator (kind and key in the path); body: node",
                ("node",),
            ),
            Route("GET", "/transactions", self._list_transactions, "transactional ids with their partitions", ()),
            Route(
                "POST",
                "/faults",
                self._create_fault,
                f"create a fault; body: do, which is one of {', '.join(_FAULT_ACTIONS)}",
            ),
            Route(
                "GET",
                "/faults",
                self._list_faults,
                "faults with the numbers of matching requests and of occurrences",
            ),
            Route("DELETE", "/faults", self._clear_faults, "remove all faults, including disk faults"),
            Route("DELETE", "/faults/{}", self._remove_fault, "remove a fault, and release the requests that it holds"),
            Route("POST", "/faults/{}/release", self._release_requests, "release the requests that a fault holds"),
            Route(
                "POST",
                "/disk-faults",
                self._create_disk_fault,
                f"create a disk fault; body: do, which is one of {', '.join(_DISK_FAULT_ACTIONS)}",
            ),
            Route("DELETE", "/disk-faults/{}", self._remove_disk_fault, "remove a disk fault"),
            Route(
                "GET",
                "/journal",
                self._list_journal,
                "requests and responses; ?api= version= client_id= last=",
                ("api", "version", "client_id", "last"),
            ),
            Route(
                "DELETE", "/journal", lambda request: self._call_on_broker(broker.journal.clear), "clear the journal"
            ),
            Route("GET", "/report", lambda request: {"text": broker.report()}, "observed clients and API versions"),
            Route("GET", "/clock", self._get_time, "the broker's time"),
            Route("POST", "/clock/advance", self._advance_clock, "advance the clock; body: seconds", ("seconds",)),
            Route(
                "POST",
                "/kill",
                self._kill,
                "stop the broker as a crash does; body: power_cut (discard unflushed data)",
                ("power_cut",),
            ),
            Route(
                "POST", "/restart", self._restart_broker, "stop the broker if it runs, and start it on the same port"
            ),
            Route("POST", "/nodes/{}/stop", self._stop_node, "stop a virtual node"),
            Route("POST", "/nodes/{}/start", self._start_node, "start a stopped virtual node"),
            Route("POST", "/snapshots", self._take_snapshot, "store all data of the broker"),
            Route("POST", "/snapshots/{}/restore", self._restore, "restore a snapshot"),
        ]

    def _list_routes(self, request: HttpRequest) -> Any:
        return {
            "bootstrap_servers": self._broker.bootstrap_servers,
            "routes": {f"{route.method} {route.path}": route.meaning for route in self._server.routes},
        }

    # ---------------------------------------------------------------------------------------------- topics

    def _list_topics(self, request: HttpRequest) -> Any:
        return {
            name: {
                "topic_id": str(topic.topic_id),
                "partitions": topic.partitions,
                "configs": topic.configs,
                "end_offsets": list(topic.end_offsets),
            }
            for name, topic in self._broker.topics.items()
        }

    def _create_topic(self, request: HttpRequest) -> Any:
        name, partitions = request.get_field("name", str), request.get_field("partitions", int, 1)
        self._broker.create_topic(name, partitions, **_to_keyword_arguments(request.get_field("configs", dict, {})))
        return {"name": name, "partitions": partitions}

    def _configure(self, request: HttpRequest) -> None:
        self._broker.configure_topic(request.path[0], **_to_keyword_arguments(_require_object(request)))

    def _list_records(self, request: HttpRequest) -> Any:
        rows = self._broker.records(request.path[0], request.get_number("partition"))
        return [
            {
                "offset": row.offset,
                "timestamp": row.timestamp,
                "key": to_json_bytes(row.key),
                "value": to_json_bytes(row.value),
                "headers": to_json_headers({"key": key, "value": value} for key, value in row.headers or ()),
            }
            for row in rows
        ]

    def _append_records(self, request: HttpRequest) -> Any:
        rows = request.get_field("records", list)
        records = [_describe_record(row, index) for index, row in enumerate(rows)]
        base = (
            self._broker.append(request.path[0], records, partition=request.get_field("partition", int, 0))
            if records
            else None
        )
        return {"base_offset": base, "records": len(records)}

    def _move_leader(self, request: HttpRequest) -> None:
        self._broker.move_leader(request.path[0], _parse_index(request.path[1]), request.get_field("node", int))

    def _truncate(self, request: HttpRequest) -> None:
        self._broker.truncate(request.path[0], _parse_index(request.path[1]), request.get_field("offset", int))

    def _tear_tail(self, request: HttpRequest) -> Any:
        """Remove the last bytes of a killed broker's log, as a torn write does."""
        file_size = self._broker.tear_tail(
            request.path[0], _parse_index(request.path[1]), request.get_field("bytes", int)
        )
        return {"size_bytes": file_size}

    # ---------------------------------------------------------------------------------------------- coordinators

    def _list_groups(self, request: HttpRequest) -> Any:
        return {
            name: {
                "type": group.type,
                "state": group.state,
                "members": [
                    member._asdict() | {"assignment": [str(topic_partition) for topic_partition in member.assignment]}
                    for member in group.members
                ],
                "offsets": {str(topic_partition): offset for topic_partition, offset in group.offsets.items()},
            }
            for name, group in self._broker.groups.items()
        }

    def _list_transactions(self, request: HttpRequest) -> Any:
        return {
            name: transaction._asdict()
            | {"partitions": [str(topic_partition) for topic_partition in transaction.partitions]}
            for name, transaction in self._broker.transactions.items()
        }

    def _move_coordinator(self, request: HttpRequest) -> None:
        self._broker.move_coordinator(request.path[1], request.get_field("node", int), kind=request.path[0])

    # ---------------------------------------------------------------------------------------------- faults

    def _create_fault(self, request: HttpRequest) -> Any:
        action = _check_name(request.get_field("do", str), _FAULT_ACTIONS)
        conditions = {
            name: value
            for name, kind in _CONDITION_TYPES.items()
            if (value := request.get_field(name, kind, None)) is not None
        }
        argument = _FAULT_ACTIONS[action]
        request.reject_unknown_fields(
            "do", "api", *_OCCURRENCE_FIELDS, *_CONDITION_TYPES, *(() if argument is None else argument[:1])
        )
        values = None if argument is None else request.get_field(argument[0], argument[2])
        api, optional = (
            request.get_field("api", _OPTIONAL_STRING_TYPES, None),
            request.get_field("optional", bool, False),
        )

        def apply_action(rule: Any) -> None:
            if argument is not None:
                getattr(rule, argument[1])(values)
            elif action != "observe":
                getattr(rule, action)()

        return self._create_rule(
            self._rules, lambda: self._broker.on(api, optional=optional, **conditions), apply_action, request
        )

    def _create_disk_fault(self, request: HttpRequest) -> Any:
        action = _check_name(request.get_field("do", str), _DISK_FAULT_ACTIONS)
        name, kind = _DISK_FAULT_ACTIONS[action]
        request.reject_unknown_fields("do", "effect", "path", *_OCCURRENCE_FIELDS, name)
        values = request.get_field(name, kind)
        effect, path = (
            request.get_field("effect", _OPTIONAL_STRING_TYPES, None),
            request.get_field("path", _OPTIONAL_STRING_TYPES, None),
        )
        optional = request.get_field("optional", bool, False)

        def apply_action(rule: Any) -> None:
            _ = rule.full(after_bytes=values) if action == "full" else getattr(rule, action)(values)

        return self._create_rule(
            self._disk_rules, lambda: self._broker.on_disk(effect, path=path, optional=optional), apply_action, request
        )

    def _call_on_broker(self, function: Callable[[], Any]) -> Any:
        """Run a function between two requests to the broker, so that no request sees an intermediate state."""
        return self._broker.call(lambda state: function()) if self._broker.is_running else function()

    def _create_rule(
        self,
        rules: dict[int, Any],
        create: Callable[[], Any],
        apply_action: Callable[[Any], None],
        request: HttpRequest,
    ) -> Any:
        """Create a rule and store it under a new number. If an argument is invalid, the rule is removed again."""

        def create_rule() -> Any:
            rule = create()
            try:
                apply_action(rule)
                after = request.get_field("after", int, 0)
                if after:
                    rule.after(after)
                times = request.get_field("times", int, None)
                if times is not None:
                    rule.times(times)
            except (OptionError, HttpError):
                rule.remove()
                raise
            number = max(rules, default=0) + 1
            rules[number] = rule
            return {"id": number}

        return self._call_on_broker(create_rule)

    def _list_faults(self, request: HttpRequest) -> Any:
        requests = {
            number: {"api": rule.api, "count": rule.count, "occurrences": rule.occurrences}
            for number, rule in self._rules.items()
        }
        disk = {
            number: {"effect": rule.effect, "count": rule.count, "occurrences": rule.occurrences}
            for number, rule in self._disk_rules.items()
        }
        return {"faults": requests, "disk_faults": disk}

    def _clear_faults(self, request: HttpRequest) -> None:
        self._broker.clear_faults()
        self._rules.clear()
        self._disk_rules.clear()

    def _remove_fault(self, request: HttpRequest) -> None:
        rule = _find_by_number(self._rules, request)
        self._call_on_broker(rule.remove)
        del self._rules[int(request.path[0])]

    def _release_requests(self, request: HttpRequest) -> Any:
        rule = _find_by_number(self._rules, request)
        return {"released": self._call_on_broker(rule.release)}

    def _remove_disk_fault(self, request: HttpRequest) -> None:
        _find_by_number(self._disk_rules, request).remove()
        del self._disk_rules[int(request.path[0])]

    # ---------------------------------------------------------------------------------------------- journal and life

    def _list_journal(self, request: HttpRequest) -> Any:
        result = self._broker.journal.requests(
            request.query.get("api"), version=request.get_number("version"), client_id=request.query.get("client_id")
        )
        last = request.get_number("last", _DEFAULT_JOURNAL_LIMIT) or 0
        return [_describe_entry(entry) for entry in result[-last:]] if last > 0 else []

    def _get_time(self, request: HttpRequest) -> Any:
        return {"now_ms": self._broker.clock.now_ms}

    def _advance_clock(self, request: HttpRequest) -> Any:
        seconds = request.get_field("seconds", _NUMBER_TYPES)
        if not 0 <= seconds <= 1e9:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"`seconds` must be between 0 and 1e9, not {seconds}")
        self._broker.clock.advance(seconds)
        return self._get_time(request)

    def _kill(self, request: HttpRequest) -> None:
        self._broker.kill(power_cut=request.get_field("power_cut", bool, False))

    def _restart_broker(self, request: HttpRequest) -> Any:
        self._broker.restart()
        return {"bootstrap_servers": self._broker.bootstrap_servers}

    def _stop_node(self, request: HttpRequest) -> None:
        self._broker.stop_node(_parse_index(request.path[0]))

    def _start_node(self, request: HttpRequest) -> None:
        self._broker.start_node(_parse_index(request.path[0]))

    def _take_snapshot(self, request: HttpRequest) -> Any:
        number = len(self._snapshots) + 1
        self._snapshots[number] = self._broker.snapshot()
        return {"id": number}

    def _restore(self, request: HttpRequest) -> None:
        self._broker.restore(_find_by_number(self._snapshots, request))


def _check_name(name: str, values_by_name: Mapping[str, Any]) -> str:
    """Return the name. If the name is not a key of the mapping, the error lists the valid names."""
    if name not in values_by_name:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"unknown {name[:60]!r}; expected one of {', '.join(values_by_name)}")
    return name


def _parse_index(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the path must contain an integer, not {text[:60]!r}")
    return int(text)


def _find_by_number(rows: dict[int, Any], request: HttpRequest) -> Any:
    """Return the row whose number is in the request's path."""
    number = _parse_index(request.path[0])
    if number not in rows:
        raise HttpError(HTTPStatus.NOT_FOUND, f"number {number} does not exist")
    return rows[number]


def _require_object(request: HttpRequest) -> dict[str, Any]:
    """Return the request's body, which must be a JSON object."""
    if not isinstance(request.body, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
    return request.body


def _to_keyword_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings as keyword arguments, with the dots of Kafka's names replaced by underscores."""
    return {
        key.replace(".", "_"): value if isinstance(value, bool | int) else str(value) for key, value in values.items()
    }


def _describe_record(row: Any, index: int) -> dict[str, Any]:
    try:
        return from_json_record(row)
    except EncodeError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"record {index}: {error}") from None


def _describe_entry(entry: Any) -> dict[str, Any]:
    return {
        **{name: getattr(entry, name) for name in ("number", "api", "version", "connection", "peer", "client_id")},
        "software": list(entry.software),
        **{name: getattr(entry, name) for name in ("received_ms", "duration_ms", "fault")},
        "request": _body_to_json(entry.body, entry.version),
        "response": _body_to_json(entry.answer, entry.version),
    }


def _body_to_json(body: Any, version: int) -> Any:
    """Return Kafka's JSON form of a body, with the size instead of the bytes of records; None for a missing body."""
    return body.to_json(version, records="size") if hasattr(body, "to_json") else None
