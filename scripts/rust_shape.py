#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a compiler does not hold of the Rust in host/: lengths of functions, names of types, files that nobody names, arguments
that hide in tuples, calls that a crate must not make, and tests that cannot fail. One line for each fault; ends with 1 where there are any.
Usage: rust_shape.py functions|types|files|tuples|calls|tests"""

import collections
import os
import re
import sys

HOST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "host")
# Lines of a function, with its head.
FUNCTION_MAX = 60
# Types of one name in the whole workspace. A term of the field (Record, Frame, Column) may be a type of several crates; a
# word that says nothing of its type may not.
SAME_NAME_MAX = 6
VAGUE_MAX = 3
VAGUE = set("Asked Begun Counted Found Item Known Look Named Names Place Seen Shown Told Wanted".split())
USUAL_NAMES = {"Error", "Builder"}
# Crate, what it must not call, and files in which it may: what talks to other processes, or reads rings of the kernel, has the
# machine's own time.
FORBIDDEN = [
    ("kymo-collect", r"\b(?:Instant|SystemTime)::now\b|\.elapsed\(\)", ("clock.rs", "query.rs", "runtime.rs", "kernel/", "remote/")),
    ("kymo-ctf", r"\b(?:Instant|SystemTime)::now\b|\bstd::net\b|\bstd::os::unix::net\b|\brustix::(?:net|time)\b", ()),
    ("kymo-analyze", r"\b(?:Instant|SystemTime)::now\b|\bstd::net\b|\bstd::os::unix::net\b|\brustix::(?:net|time)\b", ()),
]
# What makes a test fail, and names of tests that have nothing of it: they say what the test shows by its end alone.
ASSERTS = re.compile(r"\b(?:assert|debug_assert|prop_assert)\w*[!(]|\bpanic!|\bunreachable!|\bprobe::\w+\(")
SHOWS_ITS_END = re.compile(r"never_panic|_panics$|_ends?$|_elsewhere$")
# Files whose functions tests of other files call, and the names of those that are there to fail: others assert that what a
# test needs could be made.
SHARED_CHECK = re.compile(r"check|assert|expect|same|agree|contain|says$|admit|surviv|lossless|equal|compare|refus|until|wait_for|page$|format$")
SHARED = re.compile(r"^(tests/(src|harness)/|host/kymo-testing/)|/support/|(mod|tests?|testing|probe)\.rs$")


def sources(folders=("src",)):
    """Crate, path within the crate, and lines of each file; unit tests and comments are left out, lines keep their numbers."""
    for crate in sorted(os.listdir(HOST)):
        for folder in folders:
            for root, _, names in os.walk(os.path.join(HOST, crate, folder)):
                for name in sorted(names):
                    path = os.path.join(root, name)
                    inner = os.path.relpath(path, os.path.join(HOST, crate, folder))
                    if not name.endswith(".rs") or name.endswith("tests.rs") or inner.startswith("simulation"):
                        continue
                    with open(path, encoding="utf-8") as file:
                        text = file.read()
                    text = re.sub(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{.*", "", text, flags=re.S)
                    yield crate, inner, [re.sub(r"^\s*//.*", "", line) for line in text.split("\n")]


def functions():
    """rustfmt puts the end of a function below its begin."""
    begin = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |async |extern \"C\" )*fn (\w+)")
    for crate, path, lines in sources():
        for at, line in enumerate(lines):
            match = begin.match(line)
            if not match:
                continue
            for end in range(at, len(lines)):
                if lines[end].rstrip() == match.group(1) + "}" or end == at and line.rstrip().endswith(("}", ";")):
                    break
                # A function that is only declared, over several lines.
                if end > at and re.match(re.escape(match.group(1)) + r"\).*;$", lines[end]):
                    break
            length = end - at + 1
            if length > FUNCTION_MAX:
                yield f"{crate}/src/{path}:{at + 1}: {match.group(2)} has {length} lines"


def types():
    places = collections.defaultdict(list)
    for crate, path, lines in sources():
        for line in lines:
            match = re.match(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union) (\w+)", line)
            if match:
                places[match.group(1)].append(f"{crate}/{path}")
    for name, files in sorted(places.items(), key=lambda place: -len(place[1])):
        if len(files) > (VAGUE_MAX if name in VAGUE else SAME_NAME_MAX) and name not in USUAL_NAMES:
            yield f"{len(files)} types are called {name}: {', '.join(files)}"


def files():
    """A file is compiled where a `mod` or a `#[path]` names it, or where cargo looks for it."""
    for crate in sorted(os.listdir(HOST)):
        named, there = set(), []
        for root, folders, names in os.walk(os.path.join(HOST, crate)):
            folders[:] = [folder for folder in folders if folder != "target"]
            for name in names:
                if not name.endswith(".rs"):
                    continue
                path = os.path.join(root, name)
                there.append(path)
                with open(path, encoding="utf-8") as file:
                    text = re.sub(r"//[^\n]*", "", file.read())
                # What a file's own modules are below.
                below = root if name in ("mod.rs", "lib.rs", "main.rs", "all.rs") else path[:-3]
                for attributes, module in re.findall(r"((?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))? )?mod (\w+);", text):
                    other = re.search(r'path = "([^"]+)"', attributes)
                    if other:
                        named.add(os.path.normpath(os.path.join(root, other.group(1))))
                    # A root of tests has its modules beside itself.
                    for folder in {below, root} if os.path.basename(root) in ("tests", "benches", "examples", "bin") else {below}:
                        named.update((os.path.join(folder, module + ".rs"), os.path.join(folder, module, "mod.rs")))
                named.update(os.path.normpath(os.path.join(root, path)) for path in re.findall(r'include!\("([^"]+)"\)', text))
        with open(os.path.join(HOST, crate, "Cargo.toml"), encoding="utf-8") as file:
            manifest = file.read()
        named.update(os.path.normpath(os.path.join(HOST, crate, path)) for path in re.findall(r'path = "([^"]+\.rs)"', manifest))
        for path in there:
            inner = os.path.relpath(path, os.path.join(HOST, crate))
            is_root = inner in ("src/lib.rs", "src/main.rs", "build.rs") or (
                re.fullmatch(r"(tests|benches|examples|src/bin)/\w+\.rs", inner)
                and not (inner.startswith("tests/") and "autotests = false" in manifest))
            if path not in named and not is_root:
                yield f"{crate}/{inner} is named by no mod"


def tuples():
    """A function of kymo-collect with a tuple for several arguments."""
    for crate, path, lines in sources():
        if crate != "kymo-collect":
            continue
        for at, line in enumerate(lines):
            # Those of closures take apart what an iterator gives.
            if re.match(r"^\s*(?:pub(?:\([^)]*\))? )?fn .*[(,] ?\(\w+(?:, \w+)+\): \(", line) or re.match(r"^ +\(\w+(?:, \w+)+\): \(.*\),$", line):
                yield f"{crate}/src/{path}:{at + 1}: {line.strip()}"


def calls():
    for crate, path, lines in sources():
        for of, pattern, allowed in FORBIDDEN:
            if crate == of and not path.startswith(tuple(allowed)):
                for at, line in enumerate(lines):
                    if re.search(pattern, line):
                        yield f"{crate}/src/{path}:{at + 1}: {line.strip()}"


def all_functions():
    """Path, line, name, body and attributes of each function of host/ and tests/."""
    begin = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |async |extern \"C\" )*fn (\w+)")
    top = os.path.dirname(HOST)
    for folder in ("host", "tests"):
        for root, _, names in os.walk(os.path.join(top, folder)):
            for name in sorted(name for name in names if name.endswith(".rs")):
                path = os.path.join(root, name)
                with open(path, encoding="utf-8") as file:
                    # Programs that a test has as texts have braces of their own.
                    text = re.sub(r'r#".*?"#', lambda match: re.sub(r"[^\n]", "", match.group()), file.read(), flags=re.S)
                lines = text.split("\n")
                for at, line in enumerate(lines):
                    match = begin.match(line)
                    if not match:
                        continue
                    last = at
                    while not (lines[last].rstrip() == match.group(1) + "}" or last == at and line.rstrip().endswith(("}", ";"))) \
                            and last + 1 < len(lines):
                        last += 1
                    first = at
                    while first and re.match(r"\s*(#\[|//)", lines[first - 1]):
                        first -= 1
                    yield os.path.relpath(path, top), at + 1, match.group(2), "\n".join(lines[at:last + 1]), "\n".join(lines[first:at])


def tests():
    """A test asserts, or calls what does: in its file, in one that it imports from, or in one that tests share."""
    found = list(all_functions())
    asserting, shared = collections.defaultdict(set), set()
    imported = collections.defaultdict(set)
    for path in {path for path, *_ in found}:
        with open(os.path.join(os.path.dirname(HOST), path), encoding="utf-8") as file:
            for names in re.findall(r"use (?:super|crate)::[\w:]*?(\{[^}]*\}|\w+);", file.read()):
                imported[path].update(re.findall(r"\w+", names))
    grows = True
    while grows:
        grows = False
        anywhere = set().union(*asserting.values())
        for path, _, name, body, _ in found:
            calls = set(re.findall(r"\b(\w+)(?:::<[^>]*>)?\(", body)) - {name}
            if name not in asserting[path] and (ASSERTS.search(body) or calls & (asserting[path] | shared | imported[path] & anywhere)):
                asserting[path].add(name)
                grows = True
                if SHARED.search(path) and SHARED_CHECK.search(name):
                    shared.add(name)
    for path, line, name, _, attributes in found:
        is_test = "#[test]" in attributes and not re.search(r"should_panic|#\[ignore", attributes)
        if is_test and name not in asserting[path] and not SHOWS_ITS_END.search(name):
            yield f"{path}:{line}: {name} asserts nothing; its name does not say what it shows (..._never_panics, ..._ends)"


def main():
    kinds = {"functions": functions, "types": types, "files": files, "tuples": tuples, "calls": calls, "tests": tests}
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    found = list(kinds[sys.argv[1]]())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
