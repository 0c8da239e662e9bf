"""Read a broker's request log (``kafka.request.logger``) as rows of calls.

A request log needs no capture and works with TLS.

Three line formats are supported, with any layout of the log appender: JSON (2.7 and later); ``RequestHeader(...) --
{...}`` and ``{api_key=...} -- {...}`` (before 2.7); ``Name: ...; Version: ...`` (the Scala requests of 0.8 to 1.0). The
time of a line is the end of the call, in the broker's time zone. The log does not specify the zone, so UTC is assumed.

Data that a log lacks are null: sizes on the wire, records, and bodies below level TRACE. An INFO log contains only
requests that the broker considers deprecated. If a body is missing, ``_error`` contains the reason.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import UnionType
from typing import Any, Final

from kafkaframes.capture.columns import CALLS_TABLE_COLUMNS
from kafkaframes.capture.coverage import DAMAGED, Coverage, UnreadData
from kafkaframes.capture.files import open_bytes
from kafkaframes.capture.tables import BodyConverter
from kafkaframes.errors import DecodeError, KafkaframesError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE, has_secrets, redact_json
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan, plan_message
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry

# ---------------------------------------------------------------------------------------------------------------------
# Parser of the text form of messages in brokers before 2.7: ``{topics=[{topic=orders,partitions=[0]}],acks=-1}``.
#
# Texts are not quoted, so a text with a comma or bracket is ambiguous. Such values are parsed as well as possible.

_FIELD_NAME_PATTERN: Final = re.compile(r"([A-Za-z_]\w*)=")
_VALUE_END_PATTERN: Final = re.compile(r"[,}]")
_INTEGER_PATTERN: Final = re.compile(r"-?\d+")
_RECORDS_SIZE_PATTERN: Final = re.compile(r"(?:size|sizeInBytes|buffer)=(\d+)|lim=(\d+)|records\((\d+)")
MAX_STRUCT_DEPTH: Final = 64


def parse_struct(text: str) -> dict[str, Any]:
    """Return the fields of a struct: texts, lists and structs. Numbers are not converted.

    >>> parse_struct("{api_key=3,topics=[orders,{a=1}],client_id=x y}")
    {'api_key': '3', 'topics': ['orders', {'a': '1'}], 'client_id': 'x y'}

    Raises:
        ValueError: the text is not a struct in braces.
    """
    value, _ = _parse_value(text, 0, 0)
    if not isinstance(value, dict):
        raise ValueError("expected a struct in braces")
    return value


def _parse_value(text: str, position: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_STRUCT_DEPTH:
        raise ValueError("structs are nested too deeply")
    if text.startswith("{", position):
        return _parse_struct_fields(text, position + 1, depth)
    if text.startswith("[", position):
        return _parse_list(text, position + 1, depth)
    return _parse_plain_value(text, position)


def _parse_struct_fields(text: str, position: int, depth: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    while position < len(text) and text[position] != "}":
        match = _FIELD_NAME_PATTERN.match(text, position)
        if match is None:
            end = _VALUE_END_PATTERN.search(text, position)
            position = len(text) if end is None else end.start() + (end[0] == ",")
            continue
        result[match.group(1)], position = _parse_value(text, match.end(), depth + 1)
        if text.startswith(",", position):
            position += 1
    return result, position + 1


def _parse_list(text: str, position: int, depth: int) -> tuple[list[Any], int]:
    result = []
    # The list also ends at a brace, which ends the struct that contains the list.
    while position < len(text) and text[position] not in "]}":
        value, position = _parse_value(text, position, depth + 1)
        result.append(value)
        if text.startswith(",", position):
            position += 1
    return result, position + text.startswith("]", position)


def _parse_plain_value(text: str, position: int) -> tuple[str, int]:
    """Parse a value up to the next comma or bracket outside its own brackets (java.nio.HeapByteBuffer[...])."""
    start, depth = position, 0
    while position < len(text):
        char = text[position]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0 and char != ")":
                break
            depth = max(depth - 1, 0)
        elif char == "," and depth == 0:
            break
        position += 1
    return text[start:position], position


def convert_fields(value: dict[str, Any], plan: StructPlan | None) -> dict[str, Any]:
    """Return fields with their JSON names and the types of the plan. Types of unknown fields are guessed."""
    fields = {} if plan is None else {field.json_name: field for field in (*plan.fields, *plan.tagged_fields)}
    result: dict[str, Any] = {}
    for name, entry in value.items():
        if name == "_tagged_fields":
            continue
        json_name = _to_camel_case(name)
        field = fields.get(json_name)
        if (field is not None and field.type == "records") or name in ("record_set", "records"):
            result[f"{json_name}SizeInBytes"] = _parse_records_size(entry)
        else:
            result[json_name] = _convert_value(entry, field)
    return result


def _to_camel_case(name: str) -> str:
    first, *further_words = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in further_words)


def _parse_records_size(text: Any) -> int | None:
    match = _RECORDS_SIZE_PATTERN.search(str(text))
    return next((int(group) for group in match.groups() if group), None) if match else None


def _convert_value(value: Any, field: FieldPlan | None) -> Any:
    """Return a parsed value in the type of its field. The type is guessed for an unknown field."""
    if isinstance(value, dict):
        return convert_fields(value, None if field is None else field.struct)
    if isinstance(value, list):
        return [_convert_value(item, field) for item in value]
    if value == "null":
        return None
    kind = None if field is None else field.type
    if kind in ("string", "uuid", "bytes"):
        return value
    if kind == "bool" or value in ("true", "false"):
        return value == "true"
    return int(value) if _INTEGER_PATTERN.fullmatch(value) else value


# ---------------------------------------------------------------------------------------------------------------------

COMPLETED_REQUEST_TEXT: Final = "Completed request:"
MAX_LINE_BYTES: Final = 256 << 20
_TIME_PATTERN: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?")
_LEVEL_PATTERN: Final = re.compile(r"\b(TRACE|DEBUG|INFO)\b")
_OLD_HEADER_PATTERN: Final = re.compile(
    r"RequestHeader\(apiKey=(\w+), apiVersion=(-?\d+), clientId=(.*?), correlationId=(-?\d+)(?:, headerVersion=\d+)?\)"
    r"(?: -- |\s*$)"
)
_SCALA_REQUEST_PATTERN: Final = re.compile(
    r"Name: ?(\w+?)(?:Request)?; Version: ?(\d+); CorrelationId: ?(-?\d+); ?ClientId: ?(.*?);"
)
_CONNECTION_PATTERN: Final = re.compile(r" from (?:connection|client) ([^;,\s]+);(totalTime:)?")
_LOGGER_PATTERN: Final = re.compile(r"[\w.$]+\)")
_SOFTWARE_MARK: Final = "clientInformation:ClientInformation(softwareName="
_SOFTWARE_PATTERN: Final = re.compile(r"([^,]*), softwareVersion=([^)]*)\)")
_PORT_PATTERN: Final = re.compile(r":(\d+)$")
_CONNECTION_NUMBER_PATTERN: Final = re.compile(r"[\d-]*")
_NO_BODY_REASON: Final = "not in the log (its level is {})"
_COLUMN_NAMES: Final = tuple(column.name for column in CALLS_TABLE_COLUMNS)
Row = dict[str, Any]


EMPTY_FILE_REASON: Final = "the file is empty"
FOREIGN_FILE_REASON: Final = "neither a capture nor a request log: no line contains a completed request"
UNREADABLE_LINE_REASON: Final = "a completed request that cannot be read"


class LogReader:
    """A reader of a request log, which adds unreadable parts to a coverage report."""

    def __init__(self, path: str, coverage: Coverage, *, is_alone: bool = True) -> None:
        """Set up the reader. The file is opened during iteration.

        Args:
            path: path of the request log.
            coverage: report to which unread data are added.
            is_alone: whether to raise if the file is not a request log, instead of adding an entry to the coverage.
        """
        self.path, self.coverage, self._is_alone = path, coverage, is_alone

    def iterate_rows(
        self, *, secrets: bool = False, apis: ApiRegistry = CATALOG, names_of: str | None = None
    ) -> Iterator[Row]:
        """Yield a row for each call, keyed by the column names of the table of calls. Skip other lines.

        Raises:
            DecodeError: the only file is not a request log.
        """
        named_bodies = None if names_of is None else BodyConverter(names_of, apis)
        lines = calls = 0
        for lines, line in enumerate(self._iterate_lines(), 1):  # noqa: B007
            row = parse_row(line, secrets=secrets, apis=apis)
            if row is None:
                continue
            calls += 1
            if row["apiKey"] is None:
                self.coverage.add(UnreadData(DAMAGED, UNREADABLE_LINE_REASON, self.path, lines=1))
            elif named_bodies is not None:
                for direction in (REQUEST, RESPONSE):
                    row[f"{direction}Named"] = named_bodies.convert_body(row[direction], row["apiKey"], direction)
            yield row | {"file": self.path}
        if lines and not calls:
            self._report_foreign_file(FOREIGN_FILE_REASON)
        elif not lines and not self._has_damage():
            self.coverage.add(UnreadData(DAMAGED, EMPTY_FILE_REASON, self.path))

    def _iterate_lines(self) -> Iterator[str]:
        """Yield the decompressed lines up to the first damage."""
        with open_bytes(self.path) as file:
            untyped_file: Any = file
            text = io.TextIOWrapper(io.BufferedReader(untyped_file), "utf-8", "replace")
            try:
                while line := text.readline(MAX_LINE_BYTES):
                    yield line
            except DecodeError as error:
                self.coverage.add(UnreadData(DAMAGED, error.reason, self.path))
            except OSError as error:
                self.coverage.add(UnreadData(DAMAGED, f"cannot be read: {error.strerror or error}", self.path))

    def _has_damage(self) -> bool:
        return any(entry.file == self.path for entry in self.coverage.unread)

    def _report_foreign_file(self, reason: str) -> None:
        """Report that the file is not a request log."""
        if self._is_alone:
            raise DecodeError(reason, file=self.path, position=0)
        self.coverage.add(UnreadData(DAMAGED, reason, self.path))


def parse_row(line: str, *, secrets: bool = False, apis: ApiRegistry = CATALOG) -> Row | None:
    """Return the call of a log line; ``None`` if the line has no call. Unreadable parts are reported in ``_error``."""
    index = line.find(COMPLETED_REQUEST_TEXT)
    if index < 0:
        return None
    prefix, text = line[:index], line[index + len(COMPLETED_REQUEST_TEXT) :]
    if prefix.lstrip().startswith("{"):  # a JSON layout, which contains the message as a string
        prefix, text = _parse_json_line(line) or (prefix, text)
    level = _LEVEL_PATTERN.search(prefix)
    try:
        result = _parse_json_call(text) if text.lstrip().startswith('{"') else _parse_text_call(text, apis)
        _check_types(result)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        result = {"_error": f"this line of the log cannot be read: {type(error).__name__}: {error}"}
    return _finish_row(result, _parse_time(prefix), level.group(1) if level else "unknown", secrets=secrets, apis=apis)


_PYTHON_TYPES: Final[dict[str, type | UnionType]] = {
    "apiKey": int,
    "apiVersion": int,
    "correlationId": int,
    "clientId": str | None,
    "connection": str | None,
    "totalTimeMs": int | float | None,
    "softwareName": str | None,
    "softwareVersion": str | None,
}
_INT16_NAMES: Final = ("apiKey", "apiVersion")


def _check_types(result: Row) -> None:
    """Check the types and ranges of a call's values.

    Raises:
        ValueError: a value has the wrong type or is out of range.
    """
    for name, kind in _PYTHON_TYPES.items():
        value = result[name]
        if isinstance(value, bool) or not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r}")
    if any(not 0 <= result[name] < 1 << 15 for name in _INT16_NAMES) or abs(result["correlationId"]) > 1 << 31:
        raise ValueError("a number of the header is out of range")


def _parse_json_line(line: str) -> tuple[str, str] | None:
    """Return the text of the completed request in a JSON line, after the other values; None if it has no request."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    for value in entry.values():
        if isinstance(value, str) and COMPLETED_REQUEST_TEXT in value:
            other_values = " ".join(str(other_value) for other_value in entry.values() if other_value is not value)
            return other_values, value.split(COMPLETED_REQUEST_TEXT, 1)[1]
    return None


def _parse_time(prefix: str) -> int | None:
    """Return the time of a line in microseconds."""
    match = _TIME_PATTERN.search(prefix)
    if match is None:
        return None
    try:
        whole_seconds = datetime.fromisoformat(f"{match.group(1)}T{match.group(2)}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(whole_seconds.timestamp()) * 1_000_000 + int((match.group(3) or "0").ljust(6, "0")[:6])


# ------------------------------------------------------------------------------------------------- the forms


def _parse_json_call(text: str) -> Row:
    entry, _ = json.JSONDecoder().raw_decode(text.lstrip())
    header = entry["requestHeader"]
    software = entry.get("clientInformation") or {}
    return {
        "apiKey": header["requestApiKey"],
        "apiVersion": header["requestApiVersion"],
        "correlationId": header["correlationId"],
        "clientId": header.get("clientId"),
        "request": entry.get("request"),
        "response": entry.get("response"),
        "connection": entry.get("connection"),
        "totalTimeMs": entry.get("totalTimeMs"),
        "principal": _to_text(entry.get("principal")),
        "softwareName": software.get("softwareName"),
        "softwareVersion": software.get("softwareVersion"),
    }


def _to_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _parse_text_call(text: str, apis: ApiRegistry) -> Row:
    """Return the values of a call that is logged in one of the text formats."""
    origin = _find_origin(text)
    if origin is None:
        raise ValueError("the line has no connection after the request")
    call, properties = text[: origin.start()], _remove_logger_name(text[origin.end(1) + 1 :])
    software = (
        _SOFTWARE_PATTERN.match(properties, mark + len(_SOFTWARE_MARK))
        if (mark := properties.find(_SOFTWARE_MARK)) >= 0
        else None
    )
    values = dict(part.split(":", 1) for part in re.split(r"[;,](?=\w+:)", properties) if ":" in part)
    result = _parse_old_call(call, apis)
    return result | {
        "connection": origin.group(1),
        "totalTimeMs": float(values["totalTime"]) if "totalTime" in values else None,
        "principal": values.get("principal"),
        "softwareName": software.group(1) if software else None,
        "softwareVersion": software.group(2) if software else None,
    }


def _find_origin(text: str) -> re.Match[str] | None:
    """Return the match of the client connection in a log line, after the request and the response.

    The request and the response may contain the same words, for example in a client id. The broker's own connection
    entry is the last one with times.
    """
    last = last_with_times = None
    for last in _CONNECTION_PATTERN.finditer(text):
        if last[2] is not None:
            last_with_times = last
    return last_with_times or last


def _remove_logger_name(text: str) -> str:
    """Remove the logger name in brackets, which some log layouts append to a line."""
    text = text.rstrip()
    prefix, bracket, logger = text.rpartition(" (")
    return prefix if bracket and _LOGGER_PATTERN.fullmatch(logger) else text


def _parse_old_call(call: str, apis: ApiRegistry) -> Row:
    """Return the header and the bodies of a call in the text formats before Kafka 2.7."""
    scala = _SCALA_REQUEST_PATTERN.match(call.strip())
    if scala is not None:
        name, version, correlation_id, client = scala.groups()
        client = client[5:-1] if client.startswith("Some(") else client
        return _create_header_row(_find_api_key(name, apis), int(version), int(correlation_id), client) | {
            "request": None,
            "response": None,
        }
    call = call.strip()
    match = _OLD_HEADER_PATTERN.match(call)
    if match is not None:
        result = _create_header_row(
            _find_api_key(match.group(1), apis), int(match.group(2)), int(match.group(4)), match.group(3)
        )
        bodies = call[match.end() :]
    else:
        head, bodies = _split_after_struct(call, " -- ")
        header = parse_struct(head)
        key, version, correlation_id = (int(header[name]) for name in ("api_key", "api_version", "correlation_id"))
        result = _create_header_row(key, version, correlation_id, header.get("client_id"))
    request, response = _split_after_struct(bodies, ",response:")
    return result | {
        "request": _convert_body(request, result, REQUEST, apis),
        "response": _convert_body(response, result, RESPONSE, apis) if response else None,
    }


def _split_after_struct(text: str, separator: str) -> tuple[str, str]:
    """Split a text into a struct and the part after the separator. The separator may also occur inside the struct.

    If a bracket in a text hides the struct's end, the text is split at the first separator.
    """
    _, end = _parse_value(text, 0, 0)
    if text.startswith(separator, end):
        return text[:end], text[end + len(separator) :]
    struct, _, suffix = text.partition(separator)
    return struct, suffix


def _create_header_row(key: int, version: int, correlation_id: int, client_id: str | None) -> Row:
    return {"apiKey": key, "apiVersion": version, "correlationId": correlation_id, "clientId": client_id}


def _convert_body(text: str, head: Mapping[str, Any], direction: str, apis: ApiRegistry) -> Any:
    """Return a body of the older text formats in the form of Kafka's JSON, None if the text has no body."""
    text = text.strip()
    if not text.startswith("{"):
        return None
    return convert_fields(parse_struct(text), _find_plan(head["apiKey"], head["apiVersion"], direction, apis))


@lru_cache(maxsize=512)
def _find_plan(key: int, version: int, direction: str, apis: ApiRegistry) -> StructPlan | None:
    """Return the plan of a message; None if the API or version is unknown."""
    try:
        return plan_message(apis.find_spec(key, direction, version), version).root
    except KafkaframesError:
        return None


@lru_cache(maxsize=8)
def _map_api_keys(apis: ApiRegistry) -> dict[str, int]:
    return {api.name.lower(): key for key, api in apis.apis_by_key.items()}


def _find_api_key(name: str, apis: ApiRegistry) -> int:
    """Return the key of an API by its name in Kafka's enum (``API_VERSIONS``) or by its class name."""
    normalized_name, keys = name.replace("_", "").lower(), _map_api_keys(apis)
    return keys[normalized_name if normalized_name in keys else normalized_name + "s"]


# ------------------------------------------------------------------------------------------------- rows


def _finish_row(result: Row, time: int | None, level: str, *, secrets: bool, apis: ApiRegistry) -> Row:
    """Return the row of a parsed call, with its errors and the states of request and response."""
    errors = [result["_error"]] if "_error" in result else []
    row: Row = dict.fromkeys(_COLUMN_NAMES)
    row["responseTime"] = time
    if "apiKey" in result:
        _fill_row(row, result, errors, level, secrets=secrets, apis=apis)
    row["_error"] = "; ".join(errors) or None
    row["requestState"] = "whole" if "apiKey" in result else "damaged"
    row["responseState"] = "whole" if result.get("response") is not None else "missing"
    return row


def _fill_row(row: Row, result: Row, errors: list[str], level: str, *, secrets: bool, apis: ApiRegistry) -> None:
    """Write the values of a parsed call to the row, and append reasons for missing bodies to ``errors``."""
    key, version, total_ms = result["apiKey"], result["apiVersion"], result["totalTimeMs"]
    api = apis.apis_by_key.get(key)
    for name in ("apiKey", "apiVersion", "correlationId", "clientId", "principal", "connection"):
        row[name] = result[name]
    row["apiName"] = None if api is None else api.name
    row["flexible"] = None if api is None else api.is_flexible(version)
    row["latencyMs"] = total_ms
    if row["responseTime"] is not None and total_ms is not None:
        row["requestTime"] = row["responseTime"] - round(total_ms * 1000)
    for name in ("softwareName", "softwareVersion"):
        row[name] = None if result[name] in (None, "", "unknown") else result[name]
    row.update(_parse_endpoints(result["connection"]))
    row["requestHeader"] = _json(
        {"requestApiKey": key, "requestApiVersion": version, "correlationId": result["correlationId"]}
        | {"clientId": result["clientId"]}
    )
    for direction in (REQUEST, RESPONSE):
        body = result[direction]
        if body is None:
            errors.append(f"{direction}: " + _NO_BODY_REASON.format(level))
            continue
        if direction == RESPONSE:
            row["errors"] = list(iterate_error_codes(body))
        hides_secrets = not secrets and has_secrets(key)
        row[direction] = _json(redact_json(key, direction, body) if hides_secrets and isinstance(body, dict) else body)


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _parse_endpoints(connection: str | None) -> Row:
    """Return the endpoints in a broker's connection name: broker address, client address and a number."""
    parts = (connection or "").split("-")
    ports = [(index, match) for index, part in enumerate(parts) if (match := _PORT_PATTERN.search(part))]
    if len(ports) < 2 or not _CONNECTION_NUMBER_PATTERN.fullmatch("-".join(parts[ports[-1][0] + 1 :])):
        return {}
    (server_end, server_port), (client_end, client_port) = ports[-2:]
    return {
        "serverAddress": "-".join(parts[: server_end + 1])[: -len(server_port[0])],
        "serverPort": int(server_port[1]),
        "clientAddress": "-".join(parts[server_end + 1 : client_end + 1])[: -len(client_port[0])],
        "clientPort": int(client_port[1]),
    }


def iterate_error_codes(body: Any, path: str = "") -> Iterator[Row]:
    """Yield each nonzero error code of a body with its path."""
    if isinstance(body, dict):
        for name, value in body.items():
            field_path = f"{path}.{name}" if path else name
            if isinstance(value, int) and name.lower().endswith("errorcode"):
                if value:
                    yield {"path": field_path, "code": value}
            else:
                yield from iterate_error_codes(value, field_path)
    elif isinstance(body, list):
        for index, value in enumerate(body):
            yield from iterate_error_codes(value, f"{path}[{index}]")
