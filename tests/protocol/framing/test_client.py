"""Choice of common versions: two ends with rewritten specs use the new versions, and other ends are unaffected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.errors import BrokerError, ErrorCode
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.messages.headers import decode_response, encode_response
from kafkaframes.protocol.negotiation import (
    choose_version,
    fallback_version,
    find_release_versions,
    find_supported_versions,
    parse_advertised_versions,
)
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.kip_636 import rewrite_errors
from kafkaframes.protocol.spec.versions import Versions

SPECS = {name: catalog.load_spec(name) for api in catalog.list_apis() for name in (api.request, api.response)}
REWRITTEN = rewrite_errors(SPECS)
API_VERSIONS, HEARTBEAT, INIT_PRODUCER_ID, OFFSET_DELETE = 18, 12, 22, 47
ApiVersionsResponse = message("ApiVersionsResponse")


def list_served_apis(specs=None):
    """Return the APIs that a broker with these specs lists."""
    return {api.key: find_supported_versions(api.key, specs) for api in catalog.list_apis()}


def decode_unsupported_version_response(**ranges):
    """Return the decoded response of a broker that does not support the version of the request."""
    rows = [ApiVersionsResponse.ApiVersion(api_key=API_VERSIONS, **ranges)] if ranges else []
    raw = encode_response(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows), 0)
    return decode_response(raw, API_VERSIONS, 4)


def test_client_and_broker_with_the_rewrite_use_its_versions(tmp_path):
    for name, spec in REWRITTEN.specs.items():
        (tmp_path / f"{name}.json").write_text(to_text(spec))
    assert find_supported_versions(HEARTBEAT, tmp_path) == Versions(0, 5)
    theirs = list_served_apis(REWRITTEN.specs)
    for api in REWRITTEN.apis:
        expected_version = 5 if api.key == INIT_PRODUCER_ID else api.version
        assert choose_version(api.key, theirs, specs=REWRITTEN.specs) == expected_version


@pytest.mark.parametrize("api", [pytest.param(api, id=api.response) for api in REWRITTEN.apis])
def test_an_unmodified_client_uses_the_old_version_with_a_rewritten_broker(api):
    version = choose_version(api.key, list_served_apis(REWRITTEN.specs))
    assert version == choose_version(api.key, list_served_apis()) == (api.before if api.key != INIT_PRODUCER_ID else 5)
    for name in (api.request, api.response):
        raw = make_value(class_of(SPECS[name]), version, 2).encode(version)
        assert class_of(REWRITTEN.specs[name]).decode(raw, version).encode(version) == raw


def test_a_rewritten_client_uses_the_old_version_with_an_unmodified_broker():
    assert choose_version(HEARTBEAT, list_served_apis(), specs=REWRITTEN.specs) == 4
    assert choose_version(OFFSET_DELETE, list_served_apis(), specs=REWRITTEN.specs) == 0


def raise_highest_version(name, highest):
    spec = SPECS[name]
    return replace(spec, struct=replace(spec.struct, versions=Versions(0, highest)))


def test_a_newer_client_falls_back_to_the_version_that_the_broker_lists():
    """KIP-511: a client or broker that does not know the other's newest version reads request and response at version
    0.
    """
    future = SPECS | {
        f"ApiVersions{half}": raise_highest_version(f"ApiVersions{half}", 8) for half in ("Request", "Response")
    }
    assert find_supported_versions(API_VERSIONS, future).highest == 8
    assert fallback_version(decode_unsupported_version_response(min_version=0, max_version=5), specs=future) == 5
    assert fallback_version(decode_unsupported_version_response(min_version=0, max_version=3), specs=future) == 3
    assert fallback_version(decode_unsupported_version_response()) == 0
    raw = encode_response(ApiVersionsResponse(error_code=0), 4)
    assert fallback_version(decode_response(raw, API_VERSIONS, 4)) is None


def test_a_fallback_without_a_common_version_is_an_error():
    with pytest.raises(BrokerError, match="no common version of ApiVersions: the broker supports versions 90 to 99"):
        fallback_version(decode_unsupported_version_response(min_version=90, max_version=99))


def test_versions_are_chosen_from_the_list_of_the_broker():
    rows = [(12, 0, 2), (3, 5, 4), (0, 90, 99)]
    body = ApiVersionsResponse(
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=key, min_version=a, max_version=b) for key, a, b in rows]
    )
    theirs = parse_advertised_versions(body)
    assert choose_version(HEARTBEAT, theirs) == 2
    assert choose_version(HEARTBEAT, theirs, max_version=1) == 1
    for key, least, reason in ((3, 0, "5 to 4"), (0, 0, "90 to 99"), (HEARTBEAT, 3, "0 to 2")):
        with pytest.raises(BrokerError, match=f"the broker supports versions {reason}"):
            choose_version(key, theirs, min_version=least)
    with pytest.raises(BrokerError, match="the broker does not support Fetch"):
        choose_version(1, theirs)


def test_supported_versions_are_released_in_request_and_response():
    assert find_supported_versions(INIT_PRODUCER_ID) == Versions(0, 5)
    shorter = [SPECS["HeartbeatRequest"], raise_highest_version("HeartbeatResponse", 2)]
    assert find_supported_versions(HEARTBEAT, shorter) == Versions(0, 2)
    assert find_release_versions("4.0")[0].lowest == 3  # accepted versions; Produce is advertised from 0
