"""The table ``segments``: a row for each file, valid or not; without a JVM."""

from pathlib import Path

from tests.scan.log.test_resolve import read_log_rows, write_log

from kafkaframes.scan.log.reading import read_work
from kafkaframes.scan.log.tables import read_batch_work

CASES = Path(__file__).parents[2] / "data" / "logs"
TRANSACTIONS = CASES / "kraft-4x-transactions"
READERS = {"records": read_work, "batches": read_batch_work}


def test_each_segment_has_a_row():
    rows = read_log_rows(TRANSACTIONS / "ledger-0", table="segments", deepIteration="true")
    files = sorted((TRANSACTIONS / "ledger-0").glob("*.log"))
    assert [row["file"] for row in rows] == [str(file) for file in files]
    assert [row["baseOffset"] for row in rows] == [int(file.stem) for file in files]
    assert [row["nextOffset"] for row in rows[:-1]] == [row["baseOffset"] for row in rows[1:]]
    batches = read_log_rows(TRANSACTIONS / "ledger-0", table="batches")
    for row, file in zip(rows, files, strict=True):
        own = [batch for batch in batches if batch["file"] == str(file)]
        assert row["sizeBytes"] == file.stat().st_size
        assert (row["batches"], row["records"]) == (len(own), sum(batch["recordCount"] for batch in own))
        assert row["maxTimestamp"] == max(batch["maxTimestamp"] for batch in own)
        assert row["codec"] == ",".join(sorted({batch["codec"] for batch in own}))
        assert set(row["beside"]) == {p.name for p in file.parent.glob(f"{file.stem}.*")} - {file.name}
        assert (row["magic"], row["error"]) == (2, None)


def test_an_empty_segment_and_a_torn_one_have_rows(tmp_path):
    partition = write_log(tmp_path, range(10))
    with (partition / f"{0:020}.log").open("ab") as file:
        file.write(bytes(100))
    (partition / f"{10:020}.log").touch()
    rows = read_log_rows(partition, table="segments", deepIteration="true")
    assert [(row["baseOffset"], row["nextOffset"], row["batches"]) for row in rows] == [(0, 10, 1), (10, 10, 0)]
    assert rows[0]["error"] is not None
    assert rows[1]["error"] is None
