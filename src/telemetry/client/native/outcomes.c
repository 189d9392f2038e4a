/* The outcome of most requests: all rows of one go into the ring together, and what else is known of it goes to the
   request log. `InFlight._put_completed` does the same for all others, and tells what the rows are. */

#include "requests.h"

#include <math.h>

#define EXACT_INTEGER (1ll << 53)

/* A total of tokens that needs no check, as a float. */
static int is_plain_amount(PyObject *given, double *amount)
{
    if (PyFloat_CheckExact(given)) {
        *amount = PyFloat_AS_DOUBLE(given);
        return *amount >= 0.0 && isfinite(*amount);
    }
    if (!PyLong_CheckExact(given))
        return 0;
    int overflow;
    long long plain = PyLong_AsLongLongAndOverflow(given, &overflow);
    *amount = (double)plain;
    return !overflow && plain >= 0 && plain <= EXACT_INTEGER;
}

/* The thread that takes a request out of those in flight is the only one that ends it. */
static int claim(Request *self)
{
    if (likely(PyDict_DelItem(self->family->open, (PyObject *)self) == 0))
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_KeyError))
        return -1;
    PyErr_Clear();
    return 0;
}

static int log_completed(Request *self, int64_t at, PyObject *reason, double produced)
{
    PyObject *log = self->family->log, *wanted = PyObject_GetAttr(log, request_names[WANTED]);
    Py_XDECREF(wanted);
    if (wanted != Py_True)
        return wanted == NULL ? -1 : 0;
    PyObject *number = PyObject_CallMethodNoArgs(log, request_names[NUMBER]);
    if (number == NULL)
        return -1;
    EndedRequest *ended = new_ended(self, request_words[COMPLETED], reason, at, produced);
    if (ended == NULL) {
        Py_DECREF(number);
        return -1;
    }
    ended->number = PyLong_AsLongLong(number);
    Py_DECREF(number);
    PyObject *done = PyObject_CallMethodOneArg(log, request_names[ADD], (PyObject *)ended);
    Py_DECREF(ended);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

typedef struct {
    int64_t at;
    double produced; /* tokens; not a number if unknown */
    double input;    /* tokens; not a number if unknown */
    int64_t begun;   /* tokens of the first output */
    double finish_id; /* of its finish reason, if it has one */
} Completion;

/* Whether each duration is 0 or more. */
static int is_in_order(Request *self, int64_t at)
{
    if (at < self->issued || (self->first >= 0 && (self->first < self->issued || at < self->first)))
        return 0;
    const Numbers *times = times_of(self);
    if (times == NULL)
        return 1;
    const int64_t *values = times->values;
    int64_t least = 0;
    for (uint32_t index = HEAD; index < times->used; index++)
        least = values[index] - values[index - 1] < least ? values[index] - values[index - 1] : least;
    return least == 0;
}

/* Whether there is a time per token after the first output. */
static int has_pace(const Request *self, const Completion *completion)
{
    return self->first >= 0 && completion->produced > (double)completion->begun;
}

/* Looks up the ids of all rows, in the order of the rows. Each may run Python. */
static int find_ids(const Request *self, PyObject *reason, Completion *completion)
{
    Family *family = self->family;
    if (reason == NULL ? find_id(family, COMPLETED) : find_finish_id(family, reason, &completion->finish_id))
        return -1;
    if (find_id(family, LATENCY))
        return -1;
    if (self->planned >= 0 && (find_id(family, CORRECTED) || find_id(family, QUEUE_DELAY)))
        return -1;
    if ((self->first >= 0 && find_id(family, TTFT)) || (self->times != NULL && find_id(family, ITL)))
        return -1;
    if (!isnan(completion->produced) && find_id(family, OUTPUT_TOKENS))
        return -1;
    if (has_pace(self, completion) && find_id(family, TPOT))
        return -1;
    return isnan(completion->input) ? 0 : find_id(family, INPUT_TOKENS);
}

static uint64_t count_rows(Request *self, const Completion *completion)
{
    int others = 2 + (self->planned >= 0 ? 2 : 0) + (self->first >= 0) + !isnan(completion->produced) +
                 has_pace(self, completion) + !isnan(completion->input);
    return (uint64_t)others + chunks_of(times_of(self));
}

static void write_rows(Request *self, int has_reason, const Completion *completion, uint64_t rows)
{
    const Family *family = self->family;
    const double *ids = family->cached_ids;
    Control *control = ring_control(family->ring);
    int64_t issued = self->issued, first = self->first, at = completion->at;
    uint64_t now = (uint64_t)at, row = begin_rows(control, rows);
    write_row(control, row++, has_reason ? completion->finish_id : ids[COMPLETED], now, 1.0);
    write_row(control, row++, ids[LATENCY], now, (double)(at - issued));
    if (self->planned >= 0) {
        int64_t due = self->planned < issued ? self->planned : issued;
        write_row(control, row++, ids[CORRECTED], now, (double)(at - due));
        write_row(control, row++, ids[QUEUE_DELAY], (uint64_t)issued, (double)(issued - due));
    }
    if (first >= 0)
        write_row(control, row++, ids[TTFT], (uint64_t)first, (double)(first - issued));
    const int64_t *before = self->times == NULL ? NULL : self->times->values + TIME_BEFORE;
    for (uint32_t chunk = 0; chunk < chunks_of(times_of(self)); chunk++, before++)
        write_row(control, row++, ids[ITL], (uint64_t)before[1], (double)(before[1] - before[0]));
    if (!isnan(completion->produced)) {
        double later = completion->produced - (double)completion->begun;
        write_row(control, row++, ids[OUTPUT_TOKENS], now, completion->produced);
        if (has_pace(self, completion))
            write_row(control, row++, ids[TPOT], now, (double)(at - first) / later);
    }
    if (!isnan(completion->input))
        write_row(control, row++, ids[INPUT_TOKENS], now, completion->input);
    commit_rows(control, row);
}

/* Records a completed request of the usual kind: all of its rows go into the ring together. Returns 0, with nothing
   recorded, if it is of another kind, or if the ring has no room. */
static int put_completed(Request *self, int64_t at, double produced, PyObject *reason)
{
    Family *family = self->family;
    Completion completion = {.at = at, .produced = produced, .input = NAN, .begun = 1};
    if (is_given(family->limits) || family->ring == NULL || is_given(self->extras))
        return 0;
    if (is_given(self->input) && !is_plain_amount(self->input, &completion.input))
        return 0;
    if (self->times != NULL && is_known(self->times))
        completion.begun = self->times->values[FIRST_TOKENS];
    if (isnan(produced) && self->first >= 0) {
        int64_t more = self->times == NULL ? 0 : more_tokens(self);
        if (more > UNKNOWN_SUM / 2)
            completion.produced = (double)(completion.begun + more);
    }
    uint64_t rows = count_rows(self, &completion);
    if (find_ids(self, reason, &completion) < 0)
        return -1;
    Ring *ring = family->ring;
    if (ring == NULL || !ring_has_room(ring, rows))
        return 0;
    if (ring != family->ring || rows != count_rows(self, &completion) || !is_in_order(self, at))
        return 0; /* other threads may have run meanwhile */
    write_rows(self, reason != NULL, &completion, rows);
    return log_completed(self, at, reason == NULL ? request_names[NOTHING] : reason, completion.produced) < 0 ? -1 : 1;
}

/* Releases all references. Later calls see an ended request, and the key is free. */
static int let_go(Request *self, PyObject *moment)
{
    PyObject *done;
    if (is_given(self->extras)) {
        done = PyObject_CallMethodOneArg((PyObject *)self, request_names[LET_GO], moment);
    } else {
        end_request(self);
        if (!is_given(self->key))
            return 0;
        PyObject *key = self->key;
        self->key = NULL;
        done = PyObject_CallMethodOneArg((PyObject *)self->family, request_names[FREE], key);
        Py_DECREF(key);
    }
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The outcome, with arguments that have been read. */
static int end_completed(Request *self, int64_t at, PyObject *moment, PyObject *tokens, PyObject *reason,
                         PyObject *text)
{
    int claimed = claim(self);
    if (claimed <= 0)
        return claimed < 0 ? -1 : count_after_end(self, moment);
    double produced = is_given(tokens) ? PyFloat_AsDouble(tokens) : NAN;
    int has_reason = is_given(reason) && PyUnicode_GetLength(reason) > 0;
    int put = is_given(text) && isnan(produced) ? 0 : put_completed(self, at, produced, has_reason ? reason : NULL);
    if (put == 0) {
        PyObject *arguments[] = {(PyObject *)self, moment, tokens, reason, text};
        PyObject *done = PyObject_VectorcallMethod(request_names[PUT_COMPLETED], arguments, 5, NULL);
        Py_XDECREF(done);
        put = done == NULL ? -1 : 1;
    }
    return put < 0 ? -1 : let_go(self, moment);
}

/* Reads what is not plain as the family does. Gives new references. */
static int read_outcome(const Request *self, PyObject **tokens, PyObject **reason)
{
    double amount;
    PyObject *family = (PyObject *)self->family, *given = *tokens, *said = *reason;
    *tokens = *reason = NULL;
    if (given == NULL || given == Py_None || (PyFloat_CheckExact(given) && is_plain_amount(given, &amount)))
        *tokens = Py_NewRef(given == NULL ? Py_None : given);
    else if (is_plain_amount(given, &amount))
        *tokens = PyFloat_FromDouble(amount);
    else
        *tokens = PyObject_CallMethodObjArgs(family, request_names[AMOUNT], given, request_names[PRODUCED_SAID], NULL);
    if (*tokens == NULL)
        return -1;
    if (said == NULL || said == Py_None || PyUnicode_CheckExact(said))
        *reason = Py_NewRef(said == NULL ? Py_None : said);
    else
        *reason = PyObject_CallMethodOneArg(family, request_names[SAID], said);
    if (*reason == NULL)
        Py_CLEAR(*tokens);
    return *reason == NULL ? -1 : 0;
}

PyObject *request_complete(Request *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    PyObject *given[COMPLETE_ARGUMENTS];
    int64_t at;
    if (sort_arguments(arguments, count, keywords, request_names + PRODUCED, COMPLETE_ARGUMENTS, given) < 0)
        return NULL;
    PyObject *moment = read_moment(self, given[3], &at), *tokens = given[0], *reason = given[1];
    if (moment == NULL)
        return NULL;
    if (read_outcome(self, &tokens, &reason) < 0) {
        Py_DECREF(moment);
        return NULL;
    }
    if (end_completed(self, at, moment, tokens, reason, given[2] == NULL ? Py_None : given[2]) < 0)
        Py_CLEAR(moment);
    Py_DECREF(tokens);
    Py_DECREF(reason);
    return moment;
}
