"""A recording of traffic into a file: the recorder, its capture file, and the settings that a user specifies as text.

``kafkaframes.record_traffic`` starts a ``Recording``. The recorder itself (``recorder.py``) knows neither files nor
text.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from kafkaframes.capture.recorder import Recorder, RecorderSettings
from kafkaframes.capture.relay import Address
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.protocol.messages.registry import ApiRegistry

_WRITE_BUFFER_BYTES: Final = 8 << 20


class Recording:
    """A running recording of the traffic between clients and brokers. Leaving the ``with`` block ends the recording.

    Attributes:
        path: the capture file.
        host: host name or address on which the recorder listens.
        port: port of the first broker's listener.
    """

    def __init__(
        self,
        settings: RecorderSettings,
        path: str | os.PathLike[str],
        *,
        stop: threading.Event | None = None,
        on_slow: Callable[[float], None] = lambda _: None,
        on_unknown: Callable[[str], None] = lambda _: None,
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create the capture file, and listen for the first broker.

        Raises:
            OptionError: the file exists or cannot be written, or the address is in use. No new file is left behind.
        """
        self.path = Path(path)
        self._stop = threading.Event() if stop is None else stop
        self._file = _create_file(self.path)
        try:
            self._recorder = Recorder(
                settings,
                self._file,
                on_slow=on_slow,
                on_unknown=on_unknown,
                on_refused=on_refused,
                on_failure=self._stop.set,
            )
            self.host, self.port = self._recorder.start()
        except BaseException:
            self._close_file()
            self.path.unlink(missing_ok=True)
            raise

    @property
    def bootstrap_servers(self) -> str:
        """The address to which clients connect, in the form of the client setting ``bootstrap.servers``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only clients on this machine can connect."""
        return is_loopback(self.host)

    @property
    def connections(self) -> int:
        """The number of recorded connections."""
        return self._recorder.counts.connections

    @property
    def refused_connections(self) -> int:
        """The number of connections for which the broker could not be reached."""
        return self._recorder.counts.refused

    @property
    def size_bytes(self) -> int:
        """The number of recorded bytes of clients and brokers."""
        return self._recorder.counts.bytes

    @property
    def unknown_responses(self) -> tuple[str, ...]:
        """Descriptions of responses that could not be decoded and may have led clients past the recorder."""
        return tuple(self._recorder.unknown)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the recording is stopped or its file cannot be written any more.

        Args:
            seconds: longest time to wait. None: no limit.

        Returns:
            Whether the recording was stopped; False after the time is over.
        """
        return self._stop.wait(seconds)

    def close(self) -> None:
        """End all connections, and complete the file.

        Raises:
            KafkaframesError: the file could not be written completely. The connections were reset when the file could
                not be written.
        """
        self._stop.set()
        self._recorder.close()
        self._close_file()
        failure = self._recorder.failure
        if failure is not None:
            reason = failure.strerror or failure
            raise KafkaframesError(f"{self.path}: cannot be written any more: {reason}; the connections were reset")

    def _close_file(self) -> None:
        with contextlib.suppress(OSError):  # the recorder has reported that the disk is full
            self._file.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        with contextlib.suppress(KafkaframesError):  # the exception of the caller's block is reported instead
            self.close()

    def __repr__(self) -> str:
        return f"recording on {self.bootstrap_servers} to {self.path}"


def _create_file(path: Path) -> IO[bytes]:
    if str(path) == "-":
        raise OptionError("`to` -: a recording cannot be written to standard output; specify a path")
    try:
        return path.open("xb", buffering=_WRITE_BUFFER_BYTES)
    except OSError as error:
        raise OptionError(f"`to` {path}: cannot be written: {error.strerror or error}") from None


def create_recorder_settings(
    upstream: str,
    listen: str,
    *,
    cert: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
    upstream_tls: bool,
    upstream_ca: str | os.PathLike[str] | None,
    apis: ApiRegistry,
    strict: bool,
) -> RecorderSettings:
    """Return the settings of a recorder.

    Raises:
        OptionError: an address is invalid, or a certificate cannot be read.
    """
    host, ports = parse_listener(listen)
    return RecorderSettings(
        host,
        ports,
        parse_broker(upstream),
        server_tls=create_server_tls(cert, key),
        upstream_tls=create_client_tls(upstream_ca, is_encrypted=upstream_tls),
        apis=apis,
        strict=strict,
    )


def parse_listener(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the host and ports of ``[HOST]:PORT`` or ``[HOST]:PORT-PORT``.

    >>> parse_listener(":9092-9094"), parse_listener("[::1]:9092")
    (('127.0.0.1', (9092, 9093, 9094)), ('::1', (9092,)))

    Raises:
        OptionError: the text has another form.
    """
    host, _, numbers = text.rpartition(":")
    low, _, high = numbers.partition("-")
    try:
        ports = tuple(range(int(low), int(high or low) + 1))
    except ValueError:
        ports = ()
    if not ports or not 0 <= ports[0] <= ports[-1] <= 65535:
        raise OptionError(f"`listen` {text}: must be HOST:PORT or HOST:PORT-PORT, such as 127.0.0.1:9092-9094")
    return host.strip("[]") or "127.0.0.1", ports


def parse_broker(text: str) -> Address:
    """Return the host and port of ``HOST:PORT``.

    Raises:
        OptionError: the text has another form.
    """
    host, _, port = text.rpartition(":")
    if "," in host:
        raise OptionError(
            f"`upstream` {text}: specify one broker; the addresses of the others are read from its responses"
        )
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise OptionError(f"`upstream` {text}: must be HOST:PORT")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can connect to a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def create_server_tls(cert: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None) -> ssl.SSLContext | None:
    """Return the TLS settings for connections from clients; None for plain text.

    Raises:
        OptionError: the certificate or key cannot be read.
    """
    if cert is None:
        if key is not None:
            raise OptionError("`key` needs `cert`")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"`cert` {os.fspath(cert)}: {error}") from None
    return context


def create_client_tls(ca_path: str | os.PathLike[str] | None, *, is_encrypted: bool) -> ssl.SSLContext | None:
    """Return the TLS settings for connections to brokers; None for plain text.

    Raises:
        OptionError: the trusted certificates cannot be read.
    """
    if not is_encrypted and ca_path is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca_path)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"`upstream_ca` {os.fspath(ca_path or '')}: {error}") from None
