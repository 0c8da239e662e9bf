"""The error codes of transactions, and the exception that carries one."""

from __future__ import annotations

from typing import Final

from kafkaframes.errors import ErrorCode, KafkaframesError


def _number(name: str) -> int:
    return ErrorCode[name]


NONE: Final = 0
CONCURRENT_TRANSACTIONS: Final = _number("CONCURRENT_TRANSACTIONS")
INVALID_PRODUCER_EPOCH: Final = _number("INVALID_PRODUCER_EPOCH")
INVALID_PRODUCER_ID_MAPPING: Final = _number("INVALID_PRODUCER_ID_MAPPING")
INVALID_REQUEST: Final = _number("INVALID_REQUEST")
INVALID_TRANSACTION_TIMEOUT: Final = _number("INVALID_TRANSACTION_TIMEOUT")
INVALID_TXN_STATE: Final = _number("INVALID_TXN_STATE")
NOT_ENOUGH_REPLICAS: Final = _number("NOT_ENOUGH_REPLICAS")
PRODUCER_FENCED: Final = _number("PRODUCER_FENCED")
TRANSACTION_ABORTABLE: Final = _number("TRANSACTION_ABORTABLE")
TRANSACTIONAL_ID_NOT_FOUND: Final = _number("TRANSACTIONAL_ID_NOT_FOUND")


class TransactionRefusedError(KafkaframesError):
    """A request that the coordinator refuses; nothing has changed then.

    Attributes:
        code: Kafka's number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(str(ErrorCode(code)))
        self.code = code
