/* Counts of dropped events, in the header of the ring. */

#include "ring_object.h"

typedef struct {
    PyObject_HEAD
    Ring *ring;
    int reason;
} Tally;

static uint64_t total_of(const Tally *tally)
{
    const Header *shared = tally->ring->control->shared;
    return shared == NULL ? tally->ring->counts[tally->reason]
                          : atomic_load_explicit(&shared->counts[tally->reason], memory_order_relaxed);
}

void ring_count(Ring *ring, int reason, uint64_t events)
{
    ring_forget_parent(ring);
    if (ring->control->shared == NULL)
        ring->counts[reason] += events;
    else
        add_count(ring->control->shared, reason, events);
}

static PyObject *tally_hit(Tally *tally, PyObject *Py_UNUSED(none))
{
    ring_count(tally->ring, tally->reason, 1);
    Py_RETURN_NONE;
}

static PyObject *tally_hit_many(Tally *tally, PyObject *argument)
{
    unsigned long long hits = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    ring_count(tally->ring, tally->reason, hits);
    Py_RETURN_NONE;
}

static PyObject *tally_total(Tally *tally, void *Py_UNUSED(none))
{
    ring_forget_parent(tally->ring);
    return PyLong_FromUnsignedLongLong(total_of(tally));
}

static PyObject *tally_take(Tally *tally, PyObject *Py_UNUSED(none))
{
    ring_forget_parent(tally->ring);
    uint64_t *taken = tally->ring->counts_taken + tally->reason, total = total_of(tally), before = *taken;
    *taken = total;
    return PyLong_FromUnsignedLongLong(total - before);
}

static int tally_traverse(Tally *tally, visitproc visit, void *arg)
{
    Py_VISIT(tally->ring);
    return 0;
}

static void tally_dealloc(Tally *tally)
{
    PyObject_GC_UnTrack(tally);
    Py_XDECREF(tally->ring);
    Py_TYPE(tally)->tp_free((PyObject *)tally);
}

PyObject *ring_tally(Ring *ring, PyObject *argument)
{
    long reason = PyLong_AsLong(argument);
    if (reason < 0 || reason >= COUNTS)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "reasons are 0 to %d", COUNTS - 1);
    Tally *tally = (Tally *)TallyType.tp_alloc(&TallyType, 0);
    if (tally == NULL)
        return NULL;
    Py_INCREF(ring);
    tally->ring = ring;
    tally->reason = (int)reason;
    return (PyObject *)tally;
}

static PyMethodDef tally_methods[] = {
    {"hit", (PyCFunction)tally_hit, METH_NOARGS, NULL},
    {"hit_many", (PyCFunction)tally_hit_many, METH_O, NULL},
    {"take", (PyCFunction)tally_take, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tally_attributes[] = {{"total", (getter)tally_total, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject TallyType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "telemetry.client._recorder.Tally",
    .tp_basicsize = sizeof(Tally),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)tally_dealloc,
    .tp_traverse = (traverseproc)tally_traverse,
    .tp_methods = tally_methods,
    .tp_getset = tally_attributes,
};
