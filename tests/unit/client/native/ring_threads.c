/* The ring without Python: one thread records while another takes rows, as the interpreter has them do it. The lock here
   is the interpreter's: it is held to record, and to move `taken`, but not to encode. Built with sanitizers by a test. */

#include "../../../../src/telemetry/client/native/ring.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 300000ull
#define GROUP 7ull
#define SLOTS 1024ull
#define MOST 300ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Control control;

static uint64_t room(void) { return control.taken + SLOTS - control.head; }

static void *records(void *none)
{
    for (uint64_t next = 0; next < ROWS;) {
        pthread_mutex_lock(&lock);
        uint64_t rows = next % 3 == 0 ? GROUP : 1;
        if (room() >= rows) {
            if (rows == 1) {
                put_row(&control, (double)next, next, (double)next / 2);
            } else {
                uint64_t at = begin_rows(&control, rows);
                for (uint64_t row = 0; row < rows; row++)
                    write_row(&control, at + row, (double)(next + row), next + row, (double)(next + row) / 2);
                commit_rows(&control, at + rows);
            }
            next += rows;
        }
        pthread_mutex_unlock(&lock);
    }
    return none;
}

static double big_double(const uint8_t *at)
{
    uint64_t bits;
    double number;
    memcpy(&bits, at, sizeof bits);
    bits = __builtin_bswap64(bits);
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Takes rows until all have come, and checks that each is the next one. */
static int takes(void)
{
    uint8_t *rows = malloc(MOST * ROW_BYTES);
    uint64_t taken = 0;
    int wrong = 0;
    while (taken < ROWS && !wrong) {
        pthread_mutex_lock(&lock);
        uint64_t from = control.taken, to = control.head - from > MOST ? from + MOST : control.head;
        pthread_mutex_unlock(&lock);
        encode_rows(control.slots, control.mask, from, to, rows);
        pthread_mutex_lock(&lock);
        control.taken = to;
        pthread_mutex_unlock(&lock);
        for (uint64_t row = from; row < to; row++) {
            const uint8_t *at = rows + (row - from) * ROW_BYTES;
            wrong |= at[0] != 0xcb || at[9] != 0xcf || at[18] != 0xcb;
            wrong |= big_double(at + 1) != (double)row || big_double(at + 19) != (double)row / 2;
        }
        taken = to;
    }
    free(rows);
    return wrong;
}

int main(void)
{
    Header *shared = calloc(1, HEADER_BYTES);
    control = (Control){.mask = SLOTS - 1, .slots = calloc(SLOTS, sizeof(Slot)), .shared = shared};
    pthread_t recorder;
    pthread_create(&recorder, NULL, records, NULL);
    int wrong = takes();
    pthread_join(recorder, NULL);
    printf("%s, %llu committed\n", wrong ? "wrong" : "right", (unsigned long long)atomic_load(&shared->committed));
    free(control.slots);
    free(shared);
    return wrong;
}
