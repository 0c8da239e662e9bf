"""The process that holds the transactions of a stream, as Spark's processes on the driver's machine use it.

Those run for each micro-batch, therefore nothing here imports the client.

``writeStream.format("kafka-topic")`` has no process of Spark's that lives from the first row of a micro-batch to its
commit. So the first ``streamWriter()`` starts one (``transaction_process.py``), and later ones find it
(``driver_process/control.py``) by the checkpoint. It ends by itself: when Spark's process that asked it last has ended,
after a minute with nothing to do, when its socket was removed, and when the query is started with other options, before
another takes its place: it may hold the port that these specify.

Questions and answers:

=============================================================== ======================================================
``{"announce": attempt, "watch": pid, "options": digest}``      ``{"host", "port", "secret"}``: of the lease server,
                                                                to which tasks may come with this attempt;
                                                                ``{"ends": true}``: it has other options
``{"commit": attempt, "batch": N, "counts": [[topic, partition, ``{}``: it is committed
records]]}``
``{"abort": attempt}``                                          ``{}``
any                                                             ``{"failed": reason}``
=============================================================== ======================================================

An *attempt* is one try to write a micro-batch. Its name is chosen before the micro-batch's number is known.
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
from kafkaframes.jobs.driver_process.address import Address
from kafkaframes.scan.topic.options import TopicWriteOptions

_MODULE: Final = "kafkaframes.jobs.write_topic.transaction_process"
_PURPOSE: Final = "holds this sink's transactions"


@dataclass(frozen=True, slots=True)
class TransactionProcess:
    """How to reach the process of a sink, on its machine.

    Attributes:
        checkpoint: the path of the stream's.
    """

    options: TopicWriteOptions
    checkpoint: str

    def announce(self, attempt: str) -> Address:
        """Tell that tasks of a micro-batch will come; start the process unless it is there.

        Returns:
            Where tasks lease sequences.

        Raises:
            KafkaframesError: it cannot be started, or a port that was asked for is taken.
        """
        path = socket_path(self.checkpoint)
        question = {"announce": attempt, "watch": os.getppid(), "options": digest_of(self.options)}
        answer = control.ask_or_start(path, question, lambda: self._start(path))
        return Address(answer["host"], answer["port"], bytes.fromhex(answer["secret"]))

    def commit(self, attempt: str, batch_id: int, counts: Mapping[tuple[str, int], int]) -> None:
        """Commit the transaction of an attempt.

        Args:
            attempt: one that was announced.
            batch_id: the micro-batch's number.
            counts: the records in each topic partition by the tasks that Spark takes as successful.

        Raises:
            KafkaframesError: it is not committed, or nobody knows; the micro-batch must be written again.
        """
        self._tell(
            {
                "commit": attempt,
                "batch": batch_id,
                "counts": [[topic, partition, records] for (topic, partition), records in counts.items()],
            }
        )

    def abort(self, attempt: str) -> None:
        """Abort the transaction of an attempt, or of whichever is under way where the name is not known (``""``)."""
        self._tell({"abort": attempt})

    def _tell(self, question: Mapping[str, Any]) -> None:
        try:
            control.ask(socket_path(self.checkpoint), question)
        except control.SilentProcessError as error:
            raise KafkaframesError(
                f"the process that held the transaction of this micro-batch was stopped or hung: {error}; the "
                "micro-batch must be written again"
            ) from error
        except OSError as error:
            raise KafkaframesError(
                f"the process that held the transaction of this micro-batch is gone: {error}"
            ) from error

    def _start(self, path: Path) -> None:
        control.start_process(_MODULE, path, pickle.dumps(self), purpose=_PURPOSE)


def digest_of(options: TopicWriteOptions) -> str:
    """Return what tells a sink's options from others, and does not tell the secrets in them."""
    return hashlib.sha256(json.dumps(asdict(options), sort_keys=True, default=str).encode()).hexdigest()


def socket_path(checkpoint: str) -> Path:
    """Return where the process of a checkpoint's sink listens; raises as ``control.socket_path``."""
    return control.socket_path("transactions", __file__, Path(__file__).stat().st_mtime_ns, checkpoint)
