/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ordered after what, as the program made it.
 *
 * Each stream has an index, and numbers its work from 1. A stream's clock says for each index up to
 * which number the stream's next work comes after that stream's work. The clock grows by what the
 * stream waits for, and by the rules of the legacy stream. What the host knows when it enqueues
 * something comes before that, too. All host threads count as one: the checker cannot see how they
 * tell each other what they know, and a false alarm is worse than silence. For the same reason the
 * legacy streams of one device count as one.
 *
 * Some means of order cannot be seen. Each makes only those findings doubtful that it could order:
 *
 * - A stream that waits for a value in memory, or for a semaphore, may come after any work, also
 *   after work that is enqueued later. Its clock says so (`is_open`), and so do all clocks that
 *   take it over, until the host has seen the wait end: from then on the host may know of all work
 *   that was there by then, and of no more.
 * - The host may poll memory that a stream writes, and learn that what comes before is over.
 *
 * All functions must be called between check_enter and check_leave. No driver call is made there,
 * except by check_name_of and check_name_on, which are called before check_enter.
 */
#ifndef TENURE_PRELOAD_CHECK_STREAMS_H
#define TENURE_PRELOAD_CHECK_STREAMS_H

#include <stddef.h>
#include <stdint.h>

#include "check/check.h"
#include "check/clock.h"

/* A moment of a stream that others can be ordered after; it counts its holders. Null: no memory,
 * and then nothing is ordered, and all order is doubted. */
typedef struct check_moment check_moment;

/* Names a stream, as long as the stream has this index. */
typedef struct check_stamp {
    size_t index;
    uint64_t name;
} check_stamp;

/* Who takes over all streams of a device at once, if they have changed. */
enum check_changed_for { CHECK_CHANGED_FOR_HOST, CHECK_CHANGED_FOR_LEGACY, CHECK_CHANGED_FOR };

typedef struct check_changed {
    struct check_stream *next, **link; /* null link: it is in no list */
} check_changed;

/* A work of the stream with this index; number 0: none. */
typedef struct check_point {
    size_t index;
    uint64_t number;
} check_point;

typedef struct check_stream {
    const void *handle; /* as the driver has it; of a thread's default stream, a place of its own */
    uint64_t name;      /* streams are numbered from 1 in the order in which they were seen */
    const char *label;  /* the program's own name for it, kept for ever; null: none */
    size_t index;
    int device;
    uint8_t is_legacy, is_blocking, is_dead;
    uint64_t done;          /* how much has been enqueued */
    uint64_t changes;       /* of its clock, and of what it has enqueued */
    uint64_t host_seen;     /* the host's changes when it was last asked for */
    uint64_t others_seen;   /* the same of the legacy stream */
    check_clock known;      /* of other streams, without what the host knows */
    uint64_t known_by;      /* the first work that comes after all of it; 0: it is empty */
    check_point known_only; /* it is what comes before this work of another's, and that work */
    check_changed changed[CHECK_CHANGED_FOR];
} check_stream;

/* A stream of the program's, as the program named it. */
enum { CHECK_DEVICE_LATER = -1 };
typedef struct check_name {
    CUstream stream;
    const void *key;
    int device; /* or CHECK_DEVICE_LATER: that of the stream, if it is known */
    int is_capturing;
} check_name;

/* Asks the driver for what the checker needs to know of a stream. Before check_enter. */
check_name check_name_of(CUstream stream);

/* The same of a stream of a device, whatever context is current. */
check_name check_name_on(int device, CUstream stream);

/* Asks once more whether the stream captures, for a call that need not be quick: a capture may have
 * begun under a name that is not replaced. */
void check_name_ask(check_name *name);

/* 1: inside, and the lock is held. 0: not now (a signal handler, a forked child). */
int check_enter(void);
void check_leave(void);

/* The first: what stands for a stream in a table; for a default stream, a place of its own. The
 * second: the stream that has this key now, as it is; null: none that was seen. */
const void *check_stream_key(CUstream stream, int device);
check_stream *check_stream_keyed(const void *key);

/* The stream. Its clock has taken over all that it is ordered after by now. Null: no host
 * memory. */
check_stream *check_stream_find(const check_name *name);
check_stream *check_stream_at(size_t index);

/* What the program calls the stream with this number, if it still has this index. Null: nothing. */
const char *check_stream_label(size_t index, uint64_t name);

/* The stream of the stamp, even a dead one, if it still has its index. Its clock has taken over all
 * that it is ordered after. Null: the stream is gone, and the host knows that its work is over. */
check_stream *check_stream_stamped(check_stamp stamp);

/* Takes over into a clock what a stream, or a moment, knows. */
void check_clock_cover(check_clock *to, const check_stream *stream);
void check_clock_cover_moment(check_clock *to, const check_moment *moment);

/* Numbers a piece of work on the stream. */
uint64_t check_stream_work(check_stream *stream);

/* The first: 1 if the work with this number on the stream with this index comes before the next
 * work on this stream. The second: 1 if the host knows that work to be over. */
int check_is_after(const check_stream *stream, size_t index, uint64_t number);

/* The same as it was when the stream was last asked for, of another stream's work. */
int check_was_after(const check_stream *stream, size_t index, uint64_t number);
int check_host_is_after(size_t index, uint64_t number);

/* Grows with what the host knows to be over. */
uint64_t check_host_changes(void);

/* A part of what is launched on a stream: a stream of its own, which no handle names, and which has
 * no order with others but by what it follows. It is made for many launches, one after the other.
 * Each begins with what comes before the next work of the stream, and is numbered as that is,
 * unless the part has had the number. Null: no memory. */
check_stream *check_stream_part_make(void);
void check_stream_part_end(check_stream *part);
void check_stream_part_begin(check_stream *part, const check_stream *of);
void check_stream_part_work(check_stream *part, const check_stream *of);

/* Why the next work of a stream, or of the host (null), may come after that work all the same, by
 * means that are not seen. Null: nothing that the program does could order it. */
const char *check_doubt(const check_stream *stream, size_t index, uint64_t number);
extern const char check_means_values[], check_means_polls[];

/* The latest work of the stream writes memory that the host can read. `of_itself`: what is read may
 * tell that this work is over, too, and not only what comes before it. */
void check_host_may_poll(const check_stream *stream, int of_itself);

/* The next work of the stream waits for what cannot be seen. */
void check_stream_open(check_stream *stream);

check_moment *check_moment_of(const check_stream *stream);
check_moment *check_moment_share(check_moment *moment);

/* The moment comes after all of that stream, too. */
void check_moment_cover(check_moment *moment, const check_stream *stream);
void check_moment_drop(check_moment *moment);
void check_stream_follow(check_stream *stream, const check_moment *moment);
void check_stream_follow_stream(check_stream *stream, const check_stream *other);
void check_host_follow(const check_moment *moment);

/* The same without a moment: the host has seen all of a stream, or of a device (-1: of all). */
void check_host_saw(const check_stream *stream, uint64_t number);
void check_host_saw_device(int device);

/* The stream has seen all of all streams of all devices. */
void check_stream_follow_all(check_stream *stream);

/* The moment that an event stands for. Null: none. */
void check_event_set(CUevent event, check_moment *moment);
check_moment *check_event_get(CUevent event);

#endif
