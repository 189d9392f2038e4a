/* Rows leave the ring: as msgpack for a batch, or given up.

   `take` encodes without the GIL. Meanwhile other threads may record, but nobody moves `taken`, the capacity or the
   memory. */

#define _GNU_SOURCE
#include "ring_object.h"

#include <sys/stat.h>

#define TOUCH_NS 60000000000u

/* Stores into a mapping leave the file's time as it is. By this time, files of processes that died long ago are found. */
static void touch(Ring *ring)
{
    if (ring->descriptor < 0 || monotonic_ns() - ring->touched_ns < TOUCH_NS)
        return;
    ring->touched_ns = monotonic_ns();
    futimens(ring->descriptor, NULL);
}

PyObject *ring_take(Ring *ring, PyObject *argument)
{
    unsigned long long most = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    ring_forget_parent(ring);
    touch(ring);
    Control *control = ring->control;
    if (control->head == control->taken)
        return Py_BuildValue("(y#i)", "\x90", (Py_ssize_t)1, 0);
    while (would_keep_more(ring) && control->head - ring->acknowledged > capacity_of(control) / 2)
        ring_grow(ring, 0); /* here, so that recording rarely has to wait for it */
    if (atomic_load(&ring->is_encoding))
        return PyErr_Format(PyExc_RuntimeError, "two threads take rows");
    uint64_t from = control->taken, to = control->head;
    if (to - from > most)
        to = from + most;
    uint64_t rows = to - from;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(array_header_bytes(3 * rows) + rows * ROW_BYTES));
    if (bytes == NULL)
        return NULL;
    uint8_t *out = encode_array_header(3 * rows, (uint8_t *)PyBytes_AS_STRING(bytes));
    const Slot *slots = control->slots;
    uint64_t mask = control->mask, openings = ring->openings;
    atomic_store_explicit(&ring->is_encoding, 1, memory_order_relaxed);
    Py_BEGIN_ALLOW_THREADS
    encode_rows(slots, mask, from, to, out);
    atomic_store_explicit(&ring->is_encoding, 0, memory_order_release);
    Py_END_ALLOW_THREADS
    if (control->shared != NULL && ring->openings == openings && control->taken == from) {
        control->taken = to;
        atomic_store_explicit(&control->shared->taken, to, memory_order_release);
        ring_update_limit(ring);
    }
    return Py_BuildValue("(NK)", bytes, (unsigned long long)rows);
}

PyObject *ring_drop(Ring *ring, PyObject *argument)
{
    unsigned long long rows = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    ring_forget_parent(ring);
    Control *control = ring->control;
    if (control->shared != NULL) {
        uint64_t waiting = control->head - control->taken;
        control->taken += rows < waiting ? rows : waiting;
        atomic_store_explicit(&control->shared->taken, control->taken, memory_order_release);
        ring_update_limit(ring);
    }
    Py_RETURN_NONE;
}

/* The waiting rows, flat: for tests and for people who look. */
PyObject *ring_rows(Ring *ring, PyObject *Py_UNUSED(none))
{
    ring_forget_parent(ring);
    const Control *control = ring->control;
    PyObject *flat = PyList_New(0);
    for (uint64_t row = control->taken; flat != NULL && row < control->head; row++) {
        const Slot *slot = control->slots + (row & control->mask);
        PyObject *one = Py_BuildValue("(dKd)", slot->id, (unsigned long long)slot->time, slot->value);
        Py_ssize_t size = PyList_GET_SIZE(flat);
        if (one == NULL || PyList_SetSlice(flat, size, size, one) < 0)
            Py_CLEAR(flat);
        Py_XDECREF(one);
    }
    return flat;
}

PyObject *ring_waiting(Ring *ring, void *Py_UNUSED(none))
{
    ring_forget_parent(ring);
    return PyLong_FromUnsignedLongLong(ring->control->head - ring->control->taken);
}
