/* Rows that need nothing special. `Columns.record` takes rows of series as columns, `Columns.ingest` the bytes of batches,
   with rows of any kind. Both leave what the Python beside them leaves, to the last bit; see kinds.h.

   If Python would do anything else with a row (drop it, keep it until its id is known, meet a new series, or the first
   fraction of one, count a value outside its range, split a sum that reaches too far), the first pass says no, and
   nothing has changed. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "batches.h"

#define MOST_PAGES (1 << 24) /* 32 bits tell their counts apart */

#ifndef SOURCE_CRC
#define SOURCE_CRC 0u
#endif

/* --- columns, held as long as they are in use ---------------------------------------------------------------------- */

enum { SERIES_COLUMNS = 12, COUNTER_COLUMNS = 3, TIME_COLUMNS = 3, GAUGE_COLUMNS = 6, ROW_COLUMNS = 2 };
enum { MOST_HELD = SERIES_COLUMNS + COUNTER_COLUMNS + GAUGE_COLUMNS + 2 * TIME_COLUMNS + KINDS + ROW_COLUMNS };

typedef struct {
    PyObject_HEAD
    Py_buffer held[MOST_HELD];
    int held_count;
    Tables tables;
} Columns;

/* The items of a column; lowers `shortest` to their number. NULL with an exception set if it is refused, or one was. */
static void *hold(Columns *self, PyObject *argument, Py_ssize_t width, int flags, uint64_t *shortest)
{
    Py_buffer *column = &self->held[self->held_count];
    if (PyErr_Occurred() || PyObject_GetBuffer(argument, column, PyBUF_ND | flags) < 0)
        return NULL;
    self->held_count++;
    if (column->itemsize != width) {
        PyErr_Format(PyExc_TypeError, "a column has items of %zd bytes, not %zd", column->itemsize, width);
        return NULL;
    }
    if ((uint64_t)(column->len / width) < *shortest)
        *shortest = (uint64_t)(column->len / width);
    return column->buf;
}

static void let_go(Columns *self, int count)
{
    while (self->held_count > count)
        PyBuffer_Release(&self->held[--self->held_count]);
}

static void refuse(const char *message)
{
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, message);
}

/* The items of a tuple of so many. NULL if it is None, or with an exception set if it is anything else. */
static PyObject *const *items(PyObject *argument, Py_ssize_t count)
{
    if (argument == Py_None)
        return NULL;
    if (PyTuple_Check(argument) && PyTuple_GET_SIZE(argument) == count)
        return PySequence_Fast_ITEMS(argument);
    PyErr_Format(PyExc_TypeError, "expected a tuple of %zd", count);
    return NULL;
}

static void hold_series(Columns *self, PyObject *const *of)
{
    Series *series = &self->tables.series;
    uint64_t size = MOST_PAGES, keys = UINT32_MAX, slots = UINT32_MAX, pages = MOST_PAGES;
    series->shift = hold(self, of[0], 8, 0, &size);
    series->sums = hold(self, of[1], 16, PyBUF_WRITABLE, &size);
    series->least = hold(self, of[2], 8, PyBUF_WRITABLE, &size);
    series->most = hold(self, of[3], 8, PyBUF_WRITABLE, &size);
    series->integral = hold(self, of[4], 1, 0, &size);
    const double *scale = hold(self, of[5], 8, 0, &size), *highest_tick = hold(self, of[6], 8, 0, &size);
    series->table = hold(self, of[7], 8, 0, &keys);
    series->fresh = hold(self, of[8], 4, PyBUF_WRITABLE, &slots);
    series->fresh_sums = hold(self, of[9], 8, PyBUF_WRITABLE, &pages);
    int64_t pages_per_row = PyErr_Occurred() ? 0 : PyLong_AsLongLong(of[10]);
    long half_bits = PyErr_Occurred() ? 0 : PyLong_AsLong(of[11]);
    if (PyErr_Occurred() || half_bits < 1 || half_bits > 40) {
        refuse("columns that don't fit together");
        return;
    }
    series->linear = (double)(INT64_C(1) << half_bits);
    series->slot_shift = MANTISSA_BITS - half_bits;
    series->slot_offset = (int64_t)(EXPONENT_BIAS + half_bits - 1) << half_bits;
    if (pages_per_row <= (int64_t)(slot_of(series, FIRST_WHOLE) >> PAGE_BITS)) {
        refuse("columns that don't fit together");
        return;
    }
    pages = slots / PAGE_SLOTS < pages ? slots / PAGE_SLOTS : pages;
    series->last_page = pages > 0 ? pages - 1 : 0;
    size = keys / (uint64_t)pages_per_row < size ? keys / (uint64_t)pages_per_row : size;
    series->ranges = PyMem_New(Range, size);
    if (series->ranges == NULL) {
        PyErr_NoMemory();
        return;
    }
    series->size = size;
    for (uint64_t row = 0; row < size; row++) {
        double highest = highest_tick[row] <= FIRST_WHOLE ? highest_tick[row] : FIRST_WHOLE;
        series->ranges[row] = (Range){scale[row], highest, row * (uint64_t)pages_per_row << PAGE_BITS};
    }
}

static void hold_counters(Columns *self, PyObject *const *of)
{
    Counters *counters = &self->tables.counters;
    uint64_t size = UINT32_MAX;
    counters->whole = hold(self, of[0], 8, PyBUF_WRITABLE, &size);
    counters->events = hold(self, of[1], 8, PyBUF_WRITABLE, &size);
    counters->increase = hold(self, of[2], 8, PyBUF_WRITABLE, &size);
    counters->size = size;
}

static void hold_times(Columns *self, PyObject *const *of, unsigned kind, uint64_t *size)
{
    Times *times = &self->tables.times[kind];
    times->first = hold(self, of[0], 8, PyBUF_WRITABLE, size);
    times->last = hold(self, of[1], 8, PyBUF_WRITABLE, size);
    times->duration_ns = hold(self, of[2], 8, 0, size);
}

static void hold_gauges(Columns *self, PyObject *const *of)
{
    Gauges *gauges = &self->tables.gauges;
    uint64_t size = UINT32_MAX;
    gauges->value = hold(self, of[0], 8, PyBUF_WRITABLE, &size);
    gauges->least = hold(self, of[1], 8, PyBUF_WRITABLE, &size);
    gauges->most = hold(self, of[2], 8, PyBUF_WRITABLE, &size);
    gauges->time = hold(self, of[3], 8, PyBUF_WRITABLE, &size);
    gauges->events = hold(self, of[4], 8, PyBUF_WRITABLE, &size);
    gauges->touched = hold(self, of[5], 1, PyBUF_WRITABLE, &size);
    gauges->size = size;
}

static void hold_watched(Columns *self, PyObject *const *of)
{
    for (int kind = 0; kind < KINDS; kind++) {
        self->tables.watched_size[kind] = UINT32_MAX;
        self->tables.watched[kind] = hold(self, of[kind], 1, 0, &self->tables.watched_size[kind]);
    }
}

static PyObject *columns_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names))
{
    PyObject *series, *counters, *gauges, *watched, *series_times, *counter_times, *const *of;
    if (!PyArg_ParseTuple(arguments, "OOOOOO", &series, &counters, &gauges, &watched, &series_times, &counter_times))
        return NULL;
    Columns *self = (Columns *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    if ((of = items(series, SERIES_COLUMNS)) != NULL)
        hold_series(self, of);
    if (!PyErr_Occurred() && (of = items(counters, COUNTER_COLUMNS)) != NULL)
        hold_counters(self, of);
    if (!PyErr_Occurred() && (of = items(gauges, GAUGE_COLUMNS)) != NULL)
        hold_gauges(self, of);
    if (!PyErr_Occurred() && (of = items(watched, KINDS)) != NULL)
        hold_watched(self, of);
    if (!PyErr_Occurred() && (of = items(series_times, TIME_COLUMNS)) != NULL)
        hold_times(self, of, SERIES, &self->tables.series.size);
    if (!PyErr_Occurred() && (of = items(counter_times, TIME_COLUMNS)) != NULL)
        hold_times(self, of, COUNTER, &self->tables.counters.size);
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void columns_dealloc(Columns *self)
{
    PyTypeObject *type = Py_TYPE(self);
    let_go(self, 0);
    PyMem_Free(self->tables.series.ranges);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* --- rows of series as columns ------------------------------------------------------------------------------------- */

static double record_rows(const Series *series, const int64_t *index, const double *value, int64_t rows,
                          uint32_t *places, double reached)
{
    double highest = 0.0, shifts = 0.0;
    uint64_t slot;
    for (int64_t row = 0; row < rows; row++)
        if (!look_at_series(series, (uint64_t)index[row], value[row], &slot, &highest, &shifts) ||
            look_at_page(series, slot, &places[row]) != USUAL)
            return -1.0;
    reached = reach_on(reached, rows, highest, shifts);
    for (int64_t row = 0; reached >= 0.0 && row < rows; row++) {
        if (row + AHEAD < rows)
            fetch(&series->fresh[places[row + AHEAD]]);
        add_to_series(series, (uint64_t)index[row], value[row], places[row]);
    }
    return reached;
}

static PyObject *record(Columns *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "record takes 3 arguments, not %zd", count);
    double reached = PyFloat_AsDouble(arguments[2]);
    uint32_t *places = NULL;
    int before = self->held_count;
    uint64_t rows = INT32_MAX, values = INT32_MAX;
    const int64_t *index = hold(self, arguments[0], 8, 0, &rows);
    const double *value = hold(self, arguments[1], 8, 0, &values);
    if (rows != values)
        refuse("columns that don't fit together");
    else if (!PyErr_Occurred() && (places = PyMem_New(uint32_t, rows)) == NULL)
        PyErr_NoMemory();
    else if (!PyErr_Occurred())
        reached = record_rows(&self->tables.series, index, value, (int64_t)rows, places, reached);
    PyMem_Free(places);
    let_go(self, before);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(reached);
}

/* --- rows of batches ----------------------------------------------------------------------------------------------- */

/* Keys of missing pages, a list for each chunk of series, whose pages are allocated at once. */
static PyObject *missing_pages(const Call *call)
{
    PyObject *chunks = PyList_New(0), *keys = NULL;
    int64_t values = 0;
    for (const Row *row = call->looked_at; chunks != NULL && row < call->looked_at + call->rows; row++) {
        if (kind_of(row) == SERIES && values++ % call->chunk == 0) {
            keys = PyList_New(0);
            if (keys == NULL || PyList_Append(chunks, keys) < 0)
                Py_CLEAR(chunks);
            Py_XDECREF(keys); /* the list of chunks has it */
        }
        if (chunks != NULL && row->route & LACKS_PAGE) {
            PyObject *key = PyLong_FromUnsignedLong(row->place);
            if (key == NULL || PyList_Append(keys, key) < 0)
                Py_CLEAR(chunks);
            Py_XDECREF(key);
        }
    }
    return chunks;
}

/* The watched rows of a kind as bytes of columns: index, value and time, and the number of them in each part. None if
   there are none. */
static PyObject *watched_columns(const Call *call, unsigned kind)
{
    if (!call->watched[kind])
        Py_RETURN_NONE;
    Py_ssize_t size = call->watched[kind] * 8;
    PyObject *columns = Py_BuildValue(
        "(NNNN)", PyBytes_FromStringAndSize(NULL, size), PyBytes_FromStringAndSize(NULL, size),
        PyBytes_FromStringAndSize(NULL, size), PyBytes_FromStringAndSize(NULL, (call->end - call->parts) * 8));
    if (columns == NULL)
        return NULL;
    char *to[4];
    for (int column = 0; column < 4; column++)
        to[column] = PyBytes_AS_STRING(PyTuple_GET_ITEM(columns, column));
    const Row *row = call->looked_at;
    for (const Part *part = call->parts; part < call->end; part++, to[3] += 8) {
        int64_t rows = 0;
        for (int64_t at = 0; at < part->count; at++, row++) {
            if (kind_of(row) != kind || !(row->route & IS_WATCHED))
                continue;
            int64_t index = index_of(row);
            uint64_t time = integer_at(part->rows + at * ROW_BYTES + TIME_AT);
            memcpy(to[0], &index, 8);
            memcpy(to[1], &row->value, 8);
            memcpy(to[2], &time, 8);
            for (int column = 0; column < 3; column++)
                to[column] += 8;
            rows++;
        }
        memcpy(to[3], &rows, 8);
    }
    return columns;
}

static PyObject *watched_rows(const Call *call)
{
    if (!call->watched[SERIES] && !call->watched[COUNTER] && !call->watched[GAUGE])
        Py_RETURN_NONE;
    return Py_BuildValue("(NNN)", watched_columns(call, SERIES), watched_columns(call, COUNTER),
                         watched_columns(call, GAUGE));
}

static PyObject *look_and_add(const Tables *tables, Call *call)
{
    PyObject *result = NULL;
    call->looked_at = PyMem_New(Row, call->rows + AHEAD);
    int64_t *sums = PyMem_Calloc(tables->counters.size, sizeof *sums);
    if (call->looked_at == NULL || sums == NULL) {
        PyErr_NoMemory();
    } else if (!look(tables, call)) {
        result = Py_NewRef(Py_None);
    } else if (call->missing) {
        result = missing_pages(call);
    } else {
        memset(call->looked_at + call->rows, 0, AHEAD * sizeof(Row));
        result = Py_BuildValue("(LdN)", (long long)call->values, call->reached, watched_rows(call));
        if (result != NULL)
            add(tables, call, sums);
    }
    PyMem_Free(sums);
    PyMem_Free(call->looked_at);
    return result;
}

typedef struct {
    Py_buffer body, entries;
} PartBuffers;

/* Returns 0 with an exception set, and holds nothing, if these are no rows. */
static int hold_part(PyObject *argument, Part *part, PartBuffers *buffers)
{
    PyObject *const *of = items(argument, 4);
    if (of == NULL) {
        refuse("no rows");
        return 0;
    }
    part->offset = PyLong_AsLongLong(of[2]);
    part->made = PyErr_Occurred() ? 0 : PyLong_AsLongLong(of[3]);
    if (PyErr_Occurred() || PyObject_GetBuffer(of[0], &buffers->body, PyBUF_SIMPLE) < 0)
        return 0;
    if (PyObject_GetBuffer(of[1], &buffers->entries, PyBUF_ND) < 0) {
        PyBuffer_Release(&buffers->body);
        return 0;
    }
    Py_ssize_t entries = buffers->entries.len / 4;
    if (buffers->body.len % ROW_BYTES || buffers->entries.itemsize != 4 || entries < 2) {
        PyBuffer_Release(&buffers->body);
        PyBuffer_Release(&buffers->entries);
        refuse("rows or ids that are none");
        return 0;
    }
    part->rows = buffers->body.buf;
    part->count = buffers->body.len / ROW_BYTES;
    part->routes = (const int32_t *)buffers->entries.buf + 1; /* the first is for ids that are invalid */
    part->ids = (uint64_t)entries - 2;                        /* the last is for ids that are not bound */
    return 1;
}

static PyObject *ingest_parts(const Tables *tables, PyObject *list, Call *call)
{
    Py_ssize_t count = PyList_GET_SIZE(list), held = 0;
    PyObject *result = NULL;
    call->parts = PyMem_New(Part, count);
    PartBuffers *buffers = PyMem_New(PartBuffers, count);
    if (call->parts == NULL || buffers == NULL)
        PyErr_NoMemory();
    while (!PyErr_Occurred() && held < count && hold_part(PyList_GET_ITEM(list, held), &call->parts[held], &buffers[held]))
        call->rows += call->parts[held++].count;
    call->end = call->parts + held;
    if (!PyErr_Occurred())
        result = look_and_add(tables, call);
    while (held-- > 0) {
        PyBuffer_Release(&buffers[held].body);
        PyBuffer_Release(&buffers[held].entries);
    }
    PyMem_Free(buffers);
    PyMem_Free(call->parts);
    return result;
}

static PyObject *ingest(Columns *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 5)
        return PyErr_Format(PyExc_TypeError, "ingest takes 5 arguments, not %zd", count);
    Call call = {.now = PyLong_AsLongLong(arguments[1])};
    call.reached = PyErr_Occurred() ? 0.0 : PyFloat_AsDouble(arguments[2]);
    call.chunk = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[3]);
    call.exact_addend = PyErr_Occurred() ? 0.0 : PyFloat_AsDouble(arguments[4]);
    if (PyErr_Occurred())
        return NULL;
    if (call.chunk < 1 || !PyList_Check(arguments[0]))
        return PyErr_Format(PyExc_ValueError, "no list of rows, or no chunk");
    return ingest_parts(&self->tables, arguments[0], &call);
}

/* --- the module ---------------------------------------------------------------------------------------------------- */

static PyObject *find_rows(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Py_buffer data;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "find_rows takes 2 arguments, not %zd", count);
    Py_ssize_t begin = PyLong_AsSsize_t(arguments[1]);
    if (PyErr_Occurred() || PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    int64_t start = begin < 0 ? -1 : find(data.buf, data.len, begin);
    PyBuffer_Release(&data);
    return PyLong_FromLongLong(start);
}

static PyMethodDef columns_methods[] = {
    {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL, NULL},
    {"ingest", (PyCFunction)(void (*)(void))ingest, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_new, columns_new},
    {Py_tp_dealloc, columns_dealloc},
    {Py_tp_methods, columns_methods},
    {0, NULL},
};

static PyType_Spec columns_spec = {
    .name = "telemetry.aggregator._compiled.Columns",
    .basicsize = sizeof(Columns),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = columns_slots,
};

static PyMethodDef methods[] = {
    {"find_rows", (PyCFunction)(void (*)(void))find_rows, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module)
{
    PyObject *crc = PyLong_FromUnsignedLong(SOURCE_CRC), *type = PyType_FromSpec(&columns_spec);
    int failed = crc == NULL || type == NULL || PyModule_AddObjectRef(module, "SOURCE_CRC", crc) < 0 ||
                 PyModule_AddObjectRef(module, "Columns", type) < 0;
    Py_XDECREF(crc);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_compiled", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&definition); }
