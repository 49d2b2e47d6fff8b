#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Makes man pages of pages.txt and <trace.h>: of its functions (section 3), and of the header (section 0p).

    pages.py DIR          writes DIR/posix_trace_*.3 and DIR/trace.h.0p
    pages.py --check      every function of the header is on exactly one page, and each page has an example
    pages.py --examples   prints the examples as a C file, a function each
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
            page = {"names": line[3:].split(), "title": "", "text": [], "errors": [], "example": []}
            found.append(page)
        elif not found or not line:
            continue
        elif line.startswith("|"):
            page["example"].append(line[2:])
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
    out += [".SH EXAMPLES", ".nf", *(escaped(line) or "\\&" for line in page["example"]), ".fi"]
    out += [".SH STANDARDS", "IEEE 1003.1\\-2017; the edition of 2024 has no tracing. Where the standard leaves a choice, and what is",
            "chosen: \\fIspec/posix.md\\fP of kymo."]
    out += [".SH SEE ALSO", "\\fBtrace.h\\fP(0p)"]
    return "\n".join(out) + "\n"


def header_page():
    """The header's own page: its types, constants and functions, as they stand in it."""
    text = HEADER.read_text()
    constants = sorted(set(re.findall(r"^#define (POSIX_TRACE_\w+|_POSIX_TRACE\w*|TRACE_\w+_MAX)\b", text, re.M)))
    types = re.findall(r"^typedef \w+ (\w+);|^} (\w+);", text, re.M)
    structures = re.findall(r"^struct posix_\w+ \{.*?^\};", text, re.M | re.S)
    names = {name: page["names"][0] for page in pages() for name in page["names"]}
    out = ['.TH TRACE.H 0p "" "kymo" "POSIX Trace"', ".SH NAME", "trace.h \\- tracing", ".SH SYNOPSIS", "#include <trace.h>",
           ".SH DESCRIPTION", "Streams of events, with filters and logs, of one process or several. Functions and constants of units that",
           "a build does not have are not there, and the option's macro is \\-1 then.", ".SS Types",
           ", ".join(f"\\fB{first or second}\\fP" for first, second in types) + ".", ".PP", ".nf"]
    for line in "\n".join(structures).split("\n"):
        if not line.startswith("#"):
            out.append(escaped(line.expandtabs(4)) or "\\&")
    out += [".fi", ".SS Constants", ", ".join(f"\\fB{name}\\fP" for name in constants) + ".", ".SS Functions"]
    for name in sorted(names):
        where = "" if names[name] == name else f": \\fB{names[name]}\\fP(3)"
        out += [f"\\fB{name}\\fP(3){where}", ".br"]
    out += [".SH EXAMPLES", ".nf", *(escaped(line) for line in EXAMPLE), ".fi", ".SH STANDARDS",
            "IEEE 1003.1\\-2017; the edition of 2024 has no such header. \\fBsysconf\\fP(3) answers \\-1 for the option: the macros are right."]
    return "\n".join(out) + "\n"


# Of the header's page.
EXAMPLE = """trace_event_id_t step;
trace_id_t trid;
int position = 7;

posix_trace_create(0, NULL, &trid);
posix_trace_eventid_open("step", &step);
posix_trace_start(trid);
posix_trace_event(step, &position, sizeof(position));
posix_trace_shutdown(trid);""".split("\n")


def examples():
    print("#include <fcntl.h>\n#include <stdio.h>\n#include <string.h>\n#include <trace.h>")
    for number, example in enumerate([EXAMPLE, *(page["example"] for page in pages())]):
        body = "\n\t".join(example)
        print(f"void example_{number}(void);\nvoid example_{number}(void)\n{{\n\t{body}\n}}")


def main():
    known, seen = prototypes(), []
    for page in pages():
        seen += page["names"]
    wrong = sorted(set(known) ^ set(seen)) + sorted(name for name in set(seen) if seen.count(name) > 1)
    if wrong or len(known) != 52:
        sys.exit(f"pages.txt and <trace.h> ({len(known)} functions) differ: {' '.join(wrong)}")
    bare = [page["names"][0] for page in pages() if not page["example"]]
    if bare:
        sys.exit(f"pages.txt: no example for {' '.join(bare)}")
    if sys.argv[1:] == ["--check"]:
        return
    if sys.argv[1:] == ["--examples"]:
        examples()
        return
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    (to / "trace.h.0p").write_text(header_page())
    for page in pages():
        first = page["names"][0]
        (to / f"{first}.3").write_text(troff(page, known))
        for name in page["names"][1:]:
            (to / f"{name}.3").write_text(f".so man3/{first}.3\n")


if __name__ == "__main__":
    main()
