"""A request is charged to its quotas: for how long is its connection not heard (KIP-219)?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafkaframes.broker.api import Answer, Later
from kafkaframes.broker.quotas import FETCH, PRODUCE, REQUEST, is_counted
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState
from kafkaframes.protocol.messages import Message

_PERCENT = 100
_FRAME_BYTES = 4


def charged(request: Request, broker: BrokerState, call: Callable[[], Answer]) -> Answer:
    """Return an answer with its throttle time, which ``request.throttle_ms`` has, too."""
    if not broker.quotas.limits:
        return call()
    began = time.perf_counter()
    answer = call()
    seconds = time.perf_counter() - began
    if isinstance(answer, Later):
        answer.when_complete(lambda later: _charge(request, broker, later.answer, seconds))
    else:
        _charge(request, broker, answer, seconds)
    return answer


def _charge(request: Request, broker: BrokerState, answer: Any, seconds: float) -> None:
    quotas, now_ms = broker.quotas, broker.waits.now_ms
    waits = [request.throttle_ms]
    if request.api.name == "Produce":
        waits.append(quotas.charge(request, PRODUCE, len(request.data), now_ms))
    elif request.api.name == "Fetch" and isinstance(answer, Message):
        size = _FRAME_BYTES + sum(map(len, answer.encode_parts(request.version)))
        waits.append(quotas.charge(request, FETCH, size, now_ms))
        if waits[-1]:
            quotas.give_back(request, FETCH, size, now_ms)
            _leave_out_records(request, broker, answer)
    if is_counted(request):
        waits.append(quotas.charge(request, REQUEST, seconds * _PERCENT, now_ms))
    request.throttle_ms = max(waits)
    if request.throttle_ms and hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = request.throttle_ms


def _leave_out_records(request: Request, broker: BrokerState, answer: Any) -> None:
    """Answer a Fetch over its quota with nothing, and begin no session (FetchContext.getThrottledResponse)."""
    answer.responses = []
    if request.body.session_epoch <= 0 and answer.session_id:
        broker.fetch_sessions.end(answer.session_id)
        answer.session_id = 0
