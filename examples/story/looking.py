"""Look at what was left behind: the recorded traffic and the broker's log directory. Each is a command you can type."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

from telling import check, tell

from kafkaframes.cli.main import cli


def command(*words: object) -> str:
    """Run ``kafkaframes WORDS`` in this process, tell of it, and return what it printed."""
    text = [str(word) for word in words]
    tell(f"  $ kafkaframes {' '.join(text)}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        cli.main(text, prog_name="kafkaframes", standalone_mode=False)
    return printed.getvalue()


def audit(capture: Path, target: str) -> list[str]:
    """Return which clients an upgrade would break, and why."""
    found = json.loads(command("audit", capture, "--target", target, "--json"))
    return sorted({str(one["clientId"]) for one in found["clients"] if one["verdict"] == "removed"})


def kip_636(capture: Path) -> tuple[int, int]:
    """Return how many bytes responses would save with errors as tagged fields, and how many responses there are."""
    rows = [json.loads(line) for line in command("spec", "propose", "kip-636", capture, "--json").splitlines()]
    found = [row for row in rows if row["kind"] == "flexible"]
    return sum(row["saved"] for row in found), sum(row["messages"] for row in found)


def log(data_dir: Path, planes: str, out: Path, *, expected: int) -> dict[str, int]:
    """Verify the log, compact a topic in two ways, export; return what was counted."""
    verified = json.loads(command("verify", data_dir, "--json"))
    check(verified["sound"], "the log of a broker that was killed is sound")
    compacted = json.loads(command("compact", data_dir, "--topic", planes, "--to", out / "compacted", "--json"))
    table = json.loads(
        command(
            "table", data_dir, "--topic", planes, "--to", "delta", out / "planes", "--mode", "latest", "--value",
            "json", "--json",
        )
    )  # fmt: skip
    check(table["complete"], "the table of planes is complete")
    from deltalake import DeltaTable

    rows = DeltaTable(str(out / "planes")).to_pyarrow_table().num_rows
    check(rows == expected, f"the table has a row for each of {expected:,} planes, not {rows:,}")
    exported = json.loads(command("export", data_dir, "--to", out / "parquet", "--json"))
    check(bool(compacted["partitions"]), f"{planes} was compacted")
    counts = {name: sum(one[name] for one in compacted["partitions"]) for name in ("records_read", "records_kept")}
    return counts | {"exported": exported["records"], "planes": rows}
