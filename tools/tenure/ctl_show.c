/* SPDX-License-Identifier: Apache-2.0 */
/* Answers for people: see ctl.h. Numbers and texts come from the process. It is not trusted to
 * leave the terminal alone. */
#include <stdarg.h>
#include <string.h>

#include "base/plural.h"
#include "ctl.h"
#include "json.h"
#include "shown.h"
#include "table.h"

const char *ctl_shown(const char *text, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "%s", text ? text : "-");
    return shown(buffer);
}

void ctl_show_peer(const ctl_peer *peer, const ctl_line *greeting)
{
    char program[64], version[32], here[32];
    snprintf(here, sizeof(here), "%ld", peer->pid_here);
    printf("%-8s %-8ld %-20s %-8s %s\n", peer->pid_here > 0 ? here : "-", peer->pid,
           greeting ? ctl_shown(ctl_text(greeting, greeting->parsed, "program"), program,
                                sizeof(program))
                    : "(busy)",
           greeting
               ? ctl_shown(ctl_text(greeting, greeting->parsed, "tenure"), version, sizeof(version))
               : "-",
           peer->name);
}

/* The cells that devices, pools and tags have in common. */
static void sums_cells(table *to, const ctl_line *answer, value one)
{
    static const char *const keys[] = {"reserved_bytes", "live_bytes", "asleep_bytes"};
    char text[32];
    uint64_t limit;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        table_cell(to, "%s", format_bytes_binary(ctl_number(answer, one, keys[i]), text));
    if (ctl_has_number(answer, one, "limit_bytes", &limit))
        table_cell(to, "%s", format_bytes_binary(limit, text));
    else
        table_cell(to, "-");
}
static void table_end(table *to)
{
    table_print(to, stdout);
    table_release(to);
}

static void pools_show(const ctl_line *answer, value device)
{
    static const char *const words[] = {"pool", "tag",    "kind",  "state", "reserved",
                                        "live", "asleep", "limit", NULL};
    const value_list *pools = ctl_list(answer, device, "pools");
    table to;
    char text[80];
    if (!pools || pools->count == 0)
        return;
    table_head(&to, words, 0);
    for (uint32_t i = 0; i < pools->count; i++) {
        table_row(&to);
        table_cell(&to, "  %s", ctl_shown(ctl_text(answer, pools->items[i], "name"), text, 80));
        table_cell(&to, "%s", ctl_shown(ctl_text(answer, pools->items[i], "tag"), text, 80));
        table_cell(&to, "%s", ctl_shown(ctl_text(answer, pools->items[i], "kind"), text, 80));
        table_cell(&to, "%s", ctl_shown(ctl_text(answer, pools->items[i], "state"), text, 80));
        sums_cells(&to, answer, pools->items[i]);
    }
    table_end(&to);
    uint64_t left_out = ctl_number(answer, device, "pools_left_out");
    if (left_out > 0)
        printf("  and %llu more pool%s\n", (unsigned long long)left_out, tnri_plural(left_out));
}

/* Who shares the device's memory. */
static void members_show(const ctl_line *answer, value device)
{
    static const char *const words[] = {"member",  "program", "reserved", "floor",
                                        "ceiling", "given",   "state",    NULL};
    const value_list *members = ctl_list(answer, device, "members");
    char text[80], size[32], taken[32];
    uint64_t ceiling;
    table to;
    if (!members || members->count == 0)
        return;
    uint64_t asks = ctl_number(answer, device, "group_asks");
    printf("  group %s: %s given to others, %s taken, short %llu time%s\n",
           ctl_shown(ctl_text(answer, device, "group"), text, sizeof(text)),
           format_bytes_binary(ctl_number(answer, device, "group_given_bytes"), size),
           format_bytes_binary(ctl_number(answer, device, "group_taken_bytes"), taken),
           (unsigned long long)asks, tnri_plural(asks));
    uint64_t yields = ctl_number(answer, device, "group_yields");
    if (yields > 0)
        printf("  %llu published block%s of %s yielded\n", (unsigned long long)yields,
               tnri_plural(yields),
               format_bytes_binary(ctl_number(answer, device, "group_yielded_bytes"), size));
    table_head(&to, words, 0);
    for (uint32_t i = 0; i < members->count; i++) {
        value one = members->items[i];
        int is_limited = ctl_has_number(answer, one, "ceiling_bytes", &ceiling);
        const char *state = ctl_is_true(answer, one, "silent") ? "silent" : "-";
        table_row(&to);
        table_cell(&to, "  %llu", (unsigned long long)ctl_number(answer, one, "process"));
        table_cell(&to, "%s", ctl_shown(ctl_text(answer, one, "program"), text, sizeof(text)));
        table_cell(&to, "%s", format_bytes_binary(ctl_number(answer, one, "reserved_bytes"), size));
        table_cell(&to, "%s", format_bytes_binary(ctl_number(answer, one, "floor_bytes"), size));
        table_cell(&to, "%s", is_limited ? format_bytes_binary(ceiling, size) : "-");
        table_cell(&to, "%s", format_bytes_binary(ctl_number(answer, one, "given_bytes"), size));
        table_cell(&to, "%s", ctl_is_true(answer, one, "self") ? "this one" : state);
    }
    table_end(&to);
}

/* Adds to a text of parts. */
static void __attribute__((format(printf, 3, 4)))
part_add(char *text, size_t bytes, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text + length, bytes - length, format, arguments);
    va_end(arguments);
}

int ctl_limits(const ctl_line *answer, value device, int has_files, char *text, size_t bytes)
{
    static const char *const keys[] = {"cgroup_hard", "cgroup_soft"};
    static const char *const names[] = {"dmem hard", "dmem soft"};
    char most[32], used[32], shown[256];
    uint64_t number;
    value limit;
    text[0] = '\0';
    if (ctl_has_number(answer, device, "group_limit_bytes", &number))
        part_add(text, bytes, "; all of the group %s", format_size(number, most));
    for (int i = 0; i < 2; i++) {
        if (!ctl_has_dict(answer, device, keys[i], &limit))
            continue;
        part_add(text, bytes, "; %s %s, %s used", names[i],
                 format_size(ctl_number(answer, limit, "limit_bytes"), most),
                 format_size(ctl_number(answer, limit, "used_bytes"), used));
        if (has_files)
            part_add(text, bytes, " (%s)",
                     ctl_shown(ctl_text(answer, limit, "file"), shown, sizeof(shown)));
    }
    if (ctl_has_number(answer, device, "cgroup_given_bytes", &number) && number > 0)
        part_add(text, bytes, "; %s given back for it", format_size(number, most));
    if (text[0] == '\0')
        return 0;
    memmove(text, text + 2, strlen(text + 2) + 1);
    return 1;
}

static void devices_show(const ctl_line *answer)
{
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    char name[128], texts[3][32], limits[768];
    for (uint32_t i = 0; devices && i < devices->count; i++) {
        value one = devices->items[i];
        uint64_t limit, released;
        const char *called = ctl_text(answer, one, "name");
        printf("device %llu%s%s: %s reserved, %s asleep",
               (unsigned long long)ctl_number(answer, one, "device"), called ? ", " : "",
               called ? ctl_shown(called, name, sizeof(name)) : "",
               format_bytes_binary(ctl_number(answer, one, "reserved_bytes"), texts[0]),
               format_bytes_binary(ctl_number(answer, one, "asleep_bytes"), texts[1]));
        if (ctl_has_number(answer, one, "limit_bytes", &limit))
            printf(", limit %s", format_bytes_binary(limit, texts[2]));
        if (ctl_has_number(answer, one, "released_bytes", &released))
            printf(", %s given back", format_bytes_binary(released, texts[2]));
        putchar('\n');
        if (ctl_limits(answer, one, 1, limits, sizeof(limits)))
            printf("  limits: %s\n", limits);
        members_show(answer, one);
        pools_show(answer, one);
    }
}

static void tags_rows(table *to, const ctl_line *answer, const value_list *tags)
{
    char text[80];
    for (uint32_t i = 0; tags && i < tags->count; i++) {
        table_row(to);
        table_cell(to, "%s", ctl_shown(ctl_text(answer, tags->items[i], "tag"), text, 80));
        table_cell(to, "%llu", (unsigned long long)ctl_number(answer, tags->items[i], "device"));
        table_cell(to, "%llu", (unsigned long long)ctl_number(answer, tags->items[i], "pools"));
        sums_cells(to, answer, tags->items[i]);
    }
}

/* Of status at the end; of a command by tag with each device. */
static void tags_show(const ctl_line *answer)
{
    static const char *const words[] = {"tag",  "device", "pools", "reserved",
                                        "live", "asleep", "limit", NULL};
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    table to;
    table_head(&to, words, 0);
    tags_rows(&to, answer, ctl_list(answer, answer->parsed, "tags"));
    for (uint32_t i = 0; devices && i < devices->count; i++)
        tags_rows(&to, answer, ctl_list(answer, devices->items[i], "tags"));
    if (to.rows_count > 1)
        table_print(&to, stdout);
    table_release(&to);
}

/* What the process holds for others. */
static void held_show(const ctl_line *answer)
{
    static const char *const words[] = {"held",      "generation", "size",
                                        "importers", "processes",  NULL};
    const value_list *held = ctl_list(answer, answer->parsed, "held");
    char text[80], size[32];
    table to;
    if (!held || held->count == 0)
        return;
    table_head(&to, words, 0);
    for (uint32_t i = 0; i < held->count; i++) {
        value one = held->items[i];
        const value_list *processes = ctl_list(answer, one, "processes");
        char list[128] = "-";
        size_t length = 0;
        uint64_t process;
        for (uint32_t k = 0; processes && k < processes->count && length < 100; k++)
            if (value_as_unsigned(processes->items[k], &process))
                length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%llu",
                                           k == 0 ? "" : " ", (unsigned long long)process);
        table_row(&to);
        table_cell(&to, "%s", ctl_shown(ctl_text(answer, one, "name"), text, sizeof(text)));
        table_cell(&to, "%llu%s", (unsigned long long)ctl_number(answer, one, "generation"),
                   ctl_is_true(answer, one, "latest") ? "" : " (older)");
        table_cell(&to, "%s", format_size(ctl_number(answer, one, "bytes"), size));
        table_cell(&to, "%llu", (unsigned long long)ctl_number(answer, one, "importers"));
        table_cell(&to, "%s", list);
    }
    table_end(&to);
}

/* What it has of others. */
static void imports_show(const ctl_line *answer)
{
    static const char *const words[] = {"imported", "generation", "size", "device",
                                        "from",     "access",     NULL};
    const value_list *imports = ctl_list(answer, answer->parsed, "imports");
    char text[80], size[32];
    table to;
    if (!imports || imports->count == 0)
        return;
    table_head(&to, words, 0);
    for (uint32_t i = 0; i < imports->count; i++) {
        value one = imports->items[i];
        table_row(&to);
        table_cell(&to, "%s", ctl_shown(ctl_text(answer, one, "name"), text, sizeof(text)));
        table_cell(&to, "%llu", (unsigned long long)ctl_number(answer, one, "generation"));
        table_cell(&to, "%s", format_size(ctl_number(answer, one, "bytes"), size));
        table_cell(&to, "%llu", (unsigned long long)ctl_number(answer, one, "device"));
        table_cell(&to, "%llu", (unsigned long long)ctl_number(answer, one, "process"));
        table_cell(&to, "%s", ctl_is_true(answer, one, "read_only") ? "read" : "read, write");
    }
    table_end(&to);
}

static void settings_show(const ctl_line *answer)
{
    const value_list *settings = ctl_list(answer, answer->parsed, "settings");
    char key[80], set[300];
    for (uint32_t i = 0; settings && i < settings->count; i++)
        printf("%s%-32s %s\n", ctl_is_true(answer, settings->items[i], "is_set") ? "* " : "  ",
               ctl_shown(ctl_text(answer, settings->items[i], "key"), key, sizeof(key)),
               ctl_shown(ctl_text(answer, settings->items[i], "value"), set, sizeof(set)));
}

void ctl_page(const ctl_line *answer)
{
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    uint64_t most = 0;
    for (uint32_t i = 0; devices && i < devices->count; i++) {
        uint64_t reserved = ctl_number(answer, devices->items[i], "reserved_bytes");
        uint64_t asleep = ctl_number(answer, devices->items[i], "asleep_bytes");
        most = reserved > most ? reserved : most;
        most = asleep > most ? asleep : most;
    }
    format_page(most);
}

void ctl_show_answer(const ctl_line *answer)
{
    ctl_page(answer);
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    if (devices && devices->count == 0)
        puts("it uses no device");
    devices_show(answer);
    tags_show(answer);
    held_show(answer);
    imports_show(answer);
    settings_show(answer);
}

static void process_write(json_writer *json, const ctl_peer *peer, const ctl_line *greeting)
{
    json_object_begin(json, "process");
    json_text(json, "name", peer->name);
    json_unsigned(json, "pid", (uint64_t)peer->pid);
    if (peer->pid_here > 0)
        json_unsigned(json, "pid_here", (uint64_t)peer->pid_here);
    if (greeting) {
        json_text(json, "program", ctl_text(greeting, greeting->parsed, "program"));
        json_text(json, "tenure", ctl_text(greeting, greeting->parsed, "tenure"));
    }
    json_object_end(json);
}

/* What came is JSON already, and stays the same to who reads it as that: texts say in escapes what
 * a terminal would obey, and between texts nothing has a meaning but what is seen. */
static void json_line_print(const char *text)
{
    for (size_t bytes; *text && *text != '\n'; text += bytes) {
        if (shown_is_harmless(text, &bytes))
            fwrite(text, 1, bytes, stdout);
        else if (bytes == 1 && (unsigned char)*text < 0x20)
            putchar(' ');
        else
            json_escape(stdout, text);
    }
}

/* {"process": ..., "answer": ...} */
void ctl_show_json(const ctl_peer *peer, const ctl_line *greeting, const ctl_line *answer)
{
    json_writer json;
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    process_write(&json, peer, greeting);
    if (answer) {
        fputs(", \"answer\": ", stdout);
        json_line_print(answer->text);
    }
    json_object_end(&json);
    json_end(&json);
}
