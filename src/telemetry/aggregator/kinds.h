/* What a usual row does to the columns of its kind: the same as the Python code named at each of them, in the same order
   and with the same roundings. What the columns mean is said there.

   A row costs about as many tenths of a nanosecond as it has instructions here. */

#ifndef KINDS_H
#define KINDS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if SIZE_MAX != UINT64_MAX
#error "an index of numpy has 64 bits here"
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline)) /* a call would cost as much as the row */
#define RARELY(condition) __builtin_expect(!!(condition), 0)
#else
#define INLINE static inline
#define RARELY(condition) (condition)
#endif

#define PAGE_BITS 8
#define PAGE_SLOTS (1 << PAGE_BITS)
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#define FIRST_WHOLE 4503599627370496.0 /* 2**52: from here on a double has no fraction */
#define FIRST_GAP 9007199254740992.0   /* 2**53: from here on some integers are no doubles */
#define SPILLING (INT64_C(1) << 61)    /* half of what an integer of a counter holds before it moves */
#define LONGEST_NS 4611686018427387904.0 /* 2**62: a longer duration began before all times */

enum { SERIES, COUNTER, GAUGE, KINDS };
enum { SPECIAL, USUAL, NO_PAGE };

INLINE uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

INLINE double number_of(uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

INLINE double larger(double first, double second) { return first > second ? first : second; }

/* Rounds 0 to 2**52 as rint does. */
INLINE double whole(double number) { return (number + FIRST_WHOLE) - FIRST_WHOLE; }

/* For numbers from 0 on. Some integers beyond 2**52 count as fractions; a row that has one is special. */
INLINE int is_fraction(double number) { return whole(number) != number; }

/* Asks for memory that will be written soon. */
INLINE void fetch(const void *address)
{
#if defined(__GNUC__)
    __builtin_prefetch(address, 1);
#else
    (void)address;
#endif
}

/* --- when instruments were used: EventTimes.note ------------------------------------------------------------------ */

typedef struct {
    int64_t *first, *last;
    const double *duration_ns;
} Times;

/* Moves the earliest beginning and the latest end. The difference is rounded, but never above a duration that exceeds it. */
INLINE void note_time(const Times *times, uint64_t of, double number, int64_t time)
{
    if (time > times->last[of])
        times->last[of] = time;
    double duration = number * times->duration_ns[of];
    if (RARELY(duration >= (double)(time - times->first[of]))) {
        int64_t began = time - (int64_t)rint(duration < LONGEST_NS ? duration : LONGEST_NS);
        began = began > 0 ? began : 0;
        if (began < times->first[of])
            times->first[of] = began;
    }
}

/* --- series: Moments.record, TickColumns.slots and PagedCounts.add ------------------------------------------------- */

/* What never changes about a series. */
typedef struct {
    double scale, highest_tick;
    uint64_t first_slot; /* among the slots of all series */
} Range;

typedef struct {
    const double *shift;
    double *sums, *least, *most;
    const char *integral;
    const int64_t *table;
    uint32_t *fresh;
    int64_t *fresh_sums;
    Range *ranges;
    uint64_t size, last_page;
    double linear;
    int64_t slot_shift, slot_offset;
} Series;

/* As Layout.slot_of_whole. */
INLINE uint64_t slot_of(const Series *series, double ticks)
{
    if (RARELY(ticks < series->linear))
        return (uint64_t)ticks;
    return (bits_of(ticks) >> series->slot_shift) - (uint64_t)series->slot_offset;
}

/* Finds the slot of a value among those of all series. A negative zero is special: which of two zeros is the least is
   numpy's to say. `highest` gets the largest of all values and shifts, `shifts` the sum of the shifts, which is no number
   if a series has none yet. */
INLINE int look_at_series(const Series *series, uint64_t of, double number, uint64_t *slot, double *highest,
                          double *shifts)
{
    if (RARELY(of >= series->size))
        return SPECIAL;
    const Range *range = &series->ranges[of];
    double ticks = number * range->scale;
    if (RARELY(!(ticks >= 1.0)) && bits_of(number) != 0)
        return SPECIAL;
    if (RARELY(!(ticks <= range->highest_tick)) || (series->integral[of] && RARELY(is_fraction(number))))
        return SPECIAL;
    *highest = larger(larger(number, series->shift[of]), *highest);
    *shifts += series->shift[of];
    *slot = range->first_slot + slot_of(series, whole(ticks));
    return USUAL;
}

/* Finds the place of a slot among the fresh counts, or the key of the page that it needs. */
INLINE int look_at_page(const Series *series, uint64_t slot, uint32_t *place)
{
    uint64_t page = (uint64_t)series->table[slot >> PAGE_BITS];
    if (page - 1 < series->last_page) {
        *place = (uint32_t)(page << PAGE_BITS | (slot & (PAGE_SLOTS - 1)));
        return USUAL;
    }
    *place = (uint32_t)(slot >> PAGE_BITS);
    return page ? SPECIAL : NO_PAGE;
}

INLINE void add_to_series(const Series *series, uint64_t of, double number, uint32_t place)
{
    double deviation = number - series->shift[of];
    series->sums[2 * of] += deviation;
    series->sums[2 * of + 1] += deviation * deviation;
    if (RARELY(number < series->least[of]))
        series->least[of] = number;
    if (RARELY(number > series->most[of]))
        series->most[of] = number;
    series->fresh[place]++;
    series->fresh_sums[place >> PAGE_BITS]++;
}

/* How far sums of deviations reach at most after so many more values; -1 if a sum could be inexact. */
static double reach_on(double reached, int64_t values, double highest, double shifts)
{
    double reach = (double)values * highest;
    return reached >= 0.0 && reached + reach < FIRST_GAP && shifts == shifts ? reached + reach : -1.0;
}

/* --- counters: CounterTable.record, for integers ------------------------------------------------------------------- */

typedef struct {
    int64_t *whole, *events;
    double *increase;
    uint64_t size;
} Counters;

INLINE int look_at_counter(const Counters *counters, uint64_t of, double number, double exact_addend)
{
    if (of >= counters->size || !(number >= 0.0 && number < exact_addend) || is_fraction(number))
        return SPECIAL;
    return counters->whole[of] >= 0 && counters->whole[of] < SPILLING ? USUAL : SPECIAL;
}

/* Adds the sums of a chunk, and forgets them. As there, each increase is rounded once. */
static void add_to_counters(const Counters *counters, int64_t *sums)
{
    for (uint64_t of = 0; of < counters->size; of++) {
        counters->increase[of] += (double)sums[of];
        counters->whole[of] += sums[of];
        sums[of] = 0;
    }
}

/* --- gauges: GaugeTable.record ------------------------------------------------------------------------------------- */

typedef struct {
    double *value, *least, *most;
    int64_t *time, *events;
    char *touched;
    uint64_t size;
} Gauges;

static int is_negative_zero(double number) { return number == 0.0 && signbit(number); }

/* Which zero is the least or the most is numpy's to say, here too. */
INLINE int look_at_gauge(const Gauges *gauges, uint64_t of, double number)
{
    if (of >= gauges->size || !(fabs(number) < FIRST_GAP))
        return SPECIAL;
    if (number != 0.0)
        return USUAL;
    int signs = signbit(number) || is_negative_zero(gauges->least[of]) || is_negative_zero(gauges->most[of]);
    return signs ? SPECIAL : USUAL;
}

INLINE void add_to_gauge(const Gauges *gauges, uint64_t of, double number, int64_t time)
{
    gauges->events[of]++;
    gauges->touched[of] = 1;
    if (number < gauges->least[of])
        gauges->least[of] = number;
    if (number > gauges->most[of])
        gauges->most[of] = number;
    if (time >= gauges->time[of]) {
        gauges->value[of] = number;
        gauges->time[of] = time;
    }
}

#endif
