# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Spark on a standalone cluster of two workers, each on a CPU of its own: query_spark.py DIR PASSES. DIR has the traces. Each pass is one
application that may have one worker, and one that may have both; each asks twice, and the second answer is measured: by then the
executors run. Prints a line for each.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/tests"))

import cluster  # noqa: E402


def asked(spark, directory):
    """Wake-ups of each thread of each trace: how many, and the longest."""
    from pyspark.sql import functions

    begin = time.monotonic()
    reader = spark.read.format("kymo").option("table", "wakeups").option("columns", "trace,tid,duration_ns")
    grouped = reader.load(directory).groupBy("trace", "tid")
    frame = grouped.agg(functions.count("*"), functions.max("duration_ns"))
    rows = sorted([Path(row[0]).name, *row[1:]] for row in frame.collect())
    return time.monotonic() - begin, rows


def main():
    directory, passes = sys.argv[1], int(sys.argv[2])
    cpus = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory(prefix="kymo-bench-spark-") as root, cluster.running(Path(root), 2, cpus) as two:
        for number in range(passes):
            for workers in (1, 2):
                settings = {"spark.cores.max": str(workers), "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
                with cluster.session(two.url, settings) as spark:
                    asked(spark, directory)
                    seconds, rows = asked(spark, directory)
                print(json.dumps({"pass": number, "workers": workers, "seconds": seconds, "rows": rows}), flush=True)


if __name__ == "__main__":
    main()
