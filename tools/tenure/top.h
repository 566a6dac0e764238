/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure top` is made of: what a process said, as lines of text of a width, and the terminal
 * that they are drawn on. It talks as `tenure ctl` does (ctl.h).
 */
#ifndef TENURE_TOOLS_TOP_H
#define TENURE_TOOLS_TOP_H

#include <termios.h>

#include "ctl.h"

/* What memory is told apart by. */
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

/* The devices, and what the view is of: the largest holders first, as many as fit into `rows` lines
 * with what is there; 0: all. */
void top_frame_fill(top_frame *frame, const ctl_line *answer, top_view view, size_t rows);

/* ---- the terminal (top_screen.c) ------------------------------------------------------------ */

/* A terminal that is drawn on, as it was before. */
typedef struct top_screen {
    struct termios before;
    int is_on;
} top_screen;

/* 1 if there is one that can be drawn on: for input and output, and no dumb one. */
int top_screen_is_there(void);
/* How large it is; 80 x 24 where it does not say. */
void top_screen_size(size_t *columns, size_t *rows);

/* From here on keys come as they are typed. 0, or -1 with errno. */
int top_screen_begin(top_screen *screen);
/* Also in between: everything is as it was before. */
void top_screen_end(top_screen *screen);
void top_screen_draw(const top_frame *frame);

/* 1 once a signal has told the command to end, and its number; a wait ends with EINTR then. */
int top_signals_number(void);
void top_signals_watch(void);

#endif
