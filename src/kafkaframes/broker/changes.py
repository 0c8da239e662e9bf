"""Changes of topics that take long, a step at a time: between the steps others are answered.

Kafka's controller works through its changes one after the other while brokers go on answering. Here a change is a
generator that yields wherever others may have a turn, or what it waits for; the next change begins when it is done, so
that each finds what those before it have left. What it makes is seen when all of it is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TypeVar

from kafkaframes.broker.api import Answer, Later

Item = TypeVar("Item")
Result = TypeVar("Result")
ROWS_OF_A_TURN = 500
Steps = Generator[None, None, Result]
Waiting = Generator[Later | None, None, Result]  # steps of which some wait for something beside the loop


def finished(steps: Waiting[Result]) -> Result:
    """Take all steps at once, where none waits for something beside the loop; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result


def once(call: Callable[[], Result]) -> Steps[Result]:
    """Make a change of one step."""
    yield from ()
    return call()


def each(changes: Iterable[Steps[Result]]) -> Steps[list[Result]]:
    """Make one change after the other, each in a step of its own at least; the result is that of each."""
    results = []
    for steps in changes:
        results.append((yield from steps))
        yield
    return results


def in_turns(
    items: Iterable[Item], row: Callable[[Item], Result], size: Callable[[Result], int] = lambda _: 1
) -> Steps[list[Result]]:
    """Make a row of each item, with turns for others where there are many; a row weighs ``size`` ordinary ones."""
    rows: list[Result] = []
    since_turn = 0
    for item in items:
        if since_turn >= ROWS_OF_A_TURN:
            yield
            since_turn = 0
        rows.append(row(item))
        since_turn += size(rows[-1])
    return rows


class Changes:
    """The changes of one broker, in the order in which they were asked for.

    Attributes:
        next_turn: calls something when others had their turn (an event loop's ``call_soon``); None: there are no
            others, each change is made at once.
        in_thread: calls something in a thread, one after the other, and completes an answer on the loop when it is
            done; None: it is called here.
    """

    def __init__(self) -> None:
        self.next_turn: Callable[[Callable[[], None]], object] | None = None
        self.in_thread: Callable[[Callable[[], None]], Later] | None = None
        self._waiting: deque[tuple[Waiting[Answer], Later]] = deque()  # the first is under way
        self._is_due = False

    def run(self, steps: Waiting[Answer]) -> Answer:
        """Make a change; return its answer, which comes later if it takes more than a step, or waits for others."""
        if self.next_turn is None:
            return finished(steps)
        later = Later()
        self._waiting.append((steps, later))
        if len(self._waiting) == 1:
            self._turn()
        if later.error is not None:
            raise later.error
        return later

    def beside(self, steps: Waiting[Answer]) -> Answer:
        """Take the steps of an answer that changes nothing, beside the changes; it comes later, and may wait itself."""
        turns, later = Changes(), Later()
        turns.next_turn = self.next_turn
        answer = turns.run(steps)
        if not isinstance(answer, Later):
            return answer
        answer.when_complete(lambda done: later.fail(done.error) if done.error else later.follow(done.answer))
        return later

    def rows(
        self,
        items: Iterable[Item],
        row: Callable[[Item], Result],
        answer: Callable[[list[Result]], Answer],
        *,
        is_change: bool = False,
        size: Callable[[Result], int] = lambda _: 1,
    ) -> Answer:
        """Answer with a row for each item of a request, with turns for others where there are many.

        Args:
            is_change: whether other changes have to wait until this one is done.
            size: as of ``in_turns``.
        """

        def answering() -> Steps[Answer]:
            return answer((yield from in_turns(items, row, size)))

        return self.run(answering()) if is_change else self.beside(answering())

    def apart(self, work: Callable[[], Result]) -> Waiting[Result]:
        """Do work that takes long, and changes nothing, beside the loop; others are answered meanwhile."""
        results: list[Result] = []
        if self.in_thread is None:
            return work()
        done = self.in_thread(lambda: results.append(work()))
        if not done.is_done:
            yield done
        if done.error is not None:
            raise done.error
        return results[0]

    def _turn(self) -> None:
        self._is_due = False
        if not self._waiting:  # stopped
            return
        steps, later = self._waiting[0]
        try:
            waits_for = next(steps)
        except StopIteration as done:
            finish = partial(later.complete, done.value)
        except Exception as error:
            finish = partial(later.fail, error)
        else:
            if waits_for is None:
                self._schedule()
            else:
                waits_for.when_complete(lambda _: self._schedule())
            return
        self._waiting.popleft()
        if self._waiting:
            self._schedule()
        finish()

    def _schedule(self) -> None:
        if self.next_turn is not None and not self._is_due:
            self._is_due = True
            self.next_turn(self._turn)

    def stop(self) -> None:
        """Leave what is under way as it is, and begin nothing more."""
        waiting, self._waiting = self._waiting, deque()
        for steps, _ in waiting:
            steps.close()
