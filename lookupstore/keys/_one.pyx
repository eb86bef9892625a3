"""Encode keys of Python values, one at a time and without calling Python code.

Only values of exactly Python's own types are encoded here. `KeySchema` encodes all others, such as
those of NumPy, and raises the errors of invalid ones.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.datetime cimport (
    PyDateTime_DATE_GET_HOUR, PyDateTime_DATE_GET_MICROSECOND, PyDateTime_DATE_GET_MINUTE,
    PyDateTime_DATE_GET_SECOND, PyDateTime_DELTA_GET_DAYS, PyDateTime_DELTA_GET_MICROSECONDS,
    PyDateTime_DELTA_GET_SECONDS, PyDateTime_GET_DAY, PyDateTime_GET_MONTH, PyDateTime_GET_YEAR,
    PyDateTime_TIME_GET_HOUR, PyDateTime_TIME_GET_MICROSECOND, PyDateTime_TIME_GET_MINUTE,
    PyDateTime_TIME_GET_SECOND, PyDate_CheckExact, PyDateTime_CheckExact, PyDelta_CheckExact,
    PyTime_CheckExact, import_datetime, datetime_tzinfo, time_tzinfo,
)
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcpy

import datetime
import decimal

import pyarrow as pa

cdef extern from "Python.h":
    bint PyLong_CheckExact(object value)
    bint PyFloat_CheckExact(object value)
    bint PyUnicode_CheckExact(object value)
    bint PyBytes_CheckExact(object value)
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object value) except? 0xFFFFFFFFFFFFFFFF
    double PyFloat_AS_DOUBLE(object value)
    const char *PyUnicode_AsUTF8AndSize(object value, Py_ssize_t *size) except NULL

import_datetime()

cdef object UTC = datetime.timezone.utc
cdef object DECIMAL = decimal.Decimal

# Size in bytes up to which a key is written without allocating memory.
cdef enum:
    ROOM = 512
    # Bytes initially allocated for a key, if keys differ in size.
    GUESS = 24
    # Number of decimal digits that always fit into an int64.
    MOST_DIGITS = 18

cdef int64_t MOST = 0x7FFFFFFFFFFFFFFF
cdef int64_t LEAST = -MOST - 1
cdef int64_t DAY = 86_400

cdef int64_t[19] POWERS
POWERS[0] = 1
for _i in range(1, 19):
    POWERS[_i] = POWERS[_i - 1] * 10

#: Encoding of the fields of each class of `lookupstore.keys.types`.
cdef dict FORMS = {
    "BoolField": FORM_BOOL,
    "IntegerField": FORM_SIGNED,
    "UnsignedField": FORM_UNSIGNED,
    "FloatField": FORM_FLOAT,
    "DecimalField": FORM_DECIMAL,
    "DateField": FORM_DATE,
    "TimeField": FORM_TIME,
    "TimestampField": FORM_TIMESTAMP,
    "ZonedTimestampField": FORM_ZONED,
    "DurationField": FORM_DURATION,
    "FixedBinaryField": FORM_RAW,
    "StringField": FORM_TEXT,
    "BinaryField": FORM_BINARY,
}
cdef dict TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


cdef class KeyEncoder:
    """An encoder of single keys.

    `fields` are the `KeyField`s of the key, in order.
    """

    def __cinit__(self, fields not None):
        cdef Field *field
        cdef size_t i
        self.count = len(fields)
        self.fields = <Field *>calloc(self.count, sizeof(Field))
        if self.fields == NULL:
            raise MemoryError()
        fixed = not any(one.variable or one.nullable for one in fields)
        self.width = sum(one.width for one in fields) if fixed else 0
        for i, one in enumerate(fields):
            field = &self.fields[i]
            field.form = FORMS.get(type(one).__name__, FORM_OTHER)
            field.width = one.width
            field.nullable = one.nullable
            field.last = i + 1 == self.count
            describe(field, one.plain)
        self.single_binary = (self.count == 1 and self.fields[0].form == FORM_BINARY
                              and not self.fields[0].nullable)

    def __dealloc__(self):
        free(self.fields)

    cpdef object encode(self, object key):
        """Return the same as `KeySchema.encode_one`, or NotImplemented: leave it to `KeySchema`."""
        cdef uint8_t[ROOM] room
        cdef size_t size = 0
        cdef Outcome outcome
        if self.single_binary and PyBytes_CheckExact(key):
            return key
        outcome = self.put(key, room, ROOM, &size)
        if outcome == WRITTEN:
            return (<char *>room)[:size]
        return None if outcome == NO_KEY else NotImplemented

    def encode_list(self, list keys not None):
        """Return an array of the results of `encode` for each key, or NotImplemented.

        The array is fixed_size_binary, or large_binary if keys differ in size.
        """
        cdef size_t length = len(keys), width = self.width, i = 0, used = 0, size = 0, room
        cdef uint8_t *out
        cdef int64_t *ends = NULL
        cdef Outcome outcome
        # A value may be longer than a usual one, and may have a marker.
        data = pa.allocate_buffer(length * (width or GUESS) + ROOM, resizable=True)
        room = data.size
        out = <uint8_t *><uintptr_t>data.address
        if width == 0:
            offsets = pa.allocate_buffer(8 * (length + 1))
            ends = <int64_t *><uintptr_t>offsets.address
            ends[0] = 0
        for key in keys:
            if i == length:
                break  # another thread has extended the list
            outcome = self.put(key, out + used, room - used, &size)
            while outcome == NO_ROOM:
                room *= 2
                data.resize(room, shrink_to_fit=False)
                out = <uint8_t *><uintptr_t>data.address
                outcome = self.put(key, out + used, room - used, &size)
            if outcome != WRITTEN:
                return NotImplemented
            used += size
            i += 1
            if width == 0:
                ends[i] = used
        if i != length:
            return NotImplemented
        if width != 0:
            return pa.Array.from_buffers(pa.binary(width), length, [None, data])
        data.resize(used)
        return pa.Array.from_buffers(pa.large_binary(), length, [None, offsets, data])

    cdef Outcome put(self, object key, uint8_t *out, size_t room, size_t *size) except? OTHER:
        """Write at most `room` bytes of a key, and store its whole size in `size`."""
        cdef size_t i, used = 0, added = 0
        cdef Outcome outcome
        if self.count == 1 and not PyTuple_CheckExact(key):
            outcome = put_value(&self.fields[0], key, out, room, &used)
            size[0] = used
            return outcome
        if not PyTuple_CheckExact(key) or <size_t>PyTuple_GET_SIZE(key) != self.count:
            return OTHER
        for i in range(self.count):
            added = 0
            outcome = put_value(
                &self.fields[i], <object>PyTuple_GET_ITEM(key, i), out + used, room - used, &added)
            if outcome != WRITTEN:
                return outcome
            used += added
        size[0] = used
        return WRITTEN


cdef int describe(Field *field, kind) except -1:
    """Record the properties of the values of a field of some type."""
    bits = 8 * field.width
    if field.form == FORM_UNSIGNED:
        field.most = 2**bits - 1
    elif field.form == FORM_FLOAT:
        if field.width == 2:
            field.form = FORM_OTHER
    elif field.form == FORM_DECIMAL:
        field.scale = kind.scale
        field.most = 10**min(kind.precision, MOST_DIGITS) - 1
        field.least = -<int64_t>field.most
    elif field.form not in (FORM_RAW, FORM_TEXT, FORM_BINARY, FORM_BOOL, FORM_OTHER):
        field.most = 2**(bits - 1) - 1
        field.least = -2**(bits - 1)
        if field.form == FORM_DATE:
            field.ticks = 1 if pa.types.is_date32(kind) else DAY * 1000
        elif field.form != FORM_SIGNED:
            field.ticks = TICKS[kind.unit]
    return 0


cdef Outcome put_value(
        const Field *field, object value, uint8_t *out, size_t room, size_t *size) except? OTHER:
    """Write the marker and the bytes of a value."""
    cdef Form form = field.form
    cdef int64_t number = 0, seconds
    cdef uint64_t natural
    cdef const uint8_t *data
    cdef size_t marker = field.nullable, length
    cdef Py_ssize_t given = 0
    cdef int overflow = 0
    if room < 1 + field.width:
        return NO_ROOM
    if value is None:
        if not marker:
            return NO_KEY
        out[0] = 0
        size[0] = 1
        return WRITTEN
    if marker:
        out[0] = 1
        out += 1
        room -= 1
    size[0] = marker + field.width
    if form == FORM_SIGNED:
        # A subclass of int, such as bool, may have another meaning.
        if not PyLong_CheckExact(value):
            return OTHER
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            return NO_KEY
        return put_number(field, number, out)
    elif form == FORM_TEXT or form == FORM_BINARY:
        if form == FORM_TEXT:
            if not PyUnicode_CheckExact(value):
                return OTHER
            try:
                data = <const uint8_t *>PyUnicode_AsUTF8AndSize(value, &given)
            except UnicodeEncodeError:
                return NO_KEY  # Arrow does not accept lone surrogates
        else:
            if not PyBytes_CheckExact(value):
                return OTHER
            data = <const uint8_t *>PyBytes_AS_STRING(value)
            given = PyBytes_GET_SIZE(value)
        length = given
        if room < length + 2:
            return NO_ROOM
        if field.last:
            memcpy(out, data, length)
            size[0] = marker + length
            return WRITTEN
        if length > 0 and memchr(data, 0, length) != NULL:
            if room < 2 * length + 2:
                return NO_ROOM
            size[0] = marker + escape(data, length, out)
            return WRITTEN
        memcpy(out, data, length)
        out[length] = out[length + 1] = 0
        size[0] = marker + length + 2
        return WRITTEN
    elif form == FORM_UNSIGNED:
        if not PyLong_CheckExact(value):
            return OTHER
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        natural = <uint64_t>number
        if overflow < 0 or (overflow == 0 and number < 0):
            return NO_KEY
        if overflow > 0:
            try:
                natural = PyLong_AsUnsignedLongLong(value)
            except OverflowError:
                return NO_KEY
        if natural > field.most:
            return NO_KEY
        put_big(natural, field.width, out)
        return WRITTEN
    elif form == FORM_FLOAT:
        return put_float(field, value, out) if PyFloat_CheckExact(value) else OTHER
    elif form == FORM_DATE:
        if not PyDate_CheckExact(value):
            return OTHER
        return put_number(field, days_of(value) * field.ticks, out)
    elif form == FORM_TIMESTAMP or form == FORM_ZONED:
        if not PyDateTime_CheckExact(value):
            return OTHER
        if datetime_tzinfo(value) is not (None if form == FORM_TIMESTAMP else UTC):
            return OTHER
        seconds = days_of(value) * DAY + (
            PyDateTime_DATE_GET_HOUR(value) * 60 + PyDateTime_DATE_GET_MINUTE(value)
        ) * 60 + PyDateTime_DATE_GET_SECOND(value)
        return put_moment(field, seconds, PyDateTime_DATE_GET_MICROSECOND(value), out)
    elif form == FORM_BOOL:
        if value is not True and value is not False:
            return OTHER
        out[0] = value is True
        return WRITTEN
    elif form == FORM_RAW:
        if not PyBytes_CheckExact(value):
            return OTHER
        if <size_t>PyBytes_GET_SIZE(value) != field.width:
            return NO_KEY
        memcpy(out, PyBytes_AS_STRING(value), field.width)
        return WRITTEN
    elif form == FORM_DECIMAL:
        return put_decimal(field, value, out) if type(value) is DECIMAL else OTHER
    elif form == FORM_TIME:
        if not PyTime_CheckExact(value) or time_tzinfo(value) is not None:
            return OTHER
        seconds = (
            PyDateTime_TIME_GET_HOUR(value) * 60 + PyDateTime_TIME_GET_MINUTE(value)
        ) * 60 + PyDateTime_TIME_GET_SECOND(value)
        return put_moment(field, seconds, PyDateTime_TIME_GET_MICROSECOND(value), out)
    elif form == FORM_DURATION:
        if not PyDelta_CheckExact(value):
            return OTHER
        seconds = (
            <int64_t>PyDateTime_DELTA_GET_DAYS(value) * DAY + PyDateTime_DELTA_GET_SECONDS(value)
        )
        return put_moment(field, seconds, PyDateTime_DELTA_GET_MICROSECONDS(value), out)
    return OTHER


cdef inline void put_big(uint64_t number, size_t width, uint8_t *out) noexcept nogil:
    cdef size_t i
    for i in range(width):
        out[i] = <uint8_t>(number >> (8 * (width - 1 - i)))


cdef inline Outcome put_number(const Field *field, int64_t number, uint8_t *out) noexcept nogil:
    """Write a signed number as big-endian bytes with the sign bit inverted."""
    cdef size_t width = field.width
    if number < field.least or number > <int64_t>field.most:
        return NO_KEY
    while width > 8:  # decimals have more bytes
        width -= 1
        out[0] = 0xFF if number < 0 else 0
        out += 1
    put_big(<uint64_t>number, width, out)
    (out - (field.width - width))[0] ^= 0x80
    return WRITTEN


cdef inline Outcome put_moment(
        const Field *field, int64_t seconds, int64_t micros, uint8_t *out) noexcept nogil:
    """Write seconds and microseconds as ticks; fail if they are not a whole number of ticks."""
    cdef int64_t ticks = field.ticks, more
    if seconds > MOST // ticks - 1 or seconds < LEAST // ticks + 1:
        return OTHER  # close to the limits of the type
    if ticks >= 1_000_000:
        more = micros * (ticks // 1_000_000)
    elif micros % (1_000_000 // ticks):
        return NO_KEY
    else:
        more = micros // (1_000_000 // ticks)
    return put_number(field, seconds * ticks + more, out)


cdef inline Outcome put_float(const Field *field, object value, uint8_t *out) noexcept:
    """Write a float like `ls_keys.c`: -0.0 as 0.0, all NaNs as one, greater numbers later."""
    cdef double number = PyFloat_AS_DOUBLE(value)
    cdef float narrow
    cdef uint64_t bits = 0, sign
    cdef uint32_t short_bits
    if number == 0:
        number = 0.0
    if field.width == 8:
        sign = <uint64_t>1 << 63
        memcpy(&bits, &number, 8)
        if number != number:
            bits = <uint64_t>0x7FF8 << 48
    else:
        sign = <uint64_t>1 << 31
        narrow = <float>number
        if number == number and <double>narrow != number:
            return NO_KEY
        memcpy(&short_bits, &narrow, 4)
        bits = short_bits if number == number else 0x7FC00000
    if bits & sign:
        bits = ~bits
    else:
        bits |= sign
    put_big(bits, field.width, out)
    return WRITTEN


cdef Outcome put_decimal(const Field *field, object value, uint8_t *out) except? OTHER:
    """Write a decimal as a number of units of the last digit of the field."""
    cdef int64_t number = 0
    cdef Py_ssize_t shift
    sign, digits, exponent = value.as_tuple()
    if not PyLong_CheckExact(exponent) or len(digits) > MOST_DIGITS:
        return OTHER
    for digit in digits:
        number = 10 * number + <int64_t>digit
    if number == 0:
        return put_number(field, 0, out)
    if not -1000 < exponent < 1000:
        return OTHER
    shift = exponent + field.scale
    if shift > 0:
        if shift > <Py_ssize_t>(MOST_DIGITS - len(digits)):
            return OTHER
        number *= POWERS[shift]
    elif shift < 0:
        if shift < -MOST_DIGITS or number % POWERS[-shift]:
            return NO_KEY
        number //= POWERS[-shift]
    return put_number(field, -number if sign else number, out)


cdef size_t escape(const uint8_t *data, size_t length, uint8_t *out) noexcept nogil:
    cdef size_t i, used = 0
    for i in range(length):
        out[used] = data[i]
        used += 1
        if data[i] == 0:
            out[used] = 0xFF
            used += 1
    out[used] = out[used + 1] = 0
    return used + 2


cdef inline int64_t days_of(object value) noexcept:
    """Return the days from 1970 to a date, using years that begin in March, after leap days."""
    cdef int64_t year = PyDateTime_GET_YEAR(value)
    cdef int64_t month = PyDateTime_GET_MONTH(value)
    if month <= 2:
        year -= 1
        month += 12
    return (365 * year + year // 4 - year // 100 + year // 400
            + (153 * (month - 3) + 2) // 5 + PyDateTime_GET_DAY(value) - 719_469)
