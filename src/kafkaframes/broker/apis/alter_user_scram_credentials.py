"""AlterUserScramCredentials: set and delete SCRAM credentials (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, NUMBERS, credential_of_salted
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse

    Request: TypeAlias = RequestOf[AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change the users, all mechanisms of one together."""
    body = request.body
    changes: dict[str, tuple[list[Any], list[Any]]] = {}
    for deletion in body.deletions:
        changes.setdefault(deletion.name, ([], []))[0].append(deletion)
    for upsertion in body.upsertions:
        changes.setdefault(upsertion.name, ([], []))[1].append(upsertion)

    def row(
        change: tuple[str, tuple[list[Any], list[Any]]],
    ) -> AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult:
        user, (deletions, upsertions) = change
        code, message = _change(broker, user, deletions, upsertions)
        return request.response.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)

    def answer(rows: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]) -> Answer:
        broker.save_credentials()
        return request.response(results=rows)

    return broker.changes.rows(changes.items(), row, answer, is_change=True)


def _change(broker: BrokerState, user: str, deletions: list[Any], upsertions: list[Any]) -> tuple[int, str | None]:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user has a name"
    scram = broker.credentials.scram
    for place, one in enumerate((*deletions, *upsertions)):  # the first that is wrong is answered, in Kafka's order
        if place:
            return ErrorCode.DUPLICATE_RESOURCE, "a user is changed once in a request"
        if one.mechanism not in NUMBERS:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"there is no SCRAM mechanism {one.mechanism}"
        is_deletion = place < len(deletions)
        if is_deletion and (user, NUMBERS[one.mechanism]) not in scram:
            return ErrorCode.RESOURCE_NOT_FOUND, "there is no such credential"
        if not is_deletion and not LEAST_ITERATIONS <= one.iterations <= MOST_ITERATIONS:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"iterations are {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
        if not is_deletion and not one.salted_password:  # Java's HMAC takes no empty key: Kafka answers -1
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salted password is empty"
    for one in deletions:
        del scram[user, NUMBERS[one.mechanism]]
    for one in upsertions:
        name = NUMBERS[one.mechanism]
        scram[user, name] = credential_of_salted(name, one.salt, one.iterations, one.salted_password)
    return ErrorCode.NONE, None


def _refuse(request: Request, code: int) -> Answer:
    body = request.body
    users = dict.fromkeys([*(one.name for one in body.deletions), *(one.name for one in body.upsertions)])
    row = request.response.AlterUserScramCredentialsResult
    return request.response(results=[row(user=user, error_code=code) for user in users])


API = Api(
    name="AlterUserScramCredentials",
    handle=handle,
    tier="T4",
    behaviour="Stored, and in force at once.",
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=_refuse,
)
