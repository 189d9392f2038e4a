/* `record`, `set` and `add`: builtin functions, because the interpreter calls those fastest. Each knows its row id and its
   ring. */

#include "recorder.h"

typedef struct {
    PyObject_HEAD
    Ring *ring;
    Control *control; /* of the ring */
    double id;
} Recorder;

static PyObject *at_ns_name, *value_name, *n_name;

int read_time(PyObject *at_ns, uint64_t *time)
{
    PyObject *number = PyNumber_Index(at_ns);
    if (number == NULL)
        return -1;
    long long ns = PyLong_AsLongLong(number);
    Py_DECREF(number);
    if (ns < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a time must not be negative");
        return -1;
    }
    *time = (uint64_t)ns;
    return 0;
}

int read_value(PyObject *value, double *number)
{
    *number = PyFloat_AsDouble(value);
    return *number == -1.0 && PyErr_Occurred() ? -1 : 0;
}

/* The time is read first, the value next, and the place last: `__float__` may take long, record, or let others record. */
static inline PyObject *record_value(Recorder *self, PyObject *value, PyObject *at_ns)
{
    uint64_t time;
    double number;
    if (likely(at_ns == NULL || at_ns == Py_None))
        time = monotonic_ns();
    else if (read_time(at_ns, &time) < 0)
        goto refused;
    if (likely(PyFloat_CheckExact(value)))
        number = PyFloat_AS_DOUBLE(value);
    else if (read_value(value, &number) < 0)
        goto refused;
    Control *control = self->control;
    if (likely(control->head != control->limit))
        put_row(control, self->id, time, number);
    else if (ring_put_row(self->ring, self->id, time, number) < 0)
        goto refused;
    Py_RETURN_NONE;
refused:
    if (ring_refuse(self->ring) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int is_named(PyObject *name, PyObject *expected)
{
    return name == expected || PyUnicode_Compare(name, expected) == 0;
}

/* Puts keyword arguments beside the positional ones. Returns -1 with an exception. */
static int gather(PyObject *const *arguments, Py_ssize_t count, PyObject *names, PyObject *first_name, PyObject **given)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    given[0] = count > 0 ? arguments[0] : NULL;
    given[1] = count > 1 ? arguments[1] : NULL;
    int is_wrong = count > 2;
    for (Py_ssize_t index = 0; index < named && !is_wrong; index++) {
        PyObject *name = PyTuple_GET_ITEM(names, index);
        int place = is_named(name, first_name) ? 0 : is_named(name, at_ns_name) ? 1 : -1;
        is_wrong = place < 0 || given[place] != NULL;
        if (!is_wrong)
            given[place] = arguments[count + index];
    }
    if (!is_wrong)
        return 0;
    PyErr_Format(PyExc_TypeError, "takes %U and at_ns=None", first_name);
    return -1;
}

static PyObject *record(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    if (likely(count == 1 && names == NULL))
        return record_value((Recorder *)self, arguments[0], NULL);
    PyObject *given[2];
    if (gather(arguments, count, names, value_name, given) < 0)
        return NULL;
    if (given[0] == NULL)
        return PyErr_Format(PyExc_TypeError, "a value is missing");
    return record_value((Recorder *)self, given[0], given[1]);
}

static PyObject *add(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    static PyObject *one;
    if (unlikely(one == NULL) && (one = PyFloat_FromDouble(1.0)) == NULL)
        return NULL;
    if (likely(count == 0 && names == NULL))
        return record_value((Recorder *)self, one, NULL);
    PyObject *given[2];
    if (gather(arguments, count, names, n_name, given) < 0)
        return NULL;
    return record_value((Recorder *)self, given[0] == NULL ? one : given[0], given[1]);
}

static PyMethodDef record_function = {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL | METH_KEYWORDS,
                                      "record($self, /, value, at_ns=None)\n--\n\nRecord a value."};
static PyMethodDef add_function = {"add", (PyCFunction)(void (*)(void))add, METH_FASTCALL | METH_KEYWORDS,
                                   "add($self, /, n=1, at_ns=None)\n--\n\nAdd to a counter."};

static PyObject *new_function(PyObject *ring, PyObject *row_id, PyMethodDef *function)
{
    double id;
    if (read_value(row_id, &id) < 0)
        return NULL;
    Recorder *self = (Recorder *)RecorderType.tp_alloc(&RecorderType, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(ring);
    self->ring = (Ring *)ring;
    self->control = ring_control(self->ring);
    self->id = id;
    PyObject *made = PyCFunction_New(function, (PyObject *)self);
    Py_DECREF(self);
    return made;
}

PyObject *ring_record(PyObject *ring, PyObject *row_id) { return new_function(ring, row_id, &record_function); }

PyObject *ring_add(PyObject *ring, PyObject *row_id) { return new_function(ring, row_id, &add_function); }

int prepare_names(void)
{
    at_ns_name = PyUnicode_InternFromString("at_ns");
    value_name = PyUnicode_InternFromString("value");
    n_name = PyUnicode_InternFromString("n");
    return at_ns_name == NULL || value_name == NULL || n_name == NULL ? -1 : 0;
}

static int recorder_traverse(Recorder *self, visitproc visit, void *arg)
{
    Py_VISIT(self->ring);
    return 0;
}

static void recorder_dealloc(Recorder *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->ring);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject RecorderType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "telemetry.client._recorder.Recorder",
    .tp_basicsize = sizeof(Recorder),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)recorder_dealloc,
    .tp_traverse = (traverseproc)recorder_traverse,
};
