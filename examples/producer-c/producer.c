/* A producer in C, written from docs/PROTOCOL.md alone: libzmq, and msgpack by hand. README.md says what it leaves out.
 *
 *     cc -O2 -o producer producer.c -lzmq && telemetry run -- ./producer 100000
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { ROWS = 10000, ROW_BYTES = 27, FRAME = ROWS * ROW_BYTES + 4096 };
static uint8_t frame[FRAME];
static size_t used;

/* --- msgpack ------------------------------------------------------------------------------------------------- */

static void put(uint8_t tag, uint64_t bits, int bytes) {
    frame[used++] = tag;
    while (bytes--) frame[used++] = bits >> 8 * bytes;
}
static void array(uint16_t items) { put(0xdc, items, 2); }
static void map(uint8_t pairs) { frame[used++] = 0x80 | pairs; }
static void whole(uint64_t value) { put(0xcf, value, 8); }
static void real(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    put(0xcb, bits, 8);
}
static void text(const char *words) {
    put(0xd9, strlen(words), 1);
    used += strlen(strcpy((char *)frame + used, words));
}
static uint64_t number(const uint8_t **at, int bytes) {
    uint64_t bits = 0;
    while (bytes--) bits = bits << 8 | *(*at)++;
    return bits;
}
/* Read one value. Of a string return the start, and set its length; other values are skipped. */
static const uint8_t *next(const uint8_t **at, size_t *length) {
    static const uint8_t sizes[] = {[0xca - 0xc0] = 4, 8, 1, 2, 4, 8, 1, 2, 4, 8};  /* of numbers: ca … d3 */
    uint8_t tag = *(*at)++;
    uint64_t items = 0;
    *length = 0;
    if ((tag & 0xe0) == 0xa0) *length = tag & 31;
    else if (tag >= 0xd9 && tag <= 0xdb) *length = number(at, 1 << (tag - 0xd9));
    else if ((tag & 0xf0) == 0x80) items = 2 * (tag & 15);
    else if ((tag & 0xf0) == 0x90) items = tag & 15;
    else if (tag >= 0xdc && tag <= 0xdf) items = number(at, tag & 1 ? 4 : 2) << (tag >= 0xde);
    else if (tag >= 0xca && tag <= 0xd3) *at += sizes[tag - 0xc0];
    const uint8_t *start = *at;
    *at += *length;
    for (size_t inner; items--;) next(at, &inner);
    return start;
}
/* Copy the string that a message, a map, has under a key. Return 1 if it has one. */
static int find(const uint8_t *at, const char *key, char *found, size_t room) {
    uint8_t tag = *at++;
    for (uint64_t pairs = tag == 0xde ? number(&at, 2) : tag & 15; pairs--;) {
        size_t length, size;
        const uint8_t *name = next(&at, &length), *value = next(&at, &size);
        if (length == strlen(key) && !memcmp(name, key, length) && size < room) {
            memcpy(found, value, size);
            found[size] = 0;
            return 1;
        }
    }
    return 0;
}

/* --- the conversation ---------------------------------------------------------------------------------------- */

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}
static void pair(const char *key, const char *value) { text(key), text(value); }
static void send_frame(void *socket) {
    while (zmq_send(socket, frame, used, ZMQ_DONTWAIT) < 0) usleep(1000);  /* EAGAIN: the pipe is full */
    used = 0;
}
/* Wait for a message of a type, such as "welcome". Return it in a buffer that the next call overwrites. */
static const uint8_t *wait_for(void *control, const char *wanted) {
    static uint8_t message[65536];
    char type[32];
    do {
        if (zmq_recv(control, message, sizeof message, 0) < 0) exit(1);
        if (!find(message, "type", type, sizeof type)) type[0] = 0;
    } while (strcmp(type, wanted) && strcmp(type, "error"));
    if (strcmp(type, wanted)) exit(1);
    return message;
}
static void define(uint8_t id, const char *name, const char *kind, const char *unit, const char *within) {
    array(10), text("define"), whole(id), text(name), text(kind), text(unit);
    map(0), whole(3), put(0xc0, 0, 0), put(0xc0, 0, 0), text(within);  /* no labels, three digits, no bounds: nil */
}
static void row(double id, double value) { real(id), whole(now(CLOCK_MONOTONIC)), real(value); }

int main(int count, char **words) {
    uint64_t events = count > 1 ? strtoull(words[1], 0, 10) : 100000, first = 0, seq = 0;
    char producer[64], address[256];
    snprintf(producer, sizeof producer, "c-%d-%llx", getpid(), (unsigned long long)now(CLOCK_REALTIME));
    void *context = zmq_ctx_new(), *control = zmq_socket(context, ZMQ_DEALER), *sender = zmq_socket(context, ZMQ_XPUB);
    int yes = 1, few = 64;
    zmq_setsockopt(control, ZMQ_ROUTING_ID, producer, strlen(producer));
    zmq_setsockopt(sender, ZMQ_XPUB_NODROP, &yes, sizeof yes);
    zmq_setsockopt(sender, ZMQ_SNDHWM, &few, sizeof few);
    if (!getenv("TELEMETRY_ENDPOINT") || zmq_connect(control, getenv("TELEMETRY_ENDPOINT")))
        return fputs("run me under `telemetry run --`\n", stderr), 1;

    map(7), pair("type", "hello"), text("id"), whole(1), pair("producer", producer), pair("name", "c"), pair("host", ""),
        text("pid"), whole(getpid()), text("mono_ns"), whole(now(CLOCK_MONOTONIC));
    send_frame(control);
    if (!find(wait_for(control, "welcome"), "events", address, sizeof address) || zmq_connect(sender, address)) return 1;
    if (zmq_recv(sender, frame, FRAME, 0) < 0) return 1;  /* the subscription: from now on somebody listens */

    for (uint64_t rows; first < events; first += rows, seq++) {
        rows = events - first < ROWS ? events - first : ROWS;
        memcpy(frame, "ev/1\0\0\0\0", used = 8);
        array(8), array(2), whole(1), whole(0), text(producer), whole(seq), whole(first);
        array(2), whole(now(CLOCK_MONOTONIC)), whole(now(CLOCK_REALTIME)), map(0);
        array(seq ? 0 : 4);  /* definitions are no events, so `first` does not count them */
        if (!seq) {  /* section 18: these names are requests of the kind "get", and spans called "work" */
            define(0, "get.issued", "counter", "requests", ""), define(1, "get.completed", "counter", "requests", "");
            define(2, "get.latency", "series", "ns", "get.latency");  /* `within` itself, for requests per second */
            define(3, "span.work", "series", "ms", "");
        }
        array(3 * rows);
        for (uint64_t event = first; event < first + rows; event++)
            row(event % 4, event % 4 < 2 ? 1 : event % 4 == 2 ? 1e6 + event % 1000 * 1e3 : event % 1000 / 100.0);
        send_frame(sender);
    }

    map(5), pair("type", "end"), text("id"), whole(2), pair("producer", producer), text("batches"), whole(seq);
    text("emitted"), whole(events);
    send_frame(control);
    wait_for(control, "ended");
    zmq_close(control), zmq_close(sender);
    return zmq_ctx_term(context);
}
