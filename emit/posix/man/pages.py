#!/usr/bin/env python3
"""
Makes man pages (section 3) of pages.txt and the prototypes in <trace.h>.

    pages.py DIR        writes DIR/posix_trace_*.3
    pages.py --check    every function of the header is on exactly one page
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent.parent / "include" / "trace.h"


def prototypes():
    text = HEADER.read_text().replace("KYMO__RESTRICT", "restrict")
    found = re.findall(r"^((?:int|void) (posix_trace_\w+)\([^;]*\);)", text, re.M)
    return {name: re.sub(r"\s+", " ", whole) for whole, name in found}


def pages():
    found = []
    for line in (HERE / "pages.txt").read_text().splitlines():
        if line.startswith("== "):
            page = {"names": line[3:].split(), "title": "", "text": [], "errors": []}
            found.append(page)
        elif not found or not line:
            continue
        elif line.startswith("title: "):
            page["title"] = line[7:]
        elif line.startswith("errors: "):
            page["errors"] = [error.split(" ", 1) for error in line[8:].split("; ")]
        else:
            page["text"].append(line)
    return found


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"\b(posix_trace_\w+)\(\)", r"\\fB\1\\fP()", text)


def troff(page, known):
    first = page["names"][0]
    out = [f'.TH {first.upper()} 3 "" "kymo" "POSIX Trace"', ".SH NAME", f"{', '.join(page['names'])} \\- {page['title']}",
           ".SH SYNOPSIS", ".nf", "#include <trace.h>", ""]
    for name in page["names"]:
        arguments = known[name].split("(", 1)[1]
        kind = known[name].split(" ", 1)[0]
        out += [".fi", ".HP", f"{kind} \\fB{name}\\fP({escaped(arguments)}", ".nf"]
    out += [".fi", ".PP", "Link with \\fI\\-lkymo\\-posix\\fP.", ".SH DESCRIPTION", *(escaped(line) for line in page["text"])]
    out += [".SH RETURN VALUE"]
    if first == "posix_trace_event":
        out += ["None."]
    else:
        out += ["0, or the number of an error; \\fIerrno\\fP is not used."]
    if "posix_trace_eventid_equal" in page["names"]:
        out += ["\\fBposix_trace_eventid_equal\\fP() returns the answer itself."]
    if page["errors"]:
        out += [".SH ERRORS"]
        for number, cause in page["errors"]:
            out += [".TP", f".B {number}", escaped(cause) + "."]
    out += [".SH STANDARDS", "IEEE 1003.1\\-2017; the edition of 2024 has no tracing. Where the standard leaves a choice, and what is",
            "chosen: \\fIspec/posix.md\\fP of kymo."]
    return "\n".join(out) + "\n"


def main():
    known, seen = prototypes(), []
    for page in pages():
        seen += page["names"]
    wrong = sorted(set(known) ^ set(seen)) + sorted(name for name in set(seen) if seen.count(name) > 1)
    if wrong or len(known) != 50:
        sys.exit(f"pages.txt and <trace.h> ({len(known)} functions) differ: {' '.join(wrong)}")
    if sys.argv[1:] == ["--check"]:
        return
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    for page in pages():
        first = page["names"][0]
        (to / f"{first}.3").write_text(troff(page, known))
        for name in page["names"][1:]:
            (to / f"{name}.3").write_text(f".so man3/{first}.3\n")


if __name__ == "__main__":
    main()
