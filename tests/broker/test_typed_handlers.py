"""Handlers are typed with their API's generated classes, so mypy reports a field that a message does not have."""

from __future__ import annotations

import pytest
from tests.under_mypy import run_mypy

from kafkaframes.broker.dispatch.table import collect_apis

MESSAGES_MODULE = "kafkaframes.protocol.messages.kafka"
HANDLER_WITH_UNKNOWN_FIELD = """\
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.protocol.messages.kafka import HeartbeatRequest, HeartbeatResponse

def handle(request: TypedRequest[HeartbeatRequest, HeartbeatResponse]) -> None:
    request.body.group_id.upper()
    request.response(error_code=1)
    request.body.groups
    request.response(error=1)
    request.response.Member
    request.response(error_code="1")
"""


@pytest.mark.timeout(600)
def test_mypy_knows_the_messages_of_every_handler(tmp_path):
    apis = sorted(collect_apis().values(), key=lambda api: api.name)
    handlers = [(api.handle.__module__, api.handle.__qualname__) for api in apis]
    lines = [
        *(f"import {module}" for module, _ in handlers),
        *(f"reveal_type({'.'.join(handler)})" for handler in handlers),
    ]
    path = tmp_path / "handlers_under_mypy.py"
    path.write_text(HANDLER_WITH_UNKNOWN_FIELD + "\n".join(lines))
    output = run_mypy(path)
    wrong = [line for line in output if " error: " in line]
    assert [line.partition(": ")[0] for line in wrong] == ["7", "8", "9", "10"], "\n".join(wrong)
    revealed_lines = [line for line in output if "Revealed" in line]
    assert len(revealed_lines) == len(apis)
    untyped_handlers = [
        api.name
        for api, line in zip(apis, revealed_lines, strict=True)
        if f"TypedRequest[{MESSAGES_MODULE}.{api.name}Request, {MESSAGES_MODULE}.{api.name}Response]" not in line
    ]
    assert untyped_handlers == []
