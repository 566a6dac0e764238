/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress bar: see progress.h.
 */
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

enum { BAR_WIDTH = 30 };
static const uint64_t first_after_ns = UINT64_C(2000000000);
static const uint64_t redraw_after_ns = UINT64_C(100000000);
static const uint64_t line_after_ns = UINT64_C(5000000000);

void progress_start(progress *bar, const char *what, size_t total, int lines_wanted)
{
    const char *terminal = getenv("TERM");
    memset(bar, 0, sizeof(*bar));
    bar->what = what;
    bar->total = total ? total : 1;
    bar->terminal = isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
    bar->lines = lines_wanted && !bar->terminal;
    bar->started_ns = clock_now_ns();
}

static void bar_draw(const progress *bar, size_t done, double seconds)
{
    double share = (double)done / (double)bar->total;
    int filled = (int)(share * BAR_WIDTH);
    char cells[BAR_WIDTH + 1];
    memset(cells, '.', BAR_WIDTH);
    memset(cells, '#', (size_t)(filled > BAR_WIDTH ? BAR_WIDTH : filled));
    cells[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r%-16s [%s] %3.0f %%  %.0f s", bar->what, cells, share * 100, seconds);
    if (share > 0.05)
        fprintf(stderr, ", about %.0f s left ", seconds / share - seconds);
    fflush(stderr);
}

void progress_update(progress *bar, size_t done)
{
    if (!bar->terminal && !bar->lines)
        return;
    uint64_t now = clock_now_ns();
    uint64_t wait = bar->terminal ? redraw_after_ns : line_after_ns;
    if (now - bar->started_ns < first_after_ns || (bar->shown_ns && now - bar->shown_ns < wait))
        return;
    double seconds = (double)(now - bar->started_ns) / 1e9;
    if (bar->terminal)
        bar_draw(bar, done, seconds);
    else
        fprintf(stderr, "%s: %zu of %zu, %.0f s\n", bar->what, done, bar->total, seconds);
    bar->shown_ns = now;
}

void progress_end(progress *bar)
{
    if (bar->terminal && bar->shown_ns)
        fputs("\r\033[K", stderr);
    bar->shown_ns = 0;
}
