"""UpdateFeatures: change the levels of features (KIP-584)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import UpdateFeaturesRequest, UpdateFeaturesResponse

    Request: TypeAlias = RequestOf[UpdateFeaturesRequest, UpdateFeaturesResponse]

_FIRST_WITHOUT_ROWS = 2


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change each feature, or none: the first that is wrong is the error of all."""
    updates = request.body.feature_updates
    wrong = next((reason for one in updates if (reason := _reason(broker, one)) is not None), None)
    if wrong is not None:
        return request.response(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=wrong)
    if not request.body.validate_only:
        for one in updates:
            low, high, _ = broker.features[one.feature]
            broker.features[one.feature] = low, high, one.max_version_level
    rows: list[Any] = []
    if request.version < _FIRST_WITHOUT_ROWS:
        rows = [request.response.UpdatableFeatureResult(feature=one.feature, error_message=None) for one in updates]
    return request.response(error_message=None, results=rows)


def _reason(broker: BrokerState, one: UpdateFeaturesRequest.FeatureUpdateKey) -> str | None:
    if one.feature not in broker.features:
        return f"there is no feature {one.feature!r} here"
    low, high, _ = broker.features[one.feature]
    if not min(low, 0) <= one.max_version_level <= high:
        return f"{one.feature} has the levels {low} to {high}, not {one.max_version_level}"
    return None


API = Api(
    name="UpdateFeatures",
    handle=handle,
    tier="T3",
    behaviour="Levels within what is supported are taken, and told by ApiVersions.",
    notes={
        "v0": "allow_downgrade",
        "v1+": "an upgrade type, and validate_only",
        "v2+": "no rows for single features",
    },
    gaps=("levels are kept until the broker stops",),
    rights=(Right("ALTER", "CLUSTER"),),
)
