/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every text of settings must hold to: a harness for libFuzzer, and for replay.c.
 *
 * A text is taken as a whole, or refused with a sentence; a refusal changes nothing. The values
 * that are in force afterwards are given to the library again, one by one: it takes them, and
 * prints the same. In tnri_conf_read, settings adopted after an error: this failed at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>

#include "base/conf/conf.h"
#include "fuzz.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { SETTINGS_MAX = 128, VALUE_BYTES = 512 };

typedef struct setting {
    char key[64];
    char value[VALUE_BYTES];
    int is_set;
} setting;

static setting found[SETTINGS_MAX];
static setting again[SETTINGS_MAX];

static size_t settings_get(setting *into)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    size_t count = 0;
    for (; count < SETTINGS_MAX && tnr_setting_get(&info, count) == TNR_OK; count++) {
        snprintf(into[count].key, sizeof(into[count].key), "%s", info.key);
        snprintf(into[count].value, sizeof(into[count].value), "%s", info.value);
        into[count].is_set = info.is_set;
    }
    MUST(count > 20 && count < SETTINGS_MAX);
    return count;
}

/* A value that needs no quotes; commas are part of a list in brackets. */
static int is_plain(const char *value)
{
    return value[0] != '\0' && strpbrk(value, value[0] == '[' ? "' \t\n" : "', \t\n") == NULL;
}

static tnr_status apply(const char *text, const char *origin)
{
    tnri_conf *read;
    tnr_status status = tnri_conf_read(&read, text, origin, 0);
    if (status == TNR_OK)
        tnri_conf_adopt(read);
    return status;
}

static void values_are_taken_back(size_t count)
{
    char text[VALUE_BYTES + 80];
    for (size_t i = 0; i < count; i++) {
        if (!found[i].is_set || !is_plain(found[i].value))
            continue;
        snprintf(text, sizeof(text), "%s:%s", found[i].key, found[i].value);
        MUST(apply(text, "again") == TNR_OK);
    }
    (void)settings_get(again);
    for (size_t i = 0; i < count; i++)
        MUST(strcmp(found[i].value, again[i].value) == 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    char *text = malloc(length + 1);
    MUST(text != NULL);
    memcpy(text, bytes, length);
    text[length] = '\0';
    tnri_conf_reset();
    MUST(apply("bin_blocks:7", "before") == TNR_OK);
    size_t count = settings_get(again);
    tnr_status status = apply(text, "input");
    if (status != TNR_OK)
        MUST(status == TNR_ERR_CONFIG && strncmp(tnr_last_error(), "input", 5) == 0);
    (void)settings_get(found);
    if (status == TNR_OK)
        values_are_taken_back(count);
    for (size_t i = 0; i < count && status != TNR_OK; i++)
        MUST(strcmp(found[i].value, again[i].value) == 0 && found[i].is_set == again[i].is_set);
    tnri_conf_reset();
    free(text);
    return 0;
}
