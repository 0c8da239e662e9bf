"""DescribeUserScramCredentials: which users have SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.security.scram import NUMBERS
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )

    Request: TypeAlias = RequestOf[DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse]

_NUMBER = {name: number for number, name in NUMBERS.items()}


def handle(request: Request, broker: BrokerState) -> Answer:
    """Describe the users asked for, or all."""
    scram = broker.credentials.scram
    names = [one.name for one in request.body.users or ()] or sorted({user for user, _ in scram})
    return broker.changes.rows(
        Counter(names).items(),
        lambda asked: _row(request, broker, asked[0], is_twice=asked[1] > 1),
        lambda rows: request.response(error_message=None, results=rows),
    )


def _row(
    request: Request, broker: BrokerState, user: str, *, is_twice: bool
) -> DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    types = request.response
    row = types.DescribeUserScramCredentialsResult(user=user, error_message=None)
    infos = [
        types.CredentialInfo(mechanism=number, iterations=one.iterations)
        for mechanism, number in sorted(_NUMBER.items())
        if (one := broker.credentials.scram.get((user, mechanism))) is not None
    ]
    if is_twice:
        row.error_code, row.error_message = ErrorCode.DUPLICATE_RESOURCE, "the user is asked for twice"
    elif not infos:
        row.error_code, row.error_message = ErrorCode.RESOURCE_NOT_FOUND, "the user has no SCRAM credentials"
    else:
        row.error_code, row.credential_infos = ErrorCode.NONE, infos
    return row


def _refuse(request: Request, code: int) -> Answer:
    row = request.response.DescribeUserScramCredentialsResult
    rows = [row(error_code=code) for _ in request.body.users or ()]
    return request.response(error_code=code, results=rows)


API = Api(
    name="DescribeUserScramCredentials",
    handle=handle,
    tier="T4",
    behaviour="Mechanisms and iterations of each user.",
    rights=(Right("DESCRIBE", "CLUSTER"),),
    refuse=_refuse,
)
