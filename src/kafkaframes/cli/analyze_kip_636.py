"""``kafkaframes analyze kip-636 CAPTURE|REQUEST_LOG...``: what errors as tagged fields would save on real traffic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.options import json_option_of, ports_option, workers_option
from kafkaframes.cli.tables import print_table
from kafkaframes.cli.text import say
from kafkaframes.cli.traffic_tasks import measured, spark_option, traffic_tasks
from kafkaframes.jobs.audit.audit import api_name

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.kip_636 import Costs


@click.command("kip-636")
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@ports_option
@click.option("--by-client", is_flag=True, help="A line for each client, too.")
@json_option_of("One JSON object a line, by API, version, client and kind.")
@spark_option
@workers_option
def command(
    paths: tuple[str, ...], ports: str, by_client: bool, as_json: bool, on_spark: bool, jobs: int | None
) -> None:
    """Measure KIP-636 on real responses: bytes as they are, and with error codes and messages as tagged fields.

    INPUT is a capture or a broker's request log. Each response is encoded again, at its own version; the size before
    is checked against the wire (a request log has none, and no records). Break-even is the share of error codes that
    would have to be set for the rewrite to save nothing.
    """
    from kafkaframes.jobs.analyze.kip_636 import Costs, row_of
    from kafkaframes.jobs.analyze.wire_cost import measure_kip_636

    tasks, share_bytes = traffic_tasks(paths, ports, jobs)
    costs = Costs()
    for found in measured(measure_kip_636, tasks, share_bytes, on_spark=on_spark, jobs=jobs):
        costs.merge(found)
    if as_json:
        for group, cost in sorted(costs.groups.items()):
            say(json.dumps(row_of(cost, {"api": api_name(group.api_key), **group._asdict()})))
        return
    _print(costs, by_client=by_client)


def _print(costs: Costs, *, by_client: bool) -> None:
    from kafkaframes.jobs.analyze.kip_636 import FLEXIBLE, INFLEXIBLE, RAISED, Costs

    titles = {
        FLEXIBLE: "Responses of flexible versions, with their errors as tags in place",
        INFLEXIBLE: "Responses of versions that have no tags: as they are",
        RAISED: "The same, raised to the newest version with tags",
    }
    for kind, title in titles.items():
        chosen = Costs({group: cost for group, cost in costs.groups.items() if group.kind == kind})
        if not chosen.groups:
            continue
        rows = [
            [f"{api_name(key)} {version}", *_cells(cost)]
            for (key, version), cost in sorted(chosen.by("api_key", "api_version").items())
        ]
        rows += [["all", *_cells(cost)] for cost in chosen.by("kind").values()]
        say(f"{title}:")
        print_table(["response", *_HEADS], rows)
        if by_client:
            clients = [[client or "-", *_cells(cost)] for (client,), cost in sorted(chosen.by("client").items())]
            say(f"{title}, by client:")
            print_table(["client", *_HEADS], clients)
    unmeasured = sum(cost.unmeasured for cost in costs.groups.values())
    checked = sum(cost.wire_known for group, cost in costs.groups.items() if group.kind != RAISED)
    mismatched = sum(cost.mismatched for group, cost in costs.groups.items() if group.kind != RAISED)
    say(f"{checked} sizes checked against the wire, {mismatched} differ; {unmeasured} responses could not be measured")


_HEADS = ("count", "before", "after", "saved", "%", "codes", "set", "break-even")


def _cells(cost: Any) -> list[str]:
    share = 100 * cost.saved / cost.before if cost.before else 0.0
    even = "-" if cost.break_even is None or not cost.saved else f"{100 * cost.break_even:.0f} %"
    numbers = (cost.responses, cost.before, cost.after, cost.saved)
    return [*(str(one) for one in numbers), f"{share:.2f}", str(cost.codes), str(cost.codes_set), even]
