"""Break the rules of the share consumer's state machine one at a time; cases or schedules must detect each broken rule.

    python -m tests.soak.share_mutants [--schedules 1500] [--only NAME] [--skip-cases]

Each mutant is a module, a text in it, and the replacement of the text. The cases of ``share_cases.py`` run first, then
schedules. The command prints the first failure for each mutant. Its exit status is 1 if a mutant survives. Each mutant
must fail a case: ``tests/client/test_share_machine.py`` checks that.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain

from tests.soak import share_cases, share_schedules
from tests.soak.mutation import Mutation, apply_mutation, create_parser, first_failure, report_mutants

from kafkaframes.client import share_machine, share_member, share_messages, share_session

MACHINE, MEMBER, MESSAGES, SESSION = share_machine, share_member, share_messages, share_session
MUTANTS: dict[str, Mutation] = {
    "fetches while the caller handles records": Mutation(
        MACHINE, "return self.member.is_waiting and not self._buffer and not self._errors", "return not self._errors"
    ),
    "fetches although records are buffered": Mutation(
        MACHINE,
        "return self.member.is_waiting and not self._buffer and not self._errors",
        "return self.member.is_waiting and not self._errors",
    ),
    "keeps buffered records of an ended session": Mutation(
        MACHINE,
        "        self._buffer = [entry for entry in self._buffer if entry.node_id != state.node.node_id]\n",
        "",
    ),
    "keeps buffered records after their locks expire": Mutation(
        MACHINE,
        "if entry.expires_at is None or now < entry.expires_at]",
        "]",
    ),
    "records are acknowledged in a later session": Mutation(
        MACHINE,
        "            if lock.session_number == state.session.number:\n                state.session.acknowledge",
        "            if True:\n                state.session.acknowledge",
    ),
    "a missing row is a success": Mutation(
        MACHINE,
        '    return create_missing_row_error([partition_id], f"acknowledgement at {describe_node(node)}")',
        "    return None",
    ),
    "acknowledgements of a lost request have no result": Mutation(
        MACHINE, "            self._record_result(request.acknowledgements, reason, state)\n", "            pass\n"
    ),
    "acknowledgements of a lost request succeed": Mutation(
        MACHINE,
        "self._record_result(request.acknowledgements, reason, state)",
        "self._record_result(request.acknowledgements, None, state)",
    ),
    "pending acknowledgements of a lost session have no result": Mutation(
        MACHINE,
        "        self._record_unsent_acknowledgements(state, pending_acknowledgements, is_awaited=is_awaited)\n",
        "",
    ),
    "pending acknowledgements are sent in the next session": Mutation(
        MACHINE,
        "pending_acknowledgements, is_awaited = state.session.take_pending(), state.must_send and bool(state.commits)",
        "pending_acknowledgements, is_awaited = {}, False",
    ),
    "gaps are not acknowledged": Mutation(
        MACHINE, "            session.acknowledge(partition_id, missing, kind)\n", "            pass\n"
    ),
    "a commit does not wait for requests in flight": Mutation(
        MACHINE,
        "return is_in_flight or (self.must_send and bool(self.session.pending))",
        "return self.must_send and bool(self.session.pending)",
    ),
    "a commit waits for gaps that are not sent": Mutation(
        MACHINE,
        "return is_in_flight or (self.must_send and bool(self.session.pending))",
        "return is_in_flight or bool(self.session.pending)",
    ),
    "sends acknowledgements only with fetches": Mutation(
        MACHINE, "        if state.must_send and session.pending:\n", "        if False:\n"
    ),
    "fetches from all nodes with record_limit": Mutation(
        MACHINE,
        "return not any(isinstance(node.request, ShareFetch) for node in self._nodes.values())",
        "return True",
    ),
    "sessions are not ended": Mutation(
        MACHINE, "            if not state.may_have_session:\n", "            if True:\n"
    ),
    "the end forgets pending acknowledgements": Mutation(
        MACHINE,
        "            kinds = state.session.take_pending()\n            state.may_have_session = False\n",
        "            kinds = {}\n            state.may_have_session = False\n",
    ),
    "records of other topics are returned": Mutation(
        MACHINE, "if partition is None or partition.topic not in self.topics:", "if partition is None:"
    ),
    "buffered records of other topics are returned": Mutation(
        MACHINE,
        "        self._buffer = [entry for entry in self._buffer if entry.partition.topic in topics]\n",
        "",
    ),
    "records that arrive during the end are buffered": Mutation(
        MACHINE,
        "        if self._is_ending:  # the end of the session releases the buffered records\n            return\n",
        "",
    ),
    "a moved leader is not looked up": Mutation(
        MACHINE, "            self._cluster.expire(partition.topic)\n", "            pass\n"
    ),
    "errors of partitions are dropped": Mutation(
        MACHINE,
        "            self.queue_error(error)\n            return\n        partition = self.get_partition(partition_id)",
        "            return\n        partition = self.get_partition(partition_id)",
    ),
    "errors of fetches are dropped": Mutation(
        MACHINE,
        "        elif not is_known or (isinstance(request, ShareFetch) and not is_retriable(error)):\n",
        "        elif not is_known:\n",
    ),
    "errors of heartbeats are dropped": Mutation(
        MACHINE, "            if member_error is not None:\n", "            if False:\n"
    ),
    "damaged records are not reported": Mutation(MACHINE, "            self.queue_error(row.damage)\n", ""),
    "records that cannot be decoded are rejected": Mutation(
        MACHINE, "kind = REJECT if isinstance(row.damage, CorruptRecordError) else RELEASE", "kind = REJECT"
    ),
    "damaged records are released": Mutation(
        MACHINE, "kind = REJECT if isinstance(row.damage, CorruptRecordError) else RELEASE", "kind = RELEASE"
    ),
    "a late response is processed": Mutation(
        MACHINE, "return state if state is not None and state.request is request else None", "return state"
    ),
    "the session epoch stays after an acknowledgement": Mutation(
        MACHINE,
        "            self._close_session(state)\n        else:\n            state.session.advance()\n",
        "            self._close_session(state)\n",
    ),
    "the previous records are not accepted": Mutation(
        MACHINE, "        if self._locks and not self._settings.is_explicit:\n", "        if False:\n"
    ),
    "a commit forgets acknowledgements that were not sent": Mutation(
        MACHINE, "        completion.results.update(self._unsent_errors)\n", ""
    ),
    "a later success hides an error": Mutation(
        MACHINE,
        "self.results[partition] = self.results.get(partition) or error",
        "self.results[partition] = error",
    ),
    "a partition of a fetch in flight loses its name": Mutation(
        MACHINE,
        "            used_partitions.update("
        "state.request.added_partitions if isinstance(state.request, ShareFetch) else ())\n",
        "",
    ),
    "a partition with pending acknowledgements loses its name": Mutation(
        MACHINE,
        "            used_partitions.update(state.session.partitions, state.session.pending)\n",
        "",
    ),
    "polls need no subscription": Mutation(
        MACHINE, "        if not self.topics or self._is_ending:\n", "        if False:\n"
    ),
    "explicit polls need no acknowledgements": Mutation(
        MACHINE, "        if self._locks and self._settings.is_explicit:\n", "        if False:\n"
    ),
    "a record is acknowledged twice": Mutation(
        MACHINE, "        for key in keys:\n            del self._locks[key]\n", ""
    ),
    "records are returned again": Mutation(
        MACHINE,
        "        acquired_batches, self._buffer = self._buffer, []\n",
        "        acquired_batches = self._buffer\n",
    ),
    "metadata are not refreshed": Mutation(
        MACHINE, "or now < self._metadata_not_before or not self._stale_topics:", "or True:"
    ),
    "a failed refresh is not repeated": Mutation(
        MACHINE,
        "                self._metadata_request = None\n                self._metadata_not_before",
        "                self._metadata_not_before",
    ),
    "renewals skip buffered records": Mutation(
        MACHINE,
        "        for entry in self._buffer:\n            renewed_offsets =",
        "        for entry in ():\n            renewed_offsets =",
    ),
    "renewed locks of buffered records expire": Mutation(
        MACHINE,
        "                    self._extend_locks(state, partition_id, renewal.kinds[partition_id])\n",
        "                    pass\n",
    ),
    "renewals of a lost session do not end": Mutation(
        MACHINE, "        self._fail_renewals(state, _create_session_error(state.node))\n", ""
    ),
    "a fetch that is given up leaves its session": Mutation(
        MACHINE, "                state.may_have_session = True\n        self", "                pass\n        self"
    ),
    "a lost session continues": Mutation(
        SESSION, "        self.epoch = INITIAL_EPOCH\n        self.number += 1\n", "        self.number += 1\n"
    ),
    "a new session has the old epoch": Mutation(SESSION, "        self.number += 1\n", ""),
    "a new session has the old partitions": Mutation(SESSION, "        self.partitions.clear()\n", ""),
    "all offsets of a batch have its first type": Mutation(
        SESSION, "is_uniform = len(set(types)) == 1", "is_uniform = True"
    ),
    "a member that is removed does not join again": Mutation(
        MEMBER, "if code in MEMBER_FENCED_CODES and not is_other_type:", "if False:"
    ),
    "a new subscription is not sent": Mutation(
        MEMBER,
        "is_new = self.epoch == JOIN_EPOCH or self.topics != self._sent_topics",
        "is_new = self.epoch == JOIN_EPOCH",
    ),
    "a member whose join has no response does not leave": Mutation(
        MEMBER,
        "self._must_leave, self._is_registered = self._is_registered, False",
        "self._must_leave, self._is_registered = self.epoch > 0, False",
    ),
    "a member does not leave a coordinator that has moved": Mutation(
        MEMBER, "self._must_leave = has_moved and self._leave_failures < _MAX_LEAVE_RETRIES", "self._must_leave = False"
    ),
    "a member without polls stays in the group": Mutation(
        MEMBER, "return not is_out and now >= self._polled_at + self._max_poll_s", "return False"
    ),
    "a member does not join again at its next poll": Mutation(
        MEMBER, "            self._awaits_poll, self._due = False, now\n", "            pass\n"
    ),
    "a failed heartbeat is not repeated": Mutation(
        MEMBER,
        "        self._in_flight = self._sent_topics = None\n        if request.epoch",
        "        self._sent_topics = None\n        if request.epoch",
    ),
    "records that others have acquired are returned": Mutation(
        MESSAGES,
        "acquired_batch = batch if mask.all() else batch.filter(pa.array(mask))",
        "acquired_batch = batch",
    ),
    "errors of acknowledgements in a fetch are ignored": Mutation(
        MESSAGES,
        "acknowledge_error = _to_row_error(row.acknowledge_error_code, row.acknowledge_error_message, node)",
        "acknowledge_error = None",
    ),
    "forgotten partitions are not named": Mutation(
        MESSAGES, "for entry in request.removed_partitions", "for entry in ()"
    ),
}

FOUND_BY_FIRST_SCHEDULES = ("fetches although records are buffered", "records are returned again")


def first_failure_of(name: str, schedules: int, *, skips_cases: bool = False) -> str | None:
    """Return the error of the first case or schedule that fails; None if all pass."""
    with apply_mutation(name, MUTANTS[name]):
        return first_failure(
            chain(
                () if skips_cases else share_cases.CASES.items(),
                ((f"schedule {seed}", partial(share_schedules.explore, seed)) for seed in range(schedules)),
            )
        )


def main() -> None:
    """Run each mutant."""
    parser = create_parser(__doc__ or "", MUTANTS, schedules=1_500)
    parser.add_argument("--skip-cases", action="store_true", help="try schedules only")
    options = parser.parse_args()
    names = options.only or list(MUTANTS)
    check = partial(first_failure_of, schedules=options.schedules, skips_cases=options.skip_cases)
    sys.exit(bool(report_mutants(names, check)))


if __name__ == "__main__":
    main()
