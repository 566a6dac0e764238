/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal that `tenure top` draws on: see top.h. Control sequences are those that every
 * terminal since the VT100 knows. The second screen is one that xterm and its relatives have; other
 * terminals ignore it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "table.h"
#include "top.h"

static volatile sig_atomic_t signal_number;

static void signal_note(int number)
{
    if (number != SIGWINCH)
        signal_number = number;
}

/* Without SA_RESTART: whoever waits is to look. */
void top_signals_watch(void)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    struct sigaction action = {.sa_handler = signal_note};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        sigaction(watched[i], &action, NULL);
}

int top_signals_number(void)
{
    return signal_number;
}

int top_screen_is_there(void)
{
    const char *terminal = getenv("TERM");
    return terminal && *terminal && strcmp(terminal, "dumb") != 0 && isatty(STDIN_FILENO) &&
           isatty(STDOUT_FILENO);
}

void top_screen_size(size_t *columns, size_t *rows)
{
    struct winsize size = {0};
    int is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *columns = is_known && size.ws_col > 0 ? size.ws_col : 80;
    *rows = is_known && size.ws_row > 0 ? size.ws_row : 24;
}

int top_screen_begin(top_screen *screen)
{
    if (tcgetattr(STDIN_FILENO, &screen->before) != 0)
        return -1;
    struct termios keys = screen->before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    keys.c_cc[VSUSP] = _POSIX_VDISABLE; /* a shell would find the terminal as it is now */
    if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) != 0)
        return -1;
    fputs("\033[?1049h\033[?25l", stdout);
    screen->is_on = 1;
    return 0;
}

void top_screen_end(top_screen *screen)
{
    if (!screen->is_on)
        return;
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
    screen->is_on = 0;
}

void top_screen_draw(const top_frame *frame)
{
    int colour = colour_wanted(stdout);
    fputs("\033[H", stdout);
    /* What was there goes before a line is written, with the last all below it: behind a line's
     * last column there is no place to do it from. */
    for (size_t i = 0; i < frame->count; i++)
        printf("%s\033[%c%s%s%s", i == 0 ? "" : "\n", i + 1 < frame->count ? 'K' : 'J',
               colour && i == 0 ? "\033[1m" : "", frame->lines[i],
               colour && i == 0 ? "\033[0m" : "");
    fflush(stdout);
}
