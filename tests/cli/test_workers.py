"""Work shared out among processes."""

from kafkaframes.cli import workers


def test_several_processes_answer_in_order():
    tasks = list(range(40))
    assert [*workers.in_order(str, tasks, size_of=int, workers=2)] == [*map(str, tasks)]
