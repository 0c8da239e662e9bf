"""One node that speaks Kafka's protocol, for development, tests, replays and migrations.

How it is put together, from the wire inwards:

1. ``server.py`` and ``outbox.py`` are the only files that know sockets: they pump bytes between a connection and
   ``dispatch.py``.
2. ``dispatch.py`` reads a request's header, runs the hooks (journal, faults), and calls the handler of its API. No I/O.
   Where nobody looks on, an ordinary Produce or Fetch is answered by ``short.py`` instead, with the same bytes.
3. ``apis/`` has a file for each family of APIs, in it a handler for each API. Its decorator (an ``api.Api``) says all
   of the API: versions, rights, behaviour, what changes with a version, gaps. ``table.py`` collects the handlers:
   ApiVersions and the tables of ``docs/broker-support.md`` are made from them. To add an API, add its handler; nothing
   else names it.
4. ``state.py`` is what a handler works on: topics and partitions, settings, the one clock, the coordinators.

The contract of a handler::

    @Api(name="Fetch", ...)
    def _fetch(request: RequestOf[FetchRequest, FetchResponse], broker: BrokerState) -> Answer

* The request's type names its messages: mypy knows each field.
* ``request.body`` is the decoded request, ``request.version`` its version; ``request.response(...)`` makes the answer,
  ``request.response.SomeStruct(...)`` the structs in it. A field that a version lacks is simply not written, if it is
  at its default or ignorable.
* It returns the answer; or an ``api.Later``, which somebody completes afterwards (a join, a sync, a long poll); or
  ``None``: nothing is sent (Produce with acks 0). Raising ``api.CloseConnection`` drops the connection as Kafka does.
* It never blocks, never sleeps, never looks at the system's time: ``broker.clock`` has ``now_ms`` and ``call_later``.
* One request at a time is handled per connection, as in Kafka; a ``Later`` holds the connection's next request back.
  ``Later.when_abandoned`` tells that the connection was closed before the answer.
* Everything runs on one thread, the event loop's; no locks.

Coordinators (package ``coordination``) are state machines that get ``BrokerState`` and use of it: ``clock``,
``topics``, and ``internal``: ``append`` writes records into a partition of an internal topic (with markers and producer
fields if asked), ``replay`` gives them all back after a restart. ``assembly.py`` makes them and calls their ``load``.
"""

from kafkaframes.broker.arguments import Cluster, Metrics, Served
from kafkaframes.broker.clock import Clock
from kafkaframes.broker.handle import Broker

__all__ = ["Broker", "Clock", "Cluster", "Metrics", "Served"]
