"""The cluster: an embedded broker in a separate process, which the story kills, or a real cluster, which it keeps."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
_MAX_START_SECONDS = 60.0


class EmbeddedBroker:
    """``kafkaframes broker`` as a process. ``kill`` is ``kill -9``: nothing is flushed."""

    def __init__(self, data_dir: Path, log: Path) -> None:
        self.data_dir = data_dir
        self._log, self._port = log, _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._metrics = ""
        self.start()

    @property
    def servers(self) -> str:
        """The broker's address, as bootstrap servers."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the broker on the same port and directory. Return once it responds."""
        command = [sys.executable, "-m", "kafkaframes", "broker", "--port", str(self._port), "--metrics-port", "0"]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen([*command, "--data-dir", str(self.data_dir)], stderr=log)
        deadline = time.monotonic() + _MAX_START_SECONDS
        while (match := re.search(r"metrics on (\S+)", self._log.read_text())) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the broker did not start:\n{self._log.read_text()}")
            time.sleep(0.02)
        self._metrics = match[1]

    def kill(self) -> None:
        """Kill the broker at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop the broker gracefully. Does nothing if it is already stopped."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def counter(self, name: str) -> int:
        """Return the value of a counter from the metrics page."""
        with urllib.request.urlopen(self._metrics, timeout=10) as page:
            text = page.read().decode()
        match = re.search(rf"^{name} (\d+)", text, re.MULTILINE)
        return 0 if match is None else int(match[1])


def find_given_servers() -> str | None:
    """Return the bootstrap servers of the given cluster, or None."""
    return os.environ.get(SERVERS_VARIABLE) or None


def _free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
