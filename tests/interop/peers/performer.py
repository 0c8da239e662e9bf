"""``python -m tests.interop.peers.performer ADAPTER SERVERS PORT``: a process in which one client performs.

The process with the broker sends names of performances over a ``multiprocessing`` connection to PORT. This process
answers with calls of the stage and, at the end of a performance, with its outcome.
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

from tests.interop.peers.behaviours import load_performances, to_json
from tests.interop.peers.interface import Cannot, Client

KEY: Final = "KAFKAFRAMES_PEERS_KEY"  # names the variable that holds the key of the connection


class RemoteStage:
    """The stage of the process that holds the broker: each method is called there."""

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
        return "sees", to_json(load_performances()[name].perform(stage, client))
    except Cannot as reason:
        return "cannot", str(reason)
    except BaseException:
        return "error", traceback.format_exc()[-2_000:]


def main() -> None:
    """Perform until the connection closes."""
    adapter, servers, port = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    client = importlib.import_module(f"tests.interop.peers.{adapter}").Client(servers)
    with connections.Client(("127.0.0.1", int(port)), authkey=os.environ[KEY].encode()) as connection:
        connection.send(("version", client.version()))
        stage = RemoteStage(connection)
        while (name := connection.recv()) is not None:
            connection.send(("outcome", *perform(name, stage, client)))
    os._exit(0)  # clients that a failed performance left open do not keep the process


if __name__ == "__main__":
    main()
