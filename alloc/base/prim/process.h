/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the system: this process, its program, its user and its machine; one signal that
 * is followed.
 */
#ifndef TNRI_BASE_PRIM_PROCESS_H
#define TNRI_BASE_PRIM_PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* The number by which the system knows this process. A forked child has another. */
int tnri_process_id(void);
/* The user whose rights it has. */
uint32_t tnri_process_user(void);
/* Room for a path. */
enum { TNRI_PATH_BYTES = 4096 };

/* The program's name, without its folder. */
const char *tnri_program_name(void);
/* The path of the program's file. 0, and an empty text: it is not known. */
size_t tnri_program_path(char *path, size_t room);
/* The machine's name, empty if it is not known. */
void tnri_machine_name(char *name, size_t room);
/* How many processors there are; 0 or less: it is not known. */
long tnri_processors(void);
/* How much memory the machine has. */
size_t tnri_machine_bytes(void);
/* Fills memory with random numbers that cannot be guessed. 0: there are none; errno says why. */
int tnri_random(void *memory, size_t bytes);

/* What an error number means. `text` has room for it, and is not always used. */
const char *tnri_system_text(int error, char *text, size_t room);
/* Writes to the standard error at once, with no buffer and no lock. What cannot be written is lost.
 * May be called in a handler of a signal. */
void tnri_complain(const char *text, size_t length);

/* The most bytes that the process may lock in memory; UINT64_MAX: there is no limit. */
uint64_t tnri_locked_limit(void);

/* ---- a signal ------------------------------------------------------------------------------- */

/* Has `handle` called with one of the signals, by its place in the words of the setting
 * snapshot_signal; it may call tnri_process_id and tnri_wake_ring. One signal at a time. */
void tnri_signal_follow(int which, void (*handle)(int));
/* Puts back what was done at the signal before. */
void tnri_signal_restore(void);

/* ---- waking --------------------------------------------------------------------------------- */

/* A descriptor that is readable from a ring until the thread that waits has heard it. -1: there is
 * none to be had, and errno says why. `is_polled`: waiting is left to the caller, and hearing does
 * not wait. exec closes it. */
int tnri_wake_make(int is_polled);
/* May be called in a handler of a signal. Keeps errno. */
void tnri_wake_ring(int wake);
/* Waits for a ring. 1: it was heard. 0: a signal has interrupted the thread; look again. -1: it is
 * of no use any more. */
int tnri_wake_hear(int wake);

#endif
