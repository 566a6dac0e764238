/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `tenure top`: a process's answer as lines of text of a given width, and the terminal
 * that they are drawn on. It talks as `tenure ctl` does (ctl.h).
 */
#ifndef TENURE_TOOLS_TOP_H
#define TENURE_TOOLS_TOP_H

#include <termios.h>

#include "ctl.h"

/* By what the view splits memory. */
typedef enum top_view {
    TOP_POOLS,
    TOP_TAGS,
    TOP_STREAMS,
    TOP_DEVICES,
    TOP_ACCOUNT,
    TOP_VIEWS
} top_view;

extern const char *const top_view_names[TOP_VIEWS]; /* "pool", "tag", ... */

enum { TOP_LINE_BYTES = 256, TOP_COLUMNS_MIN = 20, TOP_COLUMNS_MAX = 200 };

/* ---- frames (top_frame.c) ------------------------------------------------------------------- */

/* Lines of text: plain ASCII, none longer than `columns`. */
typedef struct top_frame {
    char (*lines)[TOP_LINE_BYTES];
    size_t count, room;
    size_t columns;
    int is_lost; /* there was no host memory for a line */
} top_frame;

void top_frame_start(top_frame *frame, size_t columns);
void top_frame_release(top_frame *frame);
__attribute__((format(printf, 2, 3))) void top_line(top_frame *frame, const char *format, ...);

/* Adds the devices, and the holders of the view, the largest first: as many as fit into `rows`
 * lines together with the lines that are there; 0: all. */
void top_frame_fill(top_frame *frame, const ctl_line *answer, top_view view, size_t rows);

/* A process of several. */
typedef struct top_process {
    const ctl_peer *peer;
    long pid;
    const char *program;
    ctl_line answer; /* the latest to status; its text is null: none yet */
    int is_asked;    /* an answer is still to come */
    int is_gone;
} top_process;

/* A table of processes with one that is pointed at, in at most so many lines; 0: all. */
void top_processes_fill(top_frame *frame, const top_process *all, size_t count, size_t chosen,
                        size_t rows);
/* What the words and keys mean: of a process, and of the table. */
void top_help_fill(top_frame *frame);
void top_processes_help_fill(top_frame *frame);

/* ---- several processes (top_choose.c) ------------------------------------------------------- */

/* Asks all for their status that are not asked already. */
void top_processes_ask(top_process *all, size_t count);
/* Waits so long at most for an answer, or for a key; takes answers. Returns 1 if there is a key. */
int top_processes_hear(top_process *all, size_t count, int wait_ms, int has_keys);
/* Asks all, and waits a second at most. */
void top_processes_wait(top_process *all, size_t count);
/* Shows them until one is chosen, whose index is in *at. Returns 0 if the user wants to end. */
int top_choose(top_process *all, size_t count, size_t *at, int interval_ms);

/* ---- the terminal (top_screen.c) ------------------------------------------------------------ */

/* A terminal that is drawn on, with its earlier state. */
typedef struct top_screen {
    struct termios before;
    int is_on;
} top_screen;

/* 1 if there is a terminal that can be drawn on: for input and output, and not a dumb one. */
int top_screen_is_there(void);
/* How large the terminal is; 80 x 24 if it does not say. */
void top_screen_size(size_t *columns, size_t *rows);

/* From here on keys arrive as they are typed. Returns 0, or -1 with errno. */
int top_screen_begin(top_screen *screen);
/* Restores the terminal. May also be called in between. */
void top_screen_end(top_screen *screen);
void top_screen_draw(const top_frame *frame);

/* The number of the signal that has told the command to end; 0: none yet. A wait then ends with
 * EINTR. */
int top_signals_number(void);
void top_signals_watch(void);

#endif
