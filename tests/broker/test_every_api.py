"""Every API at every version, with a request of default values: as it is, at every truncation, and with a surplus
byte.
"""

from __future__ import annotations

import pytest
from tests.versions import at_every_version

from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.requests.api import CloseConnection, DeferredResponse
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request

of_each_version = at_every_version("api", lambda api: range(api.range[0], api.range[1] + 1))
of_each_api = pytest.mark.parametrize("api", collect_apis().values(), ids=lambda api: api.name)

# Fields whose default value would close the connection.
REQUIRED_FIELDS = {
    "ApiVersions": {"client_software_name": "a", "client_software_version": "1"},
    "DescribeAcls": {"resource_type_filter": 1, "operation": 1, "permission_type": 1},
}


@of_each_api
@of_each_version
def test_a_request_with_default_values_is_answered(client, api, version):
    answer = client.ask(api.name, version, **REQUIRED_FIELDS.get(api.name, {}))
    if answer is None:  # Produce with default values has acks 0
        assert api.name == "Produce"
    else:
        assert answer.spec.api_key == api.key


@of_each_api
@of_each_version
def test_every_truncation_closes_the_connection_or_is_answered(client, api, version):
    frame = encode_request(message(f"{api.name}Request")(), version, client_id="test")
    for end in range(len(frame)):
        try:
            request = client.dispatcher.decode_request(frame[:end], client.session)
            answer = client.dispatcher.answer(request)
        except CloseConnection:
            continue
        assert answer is None or isinstance(answer, DeferredResponse) or answer.spec.api_key == api.key


@of_each_api
@of_each_version
def test_a_surplus_byte_is_ignored(client, api, version):
    """Kafka 4.3.1 answered Metadata 4, ListGroups 0 and ApiVersions 0 with extra bytes after them (tried on
    2026-11-22).
    """
    body = message(f"{api.name}Request")()
    frame = encode_request(body, version, client_id="test")
    with_surplus = client.dispatcher.decode_request(frame + b"\0", client.session)
    assert with_surplus.body == client.dispatcher.decode_request(frame, client.session).body
