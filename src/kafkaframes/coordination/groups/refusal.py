"""What a coordinator refuses: Kafka's error code, and the words that some responses carry."""

from __future__ import annotations

from typing import Final

from kafkaframes.errors import ErrorCode, KafkaframesError


def _number(name: str) -> int:
    return ErrorCode[name]


NONE: Final = 0
COORDINATOR_NOT_AVAILABLE: Final = _number("COORDINATOR_NOT_AVAILABLE")
FENCED_INSTANCE_ID: Final = _number("FENCED_INSTANCE_ID")
FENCED_MEMBER_EPOCH: Final = _number("FENCED_MEMBER_EPOCH")
GROUP_ID_NOT_FOUND: Final = _number("GROUP_ID_NOT_FOUND")
GROUP_MAX_SIZE_REACHED: Final = _number("GROUP_MAX_SIZE_REACHED")
GROUP_SUBSCRIBED_TO_TOPIC: Final = _number("GROUP_SUBSCRIBED_TO_TOPIC")
ILLEGAL_GENERATION: Final = _number("ILLEGAL_GENERATION")
INCONSISTENT_GROUP_PROTOCOL: Final = _number("INCONSISTENT_GROUP_PROTOCOL")
INVALID_GROUP_ID: Final = _number("INVALID_GROUP_ID")
INVALID_REGULAR_EXPRESSION: Final = _number("INVALID_REGULAR_EXPRESSION")
INVALID_REQUEST: Final = _number("INVALID_REQUEST")
INVALID_SESSION_TIMEOUT: Final = _number("INVALID_SESSION_TIMEOUT")
MEMBER_ID_REQUIRED: Final = _number("MEMBER_ID_REQUIRED")
NON_EMPTY_GROUP: Final = _number("NON_EMPTY_GROUP")
OFFSET_METADATA_TOO_LARGE: Final = _number("OFFSET_METADATA_TOO_LARGE")
REBALANCE_IN_PROGRESS: Final = _number("REBALANCE_IN_PROGRESS")
STALE_MEMBER_EPOCH: Final = _number("STALE_MEMBER_EPOCH")
UNKNOWN_MEMBER_ID: Final = _number("UNKNOWN_MEMBER_ID")
UNRELEASED_INSTANCE_ID: Final = _number("UNRELEASED_INSTANCE_ID")
UNSTABLE_OFFSET_COMMIT: Final = _number("UNSTABLE_OFFSET_COMMIT")
UNSUPPORTED_ASSIGNOR: Final = _number("UNSUPPORTED_ASSIGNOR")
UNSUPPORTED_VERSION: Final = _number("UNSUPPORTED_VERSION")


class RefusedError(KafkaframesError):
    """A request that a coordinator refuses; nothing has changed then.

    Attributes:
        code: Kafka's number.
        reason: the error message of responses that carry one.
    """

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(reason or str(ErrorCode(code)))
        self.code = code
        self.reason = reason or ErrorCode(code).message
