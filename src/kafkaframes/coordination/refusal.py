"""What a coordinator refuses: Kafka's error code, and the words that some responses carry."""

from __future__ import annotations

from kafkaframes.errors import ErrorCode, KafkaframesError


class RefusedError(KafkaframesError):
    """A request that a coordinator refuses; nothing has changed then.

    Attributes:
        code: Kafka's error.
        reason: the error message of responses that carry one.
    """

    def __init__(self, code: ErrorCode, reason: str = "") -> None:
        super().__init__(reason or str(code))
        self.code = code
        self.reason = reason or code.message
