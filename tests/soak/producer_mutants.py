"""Break the rules of ``client/sequencing.py`` one at a time; random schedules must detect each broken rule.

    python -m tests.soak.producer_mutants [--schedules 20000] [--only NAME]

Each mutant is a text in the module and its replacement; the text must occur in the module. ``SAFE`` gives the
reason why no schedule can detect a mutant: its change costs time or requests, never a record. The command prints the
first failed schedule of each mutant. Its exit status is 1 if a mutant that is not in ``SAFE`` survives, or a mutant in
``SAFE`` is detected.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from types import ModuleType

from tests.soak import producer_schedules
from tests.soak.mutation import Mutation, apply_mutation, build_mutant, create_parser, first_failure, report_mutants

from kafkaframes.client import sequencing

MUTANTS = {
    "new batches overtake retried ones": (
        "(in_flight_count and (self.must_retry or self.is_broken))",
        "(in_flight_count and self.is_broken)",
    ),
    "new batches overtake in a broken partition": (
        "(in_flight_count and (self.must_retry or self.is_broken))",
        "(in_flight_count and self.must_retry)",
    ),
    "a broken partition takes new batches": (
        "return next((batch for batch in self.waiting if batch.assigned_stamp is not None and batch.in_doubt), None)",
        "return self.waiting[0]",
    ),
    "sends several batches before the leader knows the producer id": (
        "if self.known_producer_id != self.producer.producer_id or distance >=",
        "if distance >=",
    ),
    "sends new batches after retried ones": (" or distance >= _MAX_REMEMBERED_BATCHES", ""),
    "retried batches are queued last": (
        "self.waiting.insert(bisect_left(self.waiting, batch.order, key=_get_order), batch)",
        "self.waiting.append(batch)",
    ),
    "does not record that batches are retried": ("        self.must_retry = True\n", ""),
    "ignores batches in flight": (
        "        if any(earlier.order < batch.order for earlier in self.in_flight):\n            return False\n",
        "",
    ),
    "ignores waiting batches": (
        "return not any(earlier.in_doubt or not self.is_broken for earlier in waiting)",
        "return True",
    ),
    "ignores batches in doubt": (
        "return not any(earlier.in_doubt or not self.is_broken for earlier in waiting)",
        "return not any(not self.is_broken for earlier in waiting)",
    ),
    "an absent batch settles nothing": (
        "        if self.absent_from is not None and self.absent_from < batch.order:\n            return True\n",
        "",
    ),
    "everything is settled": (
        "        if queue.has_earlier_absent_batch(batch):\n            batch.in_doubt = False\n",
        "        batch.in_doubt = False\n",
    ),
    "treats only batches after the last absent one as absent": (
        "self.absent_from = batch.order if self.absent_from is None else min(self.absent_from, batch.order)",
        "self.absent_from = 0",
    ),
    "an absent batch does not break the partition": (
        "        self.is_broken = True\n        self.absent_from",
        "        self.absent_from",
    ),
    "old numbers stay": ("        for batch in self.waiting:\n            batch.assigned_stamp = None\n", ""),
    "a break stays": (
        "self.is_broken, self.absent_from = False, None\n        for",
        "self.absent_from = None\n        for",
    ),
    "keeps absent batches absent in a new epoch": (
        "self.is_broken, self.absent_from = False, None\n        for",
        "self.is_broken = False\n        for",
    ),
    "sends on any connection": ("or (queue.in_flight and queue.connection is not connection)", ""),
    "renumbers batches while others are in flight": (
        "if queue.producer != self.producer and not queue.in_flight:",
        "if queue.producer != self.producer:",
    ),
    "holds batches back forever": ("        queue.must_retry = False\n", ""),
    "does not record acknowledged sequences": (
        "            queue.acknowledged_sequence = next_sequence(batch.assigned_stamp.base_sequence, batch.count)\n",
        "",
    ),
    "treats errors after the append as final": (
        "batch.in_doubt = batch.in_doubt or code in _UNCERTAIN_WRITE_ERRORS",
        "pass",
    ),
    "treats out of order like other errors": (
        "if batch.assigned_stamp is not None and code in _SEQUENCE_GAP_ERRORS:",
        "if False:",
    ),
    "a lost batch is not in doubt": ("        batch.in_doubt = True\n        self._retry", "        self._retry"),
    "treats out of order as final while other batches are open": (
        "        if not queue.is_first_writable(batch):\n",
        "        if False:\n",
    ),
    "renumbers batches in a transaction": (
        "if self.transactional or batch.in_doubt or not",
        "if batch.in_doubt or not",
    ),
    "renumbers batches in doubt": ("if self.transactional or batch.in_doubt or not", "if self.transactional or not"),
    "reports batches of unknown fate as absent": ("if batch.in_doubt and isinstance", "if False and isinstance"),
    "a final failure does not break the partition": (
        "            queue.is_broken = True\n"
        "            if not batch.in_doubt:\n"
        "                queue.mark_absent(batch)\n",
        "            pass\n",
    ),
    "a final failure in doubt does not break the partition": (
        "            queue.is_broken = True\n            if not batch.in_doubt:",
        "            if not batch.in_doubt:",
    ),
    "a failed batch in doubt counts as absent": (
        "            if not batch.in_doubt:\n                queue.mark_absent(batch)\n",
        "            queue.mark_absent(batch)\n",
    ),
    "does not record that a failed batch is absent": (
        "            if not batch.in_doubt:\n                queue.mark_absent(batch)\n",
        "",
    ),
    "a transaction continues without a failed record": (
        "            self.must_abort, self.abort_cause = True, cause\n            for queue",
        "            for queue",
    ),
    "waiting batches of a failed transaction stay": (
        "            for queue in self._queues.values():\n"
        "                self._end_waiting_batches(queue, self._to_abort_error())\n",
        "            pass\n",
    ),
    "new batches follow one that has expired in flight": (
        "                    queue.is_broken = queue.is_broken or batch.assigned_stamp is not None\n",
        "",
    ),
    "treats a batch that expires in flight as not written": (
        "                    batch.in_doubt = True\n                    queue",
        "                    queue",
    ),
    "an expired batch is sent again": ("return not batch.is_reported and batch.attempts", "return batch.attempts"),
    "a batch in flight does not expire": (
        "if not batch.is_reported and batch.created_at + self._timeout_s <= now:",
        "if False:",
    ),
    "a batch has two results": ("        if batch.is_reported:\n            return\n", ""),
    "starts a new epoch with batches in flight": (
        "if not queue.is_broken or queue.in_flight or self.transactional or any(_iterate_doubtful_batches(queue)):",
        "if not queue.is_broken or self.transactional or any(_iterate_doubtful_batches(queue)):",
    ),
    "starts a new epoch with batches in doubt": (
        "if not queue.is_broken or queue.in_flight or self.transactional or any(_iterate_doubtful_batches(queue)):",
        "if not queue.is_broken or queue.in_flight or self.transactional:",
    ),
    "bumps the epoch in a transaction": (
        "if not queue.is_broken or queue.in_flight or self.transactional or any(_iterate_doubtful_batches(queue)):",
        "if not queue.is_broken or queue.in_flight or any(_iterate_doubtful_batches(queue)):",
    ),
    "always starts a new epoch": (
        "if queue.acknowledged_sequence == queue.next_sequence and not has_numbers:",
        "if False:",
    ),
    "keeps the epoch although numbered batches wait": (
        "if queue.acknowledged_sequence == queue.next_sequence and not has_numbers:",
        "if queue.acknowledged_sequence == queue.next_sequence:",
    ),
    "never starts a new epoch": (
        "if queue.acknowledged_sequence == queue.next_sequence and not has_numbers:",
        "if not has_numbers:",
    ),
    "reuses the same epoch": ("ProducerIdentity(producer_id, epoch + 1)", "ProducerIdentity(producer_id, epoch)"),
    "epochs without end": ("if epoch < _MAX_PRODUCER_EPOCH:", "if True:"),
    "continues without a new producer id": (
        "if batch is None or batch.not_before > now or (self.needs_new_id and batch.assigned_stamp is None):",
        "if batch is None or batch.not_before > now:",
    ),
    "keeps old sequences in the next transaction": (
        "            if self.transactional and queue.is_broken and not queue.in_flight:\n",
        "            if False:\n",
    ),
    "a batch after an abort waits": (
        "        if self.must_abort:\n            self._end_waiting_batches(queue, self._to_abort_error())\n",
        "",
    ),
    "a part is not in doubt": (
        "part.created_at, part.attempts, part.in_doubt = batch.created_at, batch.attempts, batch.in_doubt",
        "part.created_at, part.attempts = batch.created_at, batch.attempts",
    ),
    "a part counts as new": (
        "part.created_at, part.attempts, part.in_doubt = batch.created_at, batch.attempts, batch.in_doubt",
        "part.in_doubt = batch.in_doubt",
    ),
    "numbers parts later": (
        "                part.assigned_stamp = batch.assigned_stamp._replace(base_sequence=sequence)\n",
        "                pass\n",
    ),
    "parts have one sequence": (
        "(batch.assigned_stamp.base_sequence, sequence_count)",
        "(batch.assigned_stamp.base_sequence, 0)",
    ),
    "parts have sequences in reverse": (
        "(batch.assigned_stamp.base_sequence, sequence_count)",
        "(batch.assigned_stamp.base_sequence, batch.count - sequence_count - part.count)",
    ),
    "parts stand last": ("index = bisect_left(self.waiting, batch.order, key=_get_order)", "index = len(self.waiting)"),
    "parts stand first": ("index = bisect_left(self.waiting, batch.order, key=_get_order)", "index = 0"),
    "does not renumber batches after parts": (
        "later.order += shift if later.order > batch.order else 0",
        "later.order += 0",
    ),
    "new batches do not follow parts": ("        self.enqueued_count += shift\n", ""),
    "does not move the absent mark after parts": ("            self.absent_from += shift\n", "            pass\n"),
    "parts overtake batches in flight": (
        "self.must_retry = self.must_retry or is_in_flight",
        "self.must_retry = self.must_retry",
    ),
    "sends parts in a transaction that must be aborted": (
        "return batch.count > 1 and not self.must_abort",
        "return batch.count > 1",
    ),
    "parts are not counted": ("        self.open_batches += len(parts) - 1\n", ""),
    "the bytes of parts are not counted": (
        "        self.open_bytes += sum(len(part.data) for part in parts) - len(batch.data)\n",
        "        self.open_bytes -= len(batch.data)\n",
    ),
    "retries without end": (
        "return not batch.is_reported and batch.attempts < self._retries and now - batch.created_at < self._timeout_s",
        "return not batch.is_reported",
    ),
}
SAFE = {
    "an expired batch is sent again": "its delivery timeout has passed, so the timeout check rejects it as well",
    "new batches overtake in a broken partition": "only batches in doubt are sent then, in order, on one connection",
    "holds batches back forever": "costs only time: batches are sent one by one",
    "does not record acknowledged sequences": "costs only one more epoch",
    "always starts a new epoch": "costs only one more epoch",
    "ignores batches in flight": "a connection's responses are in order, so no earlier batch is in flight at that time",
    "ignores batches in doubt": (
        "in a broken partition, one batch is in flight at a time, the first in doubt; a rejected batch from before "
        "the break has no copy in flight, and is absent in either case"
    ),
    "keeps the epoch although numbered batches wait": "no batch after one that is not in the log is acknowledged",
    "continues without a new producer id": "a break blocks only its partition; others may keep their producer id",
}


def build_named_mutant(name: str) -> ModuleType:
    """Return the module with one text replaced."""
    return build_mutant(name, Mutation(sequencing, *MUTANTS[name]))


def first_failure_of(name: str, schedules: int) -> str | None:
    """Return the error of the first script or schedule that fails; None if all pass."""
    with apply_mutation(name, Mutation(sequencing, *MUTANTS[name])):
        return first_failure(
            chain(
                ((script.__name__, script) for script in producer_schedules.SCRIPTS),
                ((f"schedule {seed}", partial(producer_schedules.explore, seed)) for seed in range(schedules)),
            )
        )


def main() -> None:
    """Run each mutant."""
    options = create_parser(__doc__ or "", MUTANTS, schedules=20_000).parse_args()
    names = options.only or list(MUTANTS)
    sys.exit(bool(report_mutants(names, partial(first_failure_of, schedules=options.schedules), SAFE)))


if __name__ == "__main__":
    main()
