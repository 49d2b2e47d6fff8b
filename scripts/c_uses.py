# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which C files use what other C files define: functions and objects with external linkage, and which headers they include. A
header is only the declaration; who calls an inline function of one uses what that function uses. Comments and strings do not
count, nor does what has no name of ours: a function of the C library that a file defines anew is not that file's to who calls
it."""

import glob
import os
import re

NESTED = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
ATTRIBUTE = re.compile(r"__attribute__\s*" + NESTED)
FUNCTION = re.compile(r"(\w+)\s*" + NESTED + r"$")
POINTER = re.compile(r"\(\s*\*\s*(\w+)")
TYPE = re.compile(r"(?:struct|union|enum) ?\w*")
OBJECT = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[=,]|$)")


def stripped(text):
    """Without comments, texts in quotes and what the preprocessor reads, but for definitions of macros, which use names, too."""
    quoted = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    text = re.sub(quoted, lambda match: '""' if match.group()[0] in "\"'" else " ", text, flags=re.S)
    macros = " ".join(re.findall(r"^[ \t]*#[ \t]*define[ \t]+\w+((?:\\\n|[^\n])*)", text, flags=re.M))
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M), macros


def declarations(text):
    """What is declared at the outermost level, one after the other, without what stands in braces; the body of a function."""
    depth, begin, kept, start = 0, 0, "", 0
    for match in re.finditer(r"[{};]", text):
        letter = match.group()
        if letter == "{":
            if not depth:
                kept += text[begin:match.start()]
                start = match.end()
            depth += 1
        elif letter == "}":
            depth -= 1
            begin = match.end()
        if depth or letter == "{":
            continue
        if letter == ";":
            kept += text[begin:match.start()]
            begin = match.end()
        declaration = " ".join(ATTRIBUTE.sub(" ", kept).split())
        has_body = letter == "}" and declaration.endswith(")")
        if letter == ";" or has_body:
            yield declaration, text[start:match.start()] if has_body else None
            kept = ""
    if depth:
        raise ValueError("braces do not match: one of both sides of an #if, perhaps")


def defined(text):
    """Names with external linkage that a file defines."""
    for declaration, body in declarations(text):
        named = set(re.findall(r"\w+", declaration))
        if named & {"static", "typedef", "extern"} or TYPE.fullmatch(declaration):
            continue
        if body is not None:
            yield FUNCTION.search(declaration).group(1)
            continue
        plain = re.sub(r"=[^,]*", "=", declaration)
        if "(" in plain:
            yield from POINTER.findall(plain)
        else:
            yield from OBJECT.findall(plain)


def words(text):
    """What a text names. A structure may have the name of a function."""
    return set(re.findall(r"\w+", re.sub(r"\b(struct|union|enum)\s+\w+", "", text)))


def with_inline(names, inline):
    """What is named, and what the inline functions among it name."""
    left = list(names)
    while left:
        more = inline.get(left.pop(), set()) - names
        names |= more
        left += more
    return names


def edges(folders, headers):
    """Files of the folders, by name, with what they include and use there. headers: folder of all headers that declare."""
    uses, graph, owner, declared, inline = {}, {}, {}, set(), {}
    for path in glob.glob(f"{headers}/**/*.h", recursive=True):
        with open(path, encoding="utf-8") as file:
            declared |= set(re.findall(r"\b(?:kymo|posix_trace)\w+", stripped(file.read())[0]))
    for folder in folders:
        for path in sorted(glob.glob(f"{folder}/*.[ch]")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            name = os.path.basename(path)
            graph[name] = set(re.findall(r'#include "([^"]+)"', text))
            code, macros = stripped(text)
            if name.endswith(".c"):
                uses[name] = words(code + " " + macros)
                for symbol in declared.intersection(defined(code)):
                    owner.setdefault(symbol, set()).add(name)
            else:
                inline |= {FUNCTION.search(declaration).group(1): words(body) for declaration, body in declarations(code)
                           if body is not None}
    for name, names in uses.items():
        for symbol in with_inline(names, inline) & owner.keys():
            # What several files define is chosen when the library is built; who defines it himself uses his own.
            if name not in owner[symbol]:
                graph[name] |= owner[symbol]
    return {name: {to for to in targets if to in graph and to != name} for name, targets in graph.items()}
