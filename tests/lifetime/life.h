/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the lifetime tests share, on top of unit/unit.h: streams of all kinds, gates that hold work
 * back until the host says so, and data whose order can be checked.
 *
 * A gate is a word of pinned memory that a stream waits for. Nothing behind it runs before the host
 * opens it, whatever the schedule.
 */
#ifndef TENURE_TESTS_LIFE_H
#define TENURE_TESTS_LIFE_H

#include "unit/unit.h"

#include <tenure/lifetime.h>

enum { LIFE_STREAMS = 4, LIFE_GATES = 16 };

/* Non-blocking streams of device 0, made by life_start. */
extern tnr_stream life_streams[LIFE_STREAMS];

/* unit_start, with streams and gates, and device 0's context current. The schedule is lazy unless
 * a setting says otherwise, and the race detector is on. */
void life_start(const char *conf, const char *setting, const char *setting2);
/* For cmocka_unit_test_teardown: opens the gates, runs everything, then unit_stop. */
int life_stop(void **state);

/* A stream with the given flags, of the current context. */
tnr_stream life_stream(unsigned flags);
/* An event, destroyed here or at the end of the test. */
CUevent life_event(void);
void life_event_destroy(CUevent event);

/* Holds later work of the stream back until the gate is opened. */
void life_gate_close(int gate, tnr_stream stream);
void life_gate_open(int gate);

/* Queues a write of one byte value over a block, or a read of it into pinned memory. */
void life_fill(void *block, size_t bytes, int value, tnr_stream stream);
unsigned char *life_read(const void *block, size_t bytes, tnr_stream stream);
/* 1 if all of the bytes that were read are `value`; after all work has run. */
int life_all(const unsigned char *read, size_t bytes, int value);

/* Records and announces, with a moment taken before. */
void life_record(CUevent event, tnr_stream stream);
/* Makes the stream wait, and announces it. */
void life_wait(tnr_stream stream, CUevent event);

uint64_t life_host_waits(void);
uint64_t life_because(tnr_reuse reason);

/* Allocates on the stream until the memory of `block` is handed out again, or `bytes` more than
 * `most` had to be mapped. 1: it was. The blocks in between stay live. */
int life_is_reused(const void *block, size_t bytes, tnr_stream stream);

#endif
