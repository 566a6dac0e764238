/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for findings that are not to be said: see suppress.h. */
#include "check/suppress.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/kinds.h"

enum { FILE_BYTES_MAX = 1 << 20 };

static const char *const about_words[SUPPRESS_ABOUT_COUNT] = {
    "kind:", "call:", "kernel:", "stream:", "frame:"};

/* ---- reading -------------------------------------------------------------------------------- */

/* The whole file, ended by a zero byte; null after a sentence. */
static char *file_read(const char *path, char error[SUPPRESS_ERROR_BYTES])
{
    FILE *file = fopen(path, "re");
    char *text = file == NULL ? NULL : malloc(FILE_BYTES_MAX + 1);
    size_t length = text == NULL ? 0 : fread(text, 1, FILE_BYTES_MAX + 1, file);
    int reason = errno;
    int is_whole = text != NULL && !ferror(file) && length <= FILE_BYTES_MAX;
    if (file != NULL)
        (void)fclose(file);
    if (is_whole) {
        text[length] = '\0';
        if (memchr(text, '\0', length) == NULL)
            return text;
    }
    const char *why = "it is not a text";
    if (text == NULL || !is_whole)
        why = length > FILE_BYTES_MAX ? "it has more than 1 MiB" : strerror(reason);
    (void)snprintf(error, SUPPRESS_ERROR_BYTES, "%.300s: %s", path, why);
    free(text);
    return NULL;
}

static int is_kind(const char *pattern)
{
    static const char *const keys[] = {
#define KIND_KEY(name, key, text) key,
        CHECK_KINDS(KIND_KEY)
#undef KIND_KEY
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (fnmatch(pattern, keys[i], 0) == 0)
            return 1;
    return 0;
}

/* Takes a word into the rule. Null, or what is wrong with it. */
static const char *word_take(suppress_rule *rule, char *word)
{
    for (int i = 0; i < SUPPRESS_ABOUT_COUNT; i++) {
        size_t length = strlen(about_words[i]);
        if (strncmp(word, about_words[i], length) != 0)
            continue;
        if (word[length] == '\0')
            return "has no pattern";
        if (i == SUPPRESS_KIND && !is_kind(word + length))
            return "is not a kind of finding";
        if (rule->count == SUPPRESS_WORDS_MAX)
            return "is one too many: a rule has at most 8 words";
        rule->words[rule->count++] = (suppress_fact){(suppress_about)i, word + length};
        return NULL;
    }
    return "does not begin with kind:, call:, kernel:, stream: or frame:";
}

/* Null, or what is wrong with which word. */
static const char *line_take(suppress_rule *rule, char *line, const char **word)
{
    char *next = NULL;
    for (*word = strtok_r(line, " \t\r", &next); *word != NULL;
         *word = strtok_r(NULL, " \t\r", &next)) {
        const char *wrong = word_take(rule, (char *)(size_t)*word);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static int rule_add(suppress_rules *rules, const suppress_rule *rule)
{
    suppress_rule *grown = realloc(rules->rules, (rules->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -1;
    rules->rules = grown;
    grown[rules->count++] = *rule;
    return 0;
}

int suppress_read(suppress_rules *rules, const char *path, char error[SUPPRESS_ERROR_BYTES])
{
    *rules = (suppress_rules){.text = file_read(path, error)};
    char *line = rules->text;
    for (int number = 1; line != NULL; number++) {
        char *end = strchr(line, '\n');
        suppress_rule rule = {.line = number};
        const char *word, *wrong = NULL;
        if (end != NULL)
            *end++ = '\0';
        if (line[0] != '#')
            wrong = line_take(&rule, line, &word);
        if (wrong != NULL) {
            (void)snprintf(error, SUPPRESS_ERROR_BYTES, "%.300s:%d: \"%.80s\" %s", path, number,
                           word, wrong);
        } else if (rule.count > 0 &&
                   (rules->count == SUPPRESS_RULES_MAX || rule_add(rules, &rule) != 0)) {
            wrong = "";
            (void)snprintf(error, SUPPRESS_ERROR_BYTES, "%.300s:%d: %s", path, number,
                           rules->count == SUPPRESS_RULES_MAX ? "more than 4,000 rules"
                                                              : "no host memory");
        }
        if (wrong != NULL) {
            suppress_release(rules);
            return -1;
        }
        line = end;
    }
    return rules->text == NULL ? -1 : 0;
}

void suppress_release(suppress_rules *rules)
{
    free(rules->rules);
    free(rules->text);
    *rules = (suppress_rules){.count = 0};
}

/* ---- matching ------------------------------------------------------------------------------- */

static int word_matches(const suppress_fact *word, const suppress_fact *facts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (facts[i].about == word->about && fnmatch(word->text, facts[i].text, 0) == 0)
            return 1;
    return 0;
}

int suppress_find(const suppress_rules *rules, const suppress_fact *facts, size_t count)
{
    for (size_t i = 0; i < rules->count; i++) {
        const suppress_rule *rule = &rules->rules[i];
        size_t matched = 0;
        while (matched < rule->count && word_matches(&rule->words[matched], facts, count))
            matched++;
        if (matched == rule->count)
            return (int)i;
    }
    return -1;
}
