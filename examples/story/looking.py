"""Examine the recorded traffic and the broker's log directory. Each step is a command that a reader can type."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

from telling import check, tell

from kafkaframes.cli.main import cli


def command(*words: object) -> str:
    """Run ``kafkaframes WORDS`` in this process, print the command line, and return the output."""
    text = [str(word) for word in words]
    tell(f"  $ kafkaframes {' '.join(text)}")
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        cli.main(text, prog_name="kafkaframes", standalone_mode=False)
    return output.getvalue()


def audit(capture: Path, target: str) -> list[str]:
    """Return the clients that an upgrade would break, with the reasons."""
    report = json.loads(command("audit", capture, "--target", target, "--json"))
    return sorted({str(one["clientId"]) for one in report["clients"] if one["verdict"] == "removed"})


def kip_636(capture: Path) -> tuple[int, int]:
    """Return how many bytes responses would save with errors as tagged fields, and the number of responses."""
    rows = [json.loads(line) for line in command("spec", "propose", "kip-636", capture, "--json").splitlines()]
    flexible_rows = [row for row in rows if row["kind"] == "flexible"]
    return sum(row["saved"] for row in flexible_rows), sum(row["messages"] for row in flexible_rows)


def log(data_dir: Path, planes: str, out: Path, *, expected_count: int) -> dict[str, int]:
    """Verify the log, compact a topic in two ways, and export it. Return the counts."""
    verification = json.loads(command("verify", data_dir, "--json"))
    check(verification["sound"], "the log of a broker that was killed is sound")
    compaction = json.loads(command("compact", data_dir, "--topic", planes, "--to", out / "compacted", "--json"))
    table = json.loads(
        command(
            "table", data_dir, "--topic", planes, "--to", "delta", out / "planes", "--mode", "latest", "--value",
            "json", "--json",
        )
    )  # fmt: skip
    check(table["complete"], "the table of planes is complete")
    from deltalake import DeltaTable

    rows = DeltaTable(str(out / "planes")).to_pyarrow_table().num_rows
    check(rows == expected_count, f"the table has a row for each of {expected_count:,} planes, not {rows:,}")
    export_summary = json.loads(command("export", data_dir, "--to", out / "parquet", "--json"))
    check(bool(compaction["partitions"]), f"{planes} was compacted")
    counts = {name: sum(one[name] for one in compaction["partitions"]) for name in ("records_read", "records_kept")}
    return counts | {"exported": export_summary["records"], "planes": rows}
