"""InitProducerId (22): a producer id and epoch, for idempotence and for transactions (KIP-98).

Versions 0 to 5 (6 is unstable in Kafka and not served). Without a transactional id: a new id with epoch 0, never given
before, not even by a broker that was killed. With one: the transaction coordinator's.

* v3+: a producer names the id and epoch that it has, to go on with them (KIP-360).

Gaps: two-phase commit (v6, KIP-939).
"""

from __future__ import annotations

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.errors import CODE, NONE
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState


def handle(request: Request, broker: BrokerState) -> Answer:
    """Give an id away, or ask the transaction coordinator."""
    transactional_id = request.body.transactional_id
    if broker.is_read_only:
        return request.response(error_code=CODE["POLICY_VIOLATION"])
    if transactional_id is None:
        return request.response(error_code=NONE, producer_id=broker.next_producer_id(), producer_epoch=0)
    if transactional_id == "":
        return request.response(error_code=CODE["INVALID_REQUEST"])
    if not broker.access.allows(request.session, "WRITE", "TRANSACTIONAL_ID", transactional_id):
        return request.response(error_code=CODE["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"])
    if broker.transactions is None:
        return request.response(error_code=CODE["COORDINATOR_NOT_AVAILABLE"])
    answer: Answer = broker.transactions.init_producer_id(request)
    return answer


API = Api(
    name="InitProducerId",
    handle=handle,
    tier="T2",
    behaviour="A new id with epoch 0 that was never given before; with a transactional id the coordinator's.",
    notes={"v3+": "a producer goes on with the id and epoch that it names"},
    gaps=("two-phase commit (v6)",),
)
