/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race detector: what its files share, and where the rest of the simulation calls it.
 *
 * Every operation has a vector clock: for each stream, up to which ticket it is ordered after that
 * stream's work. Clocks follow the order of the program, not that of the schedule: stream order,
 * events, the legacy stream's rules, value waits, and what the host had seen to be finished when it
 * queued the operation. For each range of physical bytes, the last write and the reads since are
 * kept. An access is a race if it conflicts with an earlier one and is not ordered after it.
 *
 * Clocks are made when operations run. By then everything that the operation is ordered after has
 * run, so its clock is complete. The order itself is the same in every schedule, except for what a
 * program learns by queries, and for value waits: see gate.c.
 *
 * Everything here is called with the lock held. With the detector off, only those functions below
 * are called that begin by asking whether it is on.
 */
#ifndef TENURE_SIM_RACE_H
#define TENURE_SIM_RACE_H

#include "sim.h"

/* ---- ordered maps (ranges.c) ---------------------------------------------------------------- */

struct sim_range {
    uint64_t begin;
    uint64_t end;
    void *value;
};

struct sim_leaf;

struct sim_ranges {
    struct sim_leaf **leaf;
    size_t leaf_count;
    size_t leaf_room;
};

struct sim_place {
    size_t leaf;
    size_t index;
};

struct sim_range *sim_ranges_seek(const struct sim_ranges *map, uint64_t at,
                                  struct sim_place *place);
struct sim_range *sim_ranges_next(const struct sim_ranges *map, struct sim_place *place);
int sim_ranges_insert(struct sim_ranges *map, struct sim_place *place, struct sim_range range);
struct sim_range *sim_ranges_erase(struct sim_ranges *map, struct sim_place *place);
void sim_ranges_clear(struct sim_ranges *map);
void sim_ranges_reset(void); /* frees what is kept for later */

/* ---- clocks (clock.c) ----------------------------------------------------------------------- */

/* A vector clock. Shared by reference; changed only by an owner that has the only reference. */
struct sim_clock {
    uint32_t references;
    uint32_t count;  /* entries of time[]; the others are 0 */
    uint64_t time[]; /* by slot: the last ticket of that stream it is ordered after */
};

/* A point that others may be ordered after: an operation, and what that was ordered after. */
struct sim_release {
    uint32_t references;
    uint32_t slot; /* of the operation's stream; 0 if it is the host's */
    uint64_t ticket;
    struct sim_clock *clock;
    struct sim_release *next_free;
};

struct sim_release *sim_release_new(struct sim_clock *clock, uint32_t slot, uint64_t ticket);
struct sim_release *sim_release_hold(struct sim_release *release);
void sim_release_drop(struct sim_release *release); /* null is allowed */
struct sim_release *sim_release_host(void);         /* what the host knows now; a new reference */
uint64_t sim_clock_time(const struct sim_clock *clock, uint32_t slot);
const struct sim_clock *sim_clock_host(void);
const struct sim_clock *sim_clock_stream(const struct sim_stream *stream);
void sim_clock_join(struct sim_clock **into, const struct sim_release *release);
void sim_clock_stream_join(struct sim_stream *stream, const struct sim_release *release);
uint32_t sim_clock_slot(struct sim_stream *stream); /* 0 when memory is short */
struct sim_release *sim_clock_of_slot(uint32_t slot, uint64_t ticket);
int sim_clock_runs(uint32_t slot, uint64_t ticket);
void sim_clock_submitted(struct sim_stream *stream, struct sim_op *op);
void sim_clock_begin(struct sim_stream *stream, struct sim_op *op);
void sim_clock_end(const struct sim_stream *stream, const struct sim_op *op);
void sim_clock_host_join(const struct sim_release *release);
void sim_clock_reset(void);

/* ---- value waits (gate.c) ------------------------------------------------------------------- */

void sim_gate_submitted(struct sim_stream *stream, const struct sim_op *op);
void sim_gate_passed(struct sim_stream *stream, const struct sim_op *op);
void sim_gate_writing(const struct sim_stream *stream, const struct sim_op *op);
void sim_gate_written(const struct sim_op *op);
void sim_gate_host(void); /* the host is about to learn something */
void sim_gate_forget(const struct sim_op *op);
void sim_gate_reset(void);

/* ---- memory (shadow.c) ---------------------------------------------------------------------- */

/* One access to memory, as far as reports and comparisons need it. */
struct sim_touch {
    uint64_t ticket; /* 0: none */
    uint64_t number; /* of the operation in its stream */
    uint64_t delta;  /* address used, less the offset in the physical memory */
    uint64_t stream_id;
    uint32_t slot;
    uint32_t label; /* as simcuda_origin gave it */
    uint32_t owner; /* the label of who owned it */
    uint32_t tag;   /* as an observer gave it */
    uint16_t entry;
    uint8_t is_write;
    uint8_t is_atomic; /* by a value wait or a value write */
    uint8_t is_node;   /* of a launched graph: number is the node's */
};

struct sim_shadow;
void sim_shadow_op(const struct sim_stream *stream, const struct sim_op *op);
int sim_shadow_last_write(CUdeviceptr address, struct sim_touch *touch);
void sim_shadow_host_takes(CUdeviceptr address, uint64_t bytes);
void sim_shadow_forget_all(void); /* the host knows everything to be finished */
void sim_shadow_reset(void);

/* ---- owners (owner.c) ----------------------------------------------------------------------- */

uint32_t sim_owner_check(const struct sim_stream *stream, const struct sim_op *op);
void sim_owner_reset(void);

/* ---- reports (report.c) --------------------------------------------------------------------- */

/* Copies as much of a text as there is room for, with a zero at its end. */
void sim_text_copy(char *to, size_t room, const char *from);
uint32_t sim_label_new(const char *text);
const char *sim_label_text(uint32_t label);
void sim_report_race(const struct sim_touch *earlier, const struct sim_touch *later,
                     uint64_t offset, uint64_t bytes);
void sim_report_unfinished(const struct sim_touch *earlier, uint64_t offset, uint64_t bytes,
                           const char *by);
void sim_report_owner(simcuda_report_kind kind, const simcuda_touch *earlier,
                      const simcuda_touch *later, const simcuda_touch *allocation);
void sim_report_reset(void);

/* ---- an observer (observe.c) ---------------------------------------------------------------- */

uint32_t sim_observe_call(const struct sim_stream *stream, const char *kernel); /* its tag */
extern simcuda_touches_function sim_touches;        /* null: nobody asks */
int sim_observe_race(const simcuda_report *report); /* 0: nobody observes */

void sim_races_give_up(void); /* memory is short: the detector stops, and says so */

#endif
