/* The ring as an object of Python, for the files that make it up. */

#ifndef TELEMETRY_RING_OBJECT_H
#define TELEMETRY_RING_OBJECT_H

#include "recorder.h"

#include <sys/types.h>

#define RECORD_CAPACITY 1048576u
#define PAGE_BYTES 4096u

struct Ring {
    PyObject_HEAD
    Control *control;
    char *region; /* NULL without memory */
    uint64_t region_bytes, most_slots, bound;
    PyObject *target, *on_full;
    uint64_t counts[COUNTS], counts_taken[COUNTS]; /* the former while there is no region */
    pid_t opened_by;
    int is_wiped;   /* the system zeroes the control block in a forked child */
    int descriptor; /* of the file; -1 if the memory is private */
    uint64_t openings;                   /* of memory: it may be other memory after other threads have run */
    _Atomic int is_encoding, is_growing; /* a thread without the GIL reads or writes the memory */
    int is_cramped;                      /* a file that could not grow once */
    uint64_t touched_ns;        /* when the file last got a time stamp that says that its process lives */
    uint64_t acknowledged;               /* rows below are in batches that arrived */
    _Atomic uint64_t requests;           /* that this process has ended, with whatever memory */
};

static inline uint64_t capacity_of(const Control *control) { return control->shared == NULL ? 0 : control->mask + 1; }

/* Whether more slots would keep rows readable that have not arrived yet. */
static inline int would_keep_more(const Ring *ring)
{
    return ring->descriptor >= 0 && !ring->is_cramped && 2 * capacity_of(ring->control) <= ring->most_slots;
}

/* Forgets the memory of the parent, in a forked child. */
void ring_forget_parent(Ring *ring);

/* Looks again up to where there is room. */
void ring_update_limit(Ring *ring);

/* Counts events that were dropped. */
void ring_count(Ring *ring, int reason, uint64_t events);

/* Gives the memory back. Its file stays. */
void ring_release_memory(Ring *ring);

/* Gives a ring without memory some that is private. Returns -1 with an exception. */
int ring_ensure_memory(Ring *ring);

/* Doubles the slots in use. Rows keep their positions: those whose slot changes are copied, and their old slots stay as
   they are, so that a reader may take either capacity. A file without room is left for private memory, if rows must have
   room. Returns 0 if nothing has grown. May let other threads run. */
int ring_grow(Ring *ring, int is_needed);

/* Methods, for the table of the type. */
PyObject *ring_open(Ring *ring, PyObject *arguments);
PyObject *ring_release(Ring *ring, PyObject *none);
PyObject *ring_take(Ring *ring, PyObject *most);
PyObject *ring_drop(Ring *ring, PyObject *rows);
PyObject *ring_rows(Ring *ring, PyObject *none);
PyObject *ring_waiting(Ring *ring, void *none);
PyObject *ring_keep(Ring *ring, PyObject *const *arguments, Py_ssize_t count);
PyObject *ring_records_gone(Ring *ring, PyObject *records);
PyObject *ring_note_batch(Ring *ring, PyObject *arguments);
PyObject *ring_acknowledged(Ring *ring, PyObject *batches);
PyObject *ring_next_request(Ring *ring, PyObject *none);
PyObject *ring_requests_logged(Ring *ring, PyObject *requests);
PyObject *ring_tally(Ring *ring, PyObject *reason);
PyObject *ring_record(PyObject *ring, PyObject *row_id);
PyObject *ring_add(PyObject *ring, PyObject *row_id);

#endif
