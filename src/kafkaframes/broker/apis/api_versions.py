"""ApiVersions: which APIs and versions are served (KIP-35, KIP-511, KIP-584)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ApiVersionsRequest, ApiVersionsResponse

    Request: TypeAlias = RequestOf[ApiVersionsRequest, ApiVersionsResponse]

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_ZERO_FEATURES = 4


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with everything that is served."""
    body = request.body
    if request.version >= _FIRST_WITH_SOFTWARE:
        names = body.client_software_name, body.client_software_version
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return request.response(error_code=ErrorCode.INVALID_REQUEST)
        request.session.software = names
    return request.response(
        error_code=ErrorCode.NONE,
        api_keys=[_row(request, key, low, high) for key, (low, high) in sorted(broker.advertised.items())],
        finalized_features_epoch=0 if broker.features else -1,
        supported_features=[
            request.response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high, _) in broker.features.items()
            if low > 0 or request.version >= _FIRST_WITH_ZERO_FEATURES
        ],
        finalized_features=[
            request.response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, (_, _, level) in broker.features.items()
            if level
        ],
    )


def refuse(request: Request, broker: BrokerState) -> Answer:
    """Answer a version that is not known, at version 0."""
    low, high = broker.advertised.get(API.key, API.range)
    return request.response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_row(request, API.key, low, high)])


def _row(request: Request, key: int, low: int, high: int) -> ApiVersionsResponse.ApiVersion:
    return request.response.ApiVersion(api_key=key, min_version=low, max_version=high)


API = Api(
    name="ApiVersions",
    handle=handle,
    on_unknown_version=refuse,
    tier="T0",
    behaviour="The ranges of the files of this folder, or of the release that is played.",
    notes={
        "unknown": "answered at v0 with UNSUPPORTED_VERSION and the range of this API alone",
        "v0-v3": ("features whose lowest version is 0 are left out: older Java clients cannot read them (KAFKA-17011)"),
        "v3+": "the client's software is remembered; a name that breaks KIP-511's rule is INVALID_REQUEST",
    },
    before_authentication=True,
)
