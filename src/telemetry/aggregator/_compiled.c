/* Rows of series that need nothing special, in two passes: one only looks, the other adds them up.

   Together they do what Moments.record, TickColumns.slots and PagedCounts.add do, in the same order and with the same
   roundings; what the columns mean is said there. If one of those would do anything else with a row (meet a new series,
   or the first fraction of one, count a value outside its range, allocate a page, split a sum that reaches too far), the
   first pass says no, and nothing has changed. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if SIZE_MAX != UINT64_MAX
#error "an index of numpy has 64 bits here"
#endif

#define PAGE_BITS 8
#define PAGE_SLOTS (1 << PAGE_BITS)
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#define FIRST_WHOLE 4503599627370496.0 /* 2**52: from here on a double has no fraction */
#define FIRST_GAP 9007199254740992.0   /* 2**53: from here on some integers are no doubles */

#ifndef SOURCE_CRC
#define SOURCE_CRC 0u
#endif

enum { INDEX, VALUE, SHIFT, SUMS, LEAST, MOST, INTEGRAL, SCALE, HIGHEST_TICK, TABLE, FRESH, FRESH_SUMS, COLUMNS };
enum { PAGES_PER_ROW = COLUMNS, HALF_BITS, REACHED, ARGUMENTS };

typedef struct {
    Py_ssize_t width;
    int written;
} Kind;

static const Kind KINDS[COLUMNS] = {
    [INDEX] = {8, 0}, [VALUE] = {8, 0},        [SHIFT] = {8, 0}, [SUMS] = {16, 1},
    [LEAST] = {8, 1}, [MOST] = {8, 1},         [INTEGRAL] = {1, 0}, [SCALE] = {8, 0},
    [HIGHEST_TICK] = {8, 0}, [TABLE] = {8, 0}, [FRESH] = {4, 1}, [FRESH_SUMS] = {8, 1},
};

typedef struct {
    Py_buffer columns[COLUMNS];
    Py_ssize_t rows, series, keys, pages;
    int64_t pages_per_row;
    long half_bits;
    double reached;
} Call;

/* Of 0 to 2**52, as rint rounds it. */
static double whole(double number) { return (number + FIRST_WHOLE) - FIRST_WHOLE; }

static int is_fraction(double number) { return number < FIRST_WHOLE && whole(number) != number; }

/* As Layout.slot_of_whole. */
static int64_t slot_of(double ticks, long half_bits)
{
    int64_t bits, offset = (int64_t)(EXPONENT_BIAS + half_bits - 1) << half_bits;
    memcpy(&bits, &ticks, sizeof bits);
    int64_t slot = (bits >> (MANTISSA_BITS - half_bits)) - offset;
    int narrow = ticks < (double)((int64_t)1 << half_bits);
    return narrow && slot < (int64_t)ticks ? (int64_t)ticks : slot;
}

/* How far sums of the deviations reach at most; -1 if a row needs something special. A negative zero does: which of two
   zeros is the least is numpy's to say. */
static double look(const Call *call, int64_t *places)
{
    const int64_t *index = call->columns[INDEX].buf, *table = call->columns[TABLE].buf;
    const double *value = call->columns[VALUE].buf, *shift = call->columns[SHIFT].buf;
    const double *scale = call->columns[SCALE].buf, *highest_tick = call->columns[HIGHEST_TICK].buf;
    const char *integral = call->columns[INTEGRAL].buf;
    double highest = 0.0;
    for (Py_ssize_t row = 0; row < call->rows; row++) {
        int64_t of = index[row];
        if (of < 0 || of >= call->series || shift[of] != shift[of])
            return -1.0;
        double number = value[row], ticks = number * scale[of];
        int is_zero = number == 0.0 && !signbit(number);
        int in_range = (ticks >= 1.0 || is_zero) && ticks <= highest_tick[of] && ticks <= FIRST_WHOLE;
        if (!in_range || (integral[of] && is_fraction(number)))
            return -1.0;
        int64_t slot = slot_of(whole(ticks), call->half_bits);
        int64_t key = of * call->pages_per_row + slot / PAGE_SLOTS;
        if (key >= call->keys || table[key] <= 0 || table[key] >= call->pages)
            return -1.0;
        places[row] = table[key] * PAGE_SLOTS + slot % PAGE_SLOTS;
        highest = number > highest ? number : highest;
        highest = shift[of] > highest ? shift[of] : highest;
    }
    double reach = (double)call->rows * highest;
    return call->reached >= 0.0 && call->reached + reach < FIRST_GAP ? reach : -1.0;
}

static void add(const Call *call, const int64_t *places)
{
    const int64_t *index = call->columns[INDEX].buf;
    const double *value = call->columns[VALUE].buf, *shift = call->columns[SHIFT].buf;
    double *sums = call->columns[SUMS].buf, *least = call->columns[LEAST].buf, *most = call->columns[MOST].buf;
    uint32_t *fresh = call->columns[FRESH].buf;
    int64_t *fresh_sums = call->columns[FRESH_SUMS].buf;
    for (Py_ssize_t row = 0; row < call->rows; row++) {
        int64_t of = index[row];
        double number = value[row], deviation = number - shift[of];
        sums[2 * of] += deviation;
        sums[2 * of + 1] += deviation * deviation;
        if (number < least[of])
            least[of] = number;
        if (number > most[of])
            most[of] = number;
        fresh[places[row]]++;
        fresh_sums[places[row] / PAGE_SLOTS]++;
    }
}

static Py_ssize_t length(const Call *call, int column) { return call->columns[column].len / KINDS[column].width; }

static Py_ssize_t shortest(const Call *call, int first, int last)
{
    Py_ssize_t least = length(call, first);
    for (int column = first + 1; column <= last; column++)
        least = length(call, column) < least ? length(call, column) : least;
    return least;
}

static PyObject *look_and_add(Call *call)
{
    call->rows = length(call, INDEX);
    call->keys = length(call, TABLE);
    call->series = shortest(call, SHIFT, HIGHEST_TICK);
    call->pages = length(call, FRESH) / PAGE_SLOTS;
    if (length(call, FRESH_SUMS) < call->pages)
        call->pages = length(call, FRESH_SUMS);
    if (length(call, VALUE) != call->rows || call->half_bits < 1 || call->half_bits > 40 || call->pages_per_row < 1)
        return PyErr_Format(PyExc_ValueError, "columns that don't fit together");
    if (call->keys / call->pages_per_row < call->series)
        call->series = call->keys / call->pages_per_row;
    int64_t *places = PyMem_New(int64_t, call->rows);
    if (places == NULL)
        return PyErr_NoMemory();
    double reach = look(call, places);
    if (reach >= 0.0)
        add(call, places);
    PyMem_Free(places);
    return PyFloat_FromDouble(reach);
}

static int hold(Py_buffer *column, PyObject *argument, const Kind *kind)
{
    if (PyObject_GetBuffer(argument, column, kind->written ? PyBUF_ND | PyBUF_WRITABLE : PyBUF_ND) < 0)
        return 0;
    if (column->itemsize == kind->width)
        return 1;
    PyErr_Format(PyExc_TypeError, "a column has items of %zd bytes, not %zd", column->itemsize, kind->width);
    PyBuffer_Release(column);
    return 0;
}

static PyObject *record(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Call call;
    if (count != ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "record takes %d arguments, not %zd", ARGUMENTS, count);
    call.pages_per_row = PyLong_AsLongLong(arguments[PAGES_PER_ROW]);
    call.half_bits = PyLong_AsLong(arguments[HALF_BITS]);
    call.reached = PyFloat_AsDouble(arguments[REACHED]);
    if (PyErr_Occurred())
        return NULL;
    PyObject *reach = NULL;
    int held = 0;
    while (held < COLUMNS && hold(&call.columns[held], arguments[held], &KINDS[held]))
        held++;
    if (held == COLUMNS)
        reach = look_and_add(&call);
    while (held > 0)
        PyBuffer_Release(&call.columns[--held]);
    return reach;
}

static PyMethodDef methods[] = {
    {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int say_source(PyObject *module)
{
    PyObject *crc = PyLong_FromUnsignedLong(SOURCE_CRC);
    int failed = crc == NULL || PyModule_AddObjectRef(module, "SOURCE_CRC", crc) < 0;
    Py_XDECREF(crc);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, say_source}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_compiled", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&definition); }
