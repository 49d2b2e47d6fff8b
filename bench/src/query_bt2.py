# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What babeltrace2's Python bindings take for a question about one event: query_bt2.py TRACE EVENT QUESTION. Questions: sum (count and sum
of the field axis), group (count by axis % 16), columns (all fields as lists). The seconds are those of the loop, not of the imports.
"""

import json
import sys
import time

import bt2


def records(trace, event):
    """The event's records; messages of packets and other events are passed over."""
    for message in bt2.TraceCollectionMessageIterator(trace):
        if type(message) is bt2._EventMessageConst and message.event.name == event:
            yield message


def answer(trace, event, question):
    if question == "sum":
        count = total = 0
        for message in records(trace, event):
            count += 1
            total += int(message.event.payload_field["axis"])
        return count, total
    if question == "group":
        groups = {}
        for message in records(trace, event):
            key = int(message.event.payload_field["axis"]) % 16
            groups[key] = groups.get(key, 0) + 1
        return sum(groups.values()), sorted(groups.items())
    columns = {"time": [], "cpu": [], "pid": [], "tid": [], "axis": []}
    for message in records(trace, event):
        own = message.event
        columns["time"].append(message.default_clock_snapshot.ns_from_origin)
        columns["cpu"].append(int(own.packet.context_field["cpu_id"]))
        columns["pid"].append(int(own.packet.context_field["vpid"]))
        columns["tid"].append(int(own.common_context_field["vtid"]))
        columns["axis"].append(int(own.payload_field["axis"]))
    return len(columns["axis"]), sum(columns["axis"])


def main():
    trace, event, question = sys.argv[1:]
    begin, cpu = time.monotonic(), time.process_time()
    count, found = answer(trace, event, question)
    print(json.dumps({"seconds": time.monotonic() - begin, "cpu_s": time.process_time() - cpu, "records": count, "answer": found}))


if __name__ == "__main__":
    main()
