/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++ as people write them: see demangle.h. The grammar is the Itanium C++ ABI's. */
#include "demangle.h"

#include <ctype.h>
#include <string.h>

#include "named.h"
#include "texts.h"

enum { NAME_BYTES = 512 };

typedef struct reader {
    const char *at;
    char *text;
    size_t length, room;
    const char *latest; /* the name read last, in what is read: constructors have it, too */
    size_t latest_length;
    int is_wrong;
} reader;

static void put(reader *self, const char *bytes, size_t count)
{
    if (self->length + count >= self->room) {
        self->is_wrong = 1;
        return;
    }
    memcpy(self->text + self->length, bytes, count);
    self->length += count;
    self->text[self->length] = '\0';
}

static void put_text(reader *self, const char *text)
{
    put(self, text, strlen(text));
}

/* "6detail": moves behind it. Returns where the name is, and its length; null: it is none. */
static const char *identifier(reader *self, size_t *length)
{
    *length = 0;
    while (isdigit((unsigned char)*self->at) && *length < NAME_BYTES)
        *length = *length * 10 + (size_t)(*self->at++ - '0');
    if (*length == 0 || strnlen(self->at, *length) < *length) {
        self->is_wrong = 1;
        return NULL;
    }
    self->latest = self->at;
    self->latest_length = *length;
    self->at += *length;
    return self->latest;
}

/* Behind "S_" or "S1a_", which stand for what came before, or "Sa", a name of std. */
static void substitution_skip(reader *self)
{
    self->at++;
    if (islower((unsigned char)*self->at)) {
        self->at++;
        return;
    }
    while (isalnum((unsigned char)*self->at))
        self->at++;
    self->is_wrong |= *self->at++ != '_';
}

/* Behind the E that ends what a template was made for. */
static void arguments_skip(reader *self)
{
    for (int depth = 1; depth > 0 && !self->is_wrong;) {
        size_t length;
        char one = *self->at;
        if (one == '\0') {
            self->is_wrong = 1;
        } else if (isdigit((unsigned char)one)) {
            (void)identifier(self, &length);
        } else if (one == 'S') {
            substitution_skip(self);
        } else if (one == 'L' && self->at[1] != '_') { /* a value: a type, and digits */
            self->at += strcspn(self->at, "E");
            self->is_wrong |= *self->at == '\0';
            self->at += !self->is_wrong;
        } else if (one == 'T' || one == 'A') { /* T_, T0_; A10_ */
            self->at += strcspn(self->at, "_");
            self->is_wrong |= *self->at == '\0';
            self->at += !self->is_wrong;
        } else if (one == 'D' && self->at[1] != '\0') {
            depth += self->at[1] == 'T' || self->at[1] == 't';
            self->at += 2;
        } else {
            /* A lambda, "UlvE_", ends as all the others do. */
            depth += strchr("NIXFJLZ", one) != NULL || (one == 'U' && self->at[1] == 'l');
            depth -= one == 'E';
            self->at++;
        }
    }
}

/* One part of a name. 0: it is of a kind that is not read. */
static int part(reader *self)
{
    static const char anonymous[] = "_GLOBAL__N_";
    size_t length;
    if (*self->at == 'I') {
        self->at++;
        arguments_skip(self);
        return 1;
    }
    if (self->length > 0)
        put_text(self, "::");
    if (strncmp(self->at, "St", 2) == 0) {
        self->at += 2;
        put_text(self, "std");
    } else if (strncmp(self->at, "cl", 2) == 0) {
        self->at += 2;
        put_text(self, "operator()");
    } else if ((*self->at == 'C' || *self->at == 'D') && isdigit((unsigned char)self->at[1]) &&
               self->latest != NULL) {
        put(self, "~", *self->at == 'D');
        put(self, self->latest, self->latest_length);
        self->at += 2;
    } else if (isdigit((unsigned char)*self->at)) {
        const char *name = identifier(self, &length);
        if (name != NULL && strncmp(name, anonymous, strlen(anonymous)) == 0)
            put_text(self, "(anonymous namespace)");
        else if (name != NULL)
            put(self, name, length);
    } else {
        return 0;
    }
    return !self->is_wrong;
}

size_t demangle(const char *mangled, char *text, size_t room)
{
    if (strncmp(mangled, "_Z", 2) != 0)
        return 0;
    reader self = {.at = mangled + 2, .text = text, .room = room};
    int is_nested = *self.at == 'N';
    if (is_nested)
        self.at += 1 + strspn(self.at + 1, "rVKRO"); /* const and the like */
    do {
        if (!part(&self) || self.is_wrong)
            return 0;
        /* std::name needs no N. */
    } while (is_nested ? *self.at != 'E' : *self.at == 'I' || strcmp(text, "std") == 0);
    put_text(&self, "(...)");
    return self.is_wrong ? 0 : self.length;
}

int functions_demangle(model *snapshot)
{
    char text[NAME_BYTES];
    texts names;
    size_t changed = 0, count = snapshot->frames.count, first = 0;
    while (first < count &&
           strncmp(model_string(snapshot, MODEL_AT(snapshot->frames, frame, first)->function), "_Z",
                   2) != 0)
        first++;
    if (first == count)
        return 0;
    int code = texts_start(&names, snapshot);
    for (size_t i = first; i < count && code == 0; i++) {
        frame *one = MODEL_AT(snapshot->frames, frame, i);
        size_t length = demangle(model_string(snapshot, one->function), text, sizeof(text));
        if (length == 0)
            continue;
        uint32_t function;
        code = texts_add(&names, text, length, &function);
        if (code == 0)
            one->function = function;
        changed++;
    }
    texts_release(&names);
    return code == 0 && changed > 0 ? stacks_merge(snapshot) : code;
}
