/* The ring of a process as an object of Python: how rows come. take.c has how they leave.

   Everything here holds the GIL, except that new slots are allocated without it. Meanwhile other threads may record, but
   nobody moves `taken`, the capacity or the memory. */

#define _GNU_SOURCE
#include "ring_object.h"

#include <sys/mman.h>

#define ON_STACK 128

Control *ring_control(Ring *ring) { return ring->control; }

/* --- rows come ----------------------------------------------------------------------------------- */

/* Whether there is room for this many rows, with at most `bound` waiting. */
static int make_room(Ring *ring, uint64_t rows, uint64_t bound)
{
    Control *control = ring->control;
    while (would_keep_more(ring) && control->head - ring->acknowledged + rows > capacity_of(control))
        ring_grow(ring, 0);
    while (control->head - control->taken + rows > capacity_of(control))
        if (control->shared == NULL || !ring_grow(ring, 1))
            return 0;
    ring_update_limit(ring);
    return control->head - control->taken + rows <= bound;
}

int ring_has_room(Ring *ring, uint64_t rows)
{
    Control *control = ring->control;
    return control->live && (control->limit - control->head >= rows || make_room(ring, rows, ring->bound));
}

static int count_dropped(Ring *ring, PyObject *rows)
{
    Py_ssize_t numbers = PySequence_Size(rows);
    if (numbers < 0)
        return -1;
    ring_count(ring, BUFFER_FULL, (uint64_t)numbers / 3);
    return 0;
}

/* What becomes of rows that don't go into the ring, or find no room there. */
static int hand_over(Ring *ring, PyObject *rows)
{
    PyObject *target = ring->control->live ? ring->on_full : ring->target;
    if (target == NULL)
        return ring->control->live ? count_dropped(ring, rows) : 0;
    Py_INCREF(target);
    PyObject *done = PyObject_CallOneArg(target, rows);
    Py_DECREF(target);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int put_row_slowly(Ring *ring, double id, uint64_t time, double value)
{
    if (ring_has_room(ring, 1)) {
        put_row(ring->control, id, time, value);
        return 0;
    }
    if (!ring->control->live && ring->target == NULL)
        return 0;
    PyObject *rows = Py_BuildValue("(dKd)", id, (unsigned long long)time, value);
    int failed = rows == NULL ? -1 : hand_over(ring, rows);
    Py_XDECREF(rows);
    return failed;
}

int ring_put_row(Ring *ring, double id, uint64_t time, double value)
{
    Control *control = ring->control;
    if (unlikely(control->head == control->limit))
        return put_row_slowly(ring, id, time, value);
    put_row(control, id, time, value);
    return 0;
}

/* Flat rows as slots, in `here` if they fit, else in new memory. NULL with an exception. */
static Slot *read_rows(PyObject *rows, Slot *here, Py_ssize_t *count)
{
    PyObject *flat = PySequence_Fast(rows, "rows must be a sequence");
    if (flat == NULL)
        return NULL;
    *count = PySequence_Fast_GET_SIZE(flat) / 3;
    Slot *slots = *count <= ON_STACK ? here : PyMem_New(Slot, *count);
    if (slots == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t row = 0; slots != NULL && row < *count; row++) {
        slots[row].id = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(flat, 3 * row));
        slots[row].value = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(flat, 3 * row + 2));
        if (PyErr_Occurred() || read_time(PySequence_Fast_GET_ITEM(flat, 3 * row + 1), &slots[row].time) < 0) {
            if (slots != here)
                PyMem_Free(slots);
            slots = NULL;
        }
    }
    Py_DECREF(flat);
    return slots;
}

static int write_rows(Ring *ring, PyObject *rows, uint64_t bound)
{
    Slot here[ON_STACK];
    Py_ssize_t count;
    Slot *slots = read_rows(rows, here, &count);
    if (slots == NULL)
        return -1;
    int has_room = make_room(ring, (uint64_t)count, bound);
    if (has_room && count > 0) {
        Control *control = ring->control;
        uint64_t at = begin_rows(control, (uint64_t)count);
        for (Py_ssize_t row = 0; row < count; row++, at++)
            write_row(control, at, slots[row].id, slots[row].time, slots[row].value);
        commit_rows(control, at);
        if (control->head > control->limit)
            ring_update_limit(ring); /* rows that `extend` puts beyond the bound, or while nothing is recorded */
    }
    if (slots != here)
        PyMem_Free(slots);
    return has_room;
}

int ring_put_rows(Ring *ring, PyObject *rows)
{
    if (!ring->control->live)
        return hand_over(ring, rows);
    int written = write_rows(ring, rows, ring->bound);
    return written == 0 ? hand_over(ring, rows) : written < 0 ? -1 : 0;
}

int ring_refuse(Ring *ring)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear();
    ring_count(ring, NOT_A_NUMBER, 1);
    return 0;
}

static PyObject *ring_put(Ring *ring, PyObject *rows)
{
    if (ring_put_rows(ring, rows) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Into the ring whatever the target is, and beyond the bound while there is memory. */
static PyObject *ring_extend(Ring *ring, PyObject *rows)
{
    if (ring_ensure_memory(ring) < 0)
        return NULL;
    int written = write_rows(ring, rows, UINT64_MAX);
    if (written < 0 || (!written && count_dropped(ring, rows) < 0))
        return NULL;
    Py_RETURN_NONE;
}

static int is_extend(const Ring *ring, PyObject *target)
{
    return PyCFunction_Check(target) && PyCFunction_GET_SELF(target) == (PyObject *)ring &&
           PyCFunction_GET_FUNCTION(target) == (PyCFunction)ring_extend;
}

static PyObject *ring_install(Ring *ring, PyObject *const *arguments, Py_ssize_t count)
{
    if (count < 1 || count > 2)
        return PyErr_Format(PyExc_TypeError, "install(target, on_full=None)");
    PyObject *target = arguments[0] == Py_None ? NULL : arguments[0];
    PyObject *on_full = count < 2 || arguments[1] == Py_None ? NULL : arguments[1];
    int live = target != NULL && is_extend(ring, target);
    ring_forget_parent(ring);
    if (live && ring_ensure_memory(ring) < 0)
        return NULL;
    PyObject *target_before = ring->target, *on_full_before = ring->on_full;
    ring->target = live ? NULL : Py_XNewRef(target);
    ring->on_full = Py_XNewRef(on_full);
    ring->control->live = (uint64_t)live;
    ring_update_limit(ring);
    Py_XDECREF(target_before); /* last: their end may run any code */
    Py_XDECREF(on_full_before);
    Py_RETURN_NONE;
}

static PyObject *ring_hold(Ring *ring, PyObject *argument)
{
    unsigned long long bound = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    ring_forget_parent(ring);
    ring->bound = bound;
    ring_update_limit(ring);
    Py_RETURN_NONE;
}

/* --- life ----------------------------------------------------------------------------------------- */

static PyObject *ring_new(PyTypeObject *type, PyObject *Py_UNUSED(arguments), PyObject *Py_UNUSED(names))
{
    Ring *ring = (Ring *)type->tp_alloc(type, 0);
    if (ring == NULL)
        return NULL;
    ring->descriptor = -1;
    ring->bound = 1000000;
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        Py_DECREF(ring);
        return PyErr_NoMemory();
    }
#ifdef MADV_WIPEONFORK
    ring->is_wiped = madvise(page, PAGE_BYTES, MADV_WIPEONFORK) == 0;
#endif
    ring->control = page;
    return (PyObject *)ring;
}

static int ring_traverse(Ring *ring, visitproc visit, void *arg)
{
    Py_VISIT(ring->target);
    Py_VISIT(ring->on_full);
    return 0;
}

static int ring_clear_references(Ring *ring)
{
    Py_CLEAR(ring->target);
    Py_CLEAR(ring->on_full);
    return 0;
}

static void ring_dealloc(Ring *ring)
{
    PyObject_GC_UnTrack(ring);
    ring_clear_references(ring);
    if (ring->control != NULL) {
        ring_release_memory(ring);
        munmap(ring->control, PAGE_BYTES);
    }
    Py_TYPE(ring)->tp_free((PyObject *)ring);
}

/* --- the type ------------------------------------------------------------------------------------ */

static PyObject *ring_is_file(Ring *ring, void *Py_UNUSED(none))
{
    ring_forget_parent(ring);
    return PyBool_FromLong(ring->region != NULL && ring->descriptor >= 0);
}

static PyObject *ring_capacity(Ring *ring, void *Py_UNUSED(none))
{
    ring_forget_parent(ring);
    return PyLong_FromUnsignedLongLong(capacity_of(ring->control));
}

#define FAST(function) (PyCFunction)(void (*)(void))function

static PyMethodDef ring_methods[] = {
    {"record", ring_record, METH_O, NULL},
    {"add", ring_add, METH_O, NULL},
    {"put", (PyCFunction)ring_put, METH_O, NULL},
    {"extend", (PyCFunction)ring_extend, METH_O, NULL},
    {"install", FAST(ring_install), METH_FASTCALL, NULL},
    {"hold", (PyCFunction)ring_hold, METH_O, NULL},
    {"take", (PyCFunction)ring_take, METH_O, NULL},
    {"drop", (PyCFunction)ring_drop, METH_O, NULL},
    {"rows", (PyCFunction)ring_rows, METH_NOARGS, NULL},
    {"keep", FAST(ring_keep), METH_FASTCALL, NULL},
    {"records_gone", (PyCFunction)ring_records_gone, METH_O, NULL},
    {"note_batch", (PyCFunction)ring_note_batch, METH_VARARGS, NULL},
    {"acknowledged", (PyCFunction)ring_acknowledged, METH_O, NULL},
    {"next_request", (PyCFunction)ring_next_request, METH_NOARGS, NULL},
    {"requests_logged", (PyCFunction)ring_requests_logged, METH_O, NULL},
    {"tally", (PyCFunction)ring_tally, METH_O, NULL},
    {"open", (PyCFunction)ring_open, METH_VARARGS, NULL},
    {"release", (PyCFunction)ring_release, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef ring_attributes[] = {
    {"waiting", (getter)ring_waiting, NULL, NULL, NULL},
    {"is_file", (getter)ring_is_file, NULL, NULL, NULL},
    {"capacity", (getter)ring_capacity, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject RingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "telemetry.client._recorder.Ring",
    .tp_basicsize = sizeof(Ring),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = ring_new,
    .tp_dealloc = (destructor)ring_dealloc,
    .tp_traverse = (traverseproc)ring_traverse,
    .tp_clear = (inquiry)ring_clear_references,
    .tp_methods = ring_methods,
    .tp_getset = ring_attributes,
};
