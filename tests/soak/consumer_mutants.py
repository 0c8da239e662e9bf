"""Break the rules of the consumer's state machine one at a time; cases or random schedules must detect each broken
rule.

    python -m tests.soak.consumer_mutants [--schedules 3000] [--only NAME]

Each mutant is a module of the state machine, a text in it, and the replacement of the text. The text must occur exactly
once in the module. The cases of ``consumer_cases.py`` run first, then schedules. The command prints the first failure
for each mutant. Its exit status is 1 if a mutant survives.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from types import ModuleType

from tests.soak import consumer_cases, consumer_schedules
from tests.soak.mutation import Mutation, apply_mutation, build_mutant, create_parser, first_failure, report_mutants

from kafkaframes.client import classic_member, consumer_machine, consumer_member, positions

CLASSIC, CONSUMER, MACHINE, POSITIONS = classic_member, consumer_member, consumer_machine, positions
MUTANTS: dict[str, tuple[ModuleType, str, str]] = {
    "joins before on_revoke has returned": (
        CLASSIC,
        "return self._is_eager and self._must_join and not self._is_out and bool(self._host.owned_partitions)",
        "return False",
    ),
    "joins before the caller knows of lost partitions": (
        CLASSIC,
        "return self._must_join and (self.must_revoke_all or self._host.has_lost_partitions)",
        "return self._must_join and self.must_revoke_all",
    ),
    "keeps its generation after UNKNOWN_MEMBER_ID": (
        CLASSIC,
        'self._member_id, self._generation = "", _NO_GENERATION\n        self._must_join = True',
        'self._member_id = ""\n        self._must_join = True',
    ),
    "keeps its partitions after UNKNOWN_MEMBER_ID": (CLASSIC, "        self._host.drop_all_partitions()\n", ""),
    "keeps a member id that the coordinator does not know": (
        CLASSIC,
        'member_id = "" if code == ErrorCode.UNKNOWN_MEMBER_ID else self._member_id',
        "member_id = self._member_id",
    ),
    "does not rejoin during a rebalance": (
        CLASSIC,
        "        self._must_join = True\n        self._answer = self._assignment = None\n        if code",
        "        self._answer = self._assignment = None\n        if code",
    ),
    "does not rejoin after revoking partitions": (
        CLASSIC,
        "        if not self._must_join and not self._is_eager:\n"
        "            self._must_join, self._not_before = True, now\n",
        "",
    ),
    "sends no heartbeats": (CLASSIC, "and self.is_member and now >= self._heartbeat_due:", "and False:"),
    "takes over an old assignment during a rebalance": (
        CLASSIC,
        "            host.forget_unclaimed_partitions()\n",
        "",
    ),
    "the leader ignores grown topics": (
        CLASSIC,
        "if is_leader and not self._must_join and self._get_partition_counts() != self._counts:",
        "if False:",
    ),
    "forgets a subscription that changed while it joined": (
        CLASSIC,
        "self._must_join = is_claim_old or request.topics != self._host.topics",
        "self._must_join = is_claim_old",
    ),
    "forgets that it revoked partitions that it claims": (
        CLASSIC,
        "self._must_join = is_claim_old or request.topics != self._host.topics",
        "self._must_join = request.topics != self._host.topics",
    ),
    "stays in the group without polls (classic)": (
        CLASSIC,
        "        self.awaits_poll = True\n        self._in_flight = request",
        "        self._in_flight = request",
    ),
    "joins before the caller knows of lost partitions (consumer)": (
        CONSUMER,
        "return self._epoch == _JOIN and self._host.has_lost_partitions",
        "return False",
    ),
    "keeps its epoch when it is fenced": (
        CONSUMER,
        "        self._epoch = _JOIN\n        self._topics",
        "        self._topics",
    ),
    "keeps its partitions when it is fenced": (CONSUMER, "        self._host.drop_all_partitions()\n", ""),
    "ignores that it was fenced": (
        CONSUMER,
        "        elif code in MEMBER_FENCED_CODES and not is_other_type:\n            self._reset_membership()\n",
        "",
    ),
    "does not send a full heartbeat after a lost one": (
        CONSUMER,
        "        self._in_flight = self._topics = None\n        if is_leave:",
        "        self._in_flight = None\n        if is_leave:",
    ),
    "takes over partitions while its heartbeat lacks them": (
        CONSUMER,
        "return not self._is_report_open",
        "return True",
    ),
    "takes over partitions after a lost heartbeat": (
        CONSUMER,
        "        self._in_flight = self._topics = None\n        if is_leave:",
        "        self._in_flight, self._topics, self._is_report_open = None, None, False\n        if is_leave:",
    ),
    "does not report its owned partitions": (
        CONSUMER,
        "owned_partitions if is_full or owned_partitions != self._reported_partitions else None,",
        "owned_partitions if is_full else None,",
    ),
    "does not report its subscription": (
        CONSUMER,
        "self._host.topics if is_full or self._host.topics != self._topics else None,",
        "self._host.topics if is_full else None,",
    ),
    "does not resolve new topics": (
        CONSUMER,
        "        if self._assignment is not None and not self._is_resolved:\n            self._resolve_assignment()\n",
        "",
    ),
    "ignores its assignment": (
        CONSUMER,
        "            self._resolve_assignment()\n\n    def _resolve_assignment",
        "            pass\n\n    def _resolve_assignment",
    ),
    "keeps an old committed offset after a lost response": (
        CONSUMER,
        "            self._host.forget_unclaimed_partitions()\n",
        "            pass\n",
    ),
    "reports a partition as revoked too early": (
        MACHINE,
        "return [state.partition for state in states if state.ownership is not Ownership.PENDING]",
        "return [s.partition for s in states if s.ownership not in (Ownership.PENDING, Ownership.REVOKING)]",
    ),
    "revokes nothing": (
        MACHINE,
        "revoked_partitions = [entry for entry in self.owned_partitions if not self._is_in_target(entry)]",
        "revoked_partitions = []",
    ),
    "revokes only what the first target lacks": (
        MACHINE,
        "self._target, self._may_revoke = dict(partitions), True",
        "self._may_revoke, self._target = self._target is None, dict(partitions)",
    ),
    "assigns partitions before their positions are known": (
        MACHINE,
        "[state for state in new_partitions if state.has_offset or state.step is PartitionStep.STUCK]",
        "new_partitions",
    ),
    "drops a partition if on_assign raises": (
        POSITIONS,
        "if entry.ownership in (Ownership.PENDING, Ownership.ASSIGNING)",
        "if entry.ownership is Ownership.PENDING",
    ),
    "looks for new partitions only once": (
        POSITIONS,
        "        self.states[partition] = state\n        self.may_have_new = True\n",
        "        self.states[partition] = state\n        self.may_have_new = len(self.states) == 1\n",
    ),
    "forgets that a partition is stuck": (POSITIONS, "self._may_be_stuck = bool(stuck)", "self._may_be_stuck = False"),
    "returns records of a partition during its revocation": (
        MACHINE,
        "else Ownership.REVOKING\n        for entry",
        "else Ownership.OWNED\n        for entry",
    ),
    "does not remove revoked partitions": (
        MACHINE,
        "                self.positions.remove(entry)\n                self._lost_while_revoking.discard(entry)\n",
        "                state.ownership = Ownership.OWNED\n",
    ),
    "continues to read lost partitions": (
        MACHINE,
        "            state = self.positions.remove(entry)\n"
        "            if state is not None:\n"
        "                self.lost_partitions[entry] = state\n"
        "\n",
        "            self.lost_partitions[entry] = self.positions.states[entry]\n\n",
    ),
    "pending partitions stay when the target changes": (
        MACHINE,
        "            if state.ownership is Ownership.PENDING and state.partition not in partitions_to_keep:\n"
        "                self.positions.remove(state.partition)\n",
        "            pass\n",
    ),
    "treats a recreated topic as the same": (
        MACHINE,
        "return not state.is_assigned_by_id or state.topic_id == target[partition]",
        "return True",
    ),
    "counts late polls as polls": (
        MACHINE,
        "        request = self.member.expire_membership()\n"
        "        if request is not None:\n"
        "            self._leaving.append(request)\n",
        "",
    ),
    "does not send LeaveGroup": (MACHINE, "            self._leaving.append(request)\n", "            pass\n"),
    "patterns are matched once": (MACHINE, "if topics != self.topics and self.member is not None:", "if False:"),
    "metadata is refreshed once": (
        MACHINE,
        "        time = self._metadata_at + self._get_metadata_age\n",
        "        time = self._metadata_at + 1e12\n",
    ),
    "a rejected topic is looked up once": (
        MACHINE,
        "            time = min(time, self._rejected_refresh_at)\n",
        "            pass\n",
    ),
    "a rejected topic is not reported": (
        MACHINE,
        '                self.queue_error(to_broker_error(topic.error, f"topic {topic.name}"))\n',
        "                pass\n",
    ),
    "stale topics are not refreshed": (
        MACHINE,
        "        if self.positions.stale_topics:\n            return self._metadata_not_before\n",
        "",
    ),
    "a failed refresh is not repeated": (
        MACHINE,
        "            self._metadata_request = None\n            self._metadata_not_before",
        "            self._metadata_not_before",
    ),
    "accepts answers for old positions": (
        POSITIONS,
        "current = [state for state in states if state.version == versions[state.partition]]",
        "current = states",
    ),
    "a seek keeps its version": (POSITIONS, "        self.version = _next_state_version()\n", ""),
    "a seek keeps buffered records": (
        POSITIONS,
        "        for entry in self.buffer:\n            entry.stop()\n        self.buffer.clear()\n",
        "",
    ),
    "a seek does not stop buffered records": (
        POSITIONS,
        "        for entry in self.buffer:\n            entry.stop()\n        self.buffer.clear()\n",
        "        self.buffer.clear()\n",
    ),
    "fetches buffered records again": (
        POSITIONS,
        "        if len(self.buffer) > 1 or (self.buffer and not self.buffer[0].is_opened):\n"
        "            return False\n",
        "",
    ),
    "fetches from the position instead of after the buffer": (
        POSITIONS,
        "        return self.buffer[-1].next_offset, self.buffer[-1].leader_epoch\n",
        "        return self.offset, self.epoch\n",
    ),
    "returns records of paused partitions": (
        POSITIONS,
        "elif state.ownership is Ownership.OWNED and not state.is_paused:",
        "elif state.ownership is Ownership.OWNED:",
    ),
    "returns records of partitions before they are owned": (
        POSITIONS,
        "elif state.ownership is Ownership.OWNED and not state.is_paused:",
        "elif not state.is_paused:",
    ),
    "a partition is fetched before it is owned": (
        POSITIONS,
        "            self.ownership is not Ownership.OWNED\n            or self.step",
        "            self.step",
    ),
    "ignores a change of leader": (
        POSITIONS,
        "if state.ownership is not Ownership.REVOKING and self._check_topic(state, cluster):\n"
        "                self._check_leader(state, cluster)\n",
        "if state.ownership is not Ownership.REVOKING and self._check_topic(state, cluster):\n",
    ),
    "a recreated topic continues at the old offset": (
        POSITIONS,
        "if state.ownership is not Ownership.REVOKING and self._check_topic(state, cluster):",
        "if state.ownership is not Ownership.REVOKING:",
    ),
    "accepts outdated metadata": (
        POSITIONS,
        "        if leader == state.leader or (\n"
        "            state.leader is not None and 0 <= partition_metadata.leader_epoch < state.leader[1]\n"
        "        ):",
        "        if leader == state.leader:",
    ),
    "buffered records survive a change of leader": (
        POSITIONS,
        "            state.move_position("
        "PartitionStep.VALIDATE if epoch >= 0 else PartitionStep.FETCH, offset, epoch)\n",
        "            state.step = PartitionStep.VALIDATE if epoch >= 0 else PartitionStep.FETCH\n"
        "            state.version = _next_state_version()\n"
        "            state.offset, state.epoch = offset, epoch\n",
    ),
    "records of an earlier leader are returned after a seek": (
        POSITIONS,
        "        if partition_metadata.leader_epoch >= 0:\n            offset, epoch = state.interrupt_reading()\n",
        "        offset, epoch = state.interrupt_reading()\n"
        "        if partition_metadata.leader_epoch >= 0 and epoch >= 0:\n",
    ),
    "ignores a truncation": (POSITIONS, "elif answer.end_offset >= offset:", "elif True:"),
    "ignores a truncation if the epoch is unknown": (
        POSITIONS,
        "        if answer.end_offset < 0 or answer.epoch < 0:\n",
        "        if False:\n",
    ),
    "resets to the start after a truncation": (
        POSITIONS,
        "            state.move_position(PartitionStep.FETCH, answer.end_offset, answer.epoch)\n",
        "            self._reset_position(state, 'truncated')\n",
    ),
    "commits forget the epoch": (
        POSITIONS,
        "state.move_position(PartitionStep.FETCH, entry.offset, entry.leader_epoch)",
        "state.move_position(PartitionStep.FETCH, entry.offset)",
    ),
    "requests an offset out of range repeatedly": (
        POSITIONS,
        "            if is_read and not is_replica:",
        "            if False:",
    ),
    "an offset out of range drops buffered records": (
        POSITIONS,
        "            is_read = state.position == state.fetch_offset\n",
        "            is_read = True\n",
    ),
    "a failed look-up is not repeated": (
        POSITIONS,
        "        for state in current:\n            state.requested_version = -1\n",
        "",
    ),
    "a failed fetch keeps its node busy": (
        POSITIONS,
        "        if isinstance(request, FetchRecords):\n            self.busy_nodes.discard(request.node.node_id)\n",
        "",
    ),
    "a failure does not refresh the topic": (
        POSITIONS,
        "        if state.step is not PartitionStep.COMMITTED:\n"
        "            self.stale_topics.add(state.partition.topic)\n",
        "",
    ),
    "read batches are kept": (POSITIONS, "        state.release_read_buffer()\n    return", "        pass\n    return"),
}
FOUND_BY_CASE = (
    "joins before the caller knows of lost partitions",
    "keeps its generation after UNKNOWN_MEMBER_ID",
    "takes over an old assignment during a rebalance",
    "forgets a subscription that changed while it joined",
    "stays in the group without polls (classic)",
    "joins before the caller knows of lost partitions (consumer)",
    "keeps an old committed offset after a lost response",
    "reports a partition as revoked too early",
    "treats a recreated topic as the same",
    "a rejected topic is looked up once",
    "a rejected topic is not reported",
    "stale topics are not refreshed",
    "returns records of partitions before they are owned",
    "a partition is fetched before it is owned",
    "a recreated topic continues at the old offset",
    "accepts outdated metadata",
    "an offset out of range drops buffered records",
    "a failure does not refresh the topic",
    "a seek does not stop buffered records",
    "fetches buffered records again",
    "records of an earlier leader are returned after a seek",
    "forgets that a partition is stuck",
    "revokes only what the first target lacks",
    "looks for new partitions only once",
)


def build_named_mutant(name: str) -> ModuleType:
    """Return the module with one text replaced."""
    return build_mutant(name, Mutation(*MUTANTS[name]))


def first_failure_of(name: str, schedules: int) -> str | None:
    """Return the error of the first case or schedule that fails; None if all pass."""
    with apply_mutation(name, Mutation(*MUTANTS[name])):
        return first_failure(
            chain(
                consumer_cases.CASES.items(),
                ((f"schedule {seed}", partial(consumer_schedules.explore, seed)) for seed in range(schedules)),
            )
        )


def main() -> None:
    """Run each mutant."""
    options = create_parser(__doc__ or "", MUTANTS, schedules=3_000).parse_args()
    names = options.only or list(MUTANTS)
    sys.exit(bool(report_mutants(names, partial(first_failure_of, schedules=options.schedules))))


if __name__ == "__main__":
    main()
