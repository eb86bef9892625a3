"""Lookups of single keys: a key to bytes, and bytes to a row, without Arrow or Python calls.

Rare cases are left to Python: keys that only `KeySchema` can encode, values that only `RowSchema`
can decode, files that may be released for others, and errors.
"""

cimport cython
from cpython.list cimport PyList_GET_ITEM
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t

import pyarrow as pa

from lookupstore.errors import ClosedError, FormatError
from lookupstore.keys.lookups import value_columns

from lookupstore.arrow._binary cimport (
    LS_OK, BinaryColumn, allocate, buffer_data, ls_column_get, ls_column_is_valid, ls_slice,
)
from lookupstore.keys._one cimport NO_KEY, WRITTEN, KeyEncoder, Outcome
from lookupstore.rows._one cimport RowDecoder
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._lookup cimport Lookup

cdef extern from "ls_hash.h":
    uint64_t ls_hash(ls_slice key) noexcept nogil

cdef enum:
    ROW = 0              # kind of a row of a run, as in `store.kinds`
    ROOM = 512           # size in bytes of a key that is encoded without allocating memory
    MOST_CHOICES = 32    # number of column selections whose decoders are kept


@cython.auto_pickle(False)
cdef class KeyCounts:
    """The number of keys that lookups were asked for, and of the missing ones among them.

    Threads that add to it hold the GIL, so no key is lost.
    """

    cdef readonly uint64_t keys, missing

    def add(self, uint64_t keys, uint64_t missing):
        """Count the keys of a call; null keys are missing."""
        self.keys += keys
        self.missing += missing


@cython.auto_pickle(False)
cdef class PointLookups:
    """Lookups of single keys in all buckets of one version.

    It is the part of a store that answers single keys. `_begin` sets the files to look in; before
    `_begin` and after `_end`, the lookups are closed.
    """

    cdef KeyEncoder encoder    # None: closed
    cdef object keys, rows, buckets
    cdef uint32_t count
    cdef list files        # by bucket: lookups of its layers, () without files; None: unknown
    cdef RowDecoder every
    cdef dict choices      # decoders, by columns
    cdef KeyCounts counts

    def __cinit__(self, *_, **__):
        self.choices = {}
        self.counts = KeyCounts()

    @property
    def _key_counts(self):
        """Return the counts of the keys of all lookups."""
        return self.counts

    def _begin(self, keys not None, rows not None, buckets not None, uint32_t count):
        """Open the lookups of a version with its schemas, `BucketReads` and number of buckets."""
        self.keys, self.rows, self.buckets = keys, rows, buckets
        self.count = count
        self.files = [None] * count
        self.every = rows.decoder(rows.schema.names)
        self.encoder = keys.encoder

    def _end(self):
        """Close the lookups, and release the files."""
        self.encoder = None
        self.files = [None] * self.count

    def get(self, key, default=None, columns=None):
        """Return the value columns at one key, or a default.

        Args:
            key: Value of the key field. For several fields: a tuple of values in the order of the
                key, or a dict by field name.
            default: Result for a missing key.
            columns: Names of the value columns to read, in this order. None: all. Fewer take less
                time.

        Raises:
            TypeError: If a value is of a wrong type, or the number of values is wrong.
            KeyError: If a dict lacks a key field or has another one, or there is no such value
                column.
            ClosedError: If the store is closed.
            CorruptionError: If the stored bytes are damaged.
        """
        cdef RowDecoder decoder
        cdef bytes value
        self.check_open()
        decoder = self.every if columns is None else self.decoder_of(columns)
        value = self.find(key, True)
        if value is None:
            return default
        found = decoder.decode(value)
        if found is None or decoder.others:
            return self.by_arrow(decoder, found, key, value)
        return found

    def __contains__(self, key):
        """Return whether one key is stored; `contains` is for many keys."""
        self.check_open()
        return self.find(key, False) is not None

    cdef int check_open(self) except -1:
        if self.encoder is None:
            raise ClosedError(f"{self.path}: the store is closed; open it again")
        return 0

    cdef RowDecoder decoder_of(self, columns):
        """Return the decoder of some columns, which mostly are those of an earlier call."""
        cdef RowDecoder decoder
        names = tuple(columns) if type(columns) is list or type(columns) is tuple else None
        try:
            found = self.choices.get(names)
        except TypeError:  # not a sequence of names
            found = names = None
        if found is not None:
            return found
        decoder = self.rows.decoder(value_columns(self, columns))
        if names is not None:
            if len(self.choices) >= MOST_CHOICES:
                self.choices.clear()
            self.choices[names] = decoder
        return decoder

    cdef object find(self, key, bint copied):
        """Return the packed row at a key, True if it is found and not to be copied, or None."""
        found = self.find_uncounted(key, copied)
        self.counts.keys += 1
        if found is None:
            self.counts.missing += 1
        return found

    cdef object find_uncounted(self, key, bint copied):
        cdef uint8_t[ROOM] room
        cdef ls_slice slice
        cdef Outcome outcome
        cdef KeyEncoder encoder
        self.check_open()  # another thread may have closed it while columns were looked up
        encoder = self.encoder
        slice.data = room
        slice.size = 0
        outcome = encoder.put(key, room, ROOM, &slice.size)
        if outcome == NO_KEY:
            return None
        if outcome == WRITTEN:
            return self.find_encoded(slice, copied)
        encoded = self.keys.encode_slowly(key)
        if encoded is None:
            return None
        slice.data = <const uint8_t *><bytes>encoded
        slice.size = len(<bytes>encoded)
        return self.find_encoded(slice, copied)

    cdef inline uint32_t bucket_of(self, ls_slice key) noexcept:
        return <uint32_t>(ls_hash(key) % self.count) if self.count > 1 else 0

    cdef tuple layers_of(self, uint32_t bucket):
        """Return lookups of the layers of a bucket; None: the files may be replaced."""
        layers = <object>PyList_GET_ITEM(self.files, bucket)
        if layers is None:
            layers = self.buckets.lookups_in_place(bucket)
            if layers is not None:
                self.files[bucket] = layers
        return layers

    def _lookup_each(self, keys not None, answers not None):
        """Pass the row at each of a few encoded keys to answers, one key after the other.

        Return False if it cannot be done: if files may be released for others, or if there are
        runs. Rows are not copied before all keys were looked up.
        """
        cdef BinaryColumn column = BinaryColumn(keys, "keys")
        cdef Answers taker = answers
        cdef size_t length = column.column.length, i
        cdef ls_slice key
        cdef ls_slice *found
        cdef tuple layers
        cdef Lookup lookup
        cdef list asked = []
        cdef uint64_t missing = 0
        taker.check_length(length)
        owner = allocate((length + 1) * sizeof(ls_slice))
        found = <ls_slice *>buffer_data(owner)
        for i in range(length):
            found[i].data = NULL
            found[i].size = 0
            if not ls_column_is_valid(&column.column, i):
                continue
            if ls_column_get(&column.column, i, &key) != LS_OK:
                return False
            layers = self.layers_of(self.bucket_of(key))
            if layers is None or len(layers) > 1:
                return False
            if len(layers) == 0:
                continue
            lookup = layers[0]
            if not lookup.data.stays():
                return False
            lookup.find_one(key, None, False, &found[i])
            asked.append(lookup)
        while not taker.take(found, 0, length):
            taker.prepare(found, 0, length)
        for lookup in asked:  # the file may have been truncated during the copy
            lookup.data.check_file()
        for i in range(length):
            missing += found[i].data == NULL
        self.counts.add(length, missing)
        return True

    cdef object find_encoded(self, ls_slice key, bint copied):
        cdef uint32_t bucket = self.bucket_of(key)
        cdef tuple layers = self.layers_of(bucket)
        cdef ls_slice where
        cdef bytes value
        cdef Py_ssize_t i, count
        if layers is None:
            return self.buckets.row(bucket, (<char *>key.data)[:key.size])
        count = PyTuple_GET_SIZE(layers)
        if count == 0:
            return None
        # The last lookup is that of the base, None without a base; the others are those of runs.
        for i in range(count - 1):
            value = (<Lookup>PyTuple_GET_ITEM(layers, i)).find_one(key, None, True, &where)
            if value is not None:
                if len(value) > 0 and (<const uint8_t *>value)[0] == ROW:
                    return value[1:]
                # A tombstone, or damaged.
                return self.buckets.row(bucket, (<char *>key.data)[:key.size])
        base = <object>PyTuple_GET_ITEM(layers, count - 1)
        return None if base is None else (<Lookup>base).find_one(key, None, copied, &where)

    cdef object by_arrow(self, RowDecoder decoder, dict found, key, bytes value):
        """Return a found row with the columns that Arrow decodes; raise errors of the row."""
        names = list(decoder.names) if found is None else decoder.others
        try:
            batch = self.rows.unpack(pa.array([value], pa.large_binary()), names)
        except FormatError as error:
            self.buckets.refuse_row(self.keys.encode_slowly(key), error)
        columns = {
            name: in_python(column[0], name)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        return columns if found is None else found | columns


cdef object in_python(value, str name):
    try:
        return value.as_py()
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"the column {name!r} has a {value.type} that Python does not have: {error}; take it "
            "from lookup([key]), which gives an Arrow table"
        ) from None
