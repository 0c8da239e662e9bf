"""``python -m tests.interop.peers.performer ADAPTER SERVERS PORT`` is the process in which a client performs.

The process with the broker listens on PORT and sends names of performances over a ``multiprocessing`` connection. This
process sends back calls of the stage and, at the end of a performance, its outcome.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
import warnings
from multiprocessing import connection as connections
from typing import Any, Final

from tests.interop.peers.behaviours import load_behaviours, to_json
from tests.interop.peers.interface import CannotPerformError, Client

KEY: Final = "KAFKAFRAMES_PEERS_KEY"  # environment variable with the authentication key of the connection


class RemoteStage:
    """A proxy of the stage: each method is called in the process with the broker."""

    def __init__(self, connection: connections.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self._connection.send(("call", name, arguments, options))
            is_error, answer = self._connection.recv()
            if is_error:
                raise RuntimeError(f"stage.{name} failed: {answer}")
            return answer

        return call


def perform(name: str, stage: RemoteStage, client: Client) -> tuple[str, Any]:
    """Return ("sees", value), ("cannot", reason) or ("error", traceback)."""
    try:
        return "sees", to_json(load_behaviours()[name].perform(stage, client))
    except CannotPerformError as reason:
        return "cannot", str(reason)
    except BaseException:
        return "error", traceback.format_exc()[-2_000:]


def main() -> None:
    """Run performances until the connection closes."""
    adapter, servers, port = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    client = importlib.import_module(f"tests.interop.peers.{adapter}").CLIENT_CLASS(servers)
    with connections.Client(("127.0.0.1", int(port)), authkey=os.environ[KEY].encode()) as connection:
        connection.send(("version", client.version()))
        stage = RemoteStage(connection)
        while (name := connection.recv()) is not None:
            connection.send(("outcome", *perform(name, stage, client)))
    os._exit(0)  # clients that a failed performance left open must not keep the process alive


if __name__ == "__main__":
    main()
