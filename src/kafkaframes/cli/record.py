"""``kafkaframes record`` and ``redact``: a proxy that writes a capture, and a filter that makes captures shareable."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import ssl
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import click

from kafkaframes.cli.options import ports_in, ports_option, specs_option
from kafkaframes.cli.text import format_size, say
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.messages.registry import Apis

_WRITE_BUFFER = 8 << 20
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
@click.option("-o", "--output", required=True, metavar="FILE", help="The pcapng file to write; it must not exist.")
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
    output: str,
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
    from kafkaframes.capture.recorder import Recorder, RecorderSettings

    host, ports = _listen(listen)
    tls = {"server_tls": _server_tls(cert, key), "upstream_tls": _client_tls(upstream_tls, upstream_ca)}
    settings = RecorderSettings(host, ports, _upstream(upstream), **tls, apis=Apis(specs), strict=strict)
    target = Path(output)
    try:
        file = target.open("xb", buffering=_WRITE_BUFFER)
    except OSError as error:
        raise OptionError(f"-o {output}: cannot be written: {error.strerror or error}") from None
    stop = threading.Event()
    with _closing(file), _remove_if_refused(target), _stop_on_signals(stop):
        unknown = partial(_report_unknown, strict)
        recorder = Recorder(settings, file, on_slow=_report_slow, on_unknown=unknown, on_failure=stop.set)
        try:
            local = recorder.start()
            say(f"listening on {local[0]}:{local[1]} for {upstream}, writing {output}; Ctrl-C ends it", err=True)
            if not _is_loopback(host):
                say(f"kafkaframes: anyone who reaches {host} can use the cluster through this port", err=True)
            stop.wait(seconds)
        finally:
            recorder.close()
    if recorder.failure is not None:
        reason = recorder.failure.strerror or recorder.failure
        raise KafkaframesError(f"{output}: cannot be written any more: {reason}; the connections were reset")
    counts = recorder.counts
    say(f"{output}: {count_text(counts.connections, 'connection')}, {format_size(counts.bytes)} recorded", err=True)
    if counts.refused:
        say(f"{count_text(counts.refused, 'connection')} could not be passed on", err=True)


@contextlib.contextmanager
def _closing(file: IO[bytes]) -> Iterator[None]:
    """Close a file. If its last bytes do not fit on the disk, the recorder has already reported that."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.close()


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


@contextlib.contextmanager
def _remove_if_refused(target: Path) -> Iterator[None]:
    """Remove the empty file if the recorder cannot start to listen."""
    try:
        yield
    except OptionError:
        target.unlink()
        raise


def _report_slow(seconds: float) -> None:
    say(f"kafkaframes: the disk took {seconds:.1f} s for one write; clients and brokers waited", err=True)


def _report_unknown(strict: bool, what: str) -> None:
    """Report once that clients may have connected to brokers without the recorder."""
    outcome = "the connection was closed" if strict else "passed on as it is: it may lead clients past the recorder"
    say(f"kafkaframes: {what}: {outcome}", err=True)


def _listen(text: str) -> tuple[str, tuple[int, ...]]:
    host, _, numbers = text.rpartition(":")
    low, _, high = numbers.partition("-")
    try:
        ports = tuple(range(int(low), int(high or low) + 1))
    except ValueError:
        ports = ()
    if not ports or not 0 <= ports[0] <= ports[-1] <= 65535:
        raise OptionError(f"--listen {text}: must be HOST:PORT or HOST:PORT-PORT")
    return host.strip("[]") or "127.0.0.1", ports


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _upstream(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise OptionError(f"--upstream {text}: must be HOST:PORT")
    return host.strip("[]"), int(port)


def _server_tls(cert: str | None, key: str | None) -> ssl.SSLContext | None:
    if cert is None:
        if key is not None:
            raise OptionError("--key needs --cert")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"--cert {cert}: {error}") from None
    return context


def _client_tls(is_encrypted: bool, ca_path: str | None) -> ssl.SSLContext | None:
    if not is_encrypted and ca_path is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca_path)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"--upstream-ca {ca_path}: {error}") from None


@click.command("redact")
@click.argument("paths", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("-o", "--output", required=True, metavar="OUT", help="The pcapng file to write; it must not exist.")
@click.option("--keep-addresses", is_flag=True, help="Leave IP addresses as they are.")
@click.option("--keep-client-ids", is_flag=True, help="Leave client ids as they are, for an audit by name.")
@ports_option
@specs_option
def redact(
    paths: tuple[str, ...], output: str, keep_addresses: bool, keep_client_ids: bool, ports: str, specs: str | None
) -> None:
    """Write a capture that you can share: without payloads, names and secrets, with sizes, versions, times and errors.

    Texts and ids are replaced by others of the same length (equal ones stay equal), bytes become zeros, and of records
    only the batches' headers stay. The names of client software and SASL mechanisms are kept. Only calls of Kafka's
    APIs are written; bytes that cannot be read become zeros.

    Exit status: 0 when everything was read, 1 when OUT was written and part of the input could not be read (see
    standard error) or holds no call, 2 when OUT was not written.

    Example: kafkaframes redact trace.pcap -o for-the-ticket.pcapng
    """
    from kafkaframes.capture.coverage import summarize_entries
    from kafkaframes.capture.files import find_files
    from kafkaframes.capture.redaction import redact
    from kafkaframes.storage.files.atomic import new_file, reject_nested_destination

    target = Path(output)
    if target.exists():
        raise OptionError(f"-o {output}: exists already")
    reject_nested_destination(target, paths)
    listening, files, apis = ports_in(ports), find_files(paths), Apis(specs)
    with new_file(target, durable=False) as file:
        redaction = redact(
            files,
            file,
            ports=listening,
            keep_addresses=keep_addresses,
            keep_client_ids=keep_client_ids,
            apis=apis,
        )
    zeroed_text = f"; {count_text(redaction.frames_zeroed, 'frame')} zeroed" if redaction.frames_zeroed else ""
    unknown = (
        f"; {count_text(redaction.frames_left_out, 'frame')} of no known API left out"
        if redaction.frames_left_out
        else ""
    )
    say(
        f"{output}: {count_text(redaction.calls, 'call')}, {format_size(redaction.bytes_written)}{zeroed_text}{unknown}"
    )
    if redaction.frames_not_decoded:
        say(f"kafkaframes: {count_text(redaction.frames_not_decoded, 'message')} could not be decoded", err=True)
    if redaction.coverage.unread:
        say(f"kafkaframes: not read: {summarize_entries(redaction.coverage.unread)}", err=True)
    if not redaction.calls:
        say("kafkaframes: no call of Kafka's was found", err=True)
    if not redaction.is_complete or not redaction.calls:
        sys.exit(EXIT_UNREAD)
