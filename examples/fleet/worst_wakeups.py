# SPDX-License-Identifier: MIT OR Apache-2.0
"""The worst wake-ups of each version of the kernel, over all machines, and what their CPUs did meanwhile.

    spark-submit worst_wakeups.py traces/ --worst 5 --thread motor
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet import say_what_is_missing, session, show_ns, table
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

COLUMNS = "trace,time,duration_ns,tid,name,prio,cpu,by,cpu_mostly,cpu_mostly_name,doubt,host"


def main(words: Sequence[str] | None = None, given: SparkSession | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", help="directory with traces below, at the same place on all workers")
    parser.add_argument("--worst", type=int, default=3, help="so many of each version")
    parser.add_argument("--thread", help="wake-ups of threads of this name only")
    args = parser.parse_args(words)
    spark = session(given)

    wakeups = table(spark, args.traces, "wakeups", columns=COLUMNS)
    if args.thread:
        wakeups = wakeups.where(F.col("name") == args.thread)
    # A wake-up that lost records have touched may be longer than it was.
    sure = wakeups.where(F.col("doubt").isNull() & F.col("cpu").isNotNull())
    kernels = table(spark, args.traces, "traces", columns="trace,kernel_release")
    known = sure.join(F.broadcast(kernels), "trace").withColumn(
        "kernel_release", F.coalesce("kernel_release", F.lit("unknown kernel"))
    )

    by_kernel = known.groupBy("kernel_release").agg(
        F.countDistinct("host").alias("hosts"),
        F.count("*").alias("wakeups"),
        F.expr("percentile_approx(duration_ns, 0.99)").alias("p99"),
        F.max("duration_ns").alias("most"),
    )
    ranked = known.withColumn(
        "rank", F.row_number().over(Window.partitionBy("kernel_release").orderBy(F.desc("duration_ns"), "time"))
    )
    worst = ranked.where(F.col("rank") <= args.worst).orderBy("kernel_release", "rank")
    meanwhile = known.groupBy("kernel_release", "cpu_mostly").agg(
        F.count("*").alias("wakeups"), F.sum("duration_ns").alias("waited")
    )

    rows, parts = worst.collect(), meanwhile.orderBy("kernel_release", F.desc("waited")).collect()
    for kernel in by_kernel.orderBy(F.desc("most")).collect():
        name = kernel.kernel_release
        print(
            f"{name}: {kernel.wakeups:,} wake-ups on {kernel.hosts} hosts, "
            f"99 % below {show_ns(kernel.p99)}, the worst {show_ns(kernel.most)}"
        )
        waited = sum(row.waited for row in parts if row.kernel_release == name) or 1
        for row in parts:
            if row.kernel_release == name:
                share = f"{row.waited / waited:6.1%} of all waiting"
                print(f"  {share}: the CPU was mostly at {row.cpu_mostly}, in {row.wakeups:,} wake-ups")
        for row in rows:
            if row.kernel_release == name:
                mostly = " ".join(part for part in (row.cpu_mostly, row.cpu_mostly_name) if part)
                print(
                    f"  {show_ns(row.duration_ns):>8}  {row.name}[{row.tid}] on cpu {row.cpu} of {row.host}, woken by "
                    f"{row.by or 'nobody known'}, while its CPU was mostly at {mostly}\n"
                    f"            kymo explain {row.trace} --at {row.time} --thread {row.tid}"
                )
    doubtful = wakeups.count() - sure.count()
    print(f"left out: {doubtful:,} wake-ups that are doubtful, or were not over")
    say_what_is_missing(spark, args.traces)


if __name__ == "__main__":
    main()
