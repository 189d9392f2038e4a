/* Records in the ring, and the table that says which batch has them: for whoever reads the ring of a dead process. */

#include "ring_object.h"

#define LARGEST_RECORD (RECORD_CAPACITY / 4)

static void write_bytes(char *ring, uint64_t at, const char *bytes, uint64_t count)
{
    uint64_t start = at & (RECORD_CAPACITY - 1), first = RECORD_CAPACITY - start;
    if (first > count)
        first = count;
    memcpy(ring + start, bytes, first);
    memcpy(ring, bytes + first, count - first);
}

static uint64_t kept_bytes(PyObject *record)
{
    uint64_t size = (uint64_t)PyBytes_GET_SIZE(record);
    return size > LARGEST_RECORD ? 0 : size;
}

/* Bytes that encoded records take in the ring; with `write`, they are put there. Returns -1 with an exception. */
static int64_t pass_records(PyObject *flat, char *ring, uint64_t at)
{
    uint64_t start = at;
    for (Py_ssize_t index = 0; index < PySequence_Fast_GET_SIZE(flat); index++) {
        PyObject *record = PySequence_Fast_GET_ITEM(flat, index);
        if (!PyBytes_Check(record)) {
            PyErr_SetString(PyExc_TypeError, "records must be bytes");
            return -1;
        }
        uint64_t kept = kept_bytes(record);
        uint32_t length = kept == (uint64_t)PyBytes_GET_SIZE(record) ? (uint32_t)kept : SKIPPED;
        if (ring != NULL) {
            write_bytes(ring, at, (const char *)&length, sizeof length);
            write_bytes(ring, at + sizeof length, PyBytes_AS_STRING(record), kept);
        }
        at += sizeof length + kept;
    }
    return (int64_t)(at - start);
}

static PyObject *keep_and_extend(Ring *ring, PyObject *flat, PyObject *extend)
{
    Header *shared = ring->control->shared;
    if (shared != NULL && shared->record_capacity > 0) {
        uint64_t at = atomic_load_explicit(&shared->record_bytes, memory_order_relaxed);
        uint64_t records = atomic_load_explicit(&shared->records, memory_order_relaxed);
        int64_t bytes = pass_records(flat, NULL, at);
        if (bytes < 0)
            return NULL;
        uint64_t overwritten = (uint64_t)bytes < RECORD_CAPACITY ? (uint64_t)bytes : RECORD_CAPACITY;
        atomic_store_explicit(&shared->record_writing, at + overwritten, memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
        pass_records(flat, ring->region + records_offset(), at);
        atomic_store_explicit(&shared->record_bytes, at + (uint64_t)bytes, memory_order_release);
        atomic_store_explicit(&shared->records, records + (uint64_t)PySequence_Fast_GET_SIZE(flat), memory_order_release);
    }
    return PyObject_CallOneArg(extend, flat);
}

/* Keeps encoded records, and appends them to a queue by its own method, in the same order for all threads. */
PyObject *ring_keep(Ring *ring, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "keep(records, extend)");
    PyObject *flat = PySequence_Fast(arguments[0], "records must be a sequence");
    if (flat == NULL)
        return NULL;
    ring_forget_parent(ring);
    PyObject *done = keep_and_extend(ring, flat, arguments[1]);
    Py_DECREF(flat);
    return done;
}

/* The oldest kept records are in a batch now, or were given up. */
PyObject *ring_records_gone(Ring *ring, PyObject *records)
{
    PyObject *flat = PySequence_Fast(records, "records must be a sequence");
    if (flat == NULL)
        return NULL;
    int64_t bytes = pass_records(flat, NULL, 0);
    Header *shared = ring->control->shared;
    if (bytes >= 0 && shared != NULL) {
        uint64_t taken = atomic_load(&shared->records_taken), bytes_taken = atomic_load(&shared->record_bytes_taken);
        atomic_store(&shared->record_bytes_taken, bytes_taken + (uint64_t)bytes);
        atomic_store(&shared->records_taken, taken + (uint64_t)PySequence_Fast_GET_SIZE(flat));
    }
    Py_DECREF(flat);
    if (bytes < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *ring_note_batch(Ring *ring, PyObject *arguments)
{
    unsigned long long seq, first, now, wall;
    if (!PyArg_ParseTuple(arguments, "KKKK", &seq, &first, &now, &wall))
        return NULL;
    Control *control = ring->control;
    if (control->shared != NULL) {
        BatchEnd *end = (BatchEnd *)(ring->region + batches_offset()) + seq % BATCHES;
        atomic_store_explicit(&end->checksum, 0, memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
        end->seq_plus_1 = seq + 1;
        end->first = first;
        end->rows = control->taken;
        end->records = atomic_load(&control->shared->records_taken);
        end->record_bytes = atomic_load(&control->shared->record_bytes_taken);
        end->monotonic_ns = now;
        end->wall_ns = wall;
        atomic_store_explicit(&end->checksum, checksum_of(end), memory_order_release);
    }
    Py_RETURN_NONE;
}

PyObject *ring_acknowledged(Ring *ring, PyObject *argument)
{
    unsigned long long batches = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    if (ring->control->shared != NULL && batches > 0) {
        const BatchEnd *end = (const BatchEnd *)(ring->region + batches_offset()) + (batches - 1) % BATCHES;
        if (end->seq_plus_1 == batches && end->rows > ring->acknowledged)
            ring->acknowledged = end->rows;
    }
    Py_RETURN_NONE;
}
