"""Kind ``captures``: recorded traffic and the brokers' request logs of every call.

The product receives only the capture, without the brokers' ports. Every call of the reference is compared: header,
sizes, offsets in the streams, software, error codes with paths, numbers of error fields, bodies, the content of an
Envelope, the summary of records. Missing or damaged parts must be reported, and no other call may be found. If a
connection began before the capture, its offsets have another origin: they differ by a constant. Excluded: times of
rewritten files (the reference has the recording's), ``principal`` if it is not SASL's, and a damaged response without a
request, which the capture cannot identify. A capture without a reference must be read or be rejected by name.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences

from kafkaframes.capture.columns import CALLS_TABLE_COLUMNS
from kafkaframes.capture.files import CAPTURE_NAME_PATTERN, natural_sort_key
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.audit.audit import REMOVED, UsageSummary, audit_uses
from kafkaframes.jobs.audit.uses import count_uses
from kafkaframes.protocol.messages.headers import decode_request
from kafkaframes.protocol.spec.releases import find_release
from kafkaframes.records.layout import CODECS

_REFERENCE_SUFFIX = ".truth.jsonl.gz"
_SUMMARY_COUNTS = ("codes", "codes_zero", "messages", "messages_null")
# Fields that have other names in the specs of some releases than in the catalog.
_RENAMED_FIELDS = {
    "zkVersion": "partitionEpoch",
    "generationId": "generationIdOrMemberEpoch",
    "partitionResponses": "partitions",
    "partition": "partitionIndex",
    "recordSetSizeInBytes": "recordsSizeInBytes",
}
_TIME_TOLERANCE_SECONDS = 2e-6  # both are rounded to microseconds
_UNSUPPORTED_VERSION_ERROR = 35  # a broker reads an ApiVersions request with an unknown version as version 0
Row = dict[str, Any]


def cases(folder: Path) -> Iterator[Case]:
    taken_files = set()
    for path in sorted(folder.glob("*.json")):
        files = _list_captures(folder, path.stem, json.loads(path.read_text()))
        taken_files.update(files)
        yield Case(path.stem, (str(folder), path.stem, files))
    for path in sorted(folder.iterdir()):
        if CAPTURE_NAME_PATTERN.search(path.name) and str(path) not in taken_files:
            yield Case(path.name, (str(folder), None, [str(path)]))


def _list_captures(folder: Path, case: str, manifest: Row) -> list[str]:
    """Return the captures of a case: one, or several of a rotating recorder."""
    paths = [str(path) for path in folder.glob(f"{case}.*") if CAPTURE_NAME_PATTERN.search(path.name)]
    return sorted(paths, key=natural_sort_key) or [str(folder / str(manifest.get("file", case)))]


def disagreements(case: Case) -> Iterator[str]:
    folder, name, files = case.payload
    if name is None or not (Path(folder) / f"{name}{_REFERENCE_SUFFIX}").is_file():
        yield from _check_unreferenced_capture(files)
        return
    manifest = json.loads((Path(folder) / f"{name}.json").read_text())
    truth = [
        json.loads(line)
        for line in gzip.decompress((Path(folder) / f"{name}{_REFERENCE_SUFFIX}").read_bytes()).splitlines()
    ]
    options = CaptureOptions(columns=tuple(column.name for column in CALLS_TABLE_COLUMNS), secrets=True)
    rows = read_capture(files, options).read_all().to_pylist()
    yield from _CallComparison(truth, rows, has_times=not manifest.get("odd")).lines()
    yield from _compare_totals(manifest, rows)
    yield from _compare_audit(manifest, files)


def _check_unreferenced_capture(files: list[str]) -> Iterator[str]:
    try:
        for table in ("calls", "connections", "gaps", "records"):
            read_capture(files, CaptureOptions(table=table)).read_all()
    except KafkaframesError as error:
        if Path(files[0]).name not in str(error):
            yield f"rejected without the name of the capture: {error}"


def _compare_audit(manifest: Row, files: list[str]) -> Iterator[str]:
    """Compare the audit for 4.0: removed versions and old formats by client, with counts."""
    truth, uses, target = manifest["audit_target_4_0"], UsageSummary(), find_release("4.0.1")
    count_uses(files, target, uses)
    removed_calls: Counter[tuple[Any, ...]] = Counter()
    formats: Counter[tuple[Any, ...]] = Counter()
    audit_report = audit_uses(uses, target)
    for one in (*audit_report.clients, *audit_report.brokers):
        who = one.client.client_id or "", one.client.software_name, one.client.software_version
        for finding in one.findings:
            if finding.format_use is not None:
                formats[*who, finding.format_use.where, finding.format_use.magic] += finding.use_count.count
            elif finding.verdict == REMOVED:
                removed_calls[*who, finding.api_key, finding.api_version, finding.lowest] += finding.use_count.count
    versions = ("api_key", "version", "lowest_in_4_0")
    yield from differences(
        _count_by_client(truth["removed_versions"], versions, "count"), _texts(removed_calls), "audit"
    )
    yield from differences(
        _count_by_client(truth["old_message_formats"], ("direction", "magic"), "batches"), _texts(formats), "formats"
    )


def _count_by_client(rows: list[Row], names: tuple[str, ...], count: str) -> Row:
    who = ("software_name", "software_version")
    return _texts({(row["client_id"] or "", *(row[name] for name in (*who, *names))): row[count] for row in rows})


def _texts(counts: Mapping[tuple[Any, ...], int]) -> Row:
    return {str(key): count for key, count in counts.items()}


def _compare_totals(manifest: Row, rows: list[Row]) -> Iterator[str]:
    """Compare the numbers of requests and responses that are at least partly available."""
    if manifest.get("damage", {}).get("responses_damaged"):
        return  # a response without request and size is a gap, but not a row
    for direction in ("request", "response"):
        there = [row for row in rows if row[f"{direction}State"] in ("whole", "damaged")]
        if len(there) != manifest[f"{direction}s"]:
            yield f"{direction}s: expected {manifest[direction + 's']}, found {len(there)}"
        size = sum(row[f"{direction}SizeBytes"] + 4 for row in there)
        if size != manifest[f"{direction}_bytes"]:
            yield f"{direction}_bytes: expected {manifest[direction + '_bytes']}, found {size}"


class _CallComparison:
    """The calls of a reference and the calls found, with their times if the capture has the original ones."""

    def __init__(self, truth: list[Row], rows: list[Row], *, has_times: bool) -> None:
        self.has_times = has_times
        self.truth = [line for line in truth if "wire" in line]
        self.rows: dict[Any, list[Row]] = defaultdict(list)
        for row in rows:
            self.rows[_key_of_row(row)].append(row)
        self.shifts: dict[tuple[str, str], int] = {}

    def lines(self) -> Iterator[str]:
        for line in self.truth:
            row = self._take_row(line)
            where = f"{line['client']} {line['api_name']} v{line['api_version']} #{line['correlation_id']}"
            if row is None:
                wire = line["wire"]
                if not (wire.get("request_missing") and wire.get("response_damaged")):
                    yield f"{where}: expected this call, found none"
            else:
                yield from (f"{where}: {text}" for text in self._compare_call(line, row))
        for rows in self.rows.values():
            for row in rows:
                yield f"{row['connection']} {row['apiName']} #{row['correlationId']}: not in the reference"

    def _take_row(self, line: Row) -> Row | None:
        missing = line["wire"].get("request_missing")
        key = (line["client"], line["server"], line["correlation_id"], *((None,) * 2 if missing else _api(line)))
        rows = self.rows.get(key)
        return rows.pop(0) if rows else None

    def _compare_call(self, line: Row, row: Row) -> Iterator[str]:
        wire = line["wire"]
        if self.has_times:
            yield from _compare_times(wire, row)
        has_request, has_response = not wire.get("request_missing"), not wire.get("response_missing")
        yield from differences(_expected_states(line), {name: row[f"{name}State"] for name in ("request", "response")})
        if has_request:
            expected_header = _expected_header(line)
            yield from differences(expected_header, {name: _actual_header(row)[name] for name in expected_header})
            yield from self._compare_position(line, row, "request")
        if "response_size" in wire and has_response:
            yield from self._compare_position(line, row, "response")
        if has_request and not wire.get("request_damaged"):
            yield from _compare_request(line, row)
        if has_request and has_response and not wire.get("response_damaged"):
            yield from _compare_response(line, row)

    def _compare_position(self, line: Row, row: Row, direction: str) -> Iterator[str]:
        wire = line["wire"]
        if row[f"{direction}SizeBytes"] != wire[f"{direction}_size"]:
            yield f"{direction} size: expected {wire[f'{direction}_size']}, found {row[f'{direction}SizeBytes']}"
        shift = wire[f"{direction}_offset"] - row[f"{direction}Offset"]
        known_shift = self.shifts.setdefault((row["connection"], direction), shift)
        if shift != known_shift:
            yield f"{direction} offset: {shift} away from the reference, other calls of this connection {known_shift}"


def _compare_times(wire: Row, row: Row) -> Iterator[str]:
    for direction in ("request", "response"):
        expected_time, actual_time = wire.get(f"{direction}_time"), row[f"{direction}Time"]
        if (expected_time is None) is not (actual_time is None):
            yield f"{direction} time: expected {expected_time}, found {actual_time}"
        elif expected_time is not None and abs(expected_time - actual_time.timestamp()) > _TIME_TOLERANCE_SECONDS:
            yield f"{direction} time: expected {expected_time}, found {actual_time.timestamp()}"


def _api(line: Row) -> tuple[int, int]:
    return line["api_key"], line["api_version"]


def _key_of_row(row: Row) -> Any:
    client, server = (_address(row[f"{side}Address"], row[f"{side}Port"]) for side in ("client", "server"))
    return client, server, row["correlationId"], row["apiKey"], row["apiVersion"]


def _address(address: str, port: int) -> str:
    return f"{address}:{port}"


def _expected_states(line: Row) -> Row:
    wire = line["wire"]

    def state(direction: str) -> str:
        if wire.get(f"{direction}_missing"):
            return "missing"
        return "damaged" if wire.get(f"{direction}_damaged") else "whole"

    response = state("response") if "response_size" in wire else "none" if wire.get("acks") == 0 else "missing"
    return {"request": state("request"), "response": response}


def _expected_header(line: Row) -> Row:
    """Return a call's header and connection, as far as the capture has them."""
    software: Any = line["software_name"], line["software_version"]
    if line.get("software_not_in_capture"):
        software = (None, None)
    facts = {"api_name": line["api_name"], "client_id": line["client_id"] or None, "software": software}
    if line["api_key"] == 18 and line["wire"].get("response_missing"):
        del facts["software"]  # only the response shows whether the broker accepted the version, and therefore the name
    if line.get("principal") not in (None, "User:ANONYMOUS"):
        facts["principal"] = line["principal"]
    return facts


def _actual_header(row: Row) -> Row:
    return {
        "api_name": row["apiName"],
        "client_id": row["clientId"] or None,
        "software": (row["softwareName"], row["softwareVersion"]),
        "principal": row["principal"],
    }


def _compare_request(line: Row, row: Row) -> Iterator[str]:
    body = json.loads(row["request"])
    if "request" in line and line["wire"].get("first_error") != _UNSUPPORTED_VERSION_ERROR:
        yield from differences(_rename_paths(line["request"]), _rename_paths(body), "request")
    if "acks" in line["wire"] and body.get("acks", line["wire"]["acks"]) != line["wire"]["acks"]:
        yield f"acks: expected {line['wire']['acks']}, found {body.get('acks')}"
    if line["api_key"] == 0:
        yield from _compare_records(line, row)
    if "envelope" in line:
        inner = decode_request(base64.b64decode(body["requestData"]))
        expected_header = {
            name: line["envelope"][name] for name in ("api_key", "api_version", "correlation_id", "client_id")
        }
        yield from differences(
            expected_header,
            {
                "api_key": inner.api_key,
                "api_version": inner.api_version,
                "correlation_id": inner.correlation_id,
                "client_id": inner.header.client_id,
            },
            "envelope",
        )


def _compare_response(line: Row, row: Row) -> Iterator[str]:
    if "response_size" not in line["wire"]:
        return
    body = json.loads(row["response"])
    if "response" in line:
        yield from differences(_rename_paths(line["response"]), _rename_paths(body), "response")
    if "errors" in line:
        yield from differences(
            *([_path_renamed(error) for error in errors] for errors in (line["errors"], row["errors"]))
        )
    if "first_error" in line["wire"] and line["wire"]["first_error"] != body["errorCode"]:
        yield f"first_error: expected {line['wire']['first_error']}, found {body['errorCode']}"
    if "error_fields" in line:
        yield from differences(
            line["error_fields"], dict(zip(_SUMMARY_COUNTS, _count_fields(body), strict=True)), "fields"
        )
    if line["api_key"] == 1:
        yield from _compare_records(line, row)


def _rename_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {_RENAMED_FIELDS.get(name, name): _rename_paths(one) for name, one in value.items()}
    return [_rename_paths(one) for one in value] if isinstance(value, list) else value


def _path_renamed(error: Row) -> Row:
    return error | {"path": error["path"].replace("partitionResponses", "partitions")}


def _count_fields(body: Any) -> tuple[int, int, int, int]:
    """Return a body's numbers of error codes (and of zero codes), and of messages (and of null messages)."""
    counts = [0, 0, 0, 0]
    for name, value in _yield_leaves(body):
        if name.lower().endswith("errorcode"):
            counts[0] += 1
            counts[1] += value == 0
        elif name.lower().endswith("errormessage"):
            counts[2] += 1
            counts[3] += value is None
    return counts[0], counts[1], counts[2], counts[3]


def _yield_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _yield_leaves(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _yield_leaves(one, name)
    else:
        yield name, value


def _compare_records(line: Row, row: Row) -> Iterable[str]:
    expected_records = line["wire"].get("records")
    if expected_records is None or "unparsed" in expected_records:
        return []
    actual_records = row["records"] or {"sets": [], "cut": 0}
    sets = [one | {"codec": CODECS.index(one["codec"])} for one in actual_records["sets"]]
    order = ("magic", "codec")
    return differences(
        {
            "sets": sorted(expected_records["sets"], key=lambda one: [one[name] for name in order]),
            "cut": expected_records["cut"],
        },
        {"sets": sorted(sets, key=lambda one: [one[name] for name in order]), "cut": actual_records["cut"]},
        "records",
    )


KIND = Kind("captures", ("captures",), cases, disagreements)
