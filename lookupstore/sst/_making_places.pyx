"""The places of the records of a file, which its lookups and warming make or check in steps."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from lookupstore.errors import LookupStoreError
from lookupstore.sst import _data_blocks

from lookupstore.arrow._binary cimport LS_NO_SPACE, LS_OK, ls_slice, ls_status
from lookupstore.sst._block cimport Block, ls_block_record
from lookupstore.sst._data_blocks cimport GROUP, DataBlocks
from lookupstore.sst._map cimport POPULATED
from lookupstore.sst._table cimport BlockTable, FileTable, Places, ls_places_add, ls_ready


# Places are made once a file has been asked for one of so many of its records, or in calls of so
# many keys, not all of them of this file: a store of many files is hot as early as one of few.
cdef size_t BEFORE_PLACES = 16
cdef size_t KEYS_BEFORE_PLACES = 500_000

# Number of records that a lookup adds to the places per key. Without places, finding a key takes
# 1 us, so that they pay soon; adding a record takes 20 to 40 ns.
cdef size_t ADDED_PER_KEY = 16

# Number of further keys after which the places are complete, regardless of the size of the file,
# unless lookups would have to add more than MOST_PER_KEY records for each key. Three calls of a
# million keys complete them although some files have more records than others.
cdef size_t KEYS_UNTIL_HOT = 2_700_000
cdef size_t MOST_PER_KEY = 110


def blocks_added(DataBlocks data not None):
    """Return the number of blocks whose records were added to places that are being made."""
    return 0 if data.file.made is None else data.file.next


def adopt(DataBlocks data not None):
    """Use the places that another process of this host has made, if there are any."""
    data.file.seek(data.records, data.map)


def settles(DataBlocks data not None):
    """Return whether the records of the file can have places now, and have none."""
    return not data.file.settled and data.may_settle()


def checks(DataBlocks data not None):
    """Return whether places of another process are in use and not completely checked."""
    return data.file.checking


def check_places(DataBlocks data not None, size_t nbytes):
    """Check more bytes of the places of another process; return whether all are checked."""
    return data.file.check_some(nbytes)


def settle(DataBlocks data not None, size_t records):
    """Add up to `records` records to the places of the file.

    Returns:
        Number of bytes of their blocks; 0: another thread or process makes the places.

    Raises:
        CorruptionError: If a block is damaged.
    """
    cdef FileTable file = data.file
    cdef size_t first
    if file.busy:
        return 0
    file.seek(data.records, data.map)
    if file.settled:
        return 0
    file.busy = True
    try:
        if file.made is None:
            begin(data, data.records or file.blocks.ready_records)
        first = file.next
        if file.made is None:
            return 0
        add(data, records)
    except (LookupStoreError, OSError):
        file.give_up()
        raise
    finally:
        file.busy = False
    return data.handles.starts[file.next] - data.handles.starts[first]


cdef int after(
        DataBlocks data, size_t keys, size_t call, size_t files, bint fits,
        bint loaded) except -1:
    """Add records to the places after a lookup of `keys` in this file.

    The lookup was of `call` keys in `files` files. `fits` is whether the places of all of them
    fit into memory, and `loaded` whether it had to load blocks.
    """
    cdef FileTable file = data.file
    cdef size_t records
    if file.checking:
        return file.check(keys)
    if file.settled or file.busy or keys == 0 or data.map is None:
        return 0
    file.asked += keys
    # If all tables do not fit, only those of files that are asked for many keys are made.
    file.called = file.called + call if fits else file.asked
    records = data.records or file.blocks.ready_records
    if file.made is None and (
            (file.asked * BEFORE_PLACES < records and file.called < KEYS_BEFORE_PLACES)
            or (loaded and file.cache is not None) or not data.may_settle()):
        return 0
    # Only one thread does this, to the end: other threads may run at any allocation of an object.
    file.busy = True
    try:
        if file.made is None:
            begin(data, records)
        add(data, max(ADDED_PER_KEY * keys, min(
            <size_t>(<double>records * call / KEYS_UNTIL_HOT), MOST_PER_KEY * call // files)))
    except (LookupStoreError, OSError):  # lookups in the damaged block raise the error
        file.give_up()
    finally:
        file.busy = False
    return 0


cdef int begin(DataBlocks data, size_t records) except -1:
    """Begin to make places, for which all of the file is read."""
    cdef FileTable file = data.file
    file.begin(data.map, records)
    # Another process may be making them: then this one reads only what its keys need.
    if file.made is not None and not file.is_read and data.drop_scattered is not None:
        data.drop_scattered()
    return 0


cdef int add(DataBlocks data, size_t records) except -1:
    """Add a number of records to the places that are being made, if there are any."""
    cdef FileTable file = data.file
    cdef size_t added = 0
    cdef ls_status status
    if file.made is not None and file.shared is not None:
        file.shared.renew()
    while file.made is not None and added < records:
        status = add_group(data, records - added, &added)
        if status != LS_OK or not data.map.whole():
            # Keys are repeated, or checked bytes have changed: lookups in the block raise the
            # error.
            file.give_up()
        elif file.next == file.blocks.count:
            file.finish()
    return 0


cdef size_t next_blocks(
        DataBlocks data, size_t first, size_t records, size_t *populated, uint64_t *offsets,
        size_t *sizes) except? 0:
    """Find the next blocks, from `first` on, with about `records` records, and check them.

    Sets the offset and the size of each in the map, of up to GROUP blocks, and returns their
    number; 0: a block is compressed, or there are no more. `populated` is the end of the bytes that
    were read for this.
    """
    cdef BlockTable table = data.file.blocks
    cdef size_t count = 0, nbytes = 0, number
    cdef size_t limit = _data_blocks.GROUP_BYTES
    cdef size_t usual = max(<size_t>1, data.records // table.count)
    cdef ls_ready ready
    cdef Block block
    while (first + count < table.count and count < <size_t>GROUP and nbytes < limit
            and count * usual < records):
        number = first + count
        if data.handles.starts[number + 1] > populated[0]:
            data.map.populate_some(data.handles.starts[number], POPULATED)
            populated[0] = data.handles.starts[number] + POPULATED
        block = table.block(number)
        if block is None and data.check_block(table, number, 1, &ready):
            sizes[count] = ready.size
        else:
            if block is None:
                block = data.load(number)
            if not isinstance(block.source, memoryview):
                return 0
            sizes[count] = block.size
        offsets[count] = data.handles.starts[number]
        nbytes += sizes[count]
        count += 1
    return count


cdef ls_status add_group(DataBlocks data, size_t records, size_t *added) except *:
    """Add about `records` records of the next blocks, and count them in `added`."""
    cdef FileTable file = data.file
    cdef Places made = file.made
    cdef uint64_t offsets[GROUP]
    cdef size_t sizes[GROUP]
    cdef size_t first = file.next, count, i
    cdef uint64_t found = 0
    cdef ls_slice before, other
    cdef ls_status status = LS_OK
    count = next_blocks(data, first, records, &file.populated, offsets, sizes)
    if count == 0:
        return LS_NO_SPACE  # the block is compressed
    with nogil:
        for i in range(count):
            before.data, before.size = NULL, 0
            if first + i > 0:
                status = ls_block_record(
                    &data.index.block, <uint32_t>(first + i - 1), &before, &other)
            if status == LS_OK:
                status = ls_places_add(&made.places, before, offsets[i], sizes[i], &found)
            if status != LS_OK:
                break
    added[0] += found
    if file.made is made:  # in a child of fork, `made` has been dropped
        file.next = <uint32_t>(first + count)
    return status
