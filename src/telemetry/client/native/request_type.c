/* The type of requests. All that is rarely called is done by its Python base, InFlight. */

#include "requests.h"

#include <math.h>
#include <structmember.h>

#define FIRST_GIVEN 7 /* arguments of a request before its first output */

PyObject *request_words[WORDS], *request_names[NAMES], *array_type;

/* Records that it was issued, and adds it to the requests in flight. */
static PyObject *request_begin(Request *self, PyObject *nothing)
{
    (void)nothing;
    Family *family = self->family;
    if (find_id(family, ISSUED) < 0)
        return NULL;
    double id = family->cached_ids[ISSUED];
    if (likely(family->ring != NULL)) {
        if (ring_put_row(family->ring, id, (uint64_t)self->issued, 1.0) < 0)
            return NULL;
    } else {
        PyObject *rows = Py_BuildValue("dLd", id, (long long)self->issued, 1.0);
        PyObject *done = rows == NULL ? NULL : PyObject_CallMethodOneArg((PyObject *)family, request_names[PUT], rows);
        Py_XDECREF(rows);
        Py_XDECREF(done);
        if (done == NULL)
            return NULL;
    }
    if (PyDict_SetItem(family->open, (PyObject *)self, (PyObject *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *request_end(Request *self, PyObject *nothing)
{
    (void)nothing;
    end_request(self);
    Py_RETURN_NONE;
}

static PyObject *request_ended(Request *self, PyObject *arguments)
{
    PyObject *outcome, *reason, *at, *produced, *turn, *limits;
    long long number;
    if (!PyArg_ParseTuple(arguments, "LUUOOUO!:_ended", &number, &outcome, &reason, &at, &produced, &turn,
                          &PyDict_Type, &limits))
        return NULL;
    double tokens = produced == Py_None ? NAN : PyFloat_AsDouble(produced);
    int64_t ended_at = PyLong_AsLongLong(at);
    if (PyErr_Occurred())
        return NULL;
    EndedRequest *ended = new_ended(self, outcome, reason, ended_at, tokens);
    if (ended == NULL)
        return NULL;
    ended->number = number;
    ended->turn = Py_NewRef(turn);
    ended->limits = Py_NewRef(limits);
    return (PyObject *)ended;
}

static int is_complete(const Family *family)
{
    return family->open != NULL && PyDict_CheckExact(family->open) && family->ids != NULL && family->log != NULL;
}

static int read_optional(PyObject *given, int64_t *time)
{
    *time = given == NULL || given == Py_None ? NO_TIME : PyLong_AsLongLong(given);
    return PyErr_Occurred() ? -1 : 0;
}

/* As Request(family, issued_ns, planned_ns, key, input, extras, told_ns). One with a first output has ended. */
static PyObject *request_new(PyObject *type, PyObject *const *given, size_t flags, PyObject *keywords)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (count < FIRST_GIVEN || count > FIRST_GIVEN + 1 || (keywords != NULL && PyTuple_GET_SIZE(keywords) > 0))
        return PyErr_Format(PyExc_TypeError, "a request has %d arguments", FIRST_GIVEN);
    if (!PyObject_TypeCheck(given[0], &FamilyBaseType) || !is_complete((Family *)given[0]))
        return PyErr_Format(PyExc_TypeError, "%R is no family of instruments", given[0]);
    PyTypeObject *made = (PyTypeObject *)type;
    Request *self = (Request *)made->tp_alloc(made, 0);
    if (self == NULL)
        return NULL;
    self->family = (Family *)Py_NewRef(given[0]);
    self->key = Py_NewRef(given[3]);
    self->input = Py_NewRef(given[4]);
    self->extras = Py_NewRef(given[5]);
    self->first = count == FIRST_GIVEN ? NO_TIME : ENDED;
    int failed = read_optional(given[1], &self->issued) | read_optional(given[2], &self->planned);
    if (failed | read_optional(given[6], &self->told))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void request_dealloc(Request *self)
{
    PyMem_Free(self->times);
    PyMem_Free(self->tokens);
    Py_XDECREF(self->family);
    Py_XDECREF(self->key);
    Py_XDECREF(self->input);
    Py_XDECREF(self->extras);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* For the type alone: without one, a type inherits the collector's interest in its base. */
static int request_traverse(PyObject *self, visitproc visit, void *arg)
{
    (void)self, (void)visit, (void)arg;
    return 0;
}

static PyObject *optional_time(int64_t time)
{
    if (time == NO_TIME)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(time < 0 ? 0 : time);
}

static PyObject *request_planned(Request *self, void *closure)
{
    (void)closure;
    return optional_time(self->planned);
}

static PyObject *request_first_ns(Request *self, void *closure)
{
    (void)closure;
    return optional_time(self->first);
}

static PyObject *request_times(Request *self, void *closure)
{
    (void)closure;
    return as_array(times_of(self));
}

static PyObject *request_tokens(Request *self, void *closure)
{
    (void)closure;
    return as_array(self->tokens);
}

static PyMemberDef request_members[] = {
    {"_family", T_OBJECT_EX, offsetof(Request, family), READONLY, NULL},
    {"_key", T_OBJECT, offsetof(Request, key), 0, NULL},
    {"_input", T_OBJECT, offsetof(Request, input), READONLY, NULL},
    {"_extras", T_OBJECT, offsetof(Request, extras), 0, NULL},
    {"_issued_ns", T_LONGLONG, offsetof(Request, issued), READONLY, NULL},
    {"_told_ns", T_LONGLONG, offsetof(Request, told), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef request_properties[] = {
    {"_planned_ns", (getter)(void (*)(void))request_planned, NULL, NULL, NULL},
    {"_first_ns", (getter)(void (*)(void))request_first_ns, NULL, NULL, NULL},
    {"_times", (getter)(void (*)(void))request_times, NULL, NULL, NULL},
    {"_tokens", (getter)(void (*)(void))request_tokens, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef request_methods[] = {
    {"first", (PyCFunction)(void (*)(void))request_first, METH_FASTCALL | METH_KEYWORDS,
     "first($self, /, tokens=1, at_ns=None)\n--\n\nRecord the first output and its tokens.\n\n"
     "Pass None for an unknown number. A second call counts as a chunk."},
    {"chunk", (PyCFunction)(void (*)(void))request_chunk, METH_FASTCALL | METH_KEYWORDS,
     "chunk($self, /, tokens=1, at_ns=None)\n--\n\nRecord more output and its tokens.\n\n"
     "Pass None for an unknown number. Without an earlier `first`, this is the first."},
    {"complete", (PyCFunction)(void (*)(void))request_complete, METH_FASTCALL | METH_KEYWORDS,
     "complete($self, /, output_tokens=None, finish_reason=None, output_text=None, at_ns=None)\n--\n\n"
     "Complete the request successfully.\n\nWithout `output_tokens`, workers of the aggregator count the tokens of "
     "`output_text`. Without both, the\ntokens are the sum of those given to `first` and `chunk`, if all are known."},
    {"_begin", (PyCFunction)(void (*)(void))request_begin, METH_NOARGS, NULL},
    {"_end", (PyCFunction)(void (*)(void))request_end, METH_NOARGS, NULL},
    {"_ended", (PyCFunction)(void (*)(void))request_ended, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot request_slots[] = {
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_traverse, request_traverse},
    {Py_tp_free, PyObject_Free},
    {Py_tp_methods, request_methods},
    {Py_tp_members, request_members},
    {Py_tp_getset, request_properties},
    {0, NULL},
};

/* The collector ignores requests, however many are in flight: references to objects of the caller end with the outcome.
   A class statement would make a type that it looks at. */
static PyType_Spec request_spec = {
    .name = "telemetry.client.requests.request.Request",
    .basicsize = sizeof(Request),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = request_slots,
};

static PyObject *request_type(PyObject *module, PyObject *base)
{
    (void)module;
    PyObject *bases = PyTuple_Pack(1, base);
    PyObject *type = bases == NULL ? NULL : PyType_FromSpecWithBases(&request_spec, bases);
    Py_XDECREF(bases);
    if (type != NULL)
        ((PyTypeObject *)type)->tp_vectorcall = request_new;
    return type;
}

/* --- the module ---------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"request_type", request_type, METH_O,
     "request_type($module, base, /)\n--\n\nReturn the type of requests. `base` has the methods that are rare."},
    {"hold_chunks", hold_chunks, METH_O,
     "hold_chunks($module, most, /)\n--\n\nHold so many chunks of a request from now on. Return the number before."},
    {NULL, NULL, 0, NULL},
};

static const char *const WORD_TEXTS[WORDS] = {
    [ISSUED] = "issued",
    [COMPLETED] = "completed",
    [LATENCY] = "latency",
    [CORRECTED] = "latency_corrected",
    [QUEUE_DELAY] = "queue_delay",
    [TTFT] = "ttft",
    [ITL] = "itl",
    [OUTPUT_TOKENS] = "output_tokens",
    [TPOT] = "tpot",
    [INPUT_TOKENS] = "input_tokens",
};

static const char *const NAME_TEXTS[NAMES] = {
    [TOKENS] = "tokens",
    [TOKENS_AT] = "at_ns",
    [PRODUCED] = "output_tokens",
    [FINISH_REASON] = "finish_reason",
    [OUTPUT_TEXT] = "output_text",
    [COMPLETE_AT] = "at_ns",
    [MOMENT] = "moment",
    [AMOUNT] = "amount",
    [PRODUCED_SAID] = "`output_tokens`",
    [SAID] = "said",
    [LABELLED] = "labelled",
    [AFTER_END] = "after_end",
    [PUT] = "put",
    [FREE] = "free",
    [NUMBER] = "number",
    [ADD] = "add",
    [WANTED] = "wanted",
    [LET_GO] = "_let_go",
    [PUT_COMPLETED] = "_put_completed",
    [PUT_GAPS] = "_put_gaps",
    [NOTHING] = "",
};

static int prepare(void)
{
    for (int word = 0; word < WORDS; word++)
        if ((request_words[word] = PyUnicode_InternFromString(WORD_TEXTS[word])) == NULL)
            return -1;
    for (int name = 0; name < NAMES; name++)
        if ((request_names[name] = PyUnicode_InternFromString(NAME_TEXTS[name])) == NULL)
            return -1;
    PyObject *array = PyImport_ImportModule("array");
    array_type = array == NULL ? NULL : PyObject_GetAttrString(array, "array");
    Py_XDECREF(array);
    return array_type == NULL ? -1 : 0;
}

int add_requests(PyObject *module)
{
    if (prepare() < 0 || PyType_Ready(&EndedRequestType) < 0 || PyModule_AddFunctions(module, functions) < 0)
        return -1;
    return PyModule_AddType(module, &FamilyBaseType);
}
