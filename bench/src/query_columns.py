# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What the package kymotrace takes for columns of an event as a frame of polars: query_columns.py TRACE EVENT [COLUMN...]; without columns
all of them. The seconds are from the call until the frame is there; the trace is opened before.
"""

import json
import sys
import time

import kymotrace
import polars


def main():
    trace, event, *columns = sys.argv[1:]
    opened = kymotrace.open(trace)
    begin, cpu = time.monotonic(), time.process_time()
    frame = opened.events(event, columns=columns or None).polars()
    seconds, cpu = time.monotonic() - begin, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu_s": cpu, "records": frame.height, "answer": int(frame["axis"].cast(polars.Int64).sum()),
                      "columns": frame.columns}))


if __name__ == "__main__":
    main()
