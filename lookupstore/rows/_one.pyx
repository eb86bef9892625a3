"""Decode one row as a dict of Python values, without Arrow."""

from cpython.datetime cimport (
    date_new, datetime_new, import_datetime, time_new, timedelta_new,
)
from cpython.dict cimport PyDict_SetItem
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.math cimport HUGE_VAL, NAN, ldexp
from libc.stdint cimport int8_t, int16_t, int32_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import datetime
import decimal
import uuid

import pyarrow as pa

from lookupstore.arrow.types import plain_type

from lookupstore.arrow._binary cimport (
    LS_OK, BinaryColumn, ls_column_get, ls_column_is_valid, ls_slice,
)

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    object PyBytes_FromStringAndSize(const char *data, Py_ssize_t size)

import_datetime()

cdef object UTC = datetime.timezone.utc
cdef object DECIMAL = decimal.Decimal
cdef object UUID = uuid.UUID
cdef object INTERVAL = pa.MonthDayNano
cdef int64_t DAY = 86_400
# Numbers of the days from 1970 to the first and to the last date of Python.
cdef int64_t FIRST_DAY = -719_162
cdef int64_t LAST_DAY = 2_932_896
# Number of days of the longest timedelta.
cdef int64_t MOST_DAYS = 999_999_999

cdef dict CELLS = {
    pa.null(): CELL_NULL,
    pa.bool_(): CELL_BOOL,
    pa.int8(): CELL_INT8,
    pa.int16(): CELL_INT16,
    pa.int32(): CELL_INT32,
    pa.int64(): CELL_INT64,
    pa.uint8(): CELL_UINT8,
    pa.uint16(): CELL_UINT16,
    pa.uint32(): CELL_UINT32,
    pa.uint64(): CELL_UINT64,
    pa.float32(): CELL_FLOAT,
    pa.float64(): CELL_DOUBLE,
    pa.string(): CELL_TEXT,
    pa.large_string(): CELL_TEXT,
    pa.binary(): CELL_BINARY,
    pa.large_binary(): CELL_BINARY,
    pa.date32(): CELL_DATE32,
    pa.date64(): CELL_DATE64,
}
# Ticks per second of units that Python's types can hold; nanoseconds need pandas, if installed.
cdef dict TICKS = {"s": 1, "ms": 10**3, "us": 10**6}
# Older pyarrow returns NumPy's float16. (`pa.scalar` would import pandas.)
if type(pa.Array.from_buffers(pa.float16(), 1, [None, pa.py_buffer(bytes(2))])[0].as_py()) is float:
    CELLS[pa.float16()] = CELL_HALF
# Extension types whose Python values differ from those of their storage.
cdef dict EXTENSIONS = {
    getattr(pa, "UuidType", None): CELL_UUID,
    getattr(pa, "Bool8Type", None): CELL_BOOL8,
}


cdef bint has_values_of_storage(object kind):
    """Return whether the Python values of an extension type are those of its storage."""
    scalar, array = kind.__arrow_ext_scalar_class__(), kind.__arrow_ext_class__()
    return all(
        getattr(scalar, name) is getattr(pa.ExtensionScalar, name) for name in ("as_py", "value")
    ) and all(
        getattr(array, name) is getattr(pa.ExtensionArray, name)
        for name in ("to_pylist", "__getitem__", "__iter__")
    )


cdef object type_of_values(object kind):
    """Return the type without dictionary, view and extension types that do not change values."""
    while True:
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif not isinstance(kind, pa.BaseExtensionType):
            return plain_type(kind)
        elif has_values_of_storage(kind):
            kind = kind.storage_type
        else:
            return kind


cdef Cell cell_of(object kind, RowDecoder inside):
    """Return the decoding of a type; values inside of a list or struct have their own decoder."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return EXTENSIONS.get(type(kind), CELL_OTHER)
    if types.is_nested(kind):
        if inside is None or inside.others:
            return CELL_OTHER
        if types.is_struct(kind):
            return CELL_STRUCT if len(set(inside.names)) == inside.count else CELL_OTHER
        if types.is_map(kind):
            return CELL_MAP if len(set(inside.names)) == 2 else CELL_OTHER
        return CELL_FIXED_LIST if types.is_fixed_size_list(kind) else CELL_LIST
    found = CELLS.get(kind)
    if found is not None:
        return found
    if types.is_fixed_size_binary(kind):
        return CELL_FIXED
    if types.is_decimal(kind):
        return CELL_DECIMAL
    if types.is_interval(kind):
        return CELL_INTERVAL
    if types.is_temporal(kind):
        if kind.unit not in TICKS:
            return CELL_NANOS
        if types.is_time(kind):
            return CELL_TIME
        return CELL_DURATION if types.is_duration(kind) else CELL_TIMESTAMP
    return CELL_OTHER


cdef object zone_of(str name):
    """Return the same time zone as `as_py`, or None."""
    try:
        return pa.lib.string_to_tzinfo(name)
    except (ValueError, KeyError, OSError):  # Arrow raises the error when there is a value
        return None


cdef class RowDecoder:
    """A decoder of some columns of single rows.

    `fields` are these columns, `places` their places in the form of `rows._codec.Columns`. `inside`
    are decoders of the values inside of structs and of the elements of lists, where these can be
    decoded. `fixed_size` and `last` are those of the row.
    """

    def __cinit__(
            self, fields not None, places not None, inside not None, size_t fixed_size, last):
        cdef Place *place
        cdef size_t i
        self.count = len(fields)
        self.names = tuple(field.name for field in fields)
        self.places = <Place *>calloc(self.count + 1, sizeof(Place))
        if self.places == NULL:
            raise MemoryError()
        self.fixed_size = fixed_size
        self.varies = last is not None
        self.last = 0 if last is None else last
        self.helpers, self.others = [], []
        for i, (field, (offset, width, before, bit, _), inner) in enumerate(
                zip(fields, places, inside, strict=True)):
            kind = type_of_values(field.type)
            place = &self.places[i]
            place.cell = cell_of(kind, inner)
            place.offset = offset
            place.variable = width is None
            place.width = 0 if width is None else width
            place.follows = before is not None
            place.before = 0 if before is None else before
            place.may_be_null = bit is not None
            place.bit = 0 if bit is None else bit
            helper = None
            if place.cell in (CELL_TIMESTAMP, CELL_TIME, CELL_DURATION):
                place.ticks = TICKS[kind.unit]
                if place.cell == CELL_TIMESTAMP and kind.tz is not None:
                    helper = zone_of(kind.tz)
                    if helper is None:
                        place.cell = CELL_OTHER
            elif place.cell == CELL_NANOS:
                helper = kind
                self.has_nanos = True
            elif place.cell == CELL_DECIMAL:
                helper = f"E{-kind.scale}"
            elif place.cell in (CELL_STRUCT, CELL_LIST, CELL_FIXED_LIST, CELL_MAP):
                helper = inner
                self.has_nanos |= (<RowDecoder>inner).has_nanos
                if place.cell == CELL_FIXED_LIST:
                    place.count = kind.list_size
            if place.cell == CELL_OTHER:
                self.others.append(field.name)
            self.helpers.append(helper)

    def __dealloc__(self):
        free(self.places)

    cpdef dict decode(self, bytes row):
        """Return the values by name, None for `others`. None: this class cannot decode the row.

        In that case, `RowSchema.unpack` decodes it, or raises the error of a row that does not fit.
        """
        try:
            return self.decode_from(<const uint8_t *>row, len(row))
        except (UnicodeDecodeError, OverflowError):
            return None

    def decode_all(self, rows not None):
        """Return a list of the results of `decode` for many rows. None: one of the results is None.

        The result is also None if there are `others`, or nanoseconds.
        """
        cdef BinaryColumn column = BinaryColumn(rows, "rows")
        cdef size_t length = column.column.length, i
        cdef ls_slice row
        cdef list found
        cdef object one
        if self.others or self.has_nanos:
            return None
        found = PyList_New(<Py_ssize_t>length)
        try:
            for i in range(length):
                if not ls_column_is_valid(&column.column, i):
                    return None
                if ls_column_get(&column.column, i, &row) != LS_OK:
                    return None
                one = self.decode_from(row.data, row.size)
                if one is None:
                    return None
                Py_INCREF(one)
                PyList_SET_ITEM(found, <Py_ssize_t>i, one)
        except (UnicodeDecodeError, OverflowError):
            return None
        return found

    cdef bint fits(self, const uint8_t *row, size_t size) noexcept nogil:
        """Return whether a row has its fixed section and ends with its last variable column."""
        if size < self.fixed_size:
            return False
        return (load32(row + self.last) if self.varies else 0) == size - self.fixed_size

    cdef dict decode_from(self, const uint8_t *row, size_t size):
        cdef size_t i
        cdef dict found
        cdef object value
        if not self.fits(row, size):
            return None
        found = {}
        for i in range(self.count):
            value = self.column(i, row, size)
            if value is NotImplemented:
                return None
            PyDict_SetItem(found, <object>PyTuple_GET_ITEM(self.names, i), value)
        return found

    cdef inline object column(self, size_t i, const uint8_t *row, size_t size):
        """Return the value of a column of a fitting row; NotImplemented if not decoded here."""
        cdef const Place *place = &self.places[i]
        cdef const uint8_t *data = row + place.offset
        cdef size_t start, end = place.width
        if place.variable:
            start = load32(row + place.before) if place.follows else 0
            end = load32(data)
            if start > end or end > size - self.fixed_size:
                return NotImplemented
            data = row + self.fixed_size + start
            end -= start
        if place.may_be_null and row[place.bit >> 3] >> (place.bit & 7) & 1:
            return None
        return self.value(place, i, data, end)

    cdef object value(self, const Place *place, size_t i, const uint8_t *data, size_t size):
        """Return the value of a cell, or NotImplemented if it cannot be decoded here."""
        cdef Cell cell = place.cell
        cdef int64_t number
        cdef double wide
        cdef float narrow
        if cell == CELL_INT64:
            memcpy(&number, data, 8)
            return number
        elif cell == CELL_DOUBLE:
            memcpy(&wide, data, 8)
            return wide
        elif cell == CELL_TEXT:
            return PyUnicode_DecodeUTF8(<const char *>data, size, NULL)
        elif cell == CELL_INT32:
            return (<const int32_t *>load(data, 4, &number))[0]
        elif cell == CELL_BOOL:
            return NotImplemented if data[0] > 1 else data[0] == 1
        elif cell == CELL_BINARY or cell == CELL_FIXED:
            return PyBytes_FromStringAndSize(<const char *>data, size)
        elif cell == CELL_FLOAT:
            memcpy(&narrow, data, 4)
            return narrow
        elif cell == CELL_INT8:
            return (<const int8_t *>load(data, 1, &number))[0]
        elif cell == CELL_INT16:
            return (<const int16_t *>load(data, 2, &number))[0]
        elif cell == CELL_UINT8:
            return data[0]
        elif cell == CELL_UINT16:
            return (<const uint16_t *>load(data, 2, &number))[0]
        elif cell == CELL_UINT32:
            return (<const uint32_t *>load(data, 4, &number))[0]
        elif cell == CELL_UINT64:
            return (<const uint64_t *>load(data, 8, &number))[0]
        elif cell == CELL_DATE32:
            return date_at((<const int32_t *>load(data, 4, &number))[0])
        elif cell == CELL_DATE64:
            memcpy(&number, data, 8)
            return date_at(number // (DAY * 1000)) if number % (DAY * 1000) == 0 else NotImplemented
        elif cell == CELL_TIMESTAMP:
            memcpy(&number, data, 8)
            return moment_at(number, place.ticks, self.helpers[i])
        elif cell == CELL_DECIMAL:
            whole = int.from_bytes(
                PyBytes_FromStringAndSize(<const char *>data, size), "little", signed=True)
            return DECIMAL(str(whole) + <str>self.helpers[i])
        elif cell == CELL_STRUCT:
            inside = (<RowDecoder>self.helpers[i]).decode_from(data, size)
            return NotImplemented if inside is None else inside
        elif cell == CELL_LIST or cell == CELL_MAP or cell == CELL_FIXED_LIST:
            return (<RowDecoder>self.helpers[i]).elements(place, data, size)
        elif cell == CELL_HALF:
            return half_at(load16(data))
        elif cell == CELL_TIME:
            if place.width == 4:
                return time_at((<const int32_t *>load(data, 4, &number))[0], place.ticks)
            memcpy(&number, data, 8)
            return time_at(number, place.ticks)
        elif cell == CELL_DURATION:
            memcpy(&number, data, 8)
            return duration_at(number, place.ticks)
        elif cell == CELL_NANOS:
            memcpy(&number, data, 8)
            return nanos_at(number, self.helpers[i])
        elif cell == CELL_UUID:
            return UUID(bytes=PyBytes_FromStringAndSize(<const char *>data, size))
        elif cell == CELL_BOOL8:
            return data[0] != 0
        elif cell == CELL_INTERVAL:
            memcpy(&number, data + 8, 8)
            return INTERVAL((<int32_t>load32(data), <int32_t>load32(data + 4), number))
        elif cell == CELL_NULL or cell == CELL_OTHER:
            return None
        return NotImplemented

    cdef object elements(self, const Place *place, const uint8_t *data, size_t size):
        """Return the list in a cell, whose elements are rows of this decoder; or NotImplemented.

        It makes the same checks as `open_list` of `csrc/ls_rows.c`.
        """
        cdef size_t count = place.count, i, start = 0, end = 0
        cdef const uint8_t *ends = data
        cdef bint pair = place.cell == CELL_MAP
        cdef list found
        cdef object one
        if place.cell != CELL_FIXED_LIST:
            if size < 4:
                return NotImplemented
            count = load32(data)
            ends = data = data + 4
            size -= 4
        if self.varies:
            if count > size // 4:
                return NotImplemented
            data += 4 * count
            size -= 4 * count
            if (load32(data - 4) if count > 0 else 0) != size:
                return NotImplemented
        elif size // self.fixed_size != count or size % self.fixed_size != 0:
            return NotImplemented  # the width of an element is never 0
        found = PyList_New(<Py_ssize_t>count)
        for i in range(count):
            end = load32(ends + 4 * i) if self.varies else start + self.fixed_size
            if start > end or end > size:
                return NotImplemented
            one = self.element(data + start, end - start, pair)
            if one is NotImplemented:
                return NotImplemented
            Py_INCREF(one)
            PyList_SET_ITEM(found, <Py_ssize_t>i, one)
            start = end
        return found

    cdef inline object element(self, const uint8_t *row, size_t size, bint pair):
        """Return the single column of a row, or both columns of a map entry; or NotImplemented."""
        cdef object first, second
        if not self.fits(row, size):
            return NotImplemented
        first = self.column(0, row, size)
        if not pair or first is NotImplemented:
            return first
        second = self.column(1, row, size)
        return NotImplemented if second is NotImplemented else (first, second)


cdef inline size_t load32(const uint8_t *data) noexcept nogil:
    cdef uint32_t number
    memcpy(&number, data, 4)
    return number


cdef inline size_t load16(const uint8_t *data) noexcept nogil:
    cdef uint16_t number
    memcpy(&number, data, 2)
    return number


cdef inline const void *load(const uint8_t *data, size_t width, int64_t *room) noexcept nogil:
    """Copy a number to an aligned address."""
    memcpy(room, data, width)
    return room


cdef object date_at(int64_t day):
    cdef int64_t year
    cdef int month, day_of_month
    if day < FIRST_DAY or day > LAST_DAY:
        return NotImplemented
    civil(day, &year, &month, &day_of_month)
    return date_new(<int>year, month, day_of_month)


cdef object time_at(int64_t number, int64_t ticks):
    cdef int64_t seconds = number // ticks
    if number < 0 or seconds >= DAY:  # `as_py` leaves out the days
        return NotImplemented
    return time_new(
        <int>(seconds // 3600), <int>(seconds // 60 % 60), <int>(seconds % 60),
        <int>(number % ticks * (1_000_000 // ticks)), None)


cdef object duration_at(int64_t number, int64_t ticks):
    cdef int64_t seconds = number // ticks, rest = number % ticks, days
    if rest < 0:  # C rounds quotients towards zero
        rest += ticks
        seconds -= 1
    days = seconds // DAY
    seconds %= DAY
    if seconds < 0:
        seconds += DAY
        days -= 1
    if days < -MOST_DAYS or days > MOST_DAYS:
        return NotImplemented
    return timedelta_new(<int>days, <int>seconds, <int>(rest * (1_000_000 // ticks)))


cdef object nanos_at(int64_t number, kind):
    """Return the value of pandas, if it is installed, as `as_py` does."""
    try:
        return pa.scalar(number, kind).as_py()
    except (ValueError, KeyError, OSError):  # Arrow raises the error of the column
        return NotImplemented


cdef double half_at(size_t bits) noexcept nogil:
    """Return the number in 16 bits: a sign, 5 bits of exponent, 10 bits of fraction."""
    cdef int exponent = bits >> 10 & 31, fraction = bits & 1023
    cdef double size
    if exponent == 31:
        size = NAN if fraction else HUGE_VAL
    elif exponent == 0:
        size = ldexp(fraction, -24)
    else:
        size = ldexp(1024 + fraction, exponent - 25)
    return -size if bits >> 15 else size


cdef object moment_at(int64_t number, int64_t ticks, zone):
    cdef int64_t seconds = number // ticks, rest = number % ticks, day, year
    cdef int month, day_of_month, second
    if rest < 0:  # C rounds quotients towards zero
        rest += ticks
        seconds -= 1
    day = seconds // DAY
    second = <int>(seconds % DAY)
    if second < 0:
        second += <int>DAY
        day -= 1
    if day < FIRST_DAY or day > LAST_DAY:
        return NotImplemented
    civil(day, &year, &month, &day_of_month)
    moment = datetime_new(
        <int>year, month, day_of_month, second // 3600, second // 60 % 60, second % 60,
        <int>(rest * (1_000_000 // ticks)), None if zone is None else UTC)
    return moment if zone is None else moment.astimezone(zone)


cdef inline void civil(int64_t day, int64_t *year, int *month, int *day_of_month) noexcept nogil:
    """Compute the date of a day from 1970, by eras of 400 years that begin in March."""
    cdef int64_t shifted = day + 719_468
    cdef int64_t era = shifted // 146_097  # never negative for dates of Python
    cdef int64_t of_era = shifted - era * 146_097
    cdef int64_t years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    cdef int64_t of_year = of_era - (365 * years + years // 4 - years // 100)
    cdef int march = <int>((5 * of_year + 2) // 153)
    day_of_month[0] = <int>(of_year - (153 * march + 2) // 5 + 1)
    month[0] = march + 3 if march < 10 else march - 9
    year[0] = years + era * 400 + (month[0] <= 2)
