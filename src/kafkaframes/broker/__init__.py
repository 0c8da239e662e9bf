"""An embedded Kafka broker for development, tests, replays and migrations.

The layers of the broker, from the network inwards:

1. ``lifecycle/`` has ``Broker``, the class that users hold. ``Broker`` opens directories, starts and stops the other
   layers, and runs the periodic work. ``faults/`` contains the faults, the journal and the inspection functions for
   tests.
2. ``network/`` transfers bytes between a connection and the dispatcher, and is the only folder that uses sockets.
3. ``dispatch/dispatch.py`` decodes the request header, runs the hooks (journal, faults) and calls the API's handler,
   without I/O. Without hooks, ``dispatch/fast_path.py`` answers ordinary Produce and Fetch requests instead, with the
   same bytes.
4. ``apis/`` has a file for each family of APIs, with a handler for each API. The handler's decorator (an ``api.Api``)
   declares the API's versions, required permissions, behaviour, differences between versions, and gaps.
   ``dispatch/table.py`` collects the handlers. The ApiVersions response and the tables of ``docs/broker-support.md``
   are generated from the declarations. To add an API, add its handler: no other file lists the APIs.
5. ``state/`` is the state that handlers read and change: topics, partitions, the clock, the coordinators. The layers
   below ``state/`` are ``security/`` (authentication, authorization), ``settings/`` and ``requests/`` (a request and
   its API's declaration).

The contract of a handler::

    @Api(name="Fetch", ...)
    def _handle_fetch(request: TypedRequest[FetchRequest, FetchResponse], broker: BrokerState) -> Answer

* The type parameters of ``request`` are the API's request and response classes, so that mypy checks each field.
* ``request.body`` is the decoded request and ``request.version`` its version. ``request.response(...)`` creates the
  response, and ``request.response.SomeStruct(...)`` creates its structs. A response field that the version lacks is
  omitted if its value is the default or it is ignorable.
* A handler returns the response, or an ``api.DeferredResponse`` that is completed afterwards (a join, a sync, a long
  poll), or ``None`` to send nothing (Produce with acks 0). To close the connection as Kafka does, it raises
  ``api.CloseConnection``.
* A handler never blocks, never sleeps and never reads the system time. ``broker.clock`` has ``now_ms`` and
  ``call_later``.
* A connection's requests are handled one at a time, as in Kafka. A pending ``DeferredResponse`` delays the connection's
  next request. ``DeferredResponse.call_when_abandoned`` registers a callback for a connection that closes before the
  response.
* Everything runs on the event loop's thread, without locks.

Coordinators (package ``coordination``) are state machines that use three parts of ``BrokerState``: ``clock``,
``topics`` and ``internal``. ``internal.append`` writes records to a partition of an internal topic, optionally as part
of a producer's transaction. ``internal.replay`` reads these records after a restart. ``lifecycle/assembly.py`` creates
the coordinators and loads their state.
"""

from kafkaframes.broker.faults.controls import GroupInfo, MemberInfo, TopicInfo, TransactionInfo
from kafkaframes.broker.faults.disk_faults import DiskRule
from kafkaframes.broker.faults.faults import Rule
from kafkaframes.broker.faults.journal import Journal, JournalEntry
from kafkaframes.broker.lifecycle.arguments import Cluster, MetricsEndpoint, ServedLogs
from kafkaframes.broker.lifecycle.handle import Broker
from kafkaframes.broker.lifecycle.opening import Snapshot
from kafkaframes.broker.network.server import Connection
from kafkaframes.broker.security.acls import Acl
from kafkaframes.broker.security.kerberos import Kerberos
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.broker.state.clock import BrokerClock, Clock, Timer

__all__ = [
    "Acl",
    "Broker",
    "BrokerClock",
    "Clock",
    "Cluster",
    "Connection",
    "DiskRule",
    "GroupInfo",
    "Journal",
    "JournalEntry",
    "Kerberos",
    "ListenerOptions",
    "MemberInfo",
    "MetricsEndpoint",
    "Rule",
    "Security",
    "ServedLogs",
    "Snapshot",
    "Timer",
    "TopicInfo",
    "TransactionInfo",
]
