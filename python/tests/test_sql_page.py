# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commands of docs/sql.md, as they stand there, on traces of a program and of a kernel."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, WAKEUPS
from kymotrace import command


KNOWN = ("kymo sql trace", "kymo sql --lake lake", "kymo lake add trace --to lake", "kymo lake list lake")


def commands() -> list[str]:
    """Lines that begin with four spaces, a dollar sign and a space; `>` goes on with one. Those that need no more than
    the traces: others start a session, or write to a store."""
    found: list[str] = []
    for line in (ROOT / "docs/sql.md").read_text().splitlines():
        if line.startswith("    $ "):
            found.append(line[6:])
        elif line.startswith("    > "):
            found[-1] += "\n" + line[6:]
    return [line for line in found if line.startswith(KNOWN)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, steps: Path, kernel: Path) -> Path:
    """With the directories that the page names."""
    root = tmp_path_factory.mktemp("page")
    for name in ("trace", "traces"):
        shutil.copytree(steps, root / name / "program")
        shutil.copytree(kernel, root / name / "kernel")
    # Adding again changes nothing: each command can be tested alone.
    (add,) = (line for line in commands() if line.startswith("kymo lake add"))
    subprocess.run([command.find("the tests"), *shlex.split(add)[1:]], cwd=root, check=False)
    return root


def test_the_page_has_commands() -> None:
    assert len(commands()) > 18 and all(any(line.startswith(words) for line in commands()) for words in KNOWN)


@pytest.mark.usefixtures("has_sql")
@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_page(folder: Path, line: str) -> None:
    words = [command.find("the tests"), *shlex.split(line)[1:]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = [row for row in done.stdout.splitlines() if not row.startswith("+")]
    # A table of text has a line of names, and a row at least, except where nothing was lost and no lock was taken.
    may_be_empty = any(part in line for part in (" losses ", " locks ", "-o "))
    assert len(rows) > 1 or may_be_empty, done.stdout


@pytest.mark.usefixtures("has_sql")
def test_the_kernel_of_wakeups(folder: Path) -> None:
    (line,) = (line for line in commands() if "h.kernel_release" in line)
    words = [command.find("the tests"), *shlex.split(line)[1:], "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=True)
    # An imported text says nothing of its kernel. The first wake-up is doubtful: its thread was not known before.
    assert f'"wakeups":{WAKEUPS - 1}' in done.stdout.replace(" ", "") and "kernel_release" in done.stdout
