# SPDX-License-Identifier: MIT OR Apache-2.0
"""read_perfetto.py FILE: what a Perfetto trace holds, as JSON, read by the classes of the PyPI package `perfetto`."""
import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
kernel, user, threads = [], [], {}
for packet in trace.packet:
    if packet.HasField("track_descriptor") and packet.track_descriptor.HasField("thread"):
        threads[packet.track_descriptor.uuid] = packet.track_descriptor.thread.tid
    for event in packet.ftrace_events.event:
        name = event.WhichOneof("event")
        body = getattr(event, name)
        if name == "generic":
            name = body.event_name
        kernel.append([event.timestamp, packet.ftrace_events.cpu, event.pid, name])
    if packet.HasField("track_event"):
        event = packet.track_event
        fields = {a.name: getattr(a, a.WhichOneof("value")) for a in event.debug_annotations
                  if a.WhichOneof("value") and isinstance(getattr(a, a.WhichOneof("value")), (int, float, str))}
        user.append([packet.timestamp, threads.get(event.track_uuid, 0), event.type, event.name, fields])
clocks = [[c.clock_id, c.timestamp] for p in trace.packet for c in p.clock_snapshot.clocks]
json.dump({"kernel": kernel, "user": user, "clocks": clocks}, sys.stdout)
