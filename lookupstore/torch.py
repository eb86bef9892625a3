"""Train from a store: a map-style dataset for PyTorch, whose batches are one lookup each.

PyTorch is imported by `collate` alone: a `LookupDataset` needs none.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.joins import one_array
from lookupstore.source.source import type_name
from lookupstore.store.store import LookupStore
from lookupstore.store.store import open as open_store

if TYPE_CHECKING:
    import torch

__all__ = ["LookupBatch", "LookupDataset", "collate"]

# Bytes of keys from which on the processes of a host share them in a file.
_LARGE = 1 << 20


class LookupBatch(Sequence[dict[str, Any]]):
    """Some rows of a dataset, as columns and as dicts.

    PyTorch's own collation sees a list of dicts; `collate` uses the columns.

    Attributes:
        table: Value columns of the rows.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._rows[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


class LookupDataset:
    """The rows of a store as a map-style dataset of PyTorch.

    `dataset[i]` is a row as a dict. A `torch.utils.data.DataLoader` asks for a batch at a time
    (`__getitems__`), which is one lookup. Its workers share the files, the lookup tables and the
    keys of a host, whether they are forked or spawned.

    Args:
        store: Open store, or the folder or URI of one. The dataset stays on its version.
        columns: Value columns of the rows. Default: all.
        keys: Keys of the rows, by which positions count, in any form that `LookupStore.lookup`
            takes. Default: all keys of the store, in their order.
        by_key: Whether samplers give keys instead of positions.

    Raises:
        ValueError: If `keys` are given, and samplers give keys.
        KeyError: If a key is not in the store, or there is no such column.

    >>> import tempfile, lookupstore
    >>> rows = pa.table({"id": [7, 8], "label": [0, 1]})
    >>> dataset = LookupDataset(lookupstore.build(rows, tempfile.mkdtemp(), key="id"))
    >>> len(dataset), dataset[1], list(dataset.__getitems__([1, 0]))
    (2, {'label': 1}, [{'label': 1}, {'label': 0}])
    """

    def __init__(
        self,
        store: LookupStore | str | os.PathLike[str],
        columns: str | Sequence[str] | None = None,
        *,
        keys: Any = None,
        by_key: bool = False,
    ) -> None:
        if by_key and keys is not None:
            raise ValueError("keys: with by_key=True, samplers give the keys; leave them out")
        self.store = store if isinstance(store, LookupStore) else open_store(store)
        self.by_key = by_key
        self._columns = [columns] if isinstance(columns, str) else columns
        self._keys = None if by_key else self._keys_of(keys)
        self._file: str | None = None
        self.__getitems__([])  # checks the columns

    def _keys_of(self, given: Any) -> pa.Table:
        """Return the keys as a table with a column for each key field."""
        if given is None:
            return self.store.scan(columns=[]).read_all().combine_chunks()
        schema = self.store.key_schema
        keys = pa.Table.from_batches([schema.decode(encode_keys(given, schema))])
        found = self.store.contains(keys)
        if found.true_count != len(found):
            row = keys.slice(int(found.to_numpy(zero_copy_only=False).argmin()), 1).to_pylist()[0]
            key = row if len(row) > 1 else next(iter(row.values()))
            raise KeyError(f"keys: no key {key!r} in {self.store.path}")
        return keys

    def __len__(self) -> int:
        return self.store.num_rows if self._keys is None else int(self._keys.num_rows)

    def __getitem__(self, index: Any) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[Any]) -> LookupBatch:
        """Return the rows at some positions, or for some keys.

        Args:
            indices: Positions, from the end if negative; with `by_key=True`, keys.

        Raises:
            TypeError: If a position is not an integer.
            IndexError: If a position is not in the dataset.
            KeyError: If a key is not in the store.
        """
        if self._keys is None:
            return self._rows_of_keys(list(indices))
        positions, count = np.asarray(indices), self._keys.num_rows
        if positions.dtype.kind not in "iu" and positions.size:
            raise TypeError(f"indices: found {positions.dtype} values; positions are integers")
        positions = positions.astype(np.int64)
        wrong = (positions < -count) | (positions >= count)
        if wrong.any():
            raise IndexError(f"index {positions[wrong][0]}: the dataset has {count:,} rows")
        asked = pa.array(np.where(positions < 0, positions + count, positions))
        fields = [one_array(column).take(asked) for column in self._keys.columns]
        # An array takes a shorter way than a table.
        keys = fields[0] if len(fields) == 1 else pa.table(fields, self._keys.column_names)
        return LookupBatch(self.store.lookup(keys, self._columns))

    def _rows_of_keys(self, keys: list[Any]) -> LookupBatch:
        name = "found"
        while name in self.store.value_schema.names:
            name += "_"
        table = self.store.lookup(keys, self._columns, found=name)
        found = one_array(table[name])
        if found.false_count:
            at = int(found.to_numpy(zero_copy_only=False).argmin())
            raise KeyError(f"no key {keys[at]!r} in {self.store.path}")
        return LookupBatch(table.drop_columns([name]))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process of this host, which maps large keys from a file."""
        state = dict(self.__dict__)
        if self._keys is not None and self._keys.nbytes >= _LARGE:
            if self._file is None:
                self._file = _shared_file(self._keys)
                weakref.finalize(self, _removed, self._file, os.getpid())
            state |= {"_keys": None, "_file": self._file}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._file is not None:
            self._keys = pa.ipc.open_file(pa.memory_map(self._file)).read_all()


def _shared_file(keys: pa.Table) -> str:
    """Write keys to a temporary file, and return its path."""
    number, path = tempfile.mkstemp(prefix="lookupstore-keys-", suffix=".arrow")
    with open(number, "wb") as file, pa.ipc.new_file(file, keys.schema) as writer:
        writer.write_table(keys)
    return path


def _removed(path: str, process: int) -> None:
    """Remove a file of the process that made it, and not of the children of a fork."""
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)


def collate(batch: LookupBatch) -> dict[str, torch.Tensor | list[Any]]:
    """Return a batch as tensors, by column: the `collate_fn` of a `DataLoader`.

    Numbers become a tensor with an entry for each row, and lists of a fixed size a tensor with
    more dimensions; both use the memory of the batch. Booleans are copied. Columns of other types,
    such as texts, become lists.

    Raises:
        TypeError: If the batch is not of a `LookupDataset`, or of a `Subset` of one.
        ValueError: If a column of numbers has nulls, which no tensor has.
    """
    if not isinstance(batch, LookupBatch):
        raise TypeError(
            f"batch is {type_name(batch)}; collate takes batches of a LookupDataset, or of a "
            "torch.utils.data.Subset of one: leave collate_fn out for other datasets"
        )
    table = batch.table
    return {name: _tensor(name, one_array(table[name])) for name in table.column_names}


def _tensor(name: str, array: pa.Array) -> torch.Tensor | list[Any]:
    import torch
    from torch.utils.dlpack import from_dlpack

    shape, nulls = [len(array)], array.null_count
    if not nulls and isinstance(array.type, pa.FixedShapeTensorType):
        return torch.from_numpy(array.to_numpy_ndarray().copy())
    inner = array.storage if isinstance(array, pa.ExtensionArray) else array
    while pa.types.is_fixed_size_list(inner.type):
        shape.append(inner.type.list_size)
        inner = inner.flatten()
        nulls += inner.null_count
    kind = inner.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not (is_number or pa.types.is_boolean(kind)):
        values: list[Any] = array.to_pylist()
        return values
    if nulls:
        raise ValueError(
            f"column {name!r} has nulls, which no tensor has; fill them in the store, or leave the "
            "column out with columns="
        )
    if pa.types.is_boolean(kind):
        return torch.from_numpy(inner.to_numpy(zero_copy_only=False)).reshape(shape)
    return from_dlpack(inner).reshape(shape)
