# SPDX-License-Identifier: MIT OR Apache-2.0
"""One lock over a cluster: on which machines do threads of a program wait for it, how long, and who holds it?

An address is that of one process, and says nothing on another machine. So the lock is chosen by who waits for it: of
each process the address that its threads waited for longest, or that whose waiters have a name.

    spark-submit one_lock.py traces/ --waiter worker
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet import say_what_is_missing, session, show_ns, table
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

COLUMNS = "trace,time,duration_ns,tid,pid,name,address,is_blocked,owner,doubt,host"


def main(words: Sequence[str] | None = None, given: SparkSession | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", help="directory with traces below, at the same place on all workers")
    parser.add_argument("--waiter", help="calls of threads of this name only")
    parser.add_argument("--limit", type=int, default=20, help="so many machines")
    args = parser.parse_args(words)
    spark = session(given)

    waits = table(spark, args.traces, "locks", columns=COLUMNS).where(F.col("is_blocked"))
    if args.waiter:
        waits = waits.where(F.col("name") == args.waiter)
    # A call that lost records have touched may be longer than it was.
    calls = waits.where(F.col("doubt").isNull())
    lock = ["trace", "host", "pid", "address"]
    locks = calls.groupBy(*lock).agg(
        F.count("*").alias("waits"),
        F.countDistinct("tid").alias("waiters"),
        F.sum("duration_ns").alias("waited"),
        F.expr("percentile_approx(duration_ns, 0.99)").alias("p99"),
        F.max("duration_ns").alias("most"),
        F.max_by("owner", "duration_ns").alias("owner"),
        F.max_by("time", "duration_ns").alias("time"),
        F.max_by("tid", "duration_ns").alias("tid"),
    )
    first = Window.partitionBy("trace", "host", "pid").orderBy(F.desc("waited"), "address")
    chosen = locks.withColumn("rank", F.row_number().over(first)).where(F.col("rank") == 1)
    rows = chosen.orderBy(F.desc("most")).limit(args.limit).collect()
    for row in rows:
        print(
            f"{row.host}: process {row.pid}, lock {row.address:#x}: {row.waits:,} waits of {row.waiters} threads, "
            f"{show_ns(row.waited)} together, 99 % below {show_ns(row.p99)}, the longest {show_ns(row.most)}, while "
            f"{row.owner or 'nobody known'} had it\n  kymo explain {row.trace} --at {row.time} --thread {row.tid}"
        )
    if not rows:
        print("no thread waited for a lock: record with -k sched,syscalls")
    print(f"left out: {waits.where(F.col('doubt').isNotNull()).count():,} waits that are doubtful")
    say_what_is_missing(spark, args.traces)


if __name__ == "__main__":
    main()
