# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure 7: what a tracepoint adds to a program's text, as `size` counts it (code, read-only data, unwind tables): files with
1 and with 101 tracepoints are compiled with -O2, and the difference is divided by 100. Once with a new event for each
tracepoint, once with 101 places that use one event. Exact: no rounds.
"""

import re
import subprocess

from . import lttng
from .report import Row

KYMO_HEAD = "#include <kymo/tracepoint.h>\n"
LTTNG_HEAD = """#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sz
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./{name}"
#if !defined(SIZE_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SIZE_TP_H
#include <lttng/tracepoint.h>
#include <stdint.h>
{events}
#endif
#include <lttng/tracepoint-event.h>
"""
LTTNG_EVENT = ("LTTNG_UST_TRACEPOINT_EVENT(sz, e{i}, LTTNG_UST_TP_ARGS(uint64_t, value), "
               "LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, value, value)))")
COUNTS = (1, 101)


class Size:
    """Measure 7."""

    name = "size"
    about = "text bytes per tracepoint site (measure 7)"

    def __init__(self):
        self.bytes = {}     # (tracer, "event" or "site"): bytes
        self.sections = {}  # the same: {section: bytes}

    def run_pass(self, ctx):
        if self.bytes:
            return
        work = ctx.out / "size"
        work.mkdir(parents=True, exist_ok=True)
        for tracer in ("kymo", "lttng"):
            if (tracer == "kymo" and ctx.kymo_missing) or (tracer == "lttng" and ctx.lttng_missing):
                continue
            for what in ("event", "site"):
                small, large = (self._build(ctx, work, tracer, what, count) for count in COUNTS)
                steps = COUNTS[1] - COUNTS[0]
                self.bytes[tracer, what] = (_text_bytes(large) - _text_bytes(small)) / steps
                before, after = _sections(small), _sections(large)
                self.sections[tracer, what] = {name: (after[name] - before.get(name, 0)) / steps for name in after
                                               if after[name] != before.get(name, 0)}

    def _build(self, ctx, work, tracer, what, count):
        """Compiles and returns the object."""
        events = count if what == "event" else 1
        source = work / f"{tracer}_{what}_{count}.c"
        if tracer == "kymo":
            text = KYMO_HEAD + "".join(f"KYMO_EVENT(sz, e{i}, (u64, value))\n" for i in range(events))
            call, include = "kymo_trace(sz, e{i}, v);", ["-I", str(ctx.root / "emit/include")]
        else:
            header = work / f"{source.stem}.h"
            header.write_text(LTTNG_HEAD.format(name=header.name, events="\n".join(
                LTTNG_EVENT.format(i=i) for i in range(events))))
            text = ("#define LTTNG_UST_TRACEPOINT_CREATE_PROBES\n#define LTTNG_UST_TRACEPOINT_DEFINE\n"
                    f'#include "{header.name}"\n')
            call, include = "lttng_ust_tracepoint(sz, e{i}, v);", ["-I", str(work)]
        # One function for each place, so that no two of them can be merged; its frame is counted against the tracer.
        for i in range(count):
            text += f"void place{i}(uint64_t v);\nvoid place{i}(uint64_t v) {{ {call.format(i=i % events)} }}\n"
        source.write_text(text)
        target = source.with_suffix(".o")
        subprocess.run(["cc", "-std=gnu11", "-O2", "-c", "-o", str(target), str(source)] + include, check=True)
        return target

    def rows(self, ctx):
        rows = []
        for what, title in (("site", "7 text bytes, one more place of an event"),
                            ("event", "7 text bytes, one more event and its place")):
            row = Row(title, unit=" B", bar=300)
            if ("lttng", what) in self.bytes:
                row.peer = f"{self.bytes['lttng', what]:,.0f} B"
            if ("kymo", what) in self.bytes:
                row.ratio = self.bytes["kymo", what]
                row.kymo = f"{row.ratio:,.0f} B"
                row.note = "; ".join(self._note(tracer, what) for tracer in ("kymo", "lttng")
                                     if (tracer, what) in self.sections)
            else:
                row.missing = f"kymo is not built ({ctx.kymo_missing})"
            if ctx.lttng_missing and not row.missing:
                row.note += f"; LTTng is not there: {lttng.APT}"
            rows.append(row)
        return rows

    def _note(self, tracer, what):
        """All that is loaded, data included, section by section."""
        parts = {name: value for name, value in self.sections[tracer, what].items() if not name.startswith(".debug")}
        listed = ", ".join(f"{name} {value:,.0f}" for name, value in sorted(parts.items(), key=lambda one: -one[1])[:5])
        return f"{tracer}, data included: {sum(parts.values()):,.0f} B ({listed}{', ...' if len(parts) > 5 else ''})"


def _text_bytes(path):
    out = subprocess.run(["size", str(path)], text=True, stdout=subprocess.PIPE, check=True).stdout
    return int(out.splitlines()[1].split()[0])


def _sections(path):
    out = subprocess.run(["size", "-A", str(path)], text=True, stdout=subprocess.PIPE, check=True).stdout
    found = {}
    for name, size in re.findall(r"^(\S+)\s+(\d+)\s+\d+$", out, re.M):
        found[name] = found.get(name, 0) + int(size)
    found.pop("Total", None)
    return found
