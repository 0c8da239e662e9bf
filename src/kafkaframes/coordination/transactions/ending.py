"""How EndTxn is answered: which end of a transaction is a new one, a repetition, or wrong (KIP-98, KIP-890).

Version 2 of transactions bumps the epoch at every end, so a repetition comes with the epoch before, or, after a change
of the producer id, with the old id and its last epoch:

    state             abort, repeated   abort   commit, repeated   commit
    Empty             fenced            bumps   fenced             INVALID_TXN_STATE
    CompleteAbort     done              bumps   INVALID_TXN_STATE  INVALID_TXN_STATE
    CompleteCommit    INVALID_TXN_STATE bumps   done               INVALID_TXN_STATE
"""

from __future__ import annotations

from enum import Enum

from kafkaframes.coordination.transactions.state import (
    COMPLETE,
    LARGEST_EPOCH,
    PREPARED,
    S,
    Transaction,
    TransactionState,
)
from kafkaframes.errors import ErrorCode, RefusedError


class End(Enum):
    """What is to be done."""

    WRITE = "write the markers of the open transaction"
    NOTHING_TO_END = "bump the epoch: nothing was added"
    DONE = "it has been done: answer again"


_ENDED_BY = {S.COMPLETE_COMMIT: True, S.PREPARE_COMMIT: True, S.COMPLETE_ABORT: False, S.PREPARE_ABORT: False}


def end_of_version_0(transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool) -> End:
    """Decide for a client that does not bump epochs."""
    if transaction.producer_id != producer_id:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        raise RefusedError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is S.ONGOING:
        return End.WRITE
    _check_same_end(transaction.state, commit=commit)
    return End.DONE


def end_of_version_2(transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool) -> End:
    """Decide for a client that goes on with the epoch it is answered."""
    overflowed = (
        transaction.previous_producer_id == producer_id
        and producer_epoch == LARGEST_EPOCH - 1
        and transaction.producer_epoch == 0
    )
    bumped = transaction.producer_epoch == producer_epoch + 1
    if transaction.producer_id != producer_id and not overflowed:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not _is_valid_epoch(transaction, producer_epoch, bumped=bumped, overflowed=overflowed):
        raise RefusedError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is S.ONGOING:
        return End.WRITE
    is_repeated = transaction.state in PREPARED or (transaction.state in COMPLETE and (bumped or overflowed))
    if is_repeated:
        _check_same_end(transaction.state, commit=commit)
        return End.DONE
    if commit:
        raise RefusedError(ErrorCode.INVALID_TXN_STATE)
    return End.NOTHING_TO_END


def _is_valid_epoch(transaction: Transaction, producer_epoch: int, *, bumped: bool, overflowed: bool) -> bool:
    if transaction.state in PREPARED:
        return bumped
    is_current = transaction.producer_epoch == producer_epoch
    return is_current or (transaction.state in COMPLETE and (bumped or overflowed))


def _check_same_end(state: TransactionState, *, commit: bool) -> None:
    """Refuse the other end than the one that was taken; one whose markers are not written yet is asked for again."""
    if _ENDED_BY.get(state) is not commit:
        raise RefusedError(ErrorCode.INVALID_TXN_STATE)
    if state in PREPARED:
        raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
