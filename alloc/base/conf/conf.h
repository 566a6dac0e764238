/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: parsed once, read often.
 *
 * The settings in force are an immutable structure behind one atomic pointer. A change makes a new
 * structure and publishes it; old ones are kept until shutdown, so a reader never needs a lock.
 */
#ifndef TNRI_CONF_CONF_H
#define TNRI_CONF_CONF_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

/* The choices, in the order of the words in settings.def. */
enum { TNRI_ALIASES_FROM_LOW_WATER = 0, TNRI_ALIASES_FROM_FIRST = 1 };
enum { TNRI_CROSS_WAIT = 0, TNRI_CROSS_IDLE = 1, TNRI_CROSS_OFF = 2 };
enum { TNRI_REUSE_WAIT = 0, TNRI_REUSE_FOLLOW = 1, TNRI_REUSE_POLL = 2 };
enum { TNRI_GUARD_OFF = 0, TNRI_GUARD_ON = 1, TNRI_GUARD_WAIT = 2 };
enum { TNRI_CONF_TEXT_BYTES = 256 };
enum { TNRI_AUTO_OFF = 0, TNRI_AUTO_SEEN = 1, TNRI_AUTO_ALL = 2 };
enum { TNRI_CONTROL_OFF = 0, TNRI_CONTROL_ON = 1, TNRI_CONTROL_TRY = 2 };
enum { TNRI_HOST_AUTO = 0, TNRI_HOST_MAPPED = 1, TNRI_HOST_ALLOCATED = 2, TNRI_HOST_OFF = 3 };
enum { TNRI_MEMORY_AUTO = 0, TNRI_MEMORY_MAPPED = 1, TNRI_MEMORY_ALLOCATED = 2 };
enum { TNRI_PEERS_ASKED = 0, TNRI_PEERS_USED = 1 };
enum { TNRI_SHARE_POSIX_FD = 0, TNRI_SHARE_NONE = 1, TNRI_SHARE_FABRIC = 2 };

/* roundup_power2_divisions: one entry for each power of two from 1 MiB to 32 GiB. */
enum { TNRI_STEPS_COUNT = 16 };
typedef struct tnri_steps {
    uint32_t divisions[TNRI_STEPS_COUNT]; /* 0 or 1: no rounding in this interval */
    int any;                              /* 1 if some entry rounds */
} tnri_steps;

#define SETTING_FIELD_COUNT(key) uint64_t key;
#define SETTING_FIELD_RATIO(key) double key;
#define SETTING_FIELD_SWITCH(key) int key;
#define SETTING_FIELD_CHOICE(key) int key;
#define SETTING_FIELD_STEPS(key) tnri_steps key;
#define SETTING_FIELD_TEXT(key) char key[TNRI_CONF_TEXT_BYTES];

/* Immutable once published. */
typedef struct tnri_conf {
#define SETTING(key, type, value, low, high, when, allowed, help) SETTING_FIELD_##type(key)
#include "base/conf/settings.def"
#undef SETTING
    size_t placed_from; /* follows from them: for blocks of so many bytes and more it is asked which
                         * run serves them, and where: see memory/arena/serve.h */
    uint64_t set_mask;          /* bit i: setting i was changed by the user */
    struct tnri_conf *previous; /* older settings, kept until shutdown */
} tnri_conf;

/* The settings in force. Never null. */
extern _Atomic(const tnri_conf *) tnri_conf_current;

static inline const tnri_conf *tnri_conf_get(void)
{
    return atomic_load_explicit(&tnri_conf_current, memory_order_acquire);
}

/* Reads `text` on top of what is in force, all or nothing; nothing is in force yet. `origin` names
 * the text in errors ("TENURE_CONF", "tnr_configure"). If `running`, settings marked START are
 * refused with TNR_ERR_BUSY. What is read is then adopted or dropped. Under the library lock, as
 * the two next. */
tnr_status tnri_conf_read(tnri_conf **read, const char *text, const char *origin, int running);
/* Puts it in force. */
void tnri_conf_adopt(tnri_conf *read);
void tnri_conf_drop(tnri_conf *read);

/* tnr_setting_get, in any process. */
tnr_status tnri_conf_describe(tnr_setting_info *info, size_t index);

/* Back to the defaults; frees older settings. Only while no other thread is inside Tenure. */
void tnri_conf_reset(void);

/* Rounds `bytes` up by roundup_power2_divisions. */
size_t tnri_steps_round(const tnri_steps *steps, size_t bytes);

/* Reads the value of roundup_power2_divisions. Returns 1, or 0 if it is not understood. */
int tnri_steps_parse(tnri_steps *steps, const char *value);
/* Writes it in the same syntax. */
void tnri_steps_print(const tnri_steps *steps, char *text, size_t bytes);

#endif
