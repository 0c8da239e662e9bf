"""Break the rules of ``client/sequencing.py`` one at a time, and see whether random schedules notice.

    python -m tests.soak.producer_mutants [--schedules 20000] [--only NAME]

Each mutant is a text of the module and its replacement; the text must occur in the current module. ``SAFE`` gives the
reason why no schedule can detect a mutant: its change costs time or requests, never a record. The command prints the
first failed schedule of each mutant. Its exit status is 1 if a mutant outside ``SAFE`` survives, or one inside it
fails.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from types import ModuleType

from tests.soak import producer_schedules
from tests.soak.mutation import Mutation, apply_mutation, build_mutant, first_failure, mutants_parser, report_mutants

from kafkaframes.client import sequencing

MUTANTS = {
    "overtakes what goes again": (
        "(in_flight_count and (self.must_retry or self.is_broken))",
        "(in_flight_count and self.is_broken)",
    ),
    "overtakes behind a break": (
        "(in_flight_count and (self.must_retry or self.is_broken))",
        "(in_flight_count and self.must_retry)",
    ),
    "a broken partition takes new batches": (
        "return next((batch for batch in self.waiting if batch.assigned_stamp is not None and batch.in_doubt), None)",
        "return self.waiting[0]",
    ),
    "several go before the leader knows the id": (
        "if self.known_producer_id != self.producer.producer_id or distance >=",
        "if distance >=",
    ),
    "new ones behind what goes again": (" or distance >= _MAX_REMEMBERED_BATCHES", ""),
    "what goes again stands last": (
        "self.waiting.insert(bisect_left(self.waiting, batch.order, key=_get_order), batch)",
        "self.waiting.append(batch)",
    ),
    "what goes again is not noted": ("        self.must_retry = True\n", ""),
    "those under way are not looked at": (
        "        if any(earlier.order < batch.order for earlier in self.in_flight):\n            return False\n",
        "",
    ),
    "those that wait are not looked at": (
        "return not any(earlier.in_doubt or not self.is_broken for earlier in waiting)",
        "return True",
    ),
    "those in doubt are not looked at": (
        "return not any(earlier.in_doubt or not self.is_broken for earlier in waiting)",
        "return not any(not self.is_broken for earlier in waiting)",
    ),
    "nothing is settled by an absent batch": (
        "        if self.absent_from is not None and self.absent_from < batch.order:\n            return True\n",
        "",
    ),
    "everything is settled": (
        "        if queue.has_earlier_absent_batch(batch):\n            batch.in_doubt = False\n",
        "        batch.in_doubt = False\n",
    ),
    "absent from the last on": (
        "self.absent_from = batch.order if self.absent_from is None else min(self.absent_from, batch.order)",
        "self.absent_from = 0",
    ),
    "an absent batch does not break": (
        "        self.is_broken = True\n        self.absent_from",
        "        self.absent_from",
    ),
    "old numbers stay": ("        for batch in self.waiting:\n            batch.assigned_stamp = None\n", ""),
    "a break stays": (
        "self.is_broken, self.absent_from = False, None\n        for",
        "self.absent_from = None\n        for",
    ),
    "what was absent stays": (
        "self.is_broken, self.absent_from = False, None\n        for",
        "self.is_broken = False\n        for",
    ),
    "any connection will do": ("or (queue.in_flight and queue.connection is not connection)", ""),
    "numbered anew beside what is under way": (
        "if queue.producer != self.producer and not queue.in_flight:",
        "if queue.producer != self.producer:",
    ),
    "holds back for ever": ("        queue.must_retry = False\n", ""),
    "acknowledged sequences are not noted": (
        "            queue.acknowledged_sequence = next_sequence(batch.assigned_stamp.base_sequence, batch.count)\n",
        "",
    ),
    "errors after the write are final": ("batch.in_doubt = batch.in_doubt or code in _UNCERTAIN_WRITE_ERRORS", "pass"),
    "out of order is as other errors": (
        "if batch.assigned_stamp is not None and code in _SEQUENCE_GAP_ERRORS:",
        "if False:",
    ),
    "a lost batch is not in doubt": ("        batch.in_doubt = True\n        self._retry", "        self._retry"),
    "out of order while others are open is final": (
        "        if not queue.is_first_writable(batch):\n",
        "        if False:\n",
    ),
    "numbered anew in a transaction": ("if self.transactional or batch.in_doubt or not", "if batch.in_doubt or not"),
    "numbered anew in doubt": ("if self.transactional or batch.in_doubt or not", "if self.transactional or not"),
    "unknown fates are told as absent": ("if batch.in_doubt and isinstance", "if False and isinstance"),
    "an end does not break": (
        "            queue.is_broken = True\n"
        "            if not batch.in_doubt:\n"
        "                queue.mark_absent(batch)\n",
        "            pass\n",
    ),
    "an end in doubt does not break": (
        "            queue.is_broken = True\n            if not batch.in_doubt:",
        "            if not batch.in_doubt:",
    ),
    "an end is absent though in doubt": (
        "            if not batch.in_doubt:\n                queue.mark_absent(batch)\n",
        "            queue.mark_absent(batch)\n",
    ),
    "an absent end is not noted": (
        "            if not batch.in_doubt:\n                queue.mark_absent(batch)\n",
        "",
    ),
    "a transaction goes on without a record": (
        "            self.must_abort, self.abort_cause = True, cause\n            for queue",
        "            for queue",
    ),
    "those that wait for the transaction stay": (
        "            for queue in self._queues.values():\n"
        "                self._end_waiting_batches(queue, self._to_abort_error())\n",
        "            pass\n",
    ),
    "new batches follow one that has expired in flight": (
        "                    queue.is_broken = queue.is_broken or batch.assigned_stamp is not None\n",
        "",
    ),
    "what expires in flight is not written": (
        "                    batch.in_doubt = True\n                    queue",
        "                    queue",
    ),
    "an expired batch is sent again": ("return not batch.is_reported and batch.attempts", "return batch.attempts"),
    "a batch in flight does not expire": (
        "if not batch.is_reported and batch.created_at + self._timeout_s <= now:",
        "if False:",
    ),
    "a batch has two results": ("        if batch.is_reported:\n            return\n", ""),
    "goes on with batches under way": (
        "if not queue.is_broken or queue.in_flight or self.transactional or any(_iterate_doubtful_batches(queue)):",
        "if not queue.is_broken or self.transactional or any(_iterate_doubtful_batches(queue)):",
    ),
    "goes on with batches in doubt": (
        "if not queue.is_broken or queue.in_flight or self.transactional or any(_iterate_doubtful_batches(queue)):",
        "if not queue.is_broken or queue.in_flight or self.transactional:",
    ),
    "raises the epoch in a transaction": (
        "if not queue.is_broken or queue.in_flight or self.transactional or any(_iterate_doubtful_batches(queue)):",
        "if not queue.is_broken or queue.in_flight or any(_iterate_doubtful_batches(queue)):",
    ),
    "always a new epoch": ("if queue.acknowledged_sequence == queue.next_sequence and not has_numbers:", "if False:"),
    "nothing is missing, though numbers wait": (
        "if queue.acknowledged_sequence == queue.next_sequence and not has_numbers:",
        "if queue.acknowledged_sequence == queue.next_sequence:",
    ),
    "never a new epoch": (
        "if queue.acknowledged_sequence == queue.next_sequence and not has_numbers:",
        "if not has_numbers:",
    ),
    "the same epoch again": ("ProducerIdentity(producer_id, epoch + 1)", "ProducerIdentity(producer_id, epoch)"),
    "epochs without end": ("if epoch < _MAX_PRODUCER_EPOCH:", "if True:"),
    "without a new id": (
        "if batch is None or batch.not_before > now or (self.needs_new_id and batch.assigned_stamp is None):",
        "if batch is None or batch.not_before > now:",
    ),
    "old numbers in the next transaction": (
        "            if self.transactional and queue.is_broken and not queue.in_flight:\n",
        "            if False:\n",
    ),
    "a batch behind an abort waits": (
        "        if self.must_abort:\n            self._end_waiting_batches(queue, self._to_abort_error())\n",
        "",
    ),
    "a part is not in doubt": (
        "part.created_at, part.attempts, part.in_doubt = batch.created_at, batch.attempts, batch.in_doubt",
        "part.created_at, part.attempts = batch.created_at, batch.attempts",
    ),
    "a part is new": (
        "part.created_at, part.attempts, part.in_doubt = batch.created_at, batch.attempts, batch.in_doubt",
        "part.in_doubt = batch.in_doubt",
    ),
    "parts are numbered later": (
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
    "what comes after parts does not move up": (
        "later.order += shift if later.order > batch.order else 0",
        "later.order += 0",
    ),
    "new ones do not come after parts": ("        self.enqueued_count += shift\n", ""),
    "what is absent does not move up": ("            self.absent_from += shift\n", "            pass\n"),
    "parts overtake what is under way": (
        "self.must_retry = self.must_retry or is_in_flight",
        "self.must_retry = self.must_retry",
    ),
    "parts go out in a transaction that must be aborted": (
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
    "an expired batch is sent again": "its time has expired, so the check of the time refuses it as well",
    "overtakes behind a break": "only those in doubt go then, in order, on one connection",
    "holds back for ever": "batches go one by one",
    "acknowledged sequences are not noted": "an epoch more",
    "always a new epoch": "an epoch more",
    "those under way are not looked at": "a connection's answers come in order: nothing earlier is under way then",
    "those in doubt are not looked at": (
        "behind a break one batch is under way at a time, the first in doubt; what went before the break and is "
        "refused has no copy under way, and is absent in either case"
    ),
    "nothing is missing, though numbers wait": "nothing is acknowledged behind a batch that is not in the log",
    "without a new id": "a break holds its own partition; others may go on under the id that they have",
}


def mutant(name: str) -> ModuleType:
    """Return the module with one text replaced."""
    return build_mutant(name, Mutation(sequencing, *MUTANTS[name]))


def first_wrong(name: str, schedules: int) -> str | None:
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
    options = mutants_parser(__doc__ or "", MUTANTS, schedules=20_000).parse_args()
    names = options.only or list(MUTANTS)
    sys.exit(bool(report_mutants(names, partial(first_wrong, schedules=options.schedules), SAFE)))


if __name__ == "__main__":
    main()
