/* What the parts of the module share: the ring as a Python object, and how rows get into it. */

#ifndef TELEMETRY_RECORDER_H
#define TELEMETRY_RECORDER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ring.h"

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

typedef struct Ring Ring;
extern PyTypeObject RingType, RecorderType, TallyType;

/* The control block of a ring: never moves while the ring exists. */
Control *ring_control(Ring *ring);

/* Whether this many rows may go into the ring now. If so: begin_rows, write_row for each, commit_rows, without calling
   Python in between. If not, hand the rows to ring_put_rows, which knows what becomes of them. */
int ring_has_room(Ring *ring, uint64_t rows);

/* Puts flat rows, a list or tuple of id, time and value of each, wherever they go: all of them or none. Returns -1 with an
   exception. */
int ring_put_rows(Ring *ring, PyObject *rows);

/* Puts one row wherever it goes. Returns -1 with an exception. */
int ring_put_row(Ring *ring, double id, uint64_t time, double value);

/* Counts a value that can't be recorded, and clears the exception if a program may go on after it. Returns -1 if not. */
int ring_refuse(Ring *ring);

/* Reads `at_ns` as a time. Returns -1 with an exception. */
int read_time(PyObject *at_ns, uint64_t *time);

/* Reads a number as float() does, but no text. Returns -1 with an exception. */
int read_value(PyObject *value, double *number);

#endif
