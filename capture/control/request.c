/* SPDX-License-Identifier: Apache-2.0 */
/* Reading requests: see request.h. */
#include "control/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Where a reader is. `at` never passes `end`, at which there is a zero byte. */
typedef struct reader {
    char *at, *end;
    char *error;
    size_t error_bytes;
} reader;

/* Fields, as bits of what a command knows and of what has been read. */
typedef enum field {
    FIELD_COMMAND,
    FIELD_ID,
    FIELD_PROTOCOL,
    FIELD_TAGS,
    FIELD_DEVICE,
    FIELD_CONTENT,
    FIELD_KEEP_BACKING,
    FIELD_PINNED,
    FIELD_BYTES,
    FIELD_FORMAT,
    FIELD_SET,
    FIELD_STREAMS,
    FIELD_ACCOUNT,
    FIELD_COUNT
} field;

static const char *const field_names[FIELD_COUNT] = {
    "command",      "id",    "protocol", "tags", "device",  "content", "keep_backing",
    "pinned_bytes", "bytes", "format",   "set",  "streams", "account"};

#define BIT(name) (1u << FIELD_##name)
#define ALWAYS (BIT(COMMAND) | BIT(ID) | BIT(PROTOCOL))

static const struct {
    const char *name;
    unsigned fields; /* besides those that every command has */
} commands[TNRI_COMMAND_COUNT] = {
    {"status", BIT(STREAMS) | BIT(ACCOUNT)},
    {"sleep", BIT(TAGS) | BIT(DEVICE) | BIT(CONTENT) | BIT(KEEP_BACKING) | BIT(PINNED)},
    {"wake", BIT(TAGS) | BIT(DEVICE)},
    {"trim", BIT(TAGS) | BIT(DEVICE) | BIT(BYTES)},
    {"compact", BIT(DEVICE)},
    {"limit", BIT(TAGS) | BIT(DEVICE) | BIT(BYTES)},
    {"snapshot", BIT(FORMAT)},
    {"settings", BIT(SET)},
};

const char *tnri_command_name(tnri_command command)
{
    return commands[command].name;
}

static int refuse(reader *from, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Always 0, so that a refusal is one line at its place. */
static int refuse(reader *from, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(from->error, from->error_bytes, format, arguments);
    va_end(arguments);
    return 0;
}

static void blanks_skip(reader *from)
{
    while (*from->at == ' ' || *from->at == '\t' || *from->at == '\r')
        from->at++;
}

/* 1 if the next character is this one, which is taken. */
static int take(reader *from, char wanted)
{
    blanks_skip(from);
    if (*from->at != wanted)
        return 0;
    from->at++;
    return 1;
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* The value of four hexadecimal digits; -1: they are none. */
static long hex_read(const char *at)
{
    long value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = at[i] == '\0' ? NULL : strchr(digits, at[i]);
        if (digit == NULL)
            return -1;
        value = value * 16 + (digit - digits) % 16;
    }
    return value;
}

/* A character as UTF-8, which is no longer than its escape was. Returns its end. */
static char *utf8_put(char *to, unsigned long code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char firsts[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(firsts[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    return to;
}

/* \u and what follows; a character above U+FFFF is a pair of them. Null: it is none. */
static char *unicode_take(reader *from, char *to)
{
    long code = hex_read(from->at);
    if (code <= 0)
        return NULL;
    from->at += 4;
    if (code >= 0xd800 && code < 0xdc00) {
        long low = from->at[0] == '\\' && from->at[1] == 'u' ? hex_read(from->at + 2) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return NULL;
        from->at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return NULL;
    }
    return utf8_put(to, (unsigned long)code);
}

/* What follows a backslash. Null: nothing that JSON knows, or a zero byte. */
static char *escape_take(reader *from, char *to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char letter = *from->at;
    if (letter == '\0')
        return NULL;
    from->at++;
    if (letter == 'u')
        return unicode_take(from, to);
    const char *found = strchr(letters, letter);
    if (found == NULL)
        return NULL;
    *to++ = meanings[found - letters];
    return to;
}

/* A text in quotation marks, decoded in place and ended with a zero byte. */
static int text_take(reader *from, const char **text)
{
    if (!take(from, '"'))
        return refuse(from, "a text in quotation marks is missing at \"%.20s\".", from->at);
    char *to = from->at;
    *text = to;
    while (*from->at != '"') {
        unsigned char byte = (unsigned char)*from->at;
        size_t length = tnri_utf8_length(from->at, (size_t)(from->end - from->at));
        if (byte < 0x20 || length == 0)
            return refuse(from, byte == 0 && from->at == from->end
                                    ? "a text does not end."
                                    : "a text has a control character, or is not UTF-8.");
        if (byte == '\\') {
            from->at++;
            to = escape_take(from, to);
            if (to == NULL)
                return refuse(from, "a text has a backslash before something that JSON does not "
                                    "know.");
            continue;
        }
        memmove(to, from->at, length);
        to += length;
        from->at += length;
    }
    from->at++;
    *to = '\0';
    return 1;
}

/* ---- other values --------------------------------------------------------------------------- */

/* A whole number. What comes after it is for the next reader, so 1.5 ends there. */
static int number_take(reader *from, const char *name, uint64_t *count)
{
    blanks_skip(from);
    const char *first = from->at;
    *count = 0;
    for (; *from->at >= '0' && *from->at <= '9' && from->at - first < 19; from->at++)
        *count = *count * 10 + (uint64_t)(*from->at - '0');
    ptrdiff_t digits = from->at - first;
    if (digits > 0 && (digits == 1 || *first != '0') && *count <= INT64_MAX)
        return 1;
    return refuse(from, "%s must be a whole number from 0 to 2^63 - 1, not \"%.20s\".", name,
                  first);
}

/* 1 if a word of JSON's stands next, which is taken. */
static int word_take(reader *from, const char *word)
{
    size_t length = strlen(word);
    blanks_skip(from);
    if (strncmp(from->at, word, length) != 0)
        return 0;
    from->at += length;
    return 1;
}

static int flag_take(reader *from, const char *name, int *flag)
{
    *flag = word_take(from, "true");
    return *flag || word_take(from, "false") ? 1 : refuse(from, "%s must be true or false.", name);
}

static int tags_take(reader *from, tnri_control_request *request)
{
    if (!take(from, '['))
        return refuse(from, "tags must be a list of texts.");
    do {
        if (request->tags_count == TNRI_REQUEST_TAGS_MAX)
            return refuse(from, "there are more than %d tags.", TNRI_REQUEST_TAGS_MAX);
        if (!text_take(from, &request->tags[request->tags_count++]))
            return 0;
    } while (take(from, ','));
    return take(from, ']') ? 1 : refuse(from, "the list of tags does not end.");
}

static int content_take(reader *from, tnr_content *content)
{
    static const struct {
        const char *word;
        tnr_content content;
    } known[] = {{"keep", TNR_CONTENT_KEEP},
                 {"disk", TNR_CONTENT_DISK},
                 {"discard", TNR_CONTENT_DISCARD}};
    const char *word;
    if (!text_take(from, &word))
        return 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(word, known[i].word) == 0) {
            *content = known[i].content;
            return 1;
        }
    return refuse(from, "content must be keep, disk or discard, not \"%.20s\".", word);
}

/* ---- the object ----------------------------------------------------------------------------- */

static int command_take(reader *from, tnri_control_request *request)
{
    const char *word;
    if (!text_take(from, &word))
        return 0;
    for (int i = 0; i < TNRI_COMMAND_COUNT; i++)
        if (strcmp(word, commands[i].name) == 0) {
            request->command = (tnri_command)i;
            return 1;
        }
    return refuse(from,
                  "there is no command \"%.20s\". There are status, sleep, wake, trim, "
                  "compact, limit, snapshot and settings.",
                  word);
}

static int protocol_take(reader *from)
{
    uint64_t version;
    if (!number_take(from, "protocol", &version))
        return 0;
    if (version == TNRI_CONTROL_PROTOCOL)
        return 1;
    return refuse(from,
                  "this process speaks version %d of the protocol, not %llu. Use the tenure "
                  "command that came with its libtenure.so.",
                  TNRI_CONTROL_PROTOCOL, (unsigned long long)version);
}

static int value_take(reader *from, tnri_control_request *request, field which)
{
    switch (which) {
    case FIELD_COMMAND:
        return command_take(from, request);
    case FIELD_ID:
        request->has_id = number_take(from, "id", &request->id);
        return request->has_id;
    case FIELD_PROTOCOL:
        return protocol_take(from);
    case FIELD_TAGS:
        return tags_take(from, request);
    case FIELD_DEVICE:
        request->has_device = 1;
        return number_take(from, "device", &request->device);
    case FIELD_CONTENT:
        return content_take(from, &request->content);
    case FIELD_KEEP_BACKING:
        return flag_take(from, "keep_backing", &request->keep_backing);
    case FIELD_PINNED:
        return number_take(from, "pinned_bytes", &request->pinned_bytes_max);
    case FIELD_BYTES:
        request->has_bytes = 1;
        request->bytes = UINT64_MAX;
        return word_take(from, "null") || number_take(from, "bytes", &request->bytes);
    case FIELD_FORMAT:
        return text_take(from, &request->format);
    case FIELD_STREAMS:
        return flag_take(from, "streams", &request->has_streams);
    case FIELD_ACCOUNT:
        return flag_take(from, "account", &request->has_account);
    default:
        return text_take(from, &request->set);
    }
}

/* One key with its value. */
static int pair_take(reader *from, tnri_control_request *request, unsigned *seen)
{
    const char *key;
    if (!text_take(from, &key))
        return 0;
    int which = 0;
    while (which < FIELD_COUNT && strcmp(key, field_names[which]) != 0)
        which++;
    if (which == FIELD_COUNT)
        return refuse(from, "there is no field \"%.40s\".", key);
    if ((*seen & 1u << which) != 0)
        return refuse(from, "the field \"%s\" comes twice.", field_names[which]);
    *seen |= 1u << which;
    if (!take(from, ':'))
        return refuse(from, "there is no colon after \"%s\".", field_names[which]);
    return value_take(from, request, (field)which);
}

/* What a command knows, and what it cannot do without. */
static int fields_check(reader *from, const tnri_control_request *request, unsigned seen)
{
    if ((seen & BIT(COMMAND)) == 0)
        return refuse(from, "there is no command.");
    const char *name = commands[request->command].name;
    unsigned unknown = seen & ~(commands[request->command].fields | ALWAYS);
    for (int i = 0; i < FIELD_COUNT; i++)
        if ((unknown & 1u << i) != 0)
            return refuse(from, "%s has no field \"%s\".", name, field_names[i]);
    if (request->command == TNRI_COMMAND_LIMIT && !request->has_bytes)
        return refuse(from, "limit needs bytes: a number, or null for no limit.");
    if (request->command == TNRI_COMMAND_TRIM && request->has_bytes && request->bytes == UINT64_MAX)
        return refuse(from, "bytes of trim must be a number: how many may stay.");
    return 1;
}

int tnri_request_read(tnri_control_request *request, char *line, size_t length, char *error,
                      size_t error_bytes)
{
    reader from = {line, line + length, error, error_bytes};
    unsigned seen = 0;
    *request = (tnri_control_request){0};
    if (!take(&from, '{'))
        return refuse(&from, "a request is an object of JSON on one line.");
    if (!take(&from, '}')) {
        do {
            if (!pair_take(&from, request, &seen))
                return 0;
        } while (take(&from, ','));
        if (!take(&from, '}'))
            return refuse(&from, "the object does not end, or a comma is missing, at \"%.20s\".",
                          from.at);
    }
    blanks_skip(&from);
    if (from.at != from.end)
        return refuse(&from, "something follows the object: \"%.20s\".", from.at);
    return fields_check(&from, request, seen);
}
