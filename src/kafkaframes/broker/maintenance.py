"""What a broker does by the clock, beside answering: retention, checkpoints, flushing by time, forgetting producers."""

from __future__ import annotations

import logging

from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import KafkaframesError

_EVERY_MS = 1_000
_LOG = logging.getLogger(__name__)


class Maintenance:
    """Looks after a broker's log directory, once a second of the broker's clock."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._schedule()

    def _schedule(self) -> None:
        if not self._broker.is_read_only:
            self._broker.clock.call_later(_EVERY_MS, self._run)

    def _run(self) -> None:
        broker = self._broker
        if broker.logs.is_closed:
            return
        starts = {partition: partition.log.log_start_offset for partition in broker.partitions()}
        try:
            broker.logs.tick(broker.clock.now_ms)
            if broker.is_unsaved and not broker.logs.is_offline:
                broker.save()
        except KafkaframesError:
            _LOG.exception("looking after the log directory failed")
        for partition, start in starts.items():
            if partition.log.log_start_offset != start:
                partition.notify()
        self._schedule()
