/* A request that has ended, and its entry in the request log: the bytes that msgspec makes of a RequestEntry. */

#include "requests.h"

#include <math.h>

#define NUMBER_BYTES 9u
#define PLAIN_NUMBERS 13u /* of an entry, besides chunks, texts and limits */
#define TEXT_HEADER_BYTES 5u
#define ENTRY_FIELDS 15u
#define TIME_LIMIT 9223372036854775808.0 /* 2**63 */

static uint8_t *put_big_endian(uint8_t *out, uint8_t mark, uint64_t number, int bytes)
{
    *out++ = mark;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        *out++ = (uint8_t)(number >> shift);
    return out;
}

static uint8_t *put_natural(uint8_t *out, uint64_t number)
{
    if (number < 0x80) {
        *out = (uint8_t)number;
        return out + 1;
    }
    if (number <= UINT8_MAX)
        return put_big_endian(out, 0xcc, number, 1);
    if (number <= UINT16_MAX)
        return put_big_endian(out, 0xcd, number, 2);
    return number <= UINT32_MAX ? put_big_endian(out, 0xce, number, 4) : put_big_endian(out, 0xcf, number, 8);
}

static uint8_t *put_integer(uint8_t *out, int64_t number)
{
    if (number >= 0)
        return put_natural(out, (uint64_t)number);
    uint64_t bits = (uint64_t)number;
    if (number >= -32) {
        *out = (uint8_t)bits;
        return out + 1;
    }
    if (number >= INT8_MIN)
        return put_big_endian(out, 0xd0, bits, 1);
    if (number >= INT16_MIN)
        return put_big_endian(out, 0xd1, bits, 2);
    return number >= INT32_MIN ? put_big_endian(out, 0xd2, bits, 4) : put_big_endian(out, 0xd3, bits, 8);
}

static uint8_t *put_null(uint8_t *out)
{
    *out = 0xc0;
    return out + 1;
}

static uint8_t *put_time(uint8_t *out, int64_t time) { return time < 0 ? put_null(out) : put_integer(out, time); }

/* As `_amount` in ended.py: an integer if it is whole, null if it is not possible. */
static uint8_t *put_amount(uint8_t *out, double tokens)
{
    if (!(tokens >= 0.0 && tokens < TIME_LIMIT))
        return put_null(out);
    if (tokens == floor(tokens))
        return put_natural(out, (uint64_t)tokens);
    return store_big(out, 0xcb, &tokens);
}

static uint8_t *put_input(uint8_t *out, PyObject *input)
{
    if (input != NULL && PyFloat_CheckExact(input))
        return put_amount(out, PyFloat_AS_DOUBLE(input));
    if (input == NULL || !PyLong_CheckExact(input))
        return put_null(out);
    int overflow;
    long long tokens = PyLong_AsLongLongAndOverflow(input, &overflow);
    return overflow ? put_null(out) : put_time(out, tokens);
}

static uint8_t *put_header(uint8_t *out, size_t length, uint8_t fixed, size_t fixed_limit, uint8_t mark)
{
    if (length < fixed_limit) {
        *out = (uint8_t)(fixed | length);
        return out + 1;
    }
    if (length <= UINT16_MAX)
        return put_big_endian(out, mark, length, 2);
    return put_big_endian(out, (uint8_t)(mark + 1), length, 4);
}

static uint8_t *put_text(uint8_t *out, const char *text, size_t bytes)
{
    if (bytes >= 32 && bytes <= UINT8_MAX)
        out = put_big_endian(out, 0xd9, bytes, 1);
    else
        out = put_header(out, bytes, 0xa0, 32, 0xda);
    memcpy(out, text, bytes);
    return out + bytes;
}

static uint8_t *put_gaps(uint8_t *out, const Numbers *times)
{
    uint32_t chunks = chunks_of(times);
    out = encode_array_header(chunks, out);
    const int64_t *before = times == NULL ? NULL : times->values + TIME_BEFORE;
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        out = put_integer(out, before[chunk + 1] - before[chunk]);
    return out;
}

/* Empty if each chunk has one. */
static uint8_t *put_tokens(uint8_t *out, uint32_t chunks, const Numbers *tokens)
{
    if (tokens == NULL || tokens->used == 0)
        return encode_array_header(0, out);
    out = encode_array_header(chunks, out);
    for (uint32_t chunk = 0, next = 0; chunk < chunks; chunk++) {
        int64_t told = 1;
        if (next < tokens->used && tokens->values[next] >> PLACES_BITS == chunk)
            told = tokens->values[next++] & (PLACES - 1);
        out = told == UNKNOWN_TOKENS ? put_null(out) : put_integer(out, told);
    }
    return out;
}

typedef struct {
    const char *bytes;
    Py_ssize_t length;
} Text;

/* The text that may be shown for one: `label` masks it. Keeps it alive in `kept`. */
static int show(PyObject *label, PyObject *text, PyObject **kept, Text *shown)
{
    *shown = (Text){"", 0};
    if (!is_given(text) || (PyUnicode_Check(text) && PyUnicode_GetLength(text) == 0))
        return 0;
    *kept = PyObject_CallOneArg(label, text);
    if (*kept == NULL)
        return -1;
    shown->bytes = PyUnicode_AsUTF8AndSize(*kept, &shown->length);
    return shown->bytes == NULL ? -1 : 0;
}

static size_t limit_bytes(PyObject *limits)
{
    size_t bytes = TEXT_HEADER_BYTES;
    PyObject *key, *value;
    Py_ssize_t position = 0, length;
    while (limits != NULL && PyDict_Next(limits, &position, &key, &value))
        bytes += TEXT_HEADER_BYTES + NUMBER_BYTES + (PyUnicode_AsUTF8AndSize(key, &length) ? (size_t)length : 0);
    return bytes;
}

static uint8_t *put_limits(uint8_t *out, PyObject *limits)
{
    PyObject *key, *value;
    Py_ssize_t position = 0, length;
    out = put_header(out, limits == NULL ? 0 : (size_t)PyDict_Size(limits), 0x80, 16, 0xde);
    while (limits != NULL && PyDict_Next(limits, &position, &key, &value)) {
        const char *text = PyUnicode_AsUTF8AndSize(key, &length);
        out = put_text(out, text == NULL ? "" : text, text == NULL ? 0 : (size_t)length);
        out = put_time(out, PyLong_AsLongLong(value));
    }
    return out;
}

static PyObject *encoded(const EndedRequest *self, const Text *outcome, const Text *reason, const Text *turn)
{
    const Numbers *times = self->first < 0 ? NULL : self->times;
    uint32_t chunks = chunks_of(times);
    size_t most = (PLAIN_NUMBERS + 2 * (size_t)chunks) * NUMBER_BYTES + limit_bytes(self->limits) +
                  3 * TEXT_HEADER_BYTES + (size_t)(outcome->length + reason->length + turn->length);
    uint8_t *start = PyMem_Malloc(most), *out = start;
    if (start == NULL)
        return PyErr_NoMemory();
    out = encode_array_header(ENTRY_FIELDS, out);
    out = put_integer(out, self->number);
    out = put_integer(out, self->issued);
    out = put_integer(out, self->ended);
    out = put_text(out, outcome->bytes, (size_t)outcome->length);
    out = put_text(out, reason->bytes, (size_t)reason->length);
    out = put_time(out, self->planned);
    out = put_time(out, self->first);
    if (self->first < 0 || (times != NULL && !is_known(times)))
        out = put_null(out);
    else
        out = put_integer(out, times == NULL ? 1 : times->values[FIRST_TOKENS]);
    out = put_gaps(out, times);
    out = put_tokens(out, chunks, times == NULL ? NULL : self->tokens);
    out = put_integer(out, times == NULL ? 0 : times->values[LEFT_OUT]);
    out = put_input(out, self->input);
    out = put_amount(out, self->produced);
    out = put_text(out, turn->bytes, (size_t)turn->length);
    out = put_limits(out, self->limits);
    PyObject *bytes = PyErr_Occurred() ? NULL : PyBytes_FromStringAndSize((char *)start, out - start);
    PyMem_Free(start);
    return bytes;
}

static PyObject *ended_encode(EndedRequest *self, PyObject *label)
{
    PyObject *reason = NULL, *turn = NULL, *bytes = NULL;
    Text outcome, reason_shown, turn_shown;
    outcome.bytes = PyUnicode_AsUTF8AndSize(self->outcome, &outcome.length);
    if (outcome.bytes != NULL && show(label, self->reason, &reason, &reason_shown) == 0 &&
        show(label, self->turn, &turn, &turn_shown) == 0)
        bytes = encoded(self, &outcome, &reason_shown, &turn_shown);
    Py_XDECREF(reason);
    Py_XDECREF(turn);
    return bytes;
}

EndedRequest *new_ended(Request *self, PyObject *outcome, PyObject *reason, int64_t at, double produced)
{
    EndedRequest *ended = (EndedRequest *)EndedRequestType.tp_alloc(&EndedRequestType, 0);
    if (ended == NULL)
        return NULL;
    ended->family = Py_NewRef((PyObject *)self->family);
    ended->outcome = Py_NewRef(outcome);
    ended->reason = Py_NewRef(reason);
    ended->input = Py_XNewRef(self->input);
    ended->issued = self->issued;
    ended->planned = self->planned;
    ended->first = self->first;
    ended->ended = at;
    ended->produced = produced;
    ended->times = times_of(self);
    ended->tokens = self->tokens;
    self->times = self->tokens = NULL;
    self->next = self->limit = NULL;
    return ended;
}

static PyObject *ended_family(EndedRequest *self, void *closure)
{
    (void)closure;
    return Py_NewRef(self->family);
}

static void ended_dealloc(EndedRequest *self)
{
    PyMem_Free(self->times);
    PyMem_Free(self->tokens);
    Py_XDECREF(self->family);
    Py_XDECREF(self->outcome);
    Py_XDECREF(self->reason);
    Py_XDECREF(self->input);
    Py_XDECREF(self->turn);
    Py_XDECREF(self->limits);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"encode", (PyCFunction)(void (*)(void))ended_encode, METH_O, "encode($self, label, /)\n--\n\nReturn its entry."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"family", (getter)(void (*)(void))ended_family, NULL, "Its instruments.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject EndedRequestType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "telemetry.client._recorder.EndedRequest",
    .tp_basicsize = sizeof(EndedRequest),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A request that has ended, for the request log.",
    .tp_dealloc = (destructor)ended_dealloc,
    .tp_methods = methods,
    .tp_getset = properties,
};
