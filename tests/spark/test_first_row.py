"""What a new executor's worker imports for its first row: each executor pays for every import once."""

import json
import subprocess
import sys
from pathlib import Path

LOG = next((Path(__file__).parents[2] / "examples" / "logs").iterdir())
READ = """
import json, sys
import pyspark.worker
from pyspark.sql.worker import plan_data_source_read
import kafkaframes.spark.kafka_log
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.spark.log_options import log_options
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.tasks import read_table
options = log_options({"path": sys.argv[1], "includeHeaders": "true"})
columns = choose_columns(None, include_headers=True, table=options.layout)
work = plan_log(options, cores=1).works[0]
rows = next(iter(read_table(work, columns, options))).num_rows
print(json.dumps([rows > 0, sorted({"pandas", "numba", "llvmlite", "fsspec"} & sys.modules.keys())]))
"""


def test_the_first_batch_needs_neither_pandas_nor_numba(compiled_ahead):
    command = [sys.executable, "-c", READ, str(LOG)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert json.loads(done.stdout) == [True, []]
