/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of a history, forwards: which blocks lived from when to when, and how much was live,
 * waiting and reserved after each record.
 *
 * It begins with what was there before the first record (rewind.h). Records that contradict the
 * picture are left out. If there were none of those, it ends with the numbers of the picture.
 */
#ifndef TENURE_TOOLS_COURSE_H
#define TENURE_TOOLS_COURSE_H

#include "rewind.h"

/* A block from its allocation to its free; or a waiting block, from its free until its memory was
 * free. */
typedef struct life {
    uint64_t address, bytes, requested_bytes; /* at its end, if the block grew */
    int64_t begin_ns, end_ns;                 /* end: nothing yet if it goes on */
    int32_t pool, stream;
    uint32_t stack; /* of the allocation; 0 if not known */
    unsigned char is_waiting;
    unsigned char goes_on;
    unsigned char is_early;  /* it began before the history; begin_ns is that of the history */
    unsigned char is_launch; /* no block: `address` is an index of launches (encode_chrome.c) */
} life;

/* Of one device. Sums of a hostile history may wrap around; they are never negative otherwise. */
typedef struct course_sums {
    uint64_t live;     /* by what was asked for */
    uint64_t waiting;  /* by what is set aside */
    uint64_t reserved; /* physical memory */
} course_sums;

typedef struct course {
    const model *in;
    rewind_result history;
    map64 by_address; /* address -> index in `lives` of the one that goes on there */
    array lives;      /* life */
    array sums;       /* course_sums, one for each device and one for what belongs to none */
    int64_t begin_ns; /* of the first record that has a time */
    int64_t now_ns;   /* of the latest record */
} course;

/* Starts before the first record. Returns 0, or -1 without memory; to be released in both cases. */
int course_start(course *way, const model *snapshot);
/* Takes the next record, number `at`: all of them, in order. Returns 0, or -1 without memory. */
int course_step(course *way, size_t at);
void course_release(course *way);

/* The index in `sums` of the device of a record, a pool or a stream. If it belongs to no device:
 * the index after all devices. */
size_t course_record_device(const model *in, const record *event);
size_t course_pool_device(const model *in, int32_t pool_index);
size_t course_stream_device(const model *in, int32_t stream_index);

/* Writes what the picture says to `sums`, which has one element more than there are devices. */
void course_picture(const model *in, course_sums *sums);

#endif
