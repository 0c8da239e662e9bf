"""AlterUserScramCredentials (51): set and delete SCRAM credentials (KIP-554).

Version 0. They are stored, and count at once.

Gaps: none known.
"""

from __future__ import annotations

from typing import Any

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.errors import CODE, NONE
from kafkaframes.broker.request import Request
from kafkaframes.broker.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, NUMBERS, credential_of_salted
from kafkaframes.broker.state import BrokerState


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change the users, all mechanisms of one together."""
    body = request.body
    keys = [(one.name, one.mechanism) for one in (*body.deletions, *body.upsertions)]
    rows = []
    for user in dict.fromkeys(name for name, _ in keys):
        own = [key for key in keys if key[0] == user]
        code, message = _change(broker, body, user, is_twice=len(set(own)) < len(own))
        rows.append(request.types.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message))
    broker.save_credentials()
    return request.response(results=rows)


def _change(broker: BrokerState, body: Any, user: str, *, is_twice: bool) -> tuple[int, str | None]:
    if is_twice:
        return CODE["DUPLICATE_RESOURCE"], "a mechanism of the user is changed twice"
    deletions = [one for one in body.deletions if one.name == user]
    upsertions = [one for one in body.upsertions if one.name == user]
    for one in (*deletions, *upsertions):
        if one.mechanism not in NUMBERS:
            return CODE["UNSUPPORTED_SASL_MECHANISM"], f"there is no SCRAM mechanism {one.mechanism}"
    scram = broker.credentials.scram
    if any((user, NUMBERS[one.mechanism]) not in scram for one in deletions):
        return CODE["RESOURCE_NOT_FOUND"], "there is no such credential"
    if any(not LEAST_ITERATIONS <= one.iterations <= MOST_ITERATIONS for one in upsertions):
        return CODE["UNACCEPTABLE_CREDENTIAL"], f"iterations are {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
    if not user:
        return CODE["UNACCEPTABLE_CREDENTIAL"], "a user has a name"
    for one in deletions:
        del scram[user, NUMBERS[one.mechanism]]
    for one in upsertions:
        name = NUMBERS[one.mechanism]
        scram[user, name] = credential_of_salted(name, one.salt, one.iterations, one.salted_password)
    return NONE, None


def _refuse(request: Request, code: int) -> Answer:
    users = dict.fromkeys(one.name for one in (*request.body.deletions, *request.body.upsertions))
    row = request.types.AlterUserScramCredentialsResult
    return request.response(results=[row(user=user, error_code=code) for user in users])


API = Api(
    name="AlterUserScramCredentials",
    handle=handle,
    tier="T4",
    behaviour="Stored, and in force at once.",
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=_refuse,
)
