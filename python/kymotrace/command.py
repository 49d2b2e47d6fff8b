# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds and runs the command `kymo`, for what its libraries do not offer: `sql`, `latency`, `explain`, recording."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from typing import Any

from ._native import KymoError


class KymoNotFound(KymoError):
    """The command `kymo` is needed, and is neither in KYMO nor in PATH."""


class KymoWarning(UserWarning):
    """What kymo says of a result: damage, losses, what could not be looked up."""


def find(wanted: str) -> str:
    """The command `kymo`: the file in the environment variable KYMO, else the one in PATH."""
    named = os.environ.get("KYMO")
    if named:
        found = shutil.which(named)
        if not found:
            raise KymoNotFound(f"{wanted} needs the command kymo; KYMO={named} is no program")
        return found
    found = shutil.which("kymo")
    if not found:
        raise KymoNotFound(
            f"{wanted} needs the command kymo, which is not in PATH: install it (`make install` in kymo's source), "
            "or set KYMO to its file"
        )
    return found


def as_word(path: str | os.PathLike[str]) -> str:
    """A path that no verb takes for an option."""
    text = os.fspath(path)
    return os.path.join(".", text) if text.startswith("-") else text


def output(words: Sequence[str], wanted: str, good: Sequence[int] = (0, 1)) -> str:
    """What a verb prints. What it says on standard error becomes a warning, or the error if it failed."""
    command = [find(wanted), *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            out, err = child.communicate()
        except BaseException:  # Ctrl-C, too: it may have been sent to Python alone.
            child.kill()
            raise
    said = err.decode(errors="replace").strip()
    if child.returncode not in good:
        raise KymoError(said or f"kymo {words[0]} ended with status {child.returncode}")
    for line in said.splitlines():
        warnings.warn(line.removeprefix("kymo: "), KymoWarning, stacklevel=4)
    return out.decode(errors="replace")


def document(words: Sequence[str], wanted: str) -> dict[str, Any]:
    """The JSON document that a verb prints."""
    text = output([*words, "--json"], wanted)
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError as error:
        raise KymoError(f"kymo {words[0]} --json printed no JSON document: {error}") from error
    if not isinstance(loaded, dict):
        raise KymoError(f"kymo {words[0]} --json printed a {type(loaded).__name__} instead of an object")
    return loaded


def listed(value: Any) -> list[str]:
    """One text, several, or none, as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(part) for part in value]


def options(**values: Any) -> list[str]:
    """Options of a verb: none for None and False, a word for True, once for each of a list."""
    words: list[str] = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words.append(f"{option}={one}")
    return words
