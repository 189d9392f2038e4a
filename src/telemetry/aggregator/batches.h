/* Canonical rows of batches, in two passes: one only looks, the other adds them up. They do what unpack, IdTable.look_up
   and Applier do with rows whose ids lead to instruments. */

#ifndef BATCHES_H
#define BATCHES_H

#include "kinds.h"

#define ROW_BYTES 27
#define ID_AT 1
#define TIME_AT 10
#define VALUE_AT 19
#define ID_MARK 0xcbu
#define TIME_MARK 0xcfu
#define VALUE_MARK 0xcbu
#define HEAD_BYTES 1024 /* of a batch without records, at most */
#define INDEX_BITS 24
#define INDEX_MASK ((1 << INDEX_BITS) - 1)
#define LACKS_PAGE (UINT32_C(1) << 30)
#define IS_WATCHED (UINT32_C(1) << 31)
#define BLOCK 64 /* rows that are looked at together */
#define AHEAD 32 /* rows between the request for a count and its use */

typedef struct {
    Series series;
    Counters counters;
    Gauges gauges;
    Times times[KINDS]; /* of gauges there are none */
    const char *watched[KINDS]; /* marks of instruments whose rows the caller wants to see */
    uint64_t watched_size[KINDS];
} Tables;

/* Neighbouring rows of one producer, with its ids and its clock. */
typedef struct {
    const uint8_t *rows;
    int64_t count;
    const int32_t *routes;
    uint64_t ids;
    int64_t offset, made;
} Part;

/* What the first pass leaves to the second. */
typedef struct {
    double value;
    uint32_t place; /* among the fresh counts, or the key of the page that is missing */
    uint32_t route; /* kind and index, and flags */
} Row;

/* A call: its rows, and what the first pass finds out. */
typedef struct {
    Part *parts, *end;
    Row *looked_at;
    int64_t rows, chunk, now;
    double exact_addend;
    double reached;
    int64_t values, missing, watched[KINDS];
    double highest;   /* of the last chunk, see look_at_series */
    int64_t in_chunk; /* values of series in it; stands here, so that gcc does not pack its neighbours for each row */
    double shifts;    /* of the last chunk */
} Call;

INLINE uint64_t integer_at(const uint8_t *at)
{
    return (uint64_t)at[0] << 56 | (uint64_t)at[1] << 48 | (uint64_t)at[2] << 40 | (uint64_t)at[3] << 32 |
           (uint64_t)at[4] << 24 | (uint64_t)at[5] << 16 | (uint64_t)at[6] << 8 | (uint64_t)at[7];
}

INLINE unsigned kind_of(const Row *row) { return row->route >> INDEX_BITS & 3; }

INLINE uint32_t index_of(const Row *row) { return row->route & INDEX_MASK; }

/* As wall_times_of. */
static int64_t run_time(uint64_t time, const Part *part, int64_t now)
{
    int64_t clock = time > INT64_MAX ? INT64_MAX : (int64_t)time, room = INT64_MAX - clock;
    int64_t wall = clock + (part->offset < room ? part->offset : room);
    wall = clock == 0 ? part->made : wall < 0 ? 0 : wall;
    return wall < now ? wall : now;
}

/* --- the first pass: block by block, one step after the other, so that few loads wait for each other -----------------

   Each step returns 0 if a row is special. */

/* The route of a row's id; negative if it leads nowhere. */
INLINE int32_t route_of(const Part *part, const uint8_t *row)
{
    double id = number_of(integer_at(row + ID_AT)), sum = id + FIRST_WHOLE; /* which ends with the bits of an integer */
    uint64_t at = bits_of(sum) - bits_of(FIRST_WHOLE);
    return at < part->ids && sum - FIRST_WHOLE == id ? part->routes[at] : -1;
}

static int look_up(const Part *part, const uint8_t *bytes, Row *rows, int64_t count)
{
    int32_t all = 0;
    for (Row *row = rows; row < rows + count; row++, bytes += ROW_BYTES) {
        int32_t route = route_of(part, bytes);
        row->value = number_of(integer_at(bytes + VALUE_AT));
        row->place = 0;
        row->route = (uint32_t)route;
        all |= route;
    }
    return all >= 0;
}

/* Series are bounded and counted chunk by chunk, as the table of series takes them. */
static void end_chunk(Call *call)
{
    call->reached = reach_on(call->reached, call->in_chunk, call->highest, call->shifts);
    call->values += call->in_chunk;
    call->in_chunk = 0;
    call->highest = call->shifts = 0.0;
}

static int look_at_values(const Tables *tables, Call *call, Row *rows, int64_t count, uint64_t *slots)
{
    const Series series = tables->series;
    const int is_watching = tables->watched_size[SERIES] || tables->watched_size[COUNTER] || tables->watched_size[GAUGE];
    int64_t left = call->chunk - call->in_chunk;
    double highest = call->highest, shifts = call->shifts;
    for (int64_t at = 0; at < count; at++) {
        Row *row = &rows[at];
        uint32_t of = index_of(row), kind = row->route >> INDEX_BITS;
        if (kind == SERIES) {
            if (!look_at_series(&series, of, row->value, &slots[at], &highest, &shifts))
                return 0;
            if (RARELY(--left == 0)) {
                call->highest = highest;
                call->shifts = shifts;
                call->in_chunk = call->chunk;
                end_chunk(call);
                highest = shifts = 0.0;
                left = call->chunk;
            }
        } else if (!(kind == COUNTER && look_at_counter(&tables->counters, of, row->value, call->exact_addend)) &&
                   !(kind == GAUGE && look_at_gauge(&tables->gauges, of, row->value))) {
            return 0;
        }
        if (RARELY(is_watching) && of < tables->watched_size[kind] && tables->watched[kind][of]) {
            row->route |= IS_WATCHED;
            call->watched[kind]++;
        }
    }
    call->in_chunk = call->chunk - left;
    call->highest = highest;
    call->shifts = shifts;
    return 1;
}

static int look_at_pages(const Series *series, Call *call, Row *rows, int64_t count, const uint64_t *slots)
{
    for (int64_t at = 0; at < count; at++) {
        if (kind_of(&rows[at]) != SERIES)
            continue;
        int found = look_at_page(series, slots[at], &rows[at].place);
        if (RARELY(found == SPECIAL))
            return 0;
        if (RARELY(found == NO_PAGE)) {
            rows[at].route |= LACKS_PAGE;
            call->missing++;
        }
    }
    return 1;
}

/* True if every row is usual, but for pages that are missing. Nothing else has changed. */
static int look(const Tables *tables, Call *call)
{
    Row *rows = call->looked_at;
    uint64_t slots[BLOCK];
    for (const Part *part = call->parts; part < call->end; part++) {
        for (int64_t at = 0, count; at < part->count; at += count, rows += count) {
            count = part->count - at < BLOCK ? part->count - at : BLOCK;
            if (!look_up(part, part->rows + at * ROW_BYTES, rows, count) ||
                !look_at_values(tables, call, rows, count, slots) ||
                !look_at_pages(&tables->series, call, rows, count, slots))
                return 0;
        }
    }
    end_chunk(call);
    return call->reached >= 0.0;
}

/* --- the second pass ----------------------------------------------------------------------------------------------- */

static void add_values(const Tables *tables, const Call *call)
{
    const Series series = tables->series;
    const Row *end = call->looked_at + call->rows;
    for (const Row *row = call->looked_at; row < end; row++) {
        fetch(&series.fresh[row[AHEAD].place]);
        add_to_series(&series, index_of(row), row->value, row->place);
    }
}

/* `sums` are zeros, one for each counter. */
static void add_rows(const Tables *tables, const Call *call, int64_t *sums)
{
    const Row *row = call->looked_at;
    int64_t in_chunk = 0;
    for (const Part *part = call->parts; part < call->end; part++) {
        for (int64_t at = 0; at < part->count; at++, row++) {
            uint32_t of = index_of(row);
            if (kind_of(row) == SERIES) {
                add_to_series(&tables->series, of, row->value, row->place);
            } else if (kind_of(row) == COUNTER) {
                tables->counters.events[of]++;
                sums[of] += (int64_t)row->value;
                if (++in_chunk == call->chunk) {
                    add_to_counters(&tables->counters, sums);
                    in_chunk = 0;
                }
            } else {
                uint64_t time = integer_at(part->rows + at * ROW_BYTES + TIME_AT);
                add_to_gauge(&tables->gauges, of, row->value, run_time(time, part, call->now));
            }
        }
    }
    if (in_chunk)
        add_to_counters(&tables->counters, sums);
}

/* Times of the rows of a part. Between `earliest` and `latest` a time is one of the run by an addition; see run_time. */
INLINE void note_part(const Times *times, const Part *part, const Row *row, int64_t now, int is_mixed)
{
    const int is_near = part->offset > -(INT64_C(1) << 62) && part->offset < now;
    const uint64_t earliest = is_near && part->offset < 0 ? (uint64_t)-part->offset : 1;
    const uint64_t latest = is_near ? (uint64_t)(now - part->offset) : 0;
    const Times series = times[SERIES];
    const uint8_t *time_at = part->rows + TIME_AT;
    for (const Row *end = row + part->count; row < end; row++, time_at += ROW_BYTES) {
        uint64_t clock = integer_at(time_at);
        int64_t time = (int64_t)(clock + (uint64_t)part->offset);
        if (RARELY(clock - earliest >= latest - earliest))
            time = run_time(clock, part, now);
        if (!is_mixed || kind_of(row) == SERIES)
            note_time(&series, index_of(row), row->value, time);
        else if (kind_of(row) == COUNTER)
            note_time(&times[COUNTER], index_of(row), row->value, time);
    }
}

static void note_times(const Tables *tables, const Call *call)
{
    const Row *row = call->looked_at;
    if (tables->times[SERIES].first == NULL || tables->times[COUNTER].first == NULL)
        return;
    for (const Part *part = call->parts; part < call->end; row += part->count, part++) {
        if (call->values == call->rows)
            note_part(tables->times, part, row, call->now, 0);
        else
            note_part(tables->times, part, row, call->now, 1);
    }
}

/* There are AHEAD rows of zeros behind the last one. */
static void add(const Tables *tables, const Call *call, int64_t *sums)
{
    note_times(tables, call);
    if (call->values == call->rows)
        add_values(tables, call);
    else
        add_rows(tables, call, sums);
}

/* --- rows in a frame: telemetry.wire.rows.find --------------------------------------------------------------------- */

static int are_marked(const uint8_t *row, uint64_t count)
{
    unsigned wrong = 0;
    for (; count > 0; count--, row += ROW_BYTES)
        wrong |= (row[0] ^ ID_MARK) | (row[ID_AT + 8] ^ TIME_MARK) | (row[TIME_AT + 8] ^ VALUE_MARK);
    return !wrong;
}

/* The position of the array of canonical rows at the end of a frame, behind `begin`; -1 if there is none. */
static int64_t find(const uint8_t *data, int64_t size, int64_t begin)
{
    for (int64_t header = 3; header <= 5 && header < size - begin; header += 2) {
        int64_t start = begin + (size - begin - header) % ROW_BYTES;
        for (; start < size - header && start < begin + HEAD_BYTES; start += ROW_BYTES) {
            uint64_t length = 0, count = (uint64_t)(size - start - header) / ROW_BYTES;
            for (int64_t at = start + 1; at < start + header; at++)
                length = length << 8 | data[at];
            if (data[start] == (header == 3 ? 0xdc : 0xdd) && length == 3 * count)
                return are_marked(data + start + header, count) ? start : -1;
        }
    }
    return -1;
}

#endif
