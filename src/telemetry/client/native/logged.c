/* How many requests have ended, and how many of them a record has: for whoever reads the ring of a dead process. */

#include "ring_object.h"

/* The number of a request that has just ended and belongs in the request log. */
PyObject *ring_next_request(Ring *ring, PyObject *Py_UNUSED(none))
{
    Header *shared = ring->control->shared; /* NULL in a forked child, before it has memory of its own */
    if (shared != NULL)
        atomic_fetch_add_explicit(&shared->requests_ended, 1, memory_order_relaxed);
    return PyLong_FromUnsignedLongLong(atomic_fetch_add_explicit(&ring->requests, 1, memory_order_relaxed));
}

PyObject *ring_requests_logged(Ring *ring, PyObject *argument)
{
    unsigned long long requests = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    Header *shared = ring->control->shared;
    if (shared != NULL)
        atomic_fetch_add_explicit(&shared->requests_logged, requests, memory_order_relaxed);
    Py_RETURN_NONE;
}
