"""DescribeClientQuotas: the quotas that were set (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeClientQuotasRequest, DescribeClientQuotasResponse

    Request: TypeAlias = RequestOf[DescribeClientQuotasRequest, DescribeClientQuotasResponse]

EXACT, DEFAULT, ANY = range(3)
TYPES = ("user", "client-id", "ip")
Entity = dict[str, str | None]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with the entities that the filter takes."""
    body, types = request.body, request.response
    kinds = [one.entity_type for one in body.components]
    code = _code(body.components)
    if code != ErrorCode.NONE:
        return request.response(error_code=code, error_message=f"entity types {kinds}", entries=None)
    rows = []
    for stored in broker.metadata.entities.get("quotas", []):
        entity: Entity = stored["entity"]
        if _matches(entity, body.components, is_strict=body.strict):
            rows.append(
                types.EntryData(
                    entity=[types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                    values=[types.ValueData(key=key, value=value) for key, value in stored["values"].items()],
                )
            )
    return request.response(error_message=None, entries=rows)


def _code(components: list[DescribeClientQuotasRequest.ComponentData]) -> int:
    """Return the error of the first component that is wrong, or of two that do not go together."""
    seen: set[str] = set()
    for one in components:
        if one.entity_type in ("", *seen):
            return ErrorCode.INVALID_REQUEST
        if one.entity_type not in TYPES:
            return ErrorCode.UNSUPPORTED_VERSION
        if one.match_type not in (EXACT, DEFAULT, ANY) or (one.match is None) == (one.match_type == EXACT):
            return ErrorCode.INVALID_REQUEST
        seen.add(one.entity_type)
    return ErrorCode.INVALID_REQUEST if "ip" in seen and len(seen) > 1 else ErrorCode.NONE


def _matches(entity: Entity, components: list[DescribeClientQuotasRequest.ComponentData], *, is_strict: bool) -> bool:
    for one in components:
        if one.entity_type not in entity:
            return False
        name = entity[one.entity_type]
        if one.match_type == EXACT and name != one.match:
            return False
        if one.match_type == DEFAULT and name is not None:
            return False
    return not is_strict or len(components) == len(entity)


def _refuse(request: Request, code: int) -> Answer:
    return request.response(error_code=code, entries=None)


API = Api(
    name="DescribeClientQuotas",
    handle=handle,
    tier="T3",
    behaviour="The quotas that were set.",
    gaps=("quotas are stored and told, and throttle nobody",),
    rights=(Right("DESCRIBE_CONFIGS", "CLUSTER"),),
    refuse=_refuse,
)
