"""One row to a dict of Python values, without Arrow."""

from cpython.datetime cimport date_new, datetime_new, import_datetime
from cpython.dict cimport PyDict_SetItem
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdint cimport int8_t, int16_t, int32_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import datetime
import decimal

import pyarrow as pa

from lookupstore.arrow.types import plain_type

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    object PyBytes_FromStringAndSize(const char *data, Py_ssize_t size)

import_datetime()

cdef object UTC = datetime.timezone.utc
cdef object DECIMAL = decimal.Decimal
cdef int64_t DAY = 86_400
# Days from 1970 to the first and the last date of Python.
cdef int64_t FIRST_DAY = -719_162
cdef int64_t LAST_DAY = 2_932_896

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
# What is finer is for pandas, if that is there.
cdef dict TICKS = {"s": 1, "ms": 10**3, "us": 10**6}


cdef Cell cell_of(object kind):
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if isinstance(kind, pa.BaseExtensionType):
        return CELL_OTHER  # it knows what its values are in Python
    kind = plain_type(kind)
    found = CELLS.get(kind)
    if found is not None:
        return found
    if pa.types.is_fixed_size_binary(kind):
        return CELL_FIXED
    if pa.types.is_timestamp(kind) and kind.unit in TICKS:
        return CELL_TIMESTAMP
    if pa.types.is_decimal(kind):
        return CELL_DECIMAL
    return CELL_OTHER


cdef class RowDecoder:
    """A decoder of some columns of single rows.

    `fields` are these columns, `places` where they are, as `rows._codec.Columns` takes them;
    `fixed_size` and `last` are those of the row.
    """

    def __cinit__(self, fields not None, places not None, size_t fixed_size, last):
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
        for i, (field, (offset, width, before, bit, _)) in enumerate(
                zip(fields, places, strict=True)):
            place = &self.places[i]
            place.cell = cell_of(field.type)
            place.offset = offset
            place.variable = width is None
            place.width = 0 if width is None else width
            place.follows = before is not None
            place.before = 0 if before is None else before
            place.may_be_null = bit is not None
            place.bit = 0 if bit is None else bit
            kind = plain_type(field.type)
            helper = None
            if place.cell == CELL_OTHER:
                self.others.append(field.name)
            elif place.cell == CELL_TIMESTAMP:
                place.ticks = TICKS[kind.unit]
                if kind.tz is not None:
                    helper = pa.lib.string_to_tzinfo(kind.tz)
            elif place.cell == CELL_DECIMAL:
                helper = f"E{-kind.scale}"
            self.helpers.append(helper)

    def __dealloc__(self):
        free(self.places)

    cpdef dict decode(self, bytes row):
        """Return the values by name, None for `others`; None: `RowSchema.unpack` has to do it.

        It says what is wrong with a row that does not fit, and knows values beyond Python's.
        """
        return self.decode_from(<const uint8_t *>row, len(row))

    cdef dict decode_from(self, const uint8_t *row, size_t size):
        cdef const Place *place
        cdef size_t i, start, end, limit
        cdef const uint8_t *data
        cdef dict found
        cdef object value
        if size < self.fixed_size:
            return None
        limit = load32(row + self.last) if self.varies else 0
        if limit != size - self.fixed_size:
            return None
        found = {}
        for i in range(self.count):
            place = &self.places[i]
            data = row + place.offset
            end = place.width
            if place.variable:
                start = load32(row + place.before) if place.follows else 0
                end = load32(data)
                if start > end or end > limit:
                    return None
                data = row + self.fixed_size + start
                end -= start
            if place.may_be_null and row[place.bit >> 3] >> (place.bit & 7) & 1:
                value = None
            else:
                try:
                    value = self.value(place, i, data, end)
                except (UnicodeDecodeError, OverflowError):
                    return None
                if value is NotImplemented:
                    return None
            PyDict_SetItem(found, <object>PyTuple_GET_ITEM(self.names, i), value)
        return found

    cdef object value(self, const Place *place, size_t i, const uint8_t *data, size_t size):
        """Return the value of a cell; NotImplemented: one that is not decoded here."""
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
        elif cell == CELL_NULL or cell == CELL_OTHER:
            return None
        return NotImplemented


cdef inline size_t load32(const uint8_t *data) noexcept nogil:
    cdef uint32_t number
    memcpy(&number, data, 4)
    return number


cdef inline const void *load(const uint8_t *data, size_t width, int64_t *room) noexcept nogil:
    """Copy a number to where numbers may be."""
    memcpy(room, data, width)
    return room


cdef object date_at(int64_t day):
    cdef int64_t year
    cdef int month, day_of_month
    if day < FIRST_DAY or day > LAST_DAY:
        return NotImplemented
    civil(day, &year, &month, &day_of_month)
    return date_new(<int>year, month, day_of_month)


cdef object moment_at(int64_t number, int64_t ticks, zone):
    cdef int64_t seconds = number // ticks, rest = number % ticks, day, year
    cdef int month, day_of_month, second
    if rest < 0:  # C divides towards zero
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
    """The date of a day from 1970, by eras of 400 years whose years begin in March."""
    cdef int64_t shifted = day + 719_468
    cdef int64_t era = shifted // 146_097  # never negative for dates of Python
    cdef int64_t of_era = shifted - era * 146_097
    cdef int64_t years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    cdef int64_t of_year = of_era - (365 * years + years // 4 - years // 100)
    cdef int march = <int>((5 * of_year + 2) // 153)
    day_of_month[0] = <int>(of_year - (153 * march + 2) // 5 + 1)
    month[0] = march + 3 if march < 10 else march - 9
    year[0] = years + era * 400 + (month[0] <= 2)
