/* Requests in flight, and those that have ended, on their way to the request log. */

#ifndef TELEMETRY_REQUESTS_H
#define TELEMETRY_REQUESTS_H

#include "recorder.h"

#define UNKNOWN_TOKENS ((1ll << 33) - 1)
#define PLACES_BITS 46 /* for the tokens of all chunks that are held, beside the index of one */
#define PLACES (1ll << PLACES_BITS)
#define UNKNOWN_SUM (-(1ll << 62)) /* tokens of other chunks can't raise it near 0 */

/* Of a time. */
#define NO_TIME (-1)
#define ENDED (-2) /* the first output of a request that has ended */

/* Head of the times of a request: tokens of the first output; tokens of chunks that are no longer held, beyond one
   for each; the number of these, the largest gap between them, and the time before the first chunk held. */
enum { FIRST_TOKENS, MORE_TOKENS, LEFT_OUT, LARGEST_GAP, TIME_BEFORE, HEAD };

/* Words of instruments, as in telemetry.wire.requests. */
enum { ISSUED, COMPLETED, LATENCY, CORRECTED, QUEUE_DELAY, TTFT, ITL, OUTPUT_TOKENS, TPOT, INPUT_TOKENS, WORDS };

/* Names: of the arguments of `first` and `chunk`, of those of `complete`, and of methods and attributes. */
enum {
    TOKENS, TOKENS_AT,
    PRODUCED, FINISH_REASON, OUTPUT_TEXT, COMPLETE_AT,
    MOMENT, AMOUNT, PRODUCED_SAID, SAID, LABELLED, AFTER_END, PUT, FREE, NUMBER, ADD, WANTED, LET_GO,
    PUT_COMPLETED, PUT_GAPS, NOTHING,
    NAMES
};
enum { OUTPUT_ARGUMENTS = PRODUCED, COMPLETE_ARGUMENTS = MOMENT - PRODUCED };

extern PyObject *request_words[WORDS], *request_names[NAMES], *array_type;
extern PyTypeObject FamilyBaseType, EndedRequestType;

/* A growing list. */
typedef struct {
    uint32_t used, room;
    int64_t values[];
} Numbers;

/* What the instruments of a kind of request, in one tracking window, have in C. */
typedef struct {
    PyObject_HEAD
    PyObject *open, *ids, *limits, *log;
    Ring *ring;               /* where rows go; NULL if only `put` knows */
    PyObject *finish;         /* reason of the latest outcome that had one, */
    double finish_id;         /* and its row id */
    double cached_ids[WORDS]; /* not a number: not known yet */
} Family;

typedef struct {
    PyObject_HEAD
    int64_t *next;  /* place of the time of the next chunk */
    int64_t *limit; /* the same as `next` if that chunk needs more than a time in its place */
    int64_t first;
    Family *family;
    Numbers *times;  /* of chunks, after a head: read it with times_of */
    Numbers *tokens; /* of each chunk held that has not one: its index times PLACES, plus its tokens */
    PyObject *key, *input, *extras;
    int64_t issued, planned, told;
} Request;

/* A request on its way to the request log; `Ended` in ended.py tells what it has. */
typedef struct {
    PyObject_HEAD
    PyObject *family, *outcome, *reason, *input, *turn, *limits;
    Numbers *times, *tokens;
    int64_t number, issued, ended, planned, first;
    double produced; /* tokens; not a number if unknown */
} EndedRequest;

static inline int is_given(const PyObject *object) { return object != NULL && object != Py_None; }

static inline int is_known(const Numbers *times) { return times->values[FIRST_TOKENS] != UNKNOWN_TOKENS; }

static inline uint32_t chunks_of(const Numbers *times) { return times == NULL ? 0 : times->used - HEAD; }

/* The times of a request with those that `chunk` has only put in their places. */
static inline Numbers *times_of(Request *request)
{
    Numbers *times = request->times;
    if (times != NULL)
        times->used = (uint32_t)(request->next - times->values);
    return times;
}

/* Functions that return -1 with an exception. */

/* Looks up the row id of a word, or of a completion with a reason. If there is no instrument yet, it is made, which
   runs Python. */
int find_id(Family *family, int word);
int find_finish_id(Family *family, PyObject *reason, double *id);

/* Sorts arguments by name. Those that are not given are NULL. */
int sort_arguments(PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject *const *expected,
                   Py_ssize_t most, PyObject **given);

/* The time of a call, as a number and as an object; NULL with an exception. */
PyObject *read_moment(const Request *request, PyObject *at_ns, int64_t *at);

/* Tokens of all chunks but the first output; below UNKNOWN_SUM / 2 if some are unknown. */
int64_t more_tokens(Request *request);

int count_after_end(const Request *request, PyObject *moment);

/* Makes a request one that has ended, without its chunks. */
void end_request(Request *request);

/* Hands the times of chunks on to what goes to the request log. NULL with an exception. */
EndedRequest *new_ended(Request *request, PyObject *outcome, PyObject *reason, int64_t at, double produced);

/* A list as array.array, or None. */
PyObject *as_array(const Numbers *list);

/* Methods. */
PyObject *request_first(Request *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *request_chunk(Request *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *request_complete(Request *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);

/* The function of the module that sets how many chunks of a request are held. */
PyObject *hold_chunks(PyObject *module, PyObject *most);

/* Adds the types and functions of requests to the module. */
int add_requests(PyObject *module);

#endif
