"""Conversions between results tables and Arrow's format."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catnip.store.tables import CodedColumn, CodedTable

IN_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
"""A machine may have no thread left, and parts of runs are short."""
QUICKLY_PACKED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def to_arrow(table: CodedTable, variants: Sequence[str], axes: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Converts a results table to Arrow; adds the variants' names and a column for each axis."""
    columns: dict[str, Any] = {}
    for key, column in table.items():
        columns[key] = _column(key, column, variants)
        if key == "seed":
            columns |= {axis: levels(np.asarray(table["variant"]), of) for axis, of in axes.items()}
    # No column has nulls, and all types are native to Parquet.
    fields = [pa.field(key, column.type, nullable=False) for key, column in columns.items()]
    return pa.table(list(columns.values()), pa.schema(fields))


def levels(variant: NDArray[Any], of_variant: Sequence[Any]) -> pa.Array:
    """Returns the value of an axis in each row of a table; `variant` has the rows' indices of variants.

    The column has Booleans or numbers if all values of the axis are Booleans or numbers, otherwise strings.
    """
    rows = numbers(variant)
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if all(isinstance(value, kind | int if kind is float else kind) for value in of_variant):
            return numbers(np.asarray(of_variant, dtype)).take(rows)
    return texts([str(value) for value in of_variant]).dictionary_encode().take(rows)


def packed(table: CodedTable) -> bytes:
    """Returns the columns of a table as they are, as a file of Arrow."""
    batch = pa.RecordBatch.from_arrays([_plain(column) for column in table.values()], list(table))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=QUICKLY_PACKED) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(data: bytes) -> CodedTable:
    """Returns the columns of `packed`. Raises ArrowException."""
    batch = pa.ipc.open_file(pa.py_buffer(data), options=IN_THIS_THREAD).get_batch(0)
    return {name: _coded(array) for name, array in zip(batch.schema.names, batch.columns, strict=True)}


def _coded(array: pa.Array) -> CodedColumn:
    if pa.types.is_dictionary(array.type):
        return array.dictionary.to_pylist(), to_numpy(array.indices)
    return to_numpy(array)


def _column(key: str, column: CodedColumn, variants: Sequence[str]) -> Any:
    return _plain((list(variants), np.asarray(column)) if key == "variant" else column)


def _plain(column: CodedColumn) -> Any:
    if isinstance(column, tuple):
        names, rows = column
        return pa.DictionaryArray.from_arrays(numbers(rows.astype(np.int32)), texts(names))
    return numbers(column) if isinstance(column, np.ndarray) else texts([str(text) for text in column])


# Conversions by `pa.array` and `np.asarray` copy each column, and import pandas if it is installed, which
# takes longer than a short run.
def to_numpy(array: pa.Array) -> NDArray[Any]:
    """Returns numbers or Booleans without nulls as a read-only array that shares the memory of numbers."""
    buffer = array.buffers()[1]
    if not pa.types.is_boolean(array.type):
        dtype = np.dtype(array.type.to_pandas_dtype())
        return np.frombuffer(buffer or b"", dtype, len(array), array.offset * dtype.itemsize if buffer else 0)
    bits = np.unpackbits(np.frombuffer(buffer or b"", np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def numbers(values: NDArray[Any]) -> pa.Array:
    """Returns numbers or Booleans as an Arrow array, which shares the memory of numbers."""
    is_bool = values.dtype == np.bool_
    packed = np.packbits(values, bitorder="little") if is_bool else np.ascontiguousarray(values)
    buffers = [None, pa.py_buffer(packed)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers, null_count=0)


def texts(values: Sequence[str]) -> pa.StringArray:
    """Returns strings as an Arrow array."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


@contextmanager
def named(file: Path) -> Iterator[Path]:
    """Adds the name of the file to an OSError of the block, because pyarrow omits it."""
    try:
        yield file
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from error
