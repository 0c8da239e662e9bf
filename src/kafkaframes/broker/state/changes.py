"""Long-running changes of topics in steps, between which other requests are answered.

Kafka's controller executes changes one after the other while brokers continue to answer. In this broker, a change is a
generator that yields None to let other requests run, or yields a ``DeferredResponse`` to wait for the response. The
next change starts after the current change has finished, so that it sees the result. The effects of a change become
visible together at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TypeVar

from kafkaframes.broker.requests.api import Answer, DeferredResponse

Item = TypeVar("Item")
Result = TypeVar("Result")
ROWS_PER_TURN = 500
Steps = Generator[None, None, Result]
Waiting = Generator[DeferredResponse | None, None, Result]  # steps that may wait for work in a thread


def finish_steps(steps: Waiting[Result]) -> Result:
    """Run all steps at once, and return their result. No step may wait for work in a thread."""
    while True:
        try:
            next(steps)
        except StopIteration as step_end:
            result: Result = step_end.value
            return result


def run_once(call: Callable[[], Result]) -> Steps[Result]:
    """Return a change with a single step."""
    yield from ()
    return call()


def run_each(changes: Iterable[Steps[Result]]) -> Steps[list[Result]]:
    """Run changes one after the other, in at least one step each; return their results."""
    results = []
    for steps in changes:
        results.append((yield from steps))
        yield
    return results


def create_rows_in_steps(
    items: Iterable[Item], row: Callable[[Item], Result], size: Callable[[Result], int] = lambda _: 1
) -> Steps[list[Result]]:
    """Create a row for each item, in steps if there are many.

    ``size`` returns the cost of a row, as a number of ordinary rows.
    """
    rows: list[Result] = []
    cost_since_turn = 0
    for item in items:
        if cost_since_turn >= ROWS_PER_TURN:
            yield
            cost_since_turn = 0
        rows.append(row(item))
        cost_since_turn += size(rows[-1])
    return rows


class ChangeQueue:
    """A queue of metadata changes, which run one after the other in the order of their requests.

    Attributes:
        next_turn: schedules a call after other requests (an event loop's ``call_soon``). If ``next_turn`` is None, each
            change runs at once.
        in_thread: runs a function in a thread, one at a time, and completes its result on the event loop. If
            ``in_thread`` is None, the function runs in the caller.
    """

    def __init__(self) -> None:
        self.next_turn: Callable[[Callable[[], None]], object] | None = None
        self.in_thread: Callable[[Callable[[], None]], DeferredResponse] | None = None
        self._waiting: deque[tuple[Waiting[Answer], DeferredResponse]] = deque()  # the first entry is running
        self._is_due = False

    def run(self, steps: Waiting[Answer]) -> Answer:
        """Run a change.

        Return the answer, or a ``DeferredResponse`` if the change has several steps or must wait for other changes.
        """
        if self.next_turn is None:
            return finish_steps(steps)
        response = DeferredResponse()
        self._waiting.append((steps, response))
        if len(self._waiting) == 1:
            self._run_turn()
        if response.error is not None:
            raise response.error
        return response

    def run_concurrently(self, steps: Waiting[Answer]) -> Answer:
        """Run the steps of a read-only request, concurrently with changes.

        Return the answer, or a ``DeferredResponse`` if there are several steps.
        """
        turns, response = ChangeQueue(), DeferredResponse()
        turns.next_turn = self.next_turn
        answer = turns.run(steps)
        if not isinstance(answer, DeferredResponse):
            return answer
        answer.call_when_complete(
            lambda done: response.fail(done.error) if done.error else response.follow(done.answer)
        )
        return response

    def answer_rows(
        self,
        items: Iterable[Item],
        row: Callable[[Item], Result],
        answer: Callable[[list[Result]], Answer],
        *,
        is_change: bool = False,
        size: Callable[[Result], int] = lambda _: 1,
    ) -> Answer:
        """Answer with a row for each item of a request, in steps if there are many.

        Args:
            is_change: whether other changes must wait until this request is answered.
            size: function that returns the cost of a row, as a number of ordinary rows.
        """

        def answering() -> Steps[Answer]:
            return answer((yield from create_rows_in_steps(items, row, size)))

        return self.run(answering()) if is_change else self.run_concurrently(answering())

    def run_in_thread(self, work: Callable[[], Result]) -> Waiting[Result]:
        """Run slow read-only work in a thread. Other requests are answered in the meantime."""
        results: list[Result] = []
        if self.in_thread is None:
            return work()
        completion = self.in_thread(lambda: results.append(work()))
        if not completion.is_done:
            yield completion
        if completion.error is not None:
            raise completion.error
        return results[0]

    def _run_turn(self) -> None:
        """Run the next steps of the first waiting change, and schedule the next turn."""
        self._is_due = False
        if not self._waiting:  # stopped
            return
        steps, response = self._waiting[0]
        try:
            waits_for = next(steps)
        except StopIteration as step_end:
            finish = partial(response.complete, step_end.value)
        except Exception as error:
            finish = partial(response.fail, error)
        else:
            if waits_for is None:
                self._schedule_turn()
            else:
                waits_for.call_when_complete(lambda _: self._schedule_turn())
            return
        self._waiting.popleft()
        if self._waiting:
            self._schedule_turn()
        finish()

    def _schedule_turn(self) -> None:
        if self.next_turn is not None and not self._is_due:
            self._is_due = True
            self.next_turn(self._run_turn)

    def stop(self) -> None:
        """Abandon the current change, and start no further changes."""
        waiting, self._waiting = self._waiting, deque()
        for steps, _ in waiting:
            steps.close()
