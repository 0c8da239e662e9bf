"""``kafkaframes record`` and ``redact``: a proxy that writes a capture, and a filter that makes captures shareable."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial

import click

from kafkaframes.cli.options import ports_option, specs_option
from kafkaframes.cli.text import format_size, print_text
from kafkaframes.errors.words import count_text

EXIT_UNREAD = 1  # exit status if a part of the capture could not be read


@click.command("record")
@click.option(
    "--listen",
    required=True,
    metavar="[HOST]:PORT[-PORT]",
    help="Address for clients. Without HOST, only clients on this machine can connect.",
)
@click.option(
    "--upstream",
    required=True,
    metavar="HOST:PORT",
    help="Address of one broker; its responses have the addresses of the other brokers.",
)
@click.option("-o", "--output", "to", required=True, metavar="FILE", help="pcapng file to write; it must not exist.")
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), help="Time to record, in seconds. Default: until Ctrl-C."
)
@click.option("--cert", metavar="PEM", help="Require TLS from clients; file with the certificate (chain).")
@click.option("--key", metavar="PEM", help="Private key of the certificate, if it is in another file.")
@click.option("--upstream-tls", is_flag=True, help="Connect to the brokers with TLS.")
@click.option("--upstream-ca", metavar="PEM", help="Trusted certificates for --upstream-tls. Default: the system's.")
@specs_option
@click.option(
    "--strict",
    is_flag=True,
    help="Close a connection if a response cannot be read, because it may have broker addresses.",
)
def command(
    listen: str,
    upstream: str,
    to: str,
    seconds: float | None,
    cert: str | None,
    key: str | None,
    upstream_tls: bool,
    upstream_ca: str | None,
    specs: str | None,
    strict: bool,
) -> None:
    """Record traffic between clients and brokers as a proxy, without root and without libpcap.

    Configure --listen as the bootstrap servers of clients. Specify a range of ports: each broker gets one of them, so
    that clients always connect to the recorder. The recorder only replaces broker addresses in responses; the file has
    the original addresses. A slow disk slows clients down, but nothing is lost. The file is flushed every second.

    Ctrl-C and SIGTERM end the recording: exit status 0, with a summary.

    Without HOST only clients on this machine can connect. With HOST, every client that can connect to it can use the
    cluster.

    Example: kafkaframes record --listen :9093-9099 --upstream kafka-1:9092 -o trace.pcapng
    """
    from kafkaframes.jobs.traffic_functions import record_traffic

    stop = threading.Event()
    with _stop_on_signals(stop):
        recording = record_traffic(
            upstream,
            to,
            listen=listen,
            cert=cert,
            key=key,
            upstream_tls=upstream_tls,
            upstream_ca=upstream_ca,
            specs=specs,
            strict=strict,
            stop=stop,
            on_slow=_report_slow,
            on_unknown=partial(_make_bypass_report, strict),
            on_refused=_report_refusal,
        )
        with recording:
            print_text(
                f"listening on {recording.host}:{recording.port} for {upstream}, writing {to}; press Ctrl-C to stop",
                err=True,
            )
            if not recording.is_local:
                print_text(
                    f"kafkaframes: every client that can connect to {recording.host} can use the cluster through "
                    "this port",
                    err=True,
                )
            recording.wait(seconds)
    connections = count_text(recording.connections, "connection")
    print_text(f"{to}: {connections}, {format_size(recording.size_bytes)} recorded", err=True)
    if recording.refused_connections:
        print_text(f"{count_text(recording.refused_connections, 'connection')} could not be forwarded", err=True)


@contextlib.contextmanager
def _stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Set an event at the first Ctrl-C or SIGTERM, which end a recording normally. A second signal interrupts."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def end(*_: object) -> None:
        stop.set()
        restore()

    for number in handlers:
        signal.signal(number, end)
    try:
        yield
    finally:
        restore()


def _report_refusal(reason: str) -> None:
    print_text(f"kafkaframes: {reason}", err=True)


def _report_slow(seconds: float) -> None:
    print_text(f"kafkaframes: the disk took {seconds:.1f} s for one write; clients and brokers waited", err=True)


def _make_bypass_report(strict: bool, subject: str) -> None:
    """Report once that clients may have connected to brokers without the recorder."""
    outcome = (
        "the connection was closed"
        if strict
        else "forwarded unchanged, so clients may connect to brokers without the recorder"
    )
    print_text(f"kafkaframes: {subject}: {outcome}", err=True)


@click.command("redact")
@click.argument("paths", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("-o", "--output", "to", required=True, metavar="OUT", help="pcapng file to write; it must not exist.")
@click.option("--keep-addresses", is_flag=True, help="Keep IP addresses.")
@click.option("--keep-client-ids", is_flag=True, help="Keep client ids, so that an audit can name clients.")
@ports_option
@specs_option
def redact(
    paths: tuple[str, ...], to: str, keep_addresses: bool, keep_client_ids: bool, ports: str, specs: str | None
) -> None:
    """Write a capture that you can share: without payloads, names or secrets, with sizes, versions, times and errors.

    Texts and ids are replaced by others of the same length (equal texts stay equal), bytes become zeros, and only the
    batch headers of records are kept. The names of client software and SASL mechanisms are kept. Only calls of Kafka
    APIs are written; unreadable bytes become zeros.

    Exit status: 0 if the whole input was read; 1 if OUT was written, but a part of the input could not be read (see
    standard error) or the input has no calls; 2 if OUT was not written.

    Example: kafkaframes redact trace.pcap -o for-the-ticket.pcapng
    """
    from kafkaframes.jobs.traffic_functions import redact_capture

    result = redact_capture(
        paths, to, keep_addresses=keep_addresses, keep_client_ids=keep_client_ids, ports=ports, specs=specs
    )
    summarize_entries, *warnings = result.lines
    print_text(summarize_entries)
    for warning in warnings:
        print_text(f"kafkaframes: {warning}", err=True)
    if not result.report.is_complete or not result.report.calls:
        sys.exit(EXIT_UNREAD)
