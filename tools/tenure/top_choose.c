/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure top` where several processes fit: a table of what each has reserved, to choose one from.
 * All are asked at once, and those that are silent only have a dash.
 */
#include <poll.h>
#include <unistd.h>

#include "shown.h"
#include "top.h"

enum { LINE_PATIENCE_MS = 1000, KEY_BYTES = 8 };

void top_processes_ask(top_process *all, size_t count)
{
    char error[CTL_ERROR_BYTES];
    for (size_t i = 0; i < count; i++)
        if (!all[i].is_asked && !all[i].is_gone) {
            all[i].is_gone = ctl_send(all[i].peer, "{\"protocol\":1,\"command\":\"status\"}\n",
                                      LINE_PATIENCE_MS, error) != EXIT_CODE_OK;
            all[i].is_asked = !all[i].is_gone;
        }
}

/* Takes the answer of one, straight to its place: a line must not be moved. */
static void answer_take(top_process *one)
{
    char error[CTL_ERROR_BYTES];
    ctl_line_release(&one->answer);
    one->is_asked = 0;
    one->is_gone = ctl_receive(&one->answer, one->peer, LINE_PATIENCE_MS, error) != EXIT_CODE_OK;
}

int top_processes_hear(top_process *all, size_t count, int wait_ms, int has_keys)
{
    static struct pollfd waits[CTL_PEERS_MAX + 1];
    for (size_t i = 0; i < count; i++)
        waits[i] =
            (struct pollfd){.fd = all[i].is_asked ? all[i].peer->socket : -1, .events = POLLIN};
    waits[count] = (struct pollfd){.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    if (poll(waits, count + 1, wait_ms > 0 ? wait_ms : 0) <= 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (waits[i].revents != 0)
            answer_take(&all[i]);
    return waits[count].revents != 0;
}

void top_processes_wait(top_process *all, size_t count)
{
    int64_t end = ctl_now_ms() + LINE_PATIENCE_MS;
    top_processes_ask(all, count);
    for (size_t i = 0; i < count;)
        if (!all[i].is_asked)
            i++;
        else if (ctl_now_ms() >= end)
            return;
        else
            (void)top_processes_hear(all, count, (int)(end - ctl_now_ms()), 0);
}

static void draw(const top_process *all, size_t count, size_t at, int has_help)
{
    top_frame frame;
    size_t columns, rows;
    top_screen_size(&columns, &rows);
    top_frame_start(&frame, columns);
    top_line(&frame, "several processes: choose one");
    if (has_help)
        top_processes_help_fill(&frame);
    else
        top_processes_fill(&frame, all, count, at, rows > 3 ? rows - 3 : 1);
    top_line(&frame, "%s", "");
    top_line(&frame, "up down choose  Enter watch  ? help  q quit");
    frame.count = frame.count < rows ? frame.count : rows;
    top_screen_draw(&frame);
    top_frame_release(&frame);
}

/* -1: up, 1: down, 2: this one, 3: to the end, 4: help; 0: none of these. */
static int key_read(void)
{
    char keys[KEY_BYTES];
    ssize_t got = read(STDIN_FILENO, keys, sizeof(keys));
    if (got <= 0)
        return got == 0 ? 3 : 0;
    char key = got >= 3 && keys[0] == '\033' && keys[1] == '[' ? keys[2] : keys[0];
    return key == 'A' || key == 'k'     ? -1
           : key == 'B' || key == 'j'   ? 1
           : key == '\r' || key == '\n' ? 2
           : key == 'q'                 ? 3
           : key == '?'                 ? 4
                                        : 0;
}

int top_choose(top_process *all, size_t count, size_t *at, int interval_ms)
{
    int64_t due = 0;
    int has_help = 0;
    while (top_signals_number() == 0) {
        int64_t now = ctl_now_ms();
        if (now >= due) {
            top_processes_ask(all, count);
            due = now + interval_ms;
        }
        draw(all, count, *at, has_help);
        if (!top_processes_hear(all, count, (int)(due - now), 1))
            continue;
        int key = key_read(), had_help = has_help;
        if (key == 3)
            return 0;
        has_help = !had_help && key == 4;
        if (had_help)
            continue; /* any key ends the help, and does nothing else */
        if (key == 2 && !all[*at].is_gone)
            return 1;
        if (key == -1 && *at > 0)
            (*at)--;
        if (key == 1 && *at + 1 < count)
            (*at)++;
    }
    return 0;
}
