# SPDX-License-Identifier: MIT OR Apache-2.0
"""Did wake-ups become later between two days? The statistics are those of `kymo compare`: a run is the unit, and each
trace is a run.

    spark-submit regressions.py traces/2026-11-22 traces/2026-11-23 --thread motor --deadline 200us
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet import say_what_is_missing, session, table
from kymotrace import Run, compare
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

# Buckets no wider than a 128th of their value, as those of kymo's histograms: the upper 8 bits of the value.
BUCKET = "CASE WHEN duration_ns < 256 THEN duration_ns ELSE shiftright(duration_ns, length(bin(duration_ns)) - 8) END"
RUNS_MIN = 5


def runs(wakeups: DataFrame, of: DataFrame) -> list[Run]:
    """A run for each trace. Only counts come to the driver."""
    counted = (
        wakeups.groupBy("trace", F.expr(BUCKET).alias("bucket"), F.expr("length(bin(duration_ns))").alias("bits"))
        # A sample stands for its bucket: the largest, so that the worst of a run is exact.
        .agg(F.count("*").alias("times"), F.max("duration_ns").alias("value"), F.min("time").alias("time"))
        .groupBy("trace")
        .agg(F.collect_list(F.struct("value", "times")).alias("counts"), F.min("time").alias("time"))
        .join(F.broadcast(of), "trace")
    )
    return [
        Run(
            {"wakeup": {pair.value: pair.times for pair in row.counts}},
            test="wakeup",
            started_ns=row.time,
            environment={"kernel": row.kernel_release or "unknown"},
        )
        for row in counted.collect()
    ]


def main(words: Sequence[str] | None = None, given: SparkSession | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("before", help="directory with the traces of one day, at the same place on all workers")
    parser.add_argument("after", help="that of another day")
    parser.add_argument("--thread", help="wake-ups of threads of this name only")
    parser.add_argument("--deadline", help="wake-ups above it are misses, and misses are compared: 200us")
    args = parser.parse_args(words)
    spark = session(given)

    groups, left_out = [], []
    for path in (args.before, args.after):
        wakeups = table(spark, path, "wakeups", columns="trace,time,duration_ns,name,cpu,doubt")
        if args.thread:
            wakeups = wakeups.where(F.col("name") == args.thread)
        is_sure = F.col("doubt").isNull() & F.col("cpu").isNotNull()
        left_out.append(wakeups.where(~is_sure).count())
        groups.append(runs(wakeups.where(is_sure), table(spark, path, "traces", columns="trace,kernel_release")))
    if min(map(len, groups)) < RUNS_MIN:
        print(f"{len(groups[0])} and {len(groups[1])} runs are too few: {RUNS_MIN} traces of each day are needed")
    print(compare(*groups, deadline=args.deadline))
    for path, count in zip((args.before, args.after), left_out, strict=True):
        print(f"{path}\nleft out: {count:,} wake-ups that are doubtful, or were not over")
        say_what_is_missing(spark, path)


if __name__ == "__main__":
    main()
