/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing and describing settings: see conf.h and settings.def.
 *
 * A string is parsed whole into a copy of the settings in force, and only then published. So if its
 * last key has an error, its first key has no effect either.
 */
#include "base/conf/conf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/gate.h"
#include "base/heuristics.h"
#include "base/host_memory.h"
#include "base/prim/thread.h"

typedef enum setting_type { COUNT, RATIO, SWITCH, CHOICE, STEPS, TEXT } setting_type;
enum { ANY = 0, START = 1 };

/* A row of settings.def. */
typedef struct setting {
    const char *key;
    setting_type type;
    const char *default_value;
    double low, high;
    int at_start;
    const char *allowed;
    const char *help;
    size_t offset; /* of its field in tnri_conf */
} setting;

static const setting settings[] = {
#define SETTING(key, type, value, low, high, when, allowed, help)                                  \
    {#key, type, value, low, high, when, allowed, help, offsetof(tnri_conf, key)},
#include "base/conf/settings.def"
#undef SETTING
};

enum { SETTINGS_COUNT = sizeof(settings) / sizeof(settings[0]), VALUE_BYTES = 512 };
_Static_assert(SETTINGS_COUNT <= 64, "tnri_conf.set_mask has a bit for each setting");

static const char *const type_names[] = {"count", "ratio", "switch", "choice", "steps", "text"};

/* PyTorch's keys that mean nothing here, with the reason, for people who bring theirs along. */
static const struct {
    const char *key;
    const char *why;
} foreign_keys[] = {
    {"backend", "Tenure is the back end"},
    {"expandable_segments", "Tenure always maps physical memory where it is needed"},
    {"large_segment_size_mb", "there are no segments; see chunk_mb and chunk_max_mb"},
    {"max_non_split_rounding_mb", "oversize blocks are not rounded"},
    {"release_lock_on_cudamalloc", "no lock is ever held during a driver call"},
    {"graph_capture_record_stream_reuse", "reuse inside a capture is always precise"},
    {"pinned_use_cuda_host_register", "Tenure does not allocate pinned host memory"},
    {"pinned_num_register_threads", "Tenure does not allocate pinned host memory"},
    {"pinned_use_background_threads", "Tenure does not allocate pinned host memory"},
    {"pinned_reserve_segment_size_mb", "Tenure does not allocate pinned host memory"},
    {"throw_on_cudamalloc_oom", "a call that fails always returns an error and loses nothing"},
};

/* What is in force before anything was set, and the fallback that is never freed. */
static tnri_conf conf_defaults;
_Atomic(const tnri_conf *) tnri_conf_current = &conf_defaults;

/* Number of the word in a list "a|b|c"; -1 if it is none of them. */
static int choice_find(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int index = 0; words != NULL; index++) {
        size_t span = strcspn(words, "|");
        if (span == length && memcmp(words, word, length) == 0)
            return index;
        words = words[span] == '|' ? words + span + 1 : NULL;
    }
    return -1;
}

/* Reads a decimal number with nothing before or after it. Not with strtod, which takes a comma for
 * the point in programs that have set a locale that does, and hexadecimal in all. */
static int number_parse(const char *value, double *number)
{
    double unit = 1;
    int digits = 0;
    int point = 0;
    *number = 0;
    for (; *value != '\0'; value++) {
        if (*value == '.' && !point) {
            point = 1;
            continue;
        }
        if (*value < '0' || *value > '9')
            return 0;
        *number = *number * 10 + (*value - '0');
        unit *= point ? 10 : 1;
        digits++;
    }
    *number /= unit;
    return digits > 0 && digits <= 30;
}

/* Writes a ratio with a point, whatever the locale. */
static void number_print(double number, char *text, size_t bytes)
{
    snprintf(text, bytes, "%g", number);
    char *comma = strchr(text, ',');
    if (comma != NULL)
        *comma = '.';
}

/* 1 if two words are the same but for capitals. */
static int is_same_word(const char *word, const char *other)
{
    while (*word != '\0' && tolower((unsigned char)*word) == tolower((unsigned char)*other)) {
        word++;
        other++;
    }
    return *word == *other;
}

/* Stores `value` into the field of `row`. Returns 1, or 0 if it is not an allowed value. */
static int setting_store(const setting *row, tnri_conf *conf, const char *value)
{
    void *field = (char *)conf + row->offset;
    double number = 0;
    switch (row->type) {
    case COUNT:
        if (strspn(value, "0123456789") != strlen(value) || !number_parse(value, &number) ||
            number < row->low || number > row->high)
            return 0;
        *(uint64_t *)field = (uint64_t)number;
        return 1;
    case RATIO:
        if (!number_parse(value, &number) || number < row->low || number > row->high)
            return 0;
        *(double *)field = number;
        return 1;
    case SWITCH: {
        static const char *const words[][2] = {
            {"off", "on"}, {"false", "true"}, {"no", "yes"}, {"0", "1"}};
        for (size_t i = 0; i < 2 * sizeof(words) / sizeof(words[0]); i++)
            if (is_same_word(value, words[i / 2][i % 2])) {
                *(int *)field = (int)(i % 2);
                return 1;
            }
        return 0;
    }
    case CHOICE: {
        int index = choice_find(row->allowed, value);
        if (index < 0)
            return 0;
        *(int *)field = index;
        return 1;
    }
    case STEPS:
        return tnri_steps_parse(field, value);
    case TEXT:
        if ((double)strlen(value) > row->high)
            return 0;
        snprintf(field, TNRI_CONF_TEXT_BYTES, "%s", value);
        return 1;
    }
    return 0;
}

static void setting_print(const setting *row, const tnri_conf *conf, char *text, size_t bytes)
{
    const void *field = (const char *)conf + row->offset;
    switch (row->type) {
    case COUNT:
        snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case RATIO:
        number_print(*(const double *)field, text, bytes);
        break;
    case SWITCH:
        snprintf(text, bytes, "%s", *(const int *)field ? "on" : "off");
        break;
    case CHOICE: {
        const char *words = row->allowed;
        for (int index = *(const int *)field; index > 0; index--)
            words += strcspn(words, "|") + 1;
        snprintf(text, bytes, "%.*s", (int)strcspn(words, "|"), words);
        break;
    }
    case STEPS:
        tnri_steps_print(field, text, bytes);
        break;
    case TEXT:
        snprintf(text, bytes, "%s", (const char *)field);
        break;
    }
}

/* Edits that turn one word into the other (Levenshtein), for "did you mean". */
static size_t key_distance(const char *a, const char *b)
{
    size_t row[64];
    size_t length = strlen(b);
    if (length >= 64)
        return length;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t insert = row[j - 1] + 1;
            size_t delete = row[j] + 1;
            row[j] = change < insert ? change : insert;
            if (delete < row[j])
                row[j] = delete;
        }
    }
    return row[length];
}

static tnr_status unknown_key(const char *origin, const char *key)
{
    for (size_t i = 0; i < sizeof(foreign_keys) / sizeof(foreign_keys[0]); i++)
        if (strcmp(key, foreign_keys[i].key) == 0)
            return tnri_error(TNR_ERR_CONFIG,
                              "%s: %s is a setting of PyTorch's that has no meaning here: %s. "
                              "Remove it.",
                              origin, key, foreign_keys[i].why);
    const char *nearest = settings[0].key;
    for (size_t i = 1; i < SETTINGS_COUNT; i++)
        if (key_distance(key, settings[i].key) < key_distance(key, nearest))
            nearest = settings[i].key;
    return tnri_error(TNR_ERR_CONFIG,
                      "%s: there is no setting %s. The nearest is %s; `tenure conf` lists all.",
                      origin, key, nearest);
}

/* Applies one "key:value" pair to `conf`. */
static tnr_status pair_apply(tnri_conf *conf, const char *key, const char *value,
                             const char *origin, int running)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const setting *row = &settings[i];
        if (strcmp(key, row->key) != 0)
            continue;
        if (running && row->at_start)
            return tnri_error(TNR_ERR_BUSY,
                              "%s: %s is fixed once a device is in use. Set it in TENURE_CONF or "
                              "before the first allocation.",
                              origin, key);
        if (!setting_store(row, conf, value))
            return tnri_error(TNR_ERR_CONFIG, "%s: %s cannot be \"%s\". Allowed: %s.", origin, key,
                              value, row->allowed);
        conf->set_mask |= (uint64_t)1 << i;
        return TNR_OK;
    }
    return unknown_key(origin, key);
}

/* Length of a value in single quotation marks, with both of them; two inside are one of the value.
 * 0: it has no end. */
static size_t quote_span(const char *text)
{
    for (size_t length = 1; text[length] != '\0'; length++) {
        if (text[length] != '\'')
            continue;
        if (text[length + 1] != '\'')
            return length + 1;
        length++;
    }
    return 0;
}

/* Length of a value: up to the next comma outside quotation marks and brackets. */
static size_t value_span(const char *text)
{
    if (text[0] == '\'')
        return quote_span(text);
    int depth = 0;
    size_t length = 0;
    for (; text[length] != '\0' && (text[length] != ',' || depth > 0); length++)
        depth += (text[length] == '[') - (text[length] == ']');
    return length;
}

/* Takes a value out of the string, without its quotation marks. */
static void value_copy(char *value, const char *text, size_t length)
{
    int is_quoted = text[0] == '\'';
    size_t end = is_quoted ? length - 1 : length;
    for (size_t i = is_quoted ? 1 : 0; i < end; i++) {
        *value++ = text[i];
        i += is_quoted && text[i] == '\''; /* two are one */
    }
    *value = '\0';
}

/* Applies a whole string to `conf`. */
static tnr_status text_apply(tnri_conf *conf, const char *text, const char *origin, int running)
{
    while (*text != '\0') {
        char key[64];
        char value[VALUE_BYTES];
        size_t key_length = strcspn(text, ":,");
        if (text[key_length] != ':' || key_length == 0)
            return tnri_error(TNR_ERR_CONFIG,
                              "%s: \"%.80s\" is not key:value. Write it as "
                              "\"key:value,key:value\".",
                              origin, text);
        const char *given = text + key_length + 1;
        size_t value_length = value_span(given);
        char next = given[value_length];
        if (given[0] == '\'' && (value_length == 0 || (next != ',' && next != '\0')))
            return tnri_error(TNR_ERR_CONFIG,
                              "%s: the quotation mark of \"%.80s\" does not end where the value "
                              "does. Write \"key:'value',key:value\", with '' for ' inside.",
                              origin, text);
        if (key_length >= sizeof(key) || value_length >= sizeof(value))
            return tnri_error(TNR_ERR_CONFIG, "%s: \"%.80s...\" is too long for a setting.", origin,
                              text);
        memcpy(key, text, key_length);
        key[key_length] = '\0';
        value_copy(value, given, value_length);
        tnr_status status = pair_apply(conf, key, value, origin, running);
        if (status != TNR_OK)
            return status;
        text += key_length + 1 + value_length;
        text += *text == ',';
    }
    return TNR_OK;
}

/* Blanks have no meaning in a settings string, but in values in quotation marks, which begin right
 * after a colon. The copy without them is what is parsed. */
static void blanks_remove(char *text)
{
    char *to = text;
    const char *from = text;
    while (*from != '\0') {
        size_t length = *from == '\'' && to > text && to[-1] == ':' ? quote_span(from) : 0;
        if (length > 0) {
            memmove(to, from, length);
            to += length;
            from += length;
            continue;
        }
        if (!isspace((unsigned char)*from))
            *to++ = *from;
        from++;
    }
    *to = '\0';
}

/* What follows from settings, for code that may not ask each of them. */
static void conf_complete(tnri_conf *conf)
{
    conf->placed_from = conf->max_split_size_mb != 0 ? 0 : TNRI_PLACED_BYTES;
}

static void defaults_store(void)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        int stored = setting_store(&settings[i], &conf_defaults, settings[i].default_value);
        tnri_assert(stored);
        (void)stored;
    }
    conf_complete(&conf_defaults);
}

/* Any thread may be the first to look at the settings. */
static void defaults_fill(void)
{
    static tnri_once once = TNRI_ONCE_INIT;
    tnri_once_run(&once, defaults_store);
}

/* Relations between settings that no single one can check. */
static tnr_status group_check(const tnri_conf *conf, const char *origin)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (conf->group[strspn(conf->group, letters)] != '\0')
        return tnri_error(TNR_ERR_CONFIG,
                          "%s: group cannot be \"%s\". Allowed: letters, digits, - and _.", origin,
                          conf->group);
    if (conf->group_floor_mb > conf->group_ceiling_mb)
        return tnri_error(TNR_ERR_CONFIG,
                          "%s: group_floor_mb (%llu) is above group_ceiling_mb (%llu). Raise the "
                          "one or lower the other.",
                          origin, (unsigned long long)conf->group_floor_mb,
                          (unsigned long long)conf->group_ceiling_mb);
    if (conf->group_floor_mb > conf->group_limit_mb)
        return tnri_error(TNR_ERR_CONFIG,
                          "%s: group_floor_mb (%llu) is above group_limit_mb (%llu), which is for "
                          "all members together. Raise the one or lower the other.",
                          origin, (unsigned long long)conf->group_floor_mb,
                          (unsigned long long)conf->group_limit_mb);
    return TNR_OK;
}

static tnr_status conf_check(const tnri_conf *conf, const char *origin)
{
    if (conf->chunk_max_mb < conf->chunk_mb)
        return tnri_error(TNR_ERR_CONFIG,
                          "%s: chunk_max_mb (%llu) is smaller than chunk_mb (%llu). Raise the one "
                          "or lower the other.",
                          origin, (unsigned long long)conf->chunk_max_mb,
                          (unsigned long long)conf->chunk_mb);
    return group_check(conf, origin);
}

/* Who finds the gate shut does not look at the settings: it opens before and shuts after. */
static void conf_publish(const tnri_conf *conf)
{
    uint64_t wanted = 0;
    if (conf->roundup_power2_divisions.any || conf->apart)
        wanted |= TNRI_GATE_STEPS;
    if (conf->auto_record == TNRI_AUTO_ALL)
        wanted |= TNRI_GATE_SYNC;
    if (conf->guard != TNRI_GUARD_OFF || conf->poison || conf->canary)
        wanted |= TNRI_GATE_TRAPS;
    tnri_gate_set(0, wanted);
    atomic_store_explicit(&tnri_conf_current, conf, memory_order_release);
    tnri_gate_set((TNRI_GATE_STEPS | TNRI_GATE_SYNC | TNRI_GATE_TRAPS) & ~wanted, 0);
}

tnr_status tnri_conf_read(tnri_conf **read, const char *text, const char *origin, int running)
{
    defaults_fill();
    size_t bytes = strlen(text) + 1;
    char *copy = tnri_host_alloc(bytes);
    tnri_conf *conf = tnri_host_alloc(sizeof(*conf));
    tnr_status status = TNR_OK;
    if (copy == NULL || conf == NULL) {
        status = tnri_error(TNR_ERR_HOST_MEMORY, "%s: no host memory for the settings.", origin);
    } else {
        const tnri_conf *now = tnri_conf_get();
        *conf = *now;
        conf->previous = now == &conf_defaults ? NULL : (tnri_conf *)(uintptr_t)now;
        memcpy(copy, text, bytes);
        blanks_remove(copy);
        status = text_apply(conf, copy, origin, running);
        if (status == TNR_OK)
            status = conf_check(conf, origin);
    }
    tnri_host_free(copy, bytes);
    if (status == TNR_OK) {
        conf_complete(conf);
        *read = conf;
    } else {
        tnri_conf_drop(conf);
    }
    return status;
}

void tnri_conf_adopt(tnri_conf *read)
{
    conf_publish(read);
}

void tnri_conf_drop(tnri_conf *read)
{
    tnri_host_free(read, sizeof(*read));
}

void tnri_conf_reset(void)
{
    const tnri_conf *conf = tnri_conf_get();
    conf_publish(&conf_defaults);
    while (conf != &conf_defaults && conf != NULL) {
        tnri_conf *previous = conf->previous;
        tnri_host_free((void *)(uintptr_t)conf, sizeof(*conf));
        conf = previous;
    }
}

tnr_status tnri_conf_describe(tnr_setting_info *info, size_t index)
{
    static _Thread_local char value[VALUE_BYTES];
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_setting_get: set info->struct_bytes to sizeof(tnr_setting_info).");
    if (index >= SETTINGS_COUNT)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "there are %d settings.", SETTINGS_COUNT);
    const setting *row = &settings[index];
    const tnri_conf *conf = tnri_conf_get();
    defaults_fill();
    setting_print(row, conf, value, sizeof(value));
    info->key = row->key;
    info->type = type_names[row->type];
    info->default_value = row->default_value;
    info->value = value;
    info->allowed = row->allowed;
    info->help = row->help;
    info->at_start = row->at_start;
    info->is_set = (conf->set_mask >> index & 1) != 0;
    return TNR_OK;
}
