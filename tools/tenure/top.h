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
