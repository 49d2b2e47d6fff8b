# SPDX-License-Identifier: MIT OR Apache-2.0
"""Columns of kymo as Spark has them. Spark's times have microseconds, and a trace's nanoseconds: times are bigint, in
nanoseconds since 1970, and nothing is rounded."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

_U64 = pa.decimal128(20, 0)
_WIDER = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), _U64]
_EXACT = (pa.int8(), pa.int16(), pa.int32())
"""Integers of which a float of 64 bits has all."""


def of_spark(arrow: pa.DataType, is_event: bool) -> pa.DataType:
    """The type of a column in Spark, as Arrow names it. Of 64 bits without a sign, fields of events are decimal(20,0);
    what kymo counts and measures itself never needs the last bit, and is bigint."""
    if pa.types.is_dictionary(arrow):
        return of_spark(arrow.value_type, is_event)
    if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return pa.int64()
    if pa.types.is_uint64(arrow):
        return _U64 if is_event else pa.int64()
    if pa.types.is_unsigned_integer(arrow):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}[arrow.bit_width]
    if pa.types.is_large_string(arrow) or arrow == pa.string_view():
        return pa.string()
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return pa.list_(of_spark(arrow.value_type, is_event))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, of_spark(field.type, is_event)) for field in arrow])
    if pa.types.is_float16(arrow):
        return pa.float32()
    return arrow


def union(schemas: Iterable[pa.Schema], is_event: bool) -> pa.Schema:
    """The columns of all, in the order in which they are met. Where types differ, the narrowest that has all values."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            own = of_spark(field.type, is_event)
            known = types.get(field.name)
            types[field.name] = own if known is None or known == own else _wider(known, own)
    return pa.schema(list(types.items()))


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if a in _WIDER and b in _WIDER:
        return max(a, b, key=_WIDER.index)
    # Of integers of 64 bits, and wider ones, a float has not all.
    numbers = (*_EXACT, pa.float32(), pa.float64())
    return pa.float64() if a in numbers and b in numbers else pa.string()


def struct(schema: pa.Schema) -> StructType:
    """As Spark writes it."""
    return StructType([StructField(field.name, from_arrow_type(field.type), True) for field in schema])


def converted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column as Spark takes it."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.view(pa.int64())
    if pa.types.is_uint64(column.type) and wanted == pa.int64():
        return column.view(pa.int64())
    if _is_bytes(column.type) and pa.types.is_string(wanted):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    if pa.types.is_nested(column.type) and pa.types.is_string(wanted):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return column.cast(wanted)


def _is_bytes(arrow: pa.DataType) -> bool:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(is_kind(arrow) for is_kind in kinds)
