# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What DuckDB takes for a query of a CSV file, on one thread: query_duckdb.py FILE QUERY, where {} in the query stands for the file. The
seconds are those of the query, not of the import.
"""

import json
import sys
import time

import duckdb


def main():
    file, query = sys.argv[1:]
    connection = duckdb.connect(config={"threads": 1})
    begin, cpu = time.monotonic(), time.process_time()
    rows = connection.execute(query.replace("{}", f"read_csv('{file}')")).fetchall()
    print(json.dumps({"seconds": time.monotonic() - begin, "cpu_s": time.process_time() - cpu, "answer": rows}))


if __name__ == "__main__":
    main()
