"""The synchronous share consumer, which runs its asyncio twin on an event loop in another thread.

The class is not in ``sync.py``, so that programs without share groups do not import the state machine of share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from kafkaframes.client.loop import CLOSE_TIMEOUT_MS, LoopThread
from kafkaframes.client.share_consumer import AsyncShareConsumer
from kafkaframes.client.sync_methods import SyncClient, sync_method, sync_method_on_loop

if TYPE_CHECKING:
    from kafkaframes.client.options import Servers, ShareConsumerOptions


class ShareConsumer(SyncClient):
    """Reads records of a share group.

    ``with ShareConsumer("localhost:9092", group_id="g") as consumer: ...``

    ``AsyncShareConsumer`` is the corresponding asyncio client.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ShareConsumerOptions]) -> None:
        """Create a consumer. The consumer connects in ``subscribe``.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ShareConsumerOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self._twin: AsyncShareConsumer = AsyncShareConsumer(bootstrap_servers, **options)
        self._loop = LoopThread(self._name, closing=self._twin.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send pending acknowledgements, release the other records, leave the group and close the connections."""
        self._loop.end_loop(self._twin.close, timeout_s=CLOSE_TIMEOUT_MS / 1000)

    subscribe = sync_method(AsyncShareConsumer.subscribe)
    unsubscribe = sync_method(AsyncShareConsumer.unsubscribe)
    poll = sync_method(AsyncShareConsumer.poll)
    fetch_arrow = sync_method(AsyncShareConsumer.fetch_arrow)
    acknowledge = sync_method_on_loop(AsyncShareConsumer.acknowledge)
    renew = sync_method(AsyncShareConsumer.renew)
    commit = sync_method(AsyncShareConsumer.commit)
    assignment = sync_method_on_loop(AsyncShareConsumer.assignment)
    metrics = sync_method_on_loop(AsyncShareConsumer.metrics)
    client_instance_id = sync_method(AsyncShareConsumer.client_instance_id)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that this consumer has subscribed to."""
        return self._twin.subscription

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """The lock duration of a record in milliseconds, as brokers last reported it; None before the first fetch."""
        return self._twin.acquisition_lock_timeout_ms
