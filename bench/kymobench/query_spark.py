# SPDX-License-Identifier: MIT OR Apache-2.0
"""Spark on a standalone cluster on loopback: two workers against one, each on a CPU of its own."""

import json
import os
import subprocess

from . import report, stats
from .query_run import SCRIPTS, ask, interpreter

TRACES = 8
MEASURE = f"Spark: two workers against one, {TRACES} traces"
QUERY = "SELECT tid, count(*) AS n, max(duration_ns) AS most FROM wakeups GROUP BY tid"


def missing():
    """Why it cannot be measured here."""
    if len(os.sched_getaffinity(0)) < 2:
        return "it needs two CPUs"
    if not interpreter("kymotrace", "pyspark"):
        return "no Python here has kymotrace and pyspark (make python-test installs them)"
    return None if subprocess.run(["java", "-version"], capture_output=True, check=False).returncode == 0 else "Java is missing"


def rows(ctx, mib, passes):
    """Traces of a kernel, each so large."""
    why = missing()
    if why:
        return [report.Row(MEASURE, bar=1.7, better="more", missing=why)]
    fleet = ctx.shm / "fleet"
    fleet.mkdir()
    for number in range(TRACES):
        ctx.make_trace(f"fleet/{number}", mib)
    wanted = sorted([str(number), row["tid"], row["n"], row["most"]] for number in range(TRACES)
                    for row in ask(ctx.command, fleet / str(number), QUERY)[3])
    words = [interpreter("kymotrace", "pyspark"), str(SCRIPTS / "query_spark.py"), str(fleet), str(passes)]
    taken = {1: [], 2: []}
    log = ctx.shm / "spark.log"
    with log.open("w") as to, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=to, text=True) as process:
        for line in process.stdout:
            done = json.loads(line)
            ctx.note(MEASURE, done["pass"], f"{done['workers']} workers", done["seconds"], 0.0)
            taken[done["workers"]].append(done["seconds"])
            if done["rows"] != wanted:
                raise RuntimeError(f"Spark has other rows than kymo sql: {done['rows'][:2]} for {wanted[:2]}")
    if process.returncode != 0:
        raise RuntimeError(f"query_spark.py: {log.read_text(errors='replace')[-600:]}")
    spread = stats.spread([one / two for one, two in zip(taken[1], taken[2])])
    return [report.Row(MEASURE, f"{stats.median(taken[2]):.2f} s", f"{stats.median(taken[1]):.2f} s", spread["median"], spread=spread,
                       bar=1.7, better="more", note=f"{mib} MiB each; {len(wanted)} rows, those of kymo sql; each worker pinned to a CPU")]
