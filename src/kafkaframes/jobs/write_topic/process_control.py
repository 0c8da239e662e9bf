"""Control the process that holds a stream's transactions, from Spark's Python processes on the driver's machine.

Spark starts these processes for each micro-batch. To keep their start fast, this module does not import the client.

``writeStream.format("kafka-topic")`` has no Spark process that lives from the first row of a micro-batch to its commit.
Therefore the first ``streamWriter()`` starts one (``transaction_process.py``), and later ones find it by its checkpoint
(``driver_process/control.py``). The process ends in these cases:

* The Spark process that sent the last announcement has ended.
* It was idle for a minute.
* Its socket was removed.
* The query was started with other options. The process ends before its successor starts, because both may use the same
  port.

Requests and answers:

=============================================================== ======================================================
``{"announce": attempt, "watch": pid, "options": digest}``      ``{"host", "port", "secret"}``: of the lease server for
                                                                the tasks of this attempt;
                                                                ``{"ends": true}``: the process has other options
``{"commit": attempt, "batch": N, "counts": [[topic, partition, ``{}``: the transaction is committed
records]]}``
``{"abort": attempt}``                                          ``{}``
any                                                             ``{"failed": reason}``
=============================================================== ======================================================

An *attempt* is one try to write a micro-batch. The name of an attempt is chosen before the micro-batch's number is
known.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.driver_process import control
from kafkaframes.jobs.driver_process.address import TaskServerAddress
from kafkaframes.scan.topic.options import TopicWriteOptions

_PROCESS_MODULE: Final = "kafkaframes.jobs.write_topic.transaction_process"
_SOCKET_PURPOSE: Final = "holds this sink's transactions"


@dataclass(frozen=True, slots=True)
class TransactionProcess:
    """A client of the process that holds a sink's transactions. The process must run on the same machine.

    Attributes:
        checkpoint: path of the stream's checkpoint.
    """

    options: TopicWriteOptions
    checkpoint: str

    def announce_tasks(self, attempt: str) -> TaskServerAddress:
        """Announce the tasks of a micro-batch. Start the process unless it is running.

        Returns:
            The address of the lease server.

        Raises:
            KafkaframesError: the process cannot be started, or the port in the options is in use.
        """
        path = make_socket_path(self.checkpoint)
        request = {"announce": attempt, "watch": os.getppid(), "options": compute_options_digest(self.options)}
        answer = control.send_request_or_start(path, request, lambda: self._start(path))
        return TaskServerAddress(answer["host"], answer["port"], bytes.fromhex(answer["secret"]))

    def commit_attempt(self, attempt: str, batch_id: int, counts: Mapping[tuple[str, int], int]) -> None:
        """Commit the transaction of an attempt.

        Args:
            attempt: name of an announced attempt.
            batch_id: number of the micro-batch.
            counts: number of records in each topic partition, from the tasks that Spark counts as successful.

        Raises:
            KafkaframesError: the transaction was not committed, or its outcome is unknown. The micro-batch must be
                written again.
        """
        self._send_request(
            {
                "commit": attempt,
                "batch": batch_id,
                "counts": [[topic, partition, records] for (topic, partition), records in counts.items()],
            }
        )

    def abort_attempt(self, attempt: str) -> None:
        """Abort the transaction of an attempt, or the current one if the name is unknown (``""``)."""
        self._send_request({"abort": attempt})

    def _send_request(self, request: Mapping[str, Any]) -> None:
        try:
            control.send_request(make_socket_path(self.checkpoint), request)
        except control.SilentProcessError as error:
            raise KafkaframesError(
                f"the process that held the transaction of this micro-batch was stopped or hung: {error}; the "
                "micro-batch must be written again"
            ) from error
        except OSError as error:
            raise KafkaframesError(
                f"the process that held the transaction of this micro-batch has ended: {error}"
            ) from error

    def _start(self, path: Path) -> None:
        control.start_process(_PROCESS_MODULE, path, pickle.dumps(self), purpose=_SOCKET_PURPOSE)


def compute_options_digest(options: TopicWriteOptions) -> str:
    """Return a digest of a sink's options, which does not reveal the secrets in them."""
    return hashlib.sha256(json.dumps(asdict(options), sort_keys=True, default=str).encode()).hexdigest()


def make_socket_path(checkpoint: str) -> Path:
    """Return the socket path of the process for a checkpoint's sink.

    It raises the same errors as ``control.make_socket_path``.
    """
    return control.make_socket_path("transactions", __file__, Path(__file__).stat().st_mtime_ns, checkpoint)
