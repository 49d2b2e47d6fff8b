# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints a trace as babeltrace2 reads it, a JSON object a line, with every value exact.

Floats are {"f32": bits} and {"f64": bits}, enumerations {"enum": value, "labels": [...]}. Compared with `kymo read --json`
by kymo-tests; decides nothing itself. With --events as the first argument: any trace, and of each record only its clock, its event and
the payload.
"""
import json
import struct
import sys

import bt2


def labels(field):
    try:
        return list(field.labels)
    except AssertionError:
        # The bindings of 2.0.4 fail on a value that has none.
        return []


def plain(field):
    if isinstance(field, bt2._EnumerationFieldConst):
        return {"enum": int(field), "labels": labels(field)}
    if isinstance(field, bt2._SinglePrecisionRealFieldConst):
        return {"f32": struct.unpack("<I", struct.pack("<f", float(field)))[0]}
    if isinstance(field, bt2._DoublePrecisionRealFieldConst):
        return {"f64": struct.unpack("<Q", struct.pack("<d", float(field)))[0]}
    if isinstance(field, bt2._BoolFieldConst):
        return bool(field)
    if isinstance(field, bt2._StringFieldConst):
        return str(field)
    if isinstance(field, bt2._IntegerFieldConst):
        return int(field)
    if isinstance(field, bt2._StructureFieldConst):
        return {name: plain(value) for name, value in field.items()}
    if isinstance(field, bt2._ArrayFieldConst):
        return [plain(value) for value in field]
    raise TypeError(type(field))


def is_asked_for(context):
    return context in ("prio", "cgroup", "callstack") or context.startswith("perf_")


def events(directory):
    for message in bt2.TraceCollectionMessageIterator(directory):
        if isinstance(message, bt2._EventMessageConst):
            event = message.event
            fields = plain(event.payload_field) if event.payload_field else {}
            record = {"cycles": message.default_clock_snapshot.value, "event": event.name, "fields": fields}
            sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")


def main():
    if sys.argv[1] == "--events":
        return events(sys.argv[2])
    out = sys.stdout
    for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
        if isinstance(message, bt2._EventMessageConst):
            event, clock = message.event, message.default_clock_snapshot
            packet, context = event.packet.context_field, event.common_context_field
            record = {
                "time": clock.ns_from_origin, "cycles": clock.value, "event": event.name, "cpu": int(packet["cpu_id"]),
                "tid": int(context["vtid"] if "vtid" in context else context["tid"]),
                "fields": plain(event.payload_field) if event.payload_field else {},
            }
            # The kernel's packets are those of a CPU, and of no program.
            if "vpid" in packet:
                # Of rings that programs share, each record says whose it is.
                own = context if "vpid" in context else packet
                record.update(pid=int(own["vpid"]), proc=str(own["procname"]))
            record["contexts"] = {name: plain(value) for name, value in context.items() if is_asked_for(name)}
        elif isinstance(message, bt2._DiscardedEventsMessageConst):
            record = {
                "lost": message.count,
                "from": message.beginning_default_clock_snapshot.ns_from_origin,
                "to": message.end_default_clock_snapshot.ns_from_origin,
            }
        else:
            continue
        out.write(json.dumps(record, ensure_ascii=False) + "\n")


sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
main()
