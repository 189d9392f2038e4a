/* Outputs of requests in flight.

   All arguments are read before anything changes: reading one may run code of the caller. */

#include "requests.h"

#define MANY_TOKENS (1ll << 32)
#define WALL_CLOCK_NS 1000000000000000000ll /* times from here on are those of a wall clock, and said to be so */
#define FIRST_ROOM 8
#define MOST_HELD (1l << 16) /* an index of a chunk, times PLACES, fits in 64 bits */

static uint32_t chunks_held = 4096;

/* --- arguments ----------------------------------------------------------------------------------- */

int sort_arguments(PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject *const *expected,
                   Py_ssize_t most, PyObject **given)
{
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    if (count > most) {
        PyErr_Format(PyExc_TypeError, "takes at most %zd arguments, got %zd", most, count);
        return -1;
    }
    for (Py_ssize_t place = 0; place < most; place++)
        given[place] = place < count ? arguments[place] : NULL;
    for (Py_ssize_t index = 0; index < named; index++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, index);
        Py_ssize_t place = 0;
        while (place < most && name != expected[place])
            place++;
        for (Py_ssize_t other = 0; place == most && other < most; other++)
            if (PyUnicode_Compare(name, expected[other]) == 0)
                place = other;
        if (place == most || given[place] != NULL) {
            const char *wrong = place == most ? "got an unexpected argument %R" : "got two values for %R";
            PyErr_Format(PyExc_TypeError, wrong, name);
            return -1;
        }
        given[place] = arguments[count + index];
    }
    return 0;
}

PyObject *read_moment(const Request *self, PyObject *at_ns, int64_t *at)
{
    if (likely(!is_given(at_ns))) {
        *at = (int64_t)monotonic_ns();
        return PyLong_FromUnsignedLongLong((uint64_t)*at);
    }
    if (likely(PyLong_CheckExact(at_ns))) {
        int overflow;
        long long plain = PyLong_AsLongLongAndOverflow(at_ns, &overflow);
        if (likely(!overflow && plain >= 0 && plain < WALL_CLOCK_NS)) {
            *at = plain;
            return Py_NewRef(at_ns);
        }
    }
    PyObject *moment = PyObject_CallMethodOneArg((PyObject *)self->family, request_names[MOMENT], at_ns);
    if (moment == NULL)
        return NULL;
    *at = PyLong_AsLongLong(moment);
    if (*at == -1 && PyErr_Occurred())
        Py_CLEAR(moment);
    return moment;
}

static int read_tokens(const Request *self, PyObject *tokens, int64_t *known)
{
    if (likely(PyLong_CheckExact(tokens))) {
        int overflow;
        *known = PyLong_AsLongLongAndOverflow(tokens, &overflow);
        if (likely(!overflow && *known >= 0 && *known < MANY_TOKENS))
            return 0;
    }
    if (tokens == Py_None) {
        *known = UNKNOWN_TOKENS;
        return 0;
    }
    PyObject *whole = PyObject_CallMethodOneArg((PyObject *)self->family, request_names[TOKENS], tokens);
    if (whole == NULL)
        return -1;
    *known = PyLong_AsLongLong(whole);
    Py_DECREF(whole);
    return *known == -1 && PyErr_Occurred() ? -1 : 0;
}

/* --- chunks -------------------------------------------------------------------------------------- */

/* Makes room for one more number. */
static int reserve(Numbers **list)
{
    uint32_t used = *list == NULL ? 0 : (*list)->used, room = *list == NULL ? 0 : (*list)->room;
    if (likely(used < room))
        return 0;
    room = room == 0 ? FIRST_ROOM : room + room / 8 + 12;
    Numbers *grown = PyMem_Realloc(*list, sizeof(Numbers) + room * sizeof(int64_t));
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    grown->used = used;
    grown->room = room;
    *list = grown;
    return 0;
}

static void drop(Numbers **list)
{
    PyMem_Free(*list);
    *list = NULL;
}

/* To be called after each change of the times. */
static void follow_times(Request *self)
{
    Numbers *times = self->times;
    if (times == NULL) {
        self->next = self->limit = NULL;
        return;
    }
    uint32_t most = times->room < HEAD + chunks_held ? times->room : HEAD + chunks_held;
    self->next = times->values + times->used;
    self->limit = times->values + (most > times->used ? most : times->used);
}

static int reserve_time(Request *self)
{
    times_of(self);
    int failed = reserve(&self->times);
    follow_times(self);
    return failed;
}

static int begin_times(Request *self, int64_t tokens, int64_t at)
{
    if (reserve_time(self) < 0)
        return -1;
    int64_t more = tokens == UNKNOWN_TOKENS ? UNKNOWN_SUM : 0;
    memcpy(self->times->values, (int64_t[HEAD]){tokens, more, 0, 0, at}, HEAD * sizeof(int64_t));
    self->times->used = HEAD;
    follow_times(self);
    return 0;
}

int64_t more_tokens(Request *self)
{
    const Numbers *times = times_of(self), *tokens = self->tokens;
    int64_t sum = times->values[MORE_TOKENS] + chunks_of(times);
    for (uint32_t index = 0; tokens != NULL && index < tokens->used; index++)
        sum += (tokens->values[index] & (PLACES - 1)) - 1;
    return sum;
}

PyObject *as_array(const Numbers *list)
{
    if (list == NULL)
        Py_RETURN_NONE;
    return PyObject_CallFunction(array_type, "sy#", "q", (const char *)list->values,
                                 (Py_ssize_t)(list->used * sizeof(int64_t)));
}

/* Forgets the chunks that are held, and has the gaps between them recorded. */
static int record_gaps(Request *self, PyObject *at)
{
    uint32_t used = times_of(self)->used;
    PyObject *held = as_array(self->times);
    Numbers *times = times_of(self);
    if (held == NULL || times == NULL || times->used != used) { /* the collector may have run code of the caller */
        Py_XDECREF(held);
        return held == NULL ? -1 : 0;
    }
    int64_t *head = times->values, largest = head[LARGEST_GAP];
    for (uint32_t index = HEAD; index < used; index++)
        largest = head[index] - head[index - 1] > largest ? head[index] - head[index - 1] : largest;
    head[MORE_TOKENS] = more_tokens(self);
    head[LEFT_OUT] += chunks_of(times);
    head[LARGEST_GAP] = largest;
    head[TIME_BEFORE] = head[used - 1];
    times->used = HEAD;
    follow_times(self);
    drop(&self->tokens);
    PyObject *done = PyObject_CallMethodObjArgs((PyObject *)self, request_names[PUT_GAPS], held, at, NULL);
    Py_DECREF(held);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int is_full(Request *self) { return times_of(self)->used >= HEAD + chunks_held; }

static int append(Request *self, int64_t tokens, int64_t at, PyObject *moment)
{
    if (self->times == NULL && begin_times(self, 1, self->first) < 0)
        return -1;
    if (is_full(self) && record_gaps(self, moment) < 0)
        return -1;
    if (self->times == NULL) /* ended by what that ran */
        return 0;
    if (reserve_time(self) < 0 || (tokens != 1 && reserve(&self->tokens) < 0))
        return -1;
    Numbers *times = self->times;
    if (tokens != 1)
        self->tokens->values[self->tokens->used++] = (int64_t)chunks_of(times) * PLACES + tokens;
    if (tokens == UNKNOWN_TOKENS)
        times->values[MORE_TOKENS] = UNKNOWN_SUM;
    times->values[times->used++] = at;
    follow_times(self);
    return 0;
}

int count_after_end(const Request *self, PyObject *moment)
{
    PyObject *done = PyObject_CallMethodOneArg((PyObject *)self->family, request_names[AFTER_END], moment);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int add_output(Request *self, PyObject *given, int64_t at, PyObject *moment, int is_first)
{
    int is_usual = is_first ? self->first == NO_TIME : self->times != NULL && !is_full(self);
    if (unlikely(!is_usual)) {
        int is_open = PyDict_Contains(self->family->open, (PyObject *)self);
        if (is_open <= 0)
            return is_open < 0 ? -1 : count_after_end(self, moment);
    }
    int64_t tokens = 1;
    if (given != NULL && read_tokens(self, given, &tokens) < 0)
        return -1;
    if (likely(self->first >= 0))
        return append(self, tokens, at, moment);
    if (self->first == ENDED)
        return count_after_end(self, moment);
    if (tokens != 1 && begin_times(self, tokens, at) < 0)
        return -1;
    self->first = at;
    return 0;
}

static PyObject *output(Request *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, int is_first)
{
    PyObject *given[OUTPUT_ARGUMENTS] = {NULL, NULL};
    int64_t at;
    int has_arguments = count != 0 || keywords != NULL;
    if (has_arguments && sort_arguments(arguments, count, keywords, request_names, OUTPUT_ARGUMENTS, given) < 0)
        return NULL;
    PyObject *moment = read_moment(self, given[1], &at);
    if (moment != NULL && add_output(self, given[0], at, moment, is_first) < 0)
        Py_CLEAR(moment);
    return moment;
}

PyObject *request_first(Request *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    return output(self, arguments, count, keywords, 1);
}

PyObject *request_chunk(Request *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    if (likely(count == 0 && keywords == NULL && self->next != self->limit)) {
        __builtin_prefetch(self->next, 1); /* of one of many requests: it comes while the clock is read */
        uint64_t at = monotonic_ns();
        PyObject *moment = PyLong_FromUnsignedLongLong(at);
        if (likely(moment != NULL))
            *self->next++ = (int64_t)at;
        return moment;
    }
    return output(self, arguments, count, keywords, 0);
}

void end_request(Request *self)
{
    self->first = ENDED;
    drop(&self->times);
    drop(&self->tokens);
    follow_times(self);
    Py_CLEAR(self->input);
}

PyObject *hold_chunks(PyObject *module, PyObject *argument)
{
    (void)module;
    long most = PyLong_AsLong(argument);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    if (most < 1 || most > MOST_HELD)
        return PyErr_Format(PyExc_ValueError, "%ld chunks can't be held", most);
    long before = (long)chunks_held;
    chunks_held = (uint32_t)most;
    return PyLong_FromLong(before);
}
