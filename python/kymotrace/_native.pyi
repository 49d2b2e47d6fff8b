# SPDX-License-Identifier: MIT OR Apache-2.0
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypedDict

__version__: str

class KymoError(Exception): ...

class Chosen(TypedDict):
    columns: Sequence[str] | None
    start: int | None
    end: int | None
    end_start: int | None
    end_end: int | None
    cpus: Sequence[int] | None
    tids: Sequence[int] | None
    events: Sequence[str] | None
    filter: str | None
    limit: int | None
    partition: str | None
    any_order: bool

_Progress = Callable[[int, int | None], None]

class ArrowStream:
    @property
    def rows(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...
    def own_capsule(self) -> Any: ...
    def raise_pending(self) -> None: ...
    def cancel(self) -> None: ...

class Source:
    def __init__(
        self, paths: Sequence[str | PathLike[str]], without_index: bool = False, ignore_uuid: bool = False
    ) -> None: ...
    def tables(self) -> list[tuple[str, str, bool]]: ...
    def schema(self, table: str) -> Any: ...
    def columns(self, table: str) -> list[tuple[str, str, str]]: ...
    def partitions(self, table: str, wanted: int) -> list[str]: ...
    def bounds(self) -> tuple[int, int] | None: ...
    def environment(self) -> str: ...
    def scan(self, table: str, chosen: Chosen, progress: _Progress | None = None) -> ArrowStream: ...

def find_traces(path: str) -> list[PathLike[str]]: ...
def run_arrow(
    command: Sequence[str], progress: _Progress | None = None, notes: Callable[[str], None] | None = None
) -> ArrowStream: ...
def result_record(
    test: str,
    series: Sequence[tuple[str, int | None, Sequence[tuple[int, int]]]],
    started_ns: int | None = None,
    duration_s: float | None = None,
    environment: str = "{}",
) -> str: ...
def compare(
    a: Sequence[str],
    b: Sequence[str],
    deadline_ns: int | None = None,
    per_cpu: bool = False,
    extreme: bool = False,
) -> tuple[str, str]: ...
