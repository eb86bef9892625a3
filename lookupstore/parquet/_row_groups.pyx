"""Row groups of a Parquet footer, checked in C, with the offsets of structs of column chunks."""

from cpython.array cimport array, clone
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport LS_OK, bytes_of, ls_slice, ls_status


cdef extern from "ls_footer.h":
    const int64_t LS_NO_NUMBER
    ctypedef struct ls_footer_leaf:
        ls_slice name
        int64_t kind
        int64_t width
        uint64_t definition
        uint64_t repetition
    ctypedef struct ls_footer_group:
        int64_t rows
        int64_t stored
        int64_t plain
    ctypedef enum ls_footer_fault:
        LS_FOOTER_OK
        LS_FOOTER_BYTES
        LS_FOOTER_LACKS
        LS_FOOTER_ELSEWHERE
        LS_FOOTER_ENCRYPTED
        LS_FOOTER_OTHERS
        LS_FOOTER_OUTSIDE
    ls_status ls_footer_groups(
        const uint8_t **cursor, const uint8_t *end, int type, uint64_t *count) noexcept nogil
    ls_footer_fault ls_footer_group_read(
        const uint8_t *start, const uint8_t **cursor, const uint8_t *end,
        const ls_footer_leaf *leaves, size_t count, int64_t first, int64_t last,
        ls_footer_group *group, uint32_t *places, size_t *chunk) noexcept nogil

cdef array _PLACES = array("I")

_FAULTS = {
    LS_FOOTER_BYTES: "bytes",
    LS_FOOTER_LACKS: "lacks",
    LS_FOOTER_ELSEWHERE: "elsewhere",
    LS_FOOTER_ENCRYPTED: "encrypted",
    LS_FOOTER_OTHERS: "others",
}


class RowGroupsError(ValueError):
    """An error in the row groups of a footer.

    Attributes:
        fault: `bytes`, `lacks`, `elsewhere`, `encrypted`, `others` or `outside`.
        place: Offset of the struct ColumnMetaData of a chunk that is outside of the data.
    """

    def __init__(self, fault, place=0):
        super().__init__(fault)
        self.fault = fault
        self.place = place


cdef class _Leaves:
    """The columns of a schema, for C."""
    cdef ls_footer_leaf *items
    cdef size_t count
    cdef list owners

    def __cinit__(self, list leaves not None):
        cdef ls_footer_leaf *one
        self.count = len(leaves)
        self.owners = [leaf.name for leaf in leaves]
        self.items = <ls_footer_leaf *>PyMem_Malloc((self.count + 1) * sizeof(ls_footer_leaf))
        if self.items == NULL:
            raise MemoryError
        one = self.items
        for leaf in leaves:
            one.name = bytes_of(leaf.name)
            one.kind = LS_NO_NUMBER if leaf.kind is None else leaf.kind
            one.width, one.definition, one.repetition = leaf.width, leaf.definition, leaf.repetition
            one += 1

    def __dealloc__(self):
        PyMem_Free(self.items)


def checked_groups(
    bytes footer not None, Py_ssize_t start, int kind, list leaves not None,
    int64_t first, int64_t last
):
    """Check the row groups of a footer.

    Args:
        footer: Struct FileMetaData as bytes.
        start: Offset of its row groups.
        kind: Type of the field with the row groups.
        leaves: Columns of the schema.
        first: Offset in the file after the bytes that belong to no chunk.
        last: Offset in the file before which chunks must end. Less than 0: not checked.

    Returns:
        Rows, stored size and uncompressed size of each row group; and the offsets in the footer of
        the structs ColumnMetaData, row group by row group.

    Raises:
        RowGroupsError: Arrow could not read the row groups safely.
    """
    cdef ls_slice memory = bytes_of(footer)
    cdef const uint8_t *end = memory.data + memory.size
    cdef const uint8_t *cursor = memory.data + start
    cdef _Leaves schema = _Leaves(leaves)
    cdef uint64_t count = 0, _number
    cdef size_t chunk = 0
    cdef ls_footer_group group
    cdef ls_footer_fault fault
    cdef array places
    cdef uint32_t *place
    if start < 0 or <size_t>start > memory.size:
        raise ValueError("the row groups are not in the footer")
    if ls_footer_groups(&cursor, end, kind, &count) != LS_OK:
        raise RowGroupsError("bytes")
    # A chunk takes at least one byte.
    if count and schema.count > memory.size // count:
        raise RowGroupsError("others")
    places = clone(_PLACES, <Py_ssize_t>(schema.count * count), False)
    place = <uint32_t *>places.data.as_uints
    groups = []
    for _number in range(count):
        with nogil:
            fault = ls_footer_group_read(
                memory.data, &cursor, end, schema.items, schema.count, first, last, &group,
                place, &chunk)
        if fault == LS_FOOTER_OUTSIDE:
            raise RowGroupsError("outside", place[chunk])
        if fault != LS_FOOTER_OK:
            raise RowGroupsError(_FAULTS[fault])
        groups.append((group.rows, group.stored, group.plain))
        place += schema.count
    return groups, places
