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

EXIT_UNREAD = 1


@click.command("record")
@click.option(
    "--listen",
    required=True,
    metavar="[HOST]:PORT[-PORT]",
    help="Where clients connect. Without HOST only clients on this machine can.",
)
@click.option(
    "--upstream",
    required=True,
    metavar="HOST:PORT",
    help="One broker; the addresses of the other brokers are learnt from its answers.",
)
@click.option(
    "-o", "--output", "to", required=True, metavar="FILE", help="The pcapng file to write; it must not exist."
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after this many seconds; by default at Ctrl-C."
)
@click.option("--cert", metavar="PEM", help="Require TLS of clients, with this certificate (chain).")
@click.option("--key", metavar="PEM", help="Its private key, if it is not in the same file.")
@click.option("--upstream-tls", is_flag=True, help="Connect to the brokers with TLS.")
@click.option("--upstream-ca", metavar="PEM", help="Trusted certificates for --upstream-tls. Default: the system's.")
@specs_option
@click.option("--strict", is_flag=True, help="Close a connection when an answer cannot be read: it may name a broker.")
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

    Point clients at --listen. Give a range of ports: each broker gets one of them, so that clients stay behind the
    recorder. Only the addresses of brokers in answers are replaced; the file holds the originals.
    A slow disk slows clients down; nothing is left out. The file is flushed every second.

    Ctrl-C and SIGTERM end the recording: exit status 0, with a summary.

    Without HOST only clients on this machine can connect. With HOST, anyone who can reach it can use the cluster.

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
        )
        with recording:
            print_text(
                f"listening on {recording.host}:{recording.port} for {upstream}, writing {to}; Ctrl-C ends it", err=True
            )
            if not recording.is_local:
                print_text(
                    f"kafkaframes: anyone who reaches {recording.host} can use the cluster through this port", err=True
                )
            recording.wait(seconds)
    connections = count_text(recording.connections, "connection")
    print_text(f"{to}: {connections}, {format_size(recording.size_bytes)} recorded", err=True)
    if recording.refused_connections:
        print_text(f"{count_text(recording.refused_connections, 'connection')} could not be passed on", err=True)


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


def _report_slow(seconds: float) -> None:
    print_text(f"kafkaframes: the disk took {seconds:.1f} s for one write; clients and brokers waited", err=True)


def _make_bypass_report(strict: bool, subject: str) -> None:
    """Report once that clients may have connected to brokers without the recorder."""
    outcome = "the connection was closed" if strict else "passed on as it is: it may lead clients past the recorder"
    print_text(f"kafkaframes: {subject}: {outcome}", err=True)


@click.command("redact")
@click.argument("paths", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("-o", "--output", "to", required=True, metavar="OUT", help="The pcapng file to write; it must not exist.")
@click.option("--keep-addresses", is_flag=True, help="Leave IP addresses as they are.")
@click.option("--keep-client-ids", is_flag=True, help="Leave client ids as they are, for an audit by name.")
@ports_option
@specs_option
def redact(
    paths: tuple[str, ...], to: str, keep_addresses: bool, keep_client_ids: bool, ports: str, specs: str | None
) -> None:
    """Write a capture that you can share: without payloads, names and secrets, with sizes, versions, times and errors.

    Texts and ids are replaced by others of the same length (equal ones stay equal), bytes become zeros, and of records
    only the batches' headers stay. The names of client software and SASL mechanisms are kept. Only calls of Kafka's
    APIs are written; bytes that cannot be read become zeros.

    Exit status: 0 when everything was read, 1 when OUT was written and part of the input could not be read (see
    standard error) or holds no call, 2 when OUT was not written.

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
