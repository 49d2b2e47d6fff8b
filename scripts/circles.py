#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Circles of files that import each other, in the crates of host/, in the page of view/, and in the C of emit/: a group of files
of which each reaches each other one by what it names: `use` and paths of Rust; imports of TypeScript; what a C file includes, and
what it uses that another C file defines (c_uses.py).
Usage: circles.py [--most N] [--largest N] [-v]. Ends with 1 where there are more or larger ones than allowed."""

import argparse
import os
import re
import sys

sys.dont_write_bytecode = True
import c_uses  # noqa: E402

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# Layers of a crate, from the ground up: a file imports only of its own layer and of those above it in the list. A module
# stands for all that is below it and is not named itself.
LAYERS = {
    "kymo-collect": [
        # Shared data types, and what touches the system in one place.
        ("ground", "error clock ids texts uuid cpus priority private pace scope trace_dir unknown watched condition_fields "
                   "pattern filters context socket runtime written trigger snapshot::job chunks::rotation kernel::config "
                   "kernel::summary samples::summary session::config summary metadata"),
        # Rings, and the messages that pass them on.
        ("memory", "memory compact ready_rings spares channel drain::messages"),
        ("programs", "control peer marks mark_pipe query reach"),
        # Where records go: stream files, chunks, what a flight recorder keeps, triggers that look at records.
        ("sinks", "stream lane flight chunks samples watch kernel::payload kernel::threads drain::asides"),
        ("kernel", "kernel"),
        ("drain", "drain running"),
        ("session", "session snapshot triggers report recover remote"),
    ],
    "view": [
        ("common", "common"),
        # From questions over columns to pieces of a picture, without a canvas or an element of the page.
        ("query", "query"),
        ("layout", "layout"),
        # What all parts of the page share.
        ("app", "app"),
        ("draw", "draw"),
        ("timeline", "timeline"),
        ("tabs", "tabs"),
        ("several", "several"),
        ("lake", "lake"),
        # The two pages.
        ("pages", "main lake_page"),
    ],
}


class Crate:
    """Files of a crate by module path, and what they name."""

    def __init__(self, source):
        self.files, self.texts, self.reexports = {}, {}, {}
        for folder, _, names in os.walk(source):
            for name in sorted(names):
                if not name.endswith(".rs"):
                    continue
                path = os.path.join(folder, name)
                parts = os.path.relpath(path, source)[:-3].split(os.sep)
                if parts[-1] in ("mod", "lib", "main"):
                    parts.pop()
                module = tuple(parts)
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                # Unit tests may look anywhere.
                text = re.sub(r"#\[cfg\(test\)\]\s*mod \w+ \{.*", "", text, flags=re.S)
                text = re.sub(r"//[^\n]*", "", text)
                self.files[module], self.texts[module] = path, text
        for module in self.files:
            self.reexports[module] = dict(self.named(module, r"^\s*pub(?:\([^)]*\))? use ([^;]+);"))

    def absolute(self, module, path):
        """A path as it is written in a module, from the crate's root; None: of another crate."""
        parts = [part for part in path.split("::") if part]
        if parts[0] == "crate":
            return tuple(parts[1:])
        if parts[0] == "self":
            return module + tuple(parts[1:])
        at = module
        while parts and parts[0] == "super":
            at, parts = at[:-1], parts[1:]
            if not parts or parts[0] != "super":
                return at + tuple(parts)
        return module + tuple(parts) if module + (parts[0],) in self.files else None

    def expand(self, tree):
        """`a::{b, c::{d, e as f}}` as (path, name) of each leaf."""
        tree = " ".join(tree.split())
        match = re.match(r"^((?:\w+::)*)\{(.*)\}$", tree)
        if not match:
            path, _, name = tree.partition(" as ")
            yield path, name or path.split("::")[-1]
            return
        prefix, depth, begin, inner = match.group(1), 0, 0, match.group(2)
        for at, letter in enumerate(inner + ","):
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == "," and not depth:
                part = inner[begin:at].strip()
                begin = at + 1
                if part:
                    for path, name in self.expand(part):
                        yield prefix + path, name

    def named(self, module, pattern):
        for tree in re.findall(pattern, self.texts[module], flags=re.M):
            for path, name in self.expand(tree):
                target = self.absolute(module, path)
                if target is not None:
                    yield name, target

    def file_of(self, target, seen=()):
        """The module whose file has what an absolute path names; through `pub use`."""
        for length in range(len(target), -1, -1):
            module = target[:length]
            if module not in self.files:
                continue
            if length < len(target):
                onward = self.reexports[module].get(target[length])
                if onward is not None and onward not in seen:
                    return self.file_of(onward + target[length + 1:], (*seen, onward))
            return module
        return ()

    def edges(self):
        graph = {}
        for module in self.files:
            text = self.texts[module]
            targets = {self.file_of(target) for _, target in self.named(module, r"^\s*use ([^;]+);")}
            beside_use = re.sub(r"^\s*(?:pub(?:\([^)]*\))? )?(?:use|mod) [^;{]+(?:\{[^;]*)?;", "", text, flags=re.M)
            # Of a path without `crate` or `super`, only one that begins with a child of this module is known to stay here.
            for path in re.findall(r"(?<![\w:])((?:crate|super|self|[a-z_]\w*)(?:::\w+)+)", beside_use):
                target = self.absolute(module, path)
                if target is not None:
                    targets.add(self.file_of(target))
            # What a module only hands on it does not import; what it also names in its own code it does.
            for name, target in self.reexports[module].items():
                if name == "*" or self.file_of(target)[:len(module)] != module or re.search(rf"(?<![\w:.])(?<!fn ){name}\b", beside_use):
                    targets.add(self.file_of(target))
            graph[module] = {target for target in targets if target != module}
        return graph


def page_edges(source):
    """Files of the page by their path without `.ts`, and what they import."""
    graph = {}
    for folder, _, names in os.walk(source):
        for name in sorted(name[:-3] for name in names if name.endswith(".ts")):
            with open(os.path.join(folder, f"{name}.ts"), encoding="utf-8") as file:
                targets = re.findall(r"from '(\.[^']+)\.js'", file.read())
            paths = [os.path.relpath(os.path.join(folder, target), source) for target in [name, *targets]]
            own, *others = [tuple(path.split(os.sep)) for path in paths]
            graph[own] = set(others)
    # Whether an imported file is there at all, the compiler checks.
    return {own: targets & graph.keys() for own, targets in graph.items()}


def out_of_order(name, graph):
    """Imports of what comes later in the layers of a crate, and files that are in none."""
    layers = LAYERS.get(name, [])
    place = {tuple(module.split("::")): at for at, (_, modules) in enumerate(layers) for module in modules.split()}

    def layer(module):
        return next((place[module[:length]] for length in range(len(module), 0, -1) if module[:length] in place), None)

    # The root hands on; the simulation takes all apart, and is for tests.
    files = [module for module in graph if module and module[0] != "simulation" and not module[-1].endswith("tests")]
    wrong = [f"{name}: {'::'.join(module)} is in no layer" for module in files if layers and layer(module) is None]
    for module in files:
        for target in graph[module]:
            own, other = layer(module), layer(target)
            if own is not None and other is not None and other > own:
                wrong.append(f"{name}: {'::'.join(module)} ({layers[own][0]}) imports {'::'.join(target)} ({layers[other][0]})")
    # A name that is no file any more holds nothing.
    known = {module[:length] for module in graph for length in range(len(module) + 1)}
    wrong += [f"{name}: the layers name {'::'.join(module)}, which is no file" for module in place if module not in known]
    return sorted(wrong)


def circles(graph):
    """Strongly connected groups of more than one (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in graph[node]:
            if to not in index:
                visit(to)
                low[node] = min(low[node], low[to])
            elif to in stack:
                low[node] = min(low[node], index[to])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10000)
    for node in graph:
        if node not in index:
            visit(node)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--most", type=int, default=1000)
    arguments.add_argument("--largest", type=int, default=1000)
    arguments.add_argument("-v", action="store_true", dest="verbose")
    options = arguments.parse_args()
    found, wrong = [], []
    for name in sorted(os.listdir(f"{REPOSITORY}/host")):
        source = f"{REPOSITORY}/host/{name}/src"
        if os.path.isdir(source):
            graph = Crate(source).edges()
            found += [(name, ["::".join(module) or "lib" for module in group]) for group in circles(graph)]
            wrong += out_of_order(name, graph)
    graph = page_edges(f"{REPOSITORY}/view/src")
    found += [("view", ["/".join(module) for module in group]) for group in circles(graph)]
    wrong += out_of_order("view", graph)
    for name in ("emit/src", "emit/posix", "emit/platform/linux", "emit/platform/freestanding"):
        found += [(name, group) for group in circles(c_uses.edges([f"{REPOSITORY}/{name}"], f"{REPOSITORY}/emit"))]
    found.sort(key=lambda circle: -len(circle[1]))
    for name, group in found:
        if options.verbose or len(group) > options.largest:
            print(f"{name}: {len(group)} files: {', '.join(group)}")
    largest = max((len(group) for _, group in found), default=0)
    print(f"{len(found)} circles, the largest of {largest} files")
    for line in wrong:
        print(line)
    return 1 if wrong or len(found) > options.most or largest > options.largest else 0


if __name__ == "__main__":
    sys.exit(main())
