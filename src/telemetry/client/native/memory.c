/* The memory of a ring: a file on a tmpfs, which outlives the process, or private memory. */

#define _GNU_SOURCE
#include "ring_object.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FIRST_SLOTS 65536u
#define SPARE_SLOTS 4096u /* beyond the bound: for rows of a caller who must not wait any longer */

#define KEPT_FREE 33554432u /* bytes of the file system that are left to others, such as loaders of training data */

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static Slot *slots_of(const Ring *ring)
{
    return (Slot *)(ring->region + slots_offset(((const Header *)ring->region)->record_capacity));
}

/* In a forked child the system zeroes the control block, and there is no mapping. Where the system can't, the child has
   copies of both. The descriptor is its parent's. In a namespace of its own, a child may even have the same number. */
void ring_forget_parent(Ring *ring)
{
    if (ring->region == NULL || (ring->control->shared != NULL && (ring->is_wiped || ring->opened_by == getpid())))
        return;
    if (ring->control->shared != NULL)
        munmap(ring->region, ring->region_bytes);
    memset(ring->control, 0, sizeof *ring->control);
    ring->region = NULL;
    atomic_store(&ring->is_growing, 0);
    atomic_store(&ring->is_encoding, 0);
    if (ring->descriptor >= 0)
        close(ring->descriptor);
    ring->descriptor = -1;
    memset(ring->counts, 0, sizeof ring->counts);
    memset(ring->counts_taken, 0, sizeof ring->counts_taken);
}

void ring_update_limit(Ring *ring)
{
    Control *control = ring->control;
    uint64_t capacity = capacity_of(control);
    uint64_t limit = control->taken + (ring->bound < capacity ? ring->bound : capacity);
    if (would_keep_more(ring) && limit > ring->acknowledged + capacity)
        limit = ring->acknowledged + capacity; /* to grow before anything is overwritten that may be needed again */
    control->limit = control->live && limit > control->head ? limit : control->head;
}

static void wait_for_encoder(Ring *ring)
{
    while (atomic_load_explicit(&ring->is_encoding, memory_order_acquire))
        sched_yield(); /* microseconds: it does not need the GIL to get ready */
}

/* Before memory goes. A thread that allocates does not need the GIL to get ready either. */
static void wait_for_all(Ring *ring)
{
    wait_for_encoder(ring);
    while (atomic_load_explicit(&ring->is_growing, memory_order_acquire))
        sched_yield();
}

void ring_release_memory(Ring *ring)
{
    ring_forget_parent(ring);
    if (ring->region == NULL)
        return;
    wait_for_all(ring);
    Header *shared = ring->control->shared;
    for (int reason = 0; reason < COUNTS; reason++)
        ring->counts[reason] = atomic_load_explicit(&shared->counts[reason], memory_order_relaxed);
    memset(ring->control, 0, sizeof *ring->control);
    munmap(ring->region, ring->region_bytes);
    ring->region = NULL;
    if (ring->descriptor >= 0)
        close(ring->descriptor);
    ring->descriptor = -1;
}

static void populate(char *from, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    madvise(from, bytes, MADV_POPULATE_WRITE); /* an older kernel makes the pages one by one, later */
#else
    (void)from, (void)bytes;
#endif
}

/* Allocates bytes of a file, so that a full file system is an error here and no signal later. Returns an errno. */
static int allocate_file(int descriptor, uint64_t offset, uint64_t bytes)
{
#ifdef __linux__
    struct statvfs space;
    if (fstatvfs(descriptor, &space) < 0)
        return errno;
    if ((uint64_t)space.f_bavail * space.f_frsize < bytes + KEPT_FREE)
        return ENOSPC;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* many kernels give up when a signal comes */
    int error = posix_fallocate(descriptor, (off_t)offset, (off_t)bytes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
#else
    (void)descriptor, (void)offset, (void)bytes;
    return ENOTSUP;
#endif
}

/* Allocates slots [from, to). Returns an errno. */
static int allocate(const Ring *ring, uint64_t from, uint64_t to)
{
    uint64_t offset = slots_offset(((const Header *)ring->region)->record_capacity) + from * sizeof(Slot);
    uint64_t bytes = (to - from) * sizeof(Slot);
    if (ring->descriptor >= 0) {
        int error = allocate_file(ring->descriptor, offset, bytes);
        if (error)
            return error;
    }
    uint64_t start = offset / PAGE_BYTES * PAGE_BYTES;
    populate(ring->region + start, offset + bytes - start);
    return 0;
}

static uint64_t power_of_two(uint64_t least)
{
    uint64_t power = 8192;
    while (power < least)
        power *= 2;
    return power;
}

/* Takes a new region into use, at first with so many slots. `descriptor` is -1 for private memory. Returns an errno. */
static int map_region(Ring *ring, int descriptor, uint64_t bound, uint64_t first)
{
    uint64_t record_capacity = descriptor < 0 ? 0 : RECORD_CAPACITY;
    uint64_t most = power_of_two(bound + SPARE_SLOTS);
    if (first > most)
        first = most;
    uint64_t bytes = slots_offset(record_capacity) + most * sizeof(Slot);
    uint64_t ready = slots_offset(record_capacity) + first * sizeof(Slot);
    if (descriptor >= 0) {
        if (ftruncate(descriptor, (off_t)bytes) < 0)
            return errno;
        int error = allocate_file(descriptor, 0, ready);
        if (error)
            return error;
    }
    int kind = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind, descriptor, 0);
    if (region == MAP_FAILED)
        return errno;
#ifdef MADV_DONTFORK
    if (ring->is_wiped)
        madvise(region, bytes, MADV_DONTFORK);
#endif
    populate(region, ready);
    Header *shared = (Header *)region;
    shared->version = RING_VERSION;
    shared->region_bytes = bytes;
    shared->most_slots = most;
    shared->record_capacity = record_capacity;
    shared->batches = BATCHES;
    shared->pid = (uint64_t)getpid();
    atomic_store(&shared->capacity, first);
    ring->region = region;
    ring->region_bytes = bytes;
    ring->most_slots = most;
    ring->bound = bound;
    ring->descriptor = descriptor;
    ring->opened_by = getpid();
    ring->openings++;
    ring->is_cramped = 0;
    ring->acknowledged = 0;
    ring->touched_ns = monotonic_ns();
    *ring->control = (Control){.mask = first - 1, .slots = slots_of(ring), .shared = shared};
    return 0;
}

int ring_ensure_memory(Ring *ring)
{
    ring_forget_parent(ring);
    if (ring->region != NULL)
        return 0;
    int error = map_region(ring, -1, ring->bound, FIRST_SLOTS);
    if (error) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    Header *shared = ring->control->shared;
    shared->magic = RING_MAGIC;
    for (int reason = 0; reason < COUNTS; reason++)
        atomic_store(&shared->counts[reason], ring->counts[reason]);
    return 0;
}

/* Goes on in private memory with twice the slots, because there is no room for the file to grow, or a higher bound than
   it was made for. Nobody can read this file any more. Returns 0 if there is no memory. */
static int move_to_private(Ring *ring)
{
    wait_for_all(ring);
    Control *control = ring->control, before = *control;
    char *region = ring->region;
    uint64_t region_bytes = ring->region_bytes;
    int descriptor = ring->descriptor;
    if (map_region(ring, -1, ring->bound, 2 * capacity_of(&before)))
        return 0;
    Header *shared = control->shared;
    control->head = before.head;
    control->taken = before.taken;
    control->live = before.live;
    for (uint64_t row = before.taken; row < before.head; row++)
        control->slots[row & control->mask] = before.slots[row & before.mask];
    for (int reason = 0; reason < COUNTS; reason++)
        atomic_store(&shared->counts[reason], atomic_load(&before.shared->counts[reason]));
    atomic_store(&shared->committed, before.head);
    atomic_store(&shared->taken, before.taken);
    atomic_store(&shared->floor, before.taken);
    before.shared->magic = 0;
    munmap(region, region_bytes);
    if (descriptor >= 0)
        close(descriptor);
    ring_update_limit(ring);
    return 1;
}

int ring_grow(Ring *ring, int is_needed)
{
    Control *control = ring->control;
    uint64_t capacity = control->mask + 1, openings = ring->openings;
    if (2 * capacity > ring->most_slots)
        return is_needed && ring->bound > ring->most_slots ? move_to_private(ring) : 0;
    if (atomic_load(&ring->is_growing)) {
        Py_BEGIN_ALLOW_THREADS
        sched_yield();
        Py_END_ALLOW_THREADS
        return 1; /* the caller looks again */
    }
    int error;
    atomic_store(&ring->is_growing, 1);
    Py_BEGIN_ALLOW_THREADS
    error = allocate(ring, capacity, 2 * capacity);
    atomic_store(&ring->is_growing, 0); /* before it waits for the GIL: at exit, a thread never gets it */
    Py_END_ALLOW_THREADS
    if (ring->openings != openings || capacity_of(control) != capacity)
        return 1; /* the caller looks again */
    if (error && ring->descriptor >= 0 && is_needed)
        return move_to_private(ring);
    ring->is_cramped |= error != 0;
    if (error)
        return 0;
    wait_for_encoder(ring); /* it reads slots that the next rows may take */
    Header *shared = control->shared;
    uint64_t floor = atomic_load_explicit(&shared->floor, memory_order_relaxed), mask = 2 * capacity - 1;
    if (control->head > capacity && control->head - capacity > floor)
        floor = control->head - capacity;
    for (uint64_t row = floor; row < control->head; row++)
        if ((row & mask) >= capacity)
            control->slots[row & mask] = control->slots[row & control->mask];
    atomic_store_explicit(&shared->floor, floor, memory_order_release);
    atomic_store_explicit(&shared->capacity, 2 * capacity, memory_order_release);
    control->mask = mask;
    ring_update_limit(ring);
    return 1;
}

static int lock_whole(int descriptor)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; /* ends with the process, and no child has it */
    return fcntl(descriptor, F_SETLK, &lock);
}

static int map_file(Ring *ring, const char *path, uint64_t bound)
{
    if (!ring->is_wiped)
        return ENOTSUP; /* a child would write into the file of its parent */
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        return errno;
    int error = lock_whole(descriptor) < 0 ? errno : map_region(ring, descriptor, bound, FIRST_SLOTS);
    if (error) {
        unlink(path);
        close(descriptor);
    }
    return error;
}

PyObject *ring_open(Ring *ring, PyObject *arguments)
{
    PyObject *path;
    const char *producer;
    unsigned long long bound, pid_started, wall_ns;
    if (!PyArg_ParseTuple(arguments, "O&sKKK", PyUnicode_FSConverter, &path, &producer, &bound, &pid_started, &wall_ns))
        return NULL;
    ring_release_memory(ring);
    memset(ring->counts, 0, sizeof ring->counts);
    memset(ring->counts_taken, 0, sizeof ring->counts_taken);
    ring->bound = bound;
    const char *name = PyBytes_AS_STRING(path);
    int error = *name == '\0' ? map_region(ring, -1, bound, FIRST_SLOTS) : map_file(ring, name, bound);
    if (error) {
        errno = error;
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
        Py_DECREF(path);
        return NULL;
    }
    Py_DECREF(path);
    Header *shared = ring->control->shared;
    shared->pid_started = pid_started;
    shared->monotonic_ns = monotonic_ns();
    shared->wall_ns = wall_ns;
    memcpy(shared->producer, producer, strnlen(producer, PRODUCER_BYTES));
    atomic_thread_fence(memory_order_release);
    shared->magic = RING_MAGIC;
    Py_RETURN_NONE;
}

PyObject *ring_release(Ring *ring, PyObject *Py_UNUSED(none))
{
    ring_release_memory(ring);
    Py_RETURN_NONE;
}
