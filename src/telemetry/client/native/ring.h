/* The layout of a ring, and the few lines that put an event in. No Python here. The format is described in docs/RING.md.

   A region is a header, a table of batches, a ring of bytes for records, and a ring of slots for rows. Positions count
   rows, and bytes of records, from 0 and never wrap. One thread at a time records: the one that holds the GIL. */

#ifndef TELEMETRY_RING_H
#define TELEMETRY_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define RING_MAGIC 0x31474e4952544d54ull /* "TMTRING1" */
#define RING_VERSION 1u
#define PRODUCER_BYTES 64u
#define HEADER_BYTES 4096u
#define BATCHES 1024u
#define ROW_BYTES 27u
#define SKIPPED 0x80000000u /* in the length of a record whose bytes are not kept */

/* Indexes of `counts`. */
enum { BUFFER_FULL, NOT_A_NUMBER, BLOCK_TIMEOUT, UNENCODABLE, COUNTS };

typedef struct {
    double id;
    uint64_t time;
    double value;
} Slot;

/* Where a batch ends: rows and records below these positions are in it or in an earlier one. */
typedef struct {
    uint64_t seq_plus_1, first, rows, records, record_bytes, monotonic_ns, wall_ns;
    _Atomic uint64_t checksum; /* stored last; 0 while the entry is being written */
} BatchEnd;

typedef struct {
    uint64_t magic;
    uint32_t version, number; /* of the region in its file */
    uint64_t region_bytes, most_slots, record_capacity, batches;
    uint64_t pid, pid_started, monotonic_ns, wall_ns;
    char producer[PRODUCER_BYTES];
    /* Stores by recording threads. */
    _Alignas(64) _Atomic uint64_t committed; /* rows below are whole */
    _Atomic uint64_t writing;                /* several rows are being written up to here; else not above committed + 1 */
    _Atomic uint64_t capacity;               /* slots in use: row p is in slot p & (capacity - 1) */
    _Atomic uint64_t floor;                  /* rows below are in no slot */
    _Atomic uint64_t counts[8];              /* events that were dropped, by reason */
    _Alignas(64) _Atomic uint64_t records; /* records below are whole, and so are their bytes */
    _Atomic uint64_t record_bytes;
    _Atomic uint64_t record_writing; /* bytes are being written up to here */
    _Atomic uint64_t requests_ended;  /* requests that belong in the request log */
    _Atomic uint64_t requests_logged; /* those of them that a record has, or counts as left out */
    /* Stores by the thread that sends. */
    _Alignas(64) _Atomic uint64_t taken; /* rows below are in a batch or were given up */
    _Atomic uint64_t records_taken, record_bytes_taken;
} Header;

_Static_assert(sizeof(Slot) == 24, "a slot has 24 bytes");
_Static_assert(sizeof(BatchEnd) == 64, "an entry of the table has 64 bytes");
_Static_assert(sizeof(Header) <= HEADER_BYTES, "a header fits into its page");
_Static_assert(offsetof(Header, committed) == 192, "positions as in the description of the format");
_Static_assert(offsetof(Header, records) == 320, "positions as in the description of the format");
_Static_assert(offsetof(Header, taken) == 384, "positions as in the description of the format");

/* What recording reads and writes. It lies in memory that a forked child finds zeroed: no room, not live. */
typedef struct {
    uint64_t head, limit, mask;
    Slot *slots;
    Header *shared;
    uint64_t taken;
    uint64_t live; /* events go into the ring, if there is room */
} Control;

/* FNV-1a over words instead of bytes: no other value of one word has the same checksum. */
static inline uint64_t checksum_of(const BatchEnd *end)
{
    const uint64_t words[] = {end->seq_plus_1,   end->first,        end->rows,   end->records,
                              end->record_bytes, end->monotonic_ns, end->wall_ns};
    uint64_t sum = 0xcbf29ce484222325ull;
    for (size_t word = 0; word < sizeof words / sizeof *words; word++)
        sum = (sum ^ words[word]) * 0x100000001b3ull;
    return sum;
}

static inline uint64_t batches_offset(void) { return HEADER_BYTES; }
static inline uint64_t records_offset(void) { return HEADER_BYTES + BATCHES * sizeof(BatchEnd); }
static inline uint64_t slots_offset(uint64_t record_capacity) { return records_offset() + record_capacity; }

/* The clock of time.monotonic_ns(). */
static inline uint64_t monotonic_ns(void)
{
#ifdef __APPLE__
    return clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
#endif
}

/* Adds one row. There must be room. A row is whole before it is committed, whenever the process dies. */
static inline void put_row(Control *control, double id, uint64_t time, double value)
{
    uint64_t head = control->head;
    control->slots[head & control->mask] = (Slot){id, time, value};
    control->head = head + 1;
    atomic_store_explicit(&control->shared->committed, head + 1, memory_order_release);
}

/* Rows that become whole together: begin, write each, commit. There must be room for all. */
static inline uint64_t begin_rows(Control *control, uint64_t rows)
{
    atomic_store_explicit(&control->shared->writing, control->head + rows, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* no slot is overwritten before others know */
    return control->head;
}

static inline void write_row(Control *control, uint64_t at, double id, uint64_t time, double value)
{
    control->slots[at & control->mask] = (Slot){id, time, value};
}

static inline void commit_rows(Control *control, uint64_t end)
{
    control->head = end;
    atomic_store_explicit(&control->shared->committed, end, memory_order_release);
}

static inline void add_count(Header *header, int reason, uint64_t events)
{
    uint64_t before = atomic_load_explicit(&header->counts[reason], memory_order_relaxed);
    atomic_store_explicit(&header->counts[reason], before + events, memory_order_release);
}

/* --- rows as msgpack ---------------------------------------------------------------------------- */

static inline uint8_t *store_big(uint8_t *out, uint8_t mark, const void *number)
{
    uint64_t bits;
    memcpy(&bits, number, sizeof bits);
    bits = __builtin_bswap64(bits);
    *out = mark;
    memcpy(out + 1, &bits, sizeof bits);
    return out + 1 + sizeof bits;
}

static inline uint8_t *encode_slots(const Slot *slot, uint64_t count, uint8_t *out)
{
    for (const Slot *end = slot + count; slot != end; slot++) {
        out = store_big(out, 0xcb, &slot->id);
        out = store_big(out, 0xcf, &slot->time);
        out = store_big(out, 0xcb, &slot->value);
    }
    return out;
}

/* Encodes rows [from, to), which are in slots. */
static inline uint8_t *encode_rows(const Slot *slots, uint64_t mask, uint64_t from, uint64_t to, uint8_t *out)
{
    uint64_t start = from & mask, count = to - from, first = mask + 1 - start;
    if (first > count)
        first = count;
    out = encode_slots(slots + start, first, out);
    return encode_slots(slots, count - first, out);
}

/* The header of an array, as msgspec writes it: 1, 3 or 5 bytes. */
static inline unsigned array_header_bytes(uint64_t elements) { return elements < 16 ? 1 : elements < 65536 ? 3 : 5; }

static inline uint8_t *encode_array_header(uint64_t elements, uint8_t *out)
{
    unsigned bytes = array_header_bytes(elements);
    if (bytes == 1) {
        *out = (uint8_t)(0x90 | elements);
        return out + 1;
    }
    *out++ = bytes == 3 ? 0xdc : 0xdd;
    for (int shift = 8 * (int)(bytes - 2); shift >= 0; shift -= 8)
        *out++ = (uint8_t)(elements >> shift);
    return out;
}

#endif
