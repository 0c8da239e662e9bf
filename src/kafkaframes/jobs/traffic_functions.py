"""Functions for the commands audit, report (of traffic), record and redact.

Each function imports its code when it is called.

The functions read captures and request logs of brokers, or write captures. The results of these functions print as a
summary and have ``to_dict()``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Literal

from kafkaframes._version import __version__
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.job import JobResult
from kafkaframes.jobs.settings import AuditSettings, Path, Paths
from kafkaframes.storage.files.paths import to_path_list

if TYPE_CHECKING:
    from threading import Event

    from kafkaframes.capture.recording import Recording
    from kafkaframes.capture.redaction import RedactionResult
    from kafkaframes.jobs.audit.audit import Audit
    from kafkaframes.jobs.report.traffic import TrafficReport
    from kafkaframes.protocol.messages.registry import Specs


def audit_upgrade(
    paths: Paths,
    *,
    target: str | None = None,
    ports: str | Sequence[int] = "",
    specs: Specs | None = None,
    verbose: bool = False,
    strict: bool = False,
    to: Path | None = None,
    format: Literal["html", "json", "text"] = "html",  # noqa: A002 (as in report_log)
) -> JobResult[Audit]:
    """Audit clients and logs before an upgrade of the brokers: which versions and record formats the release removed.

    >>> audit_upgrade(["trace.pcap", "request.log"], target="4.0.1")  # doctest: +SKIP
    Upgrade to 4.0.1: removed. 2 clients: 1 removed, 1 fine.

    Args:
        paths: captures (pcap, pcapng), request logs of brokers, directories of these, or log directories. Several paths
            are audited together.
        target: Kafka release to upgrade to. Default: the newest.
        ports: ports of the brokers: ``9092,9094-9096`` or numbers. Default: brokers are recognized by their traffic.
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.
        verbose: whether the text and the text file also list compatible clients, and the reason for each finding.
        strict: whether ``report.exit_status`` is 5 if a part of the input could not be read.
        to: output file. Default: None, which writes no file.
        format: format of the output file.

    Returns:
        A result whose ``report`` has the verdict, the findings on each client and on the record formats of logs, and
        the unread parts of the input.

    Raises:
        OptionError: a path does not exist, the release is unknown, or ``to`` is inside a source.
        DecodeError: the only file is neither a capture nor a request log.
    """
    from kafkaframes.capture.streams import parse_ports
    from kafkaframes.jobs.audit import audit_text
    from kafkaframes.jobs.audit.audit import UsageSummary, audit_uses, find_release
    from kafkaframes.jobs.audit.uses import count_log_formats, count_uses, is_log
    from kafkaframes.jobs.report.traffic_page import build_audit_page
    from kafkaframes.protocol.messages.registry import ApiRegistry
    from kafkaframes.storage.files.atomic import write_output

    settings = AuditSettings(target=target, ports=ports, specs=specs, verbose=verbose, strict=strict)
    path_list, release = to_path_list(paths), find_release(settings.target)
    _check_output(to, path_list, format, ("html", "json", "text"))
    listening = parse_ports(settings.ports)
    uses, apis = UsageSummary(), ApiRegistry(specs)
    traffic = [path for path in path_list if not is_log(path)]
    if traffic:
        count_uses(_find_files(traffic), release, uses, ports=listening, apis=apis)
    logs = [path for path in path_list if path not in traffic]
    if logs:
        count_log_formats(logs, uses)
    report = audit_uses(uses, release, apis, is_strict=settings.strict)
    values, lines = audit_text.audit_to_json(report), tuple(audit_text.format_audit(report, verbose=settings.verbose))
    if to is not None:
        if format == "html":
            text = build_audit_page(report, paths=path_list, version=__version__)
        else:
            text = json.dumps(values, indent=1) if format == "json" else "\n".join(lines)
        write_output(to, f"{text}\n")
    return JobResult(report, values, lines)


def report_traffic(
    paths: Paths,
    *,
    specs: Specs | None = None,
    to: Path | None = None,
    format: Literal["html", "json"] = "html",  # noqa: A002 (as in report_log)
    generated_at_ms: int | None = None,
) -> JobResult[TrafficReport]:
    """Report on recorded traffic: calls, bytes, latencies and errors by API, clients, connections, upgrade findings.

    >>> report_traffic("trace.pcap", to="report.html")  # doctest: +SKIP

    Args:
        paths: captures, request logs of brokers, or directories of these.
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.
        to: output file. Default: None, which writes no file.
        format: format of the output file.
        generated_at_ms: the time shown on the page, in milliseconds since 1970. Default: now.

    Returns: A result whose ``report`` has the numbers. Its attribute ``judged`` states how much of the input was
        measured.

    Raises:
        OptionError: a path does not exist, or ``to`` is inside a source or cannot be written.
        DecodeError: the only file is neither a capture nor a request log.
    """
    from kafkaframes.jobs.report.traffic import make_traffic_report
    from kafkaframes.jobs.report.traffic_page import build_traffic_page
    from kafkaframes.storage.files.atomic import write_output

    path_list = to_path_list(paths)
    _check_output(to, path_list, format, ("html", "json"))
    report = make_traffic_report(_find_files(path_list), specs=specs)
    values = report.as_json()
    if to is not None:
        when = time.time_ns() // 1_000_000 if generated_at_ms is None else generated_at_ms
        is_page = format == "html"
        page = build_traffic_page(report, version=__version__, generated_at=when) if is_page else json.dumps(values)
        write_output(to, page)
    lines = [report.judged_text] if report.judged_text else []
    written_line = [] if to is None else [f"written to {os.fspath(to)}"]
    return JobResult(report, values, (*lines, count_text(report.calls, "call"), *written_line))


def redact_capture(
    paths: Paths,
    to: Path,
    *,
    keep_addresses: bool = False,
    keep_client_ids: bool = False,
    ports: str | Sequence[int] = "",
    specs: Specs | None = None,
) -> JobResult[RedactionResult]:
    """Write a capture that can be shared: without payloads, names or secrets, with sizes, versions, times and errors.

    Texts and ids are replaced with others of the same length (equal ones stay equal), and bytes with zeros. Only the
    batch headers of records remain. The names of client software and SASL mechanisms are kept.

    >>> redact_capture("trace.pcap", "for-the-ticket.pcapng")  # doctest: +SKIP
    for-the-ticket.pcapng: 5,120 calls, 1.2 MiB

    Args:
        paths: captures, or directories of these.
        to: the pcapng file to write, which must not exist. The file gets this name only when it is complete.
        keep_addresses: whether IP addresses are kept.
        keep_client_ids: whether client ids are kept, for an audit by name.
        ports: ports of the brokers: ``9092,9094-9096`` or numbers. Default: brokers are recognized by their traffic.
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.

    Returns:
        A result whose ``report`` has the numbers of calls and frames, and the data that could not be read.

    Raises:
        OptionError: a path does not exist, or ``to`` exists or is inside a source.
        DecodeError: the only file is not a capture.
    """
    from kafkaframes.capture.redaction import as_json, redact
    from kafkaframes.capture.streams import parse_ports
    from kafkaframes.protocol.messages.registry import ApiRegistry
    from kafkaframes.storage.files.atomic import new_file, reject_nested_destination

    path_list, target = to_path_list(paths), LocalPath(to)
    if target.exists():
        raise OptionError(f"`to` {target}: already exists; choose another path")
    reject_nested_destination(target, path_list)
    listening, files, apis = parse_ports(ports), _find_files(path_list), ApiRegistry(specs)
    with new_file(target, durable=False) as file:
        report = redact(
            files,
            file,
            ports=listening,
            keep_addresses=keep_addresses,
            keep_client_ids=keep_client_ids,
            apis=apis,
        )
    return JobResult(report, as_json(report), tuple(_build_redaction_lines(report, os.fspath(to))))


def record_traffic(
    upstream: str,
    to: Path,
    *,
    listen: str = ":0",
    cert: Path | None = None,
    key: Path | None = None,
    upstream_tls: bool = False,
    upstream_ca: Path | None = None,
    specs: Specs | None = None,
    strict: bool = False,
    stop: Event | None = None,
    on_slow: Callable[[float], None] | None = None,
    on_unknown: Callable[[str], None] | None = None,
    on_refused: Callable[[str], None] | None = None,
) -> Recording:
    """Record traffic between clients and brokers as a proxy. The recording ends when its ``with`` block is left.

    >>> with record_traffic("kafka-1:9092", "trace.pcapng") as recording:  # doctest: +SKIP
    ...     run_clients(recording.bootstrap_servers)

    Clients connect to the recorder. Broker addresses in responses are replaced by those of further listeners, so that
    clients stay connected through the recorder. The file contains the original bytes. The file is flushed every second.

    Args:
        upstream: address of a broker, ``HOST:PORT``. The addresses of the other brokers are read from its responses.
        to: the pcapng file to write, which must not exist.
        listen: address for clients, ``[HOST]:PORT`` or ``[HOST]:PORT-PORT``. Each broker gets a port of the range, or a
            free port if none is left. Without a host, only clients on this machine can connect. Default: free ports.
        cert: certificate chain (PEM). With a certificate, clients have to use TLS.
        key: private key (PEM) of the certificate, if it is not in the same file.
        upstream_tls: whether to connect to brokers with TLS.
        upstream_ca: trusted certificates (PEM) for TLS with brokers. Default: the certificates of the system.
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.
        strict: whether to close a connection at a response that cannot be decoded and may contain a broker address.
        stop: event that ends the wait of ``Recording.wait``. Default: a new event.
        on_slow: function that is called with the duration of a slow write to the file, in seconds. Clients wait during
            this time.
        on_unknown: function that is called once for each kind of response that cannot be decoded and may contain a
            broker address.
        on_refused: function that is called once for each reason why a connection is refused, such as an unreachable
            broker.

    Returns:
        The running recording.

    Raises:
        OptionError: an address is invalid or in use, the file exists, or a certificate cannot be read.
    """
    from kafkaframes.capture.recording import Recording, create_recorder_settings
    from kafkaframes.protocol.messages.registry import ApiRegistry

    settings = create_recorder_settings(
        upstream,
        listen,
        cert=cert,
        key=key,
        upstream_tls=upstream_tls,
        upstream_ca=upstream_ca,
        apis=ApiRegistry(specs),
        strict=strict,
    )
    return Recording(
        settings,
        to,
        stop=stop,
        on_slow=on_slow or (lambda _: None),
        on_unknown=on_unknown or (lambda _: None),
        on_refused=on_refused or (lambda _: None),
    )


# -------------------------------------------------------------------------------------------------------------- helpers


def _find_files(paths: Sequence[str]) -> list[str]:
    """Return the captures and request logs at paths."""

    from kafkaframes.capture.files import find_files

    return find_files(paths)


def _check_output(to: Path | None, paths: Sequence[str], format_name: str, formats: Sequence[str]) -> None:
    """Reject invalid arguments before the sources are read, which can take minutes."""
    from kafkaframes.scan.selection import check_choice
    from kafkaframes.storage.files.atomic import reject_nested_destination

    check_choice("format", format_name, formats)
    if to is not None:
        reject_nested_destination(LocalPath(to), paths)


def _build_redaction_lines(report: RedactionResult, target: str) -> Iterator[str]:
    """Yield the amounts of written data, and a line for each kind of omitted data."""
    from kafkaframes.capture.coverage import summarize_entries
    from kafkaframes.jobs.report.words import format_size

    amounts = [f"{target}: {count_text(report.calls, 'call')}, {format_size(report.bytes_written)}"]
    if report.frames_zeroed:
        amounts.append(f"{count_text(report.frames_zeroed, 'frame')} zeroed")
    if report.frames_left_out:
        amounts.append(f"{count_text(report.frames_left_out, 'frame')} of unknown APIs omitted")
    yield "; ".join(amounts)
    if report.frames_not_decoded:
        yield f"{count_text(report.frames_not_decoded, 'message')} could not be decoded"
    if report.coverage.unread:
        yield f"not read: {summarize_entries(report.coverage.unread)}"
    if not report.calls:
        yield "the input has no Kafka calls"
