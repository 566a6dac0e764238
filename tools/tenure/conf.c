/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure conf`: every setting of TENURE_CONF, as the library describes it. The documentation's
 * page of settings is the --markdown output of this command, so there is no second list.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>

#include "cli.h"
#include "commands.h"
#include "exit_code.h"
#include "json.h"
#include "nearest.h"
#include "table.h"

static int is_json, is_markdown;
static const char *settings, *only_key;

static const cli_option options[] = {
    {"conf", "STR", OPTION_CONF_HELP "; applied before showing", &settings, NULL},
    {"json", NULL, OPTION_JSON_HELP, NULL, &is_json},
    {"markdown", NULL, "a table for the documentation (defaults, not values)", NULL, &is_markdown},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "conf",
    "all settings of TENURE_CONF",
    "[options] [KEY]",
    "Settings are given in the environment variable TENURE_CONF, to tnr_configure() or with\n"
    "--conf, as \"key:value,key:value\". The values shown are those in force: the default, unless\n"
    "TENURE_CONF or --conf says otherwise. No driver is needed.\n"
    "\n"
    "Examples:\n"
    "  tenure conf --conf snapshot_on_oom:/tmp\n"
    "  tenure conf reuse\n",
    options,
    0,
    1,
};

/* Fills *info for setting number `index`. Returns 0 past the last one. */
static int setting_next(size_t index, tnr_setting_info *info)
{
    memset(info, 0, sizeof(*info));
    info->struct_bytes = sizeof(*info);
    return tnr_setting_get(info, index) == TNR_OK;
}

static int is_wanted(const tnr_setting_info *info)
{
    return !only_key || strcmp(info->key, only_key) == 0;
}

static void json_print(void)
{
    json_writer json;
    tnr_setting_info info;
    json_start(&json, stdout);
    json_array_begin(&json, NULL);
    for (size_t i = 0; setting_next(i, &info); i++) {
        if (!is_wanted(&info))
            continue;
        json_object_begin(&json, NULL);
        json_text(&json, "key", info.key);
        json_text(&json, "type", info.type);
        json_text(&json, "default", info.default_value);
        json_text(&json, "value", info.value);
        json_text(&json, "allowed", info.allowed);
        json_text(&json, "help", info.help);
        json_boolean(&json, "at_start", info.at_start);
        json_boolean(&json, "is_set", info.is_set);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_end(&json);
}

/* Text inside a cell of a Markdown table: a bar would end the cell. */
static void markdown_cell(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text == '\n' ? ' ' : *text);
    }
    fputs(" | ", stdout);
}

static void markdown_print(void)
{
    tnr_setting_info info;
    puts("| key | type | default | allowed | when | meaning |");
    puts("|---|---|---|---|---|---|");
    for (size_t i = 0; setting_next(i, &info); i++) {
        if (!is_wanted(&info))
            continue;
        printf("| `%s` | %s | `%s` | ", info.key, info.type, info.default_value);
        markdown_cell(info.allowed);
        markdown_cell(info.at_start ? "at start" : "any time");
        for (const char *at = info.help; *at != '\0'; at++) {
            if (*at == '|')
                putchar('\\');
            putchar(*at == '\n' ? ' ' : *at);
        }
        puts(" |");
    }
}

/* Lines of at most 80 columns that begin at the fifth; a word that is longer stands alone. */
static void paragraph_print(const char *text)
{
    enum { COLUMNS = 80, INDENT = 4 };
    size_t at = 0;
    for (;;) {
        text += strspn(text, " \n");
        size_t length = strcspn(text, " \n");
        if (length == 0)
            break;
        if (at > 0 && at + 1 + length > COLUMNS) {
            putchar('\n');
            at = 0;
        }
        at += (size_t)printf("%*s%.*s", at == 0 ? INDENT : 1, "", (int)length, text);
        text += length;
    }
    putchar('\n');
}

static void text_print(void)
{
    char line[1024];
    const char *bold = colour_wanted(stdout) ? "\033[1m" : "";
    const char *plain = *bold ? "\033[0m" : "";
    tnr_setting_info info;
    for (size_t i = 0; setting_next(i, &info); i++) {
        if (!is_wanted(&info))
            continue;
        printf("%s%s%s =%s%s%s\n", bold, info.key, plain, *info.value ? " " : "", info.value,
               info.is_set ? "  (set)" : "  (default)");
        snprintf(line, sizeof(line), "%s, %s; default %s%s", info.type, info.allowed,
                 *info.default_value ? info.default_value : "nothing",
                 info.at_start ? "; at start only" : "");
        paragraph_print(line);
        paragraph_print(info.help);
    }
}

/* 1 if only_key is the key of a setting. */
static int key_exists(void)
{
    tnr_setting_info info;
    for (size_t i = 0; setting_next(i, &info); i++)
        if (is_wanted(&info))
            return 1;
    return 0;
}

static int key_unknown(void)
{
    tnr_setting_info info;
    nearest like;
    nearest_start(&like, only_key);
    for (size_t i = 0; setting_next(i, &info); i++)
        nearest_offer(&like, info.key);
    return cli_usage_error(&syntax, "there is no setting \"%s\"%s%s%s", only_key,
                           like.word ? ". Did you mean " : "", like.word ? like.word : "",
                           like.word ? "?" : "");
}

/* Applies TENURE_CONF, as the library does when it starts (which it does not here, because that
 * needs a driver), and then --conf. */
static exit_code settings_apply(void)
{
    const char *const sources[] = {getenv("TENURE_CONF"), settings};
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        tnr_status status = sources[i] ? tnr_configure(sources[i]) : TNR_OK;
        if (status != TNR_OK) {
            fprintf(stderr, "tenure conf: %s\n", tnr_last_error());
            return exit_code_of(status);
        }
    }
    return EXIT_CODE_OK;
}

int command_conf(int argc, char **argv)
{
    cli_result arguments;
    if (cli_parse(&syntax, argc, argv, &arguments) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (arguments.help_wanted)
        return EXIT_CODE_OK;
    if (is_json && is_markdown)
        return cli_usage_error(&syntax, "--json and --markdown exclude each other");
    exit_code code = settings_apply();
    if (code != EXIT_CODE_OK)
        return code;
    only_key = arguments.positionals_count ? arguments.positionals[0] : NULL;
    if (only_key && !key_exists())
        return key_unknown();
    if (is_json)
        json_print();
    else if (is_markdown)
        markdown_print();
    else
        text_print();
    return EXIT_CODE_OK;
}
