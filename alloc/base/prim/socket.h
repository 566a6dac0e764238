/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the system: sockets of one machine, messages that carry a descriptor, and
 * waiting for descriptors. exec closes what is made here. Where a result says that a call was
 * refused, errno says why.
 */
#ifndef TNRI_BASE_PRIM_SOCKET_H
#define TNRI_BASE_PRIM_SOCKET_H

#include <stddef.h>
#include <stdint.h>

/* ---- waiting -------------------------------------------------------------------------------- */

enum { TNRI_WAIT_READ = 1, TNRI_WAIT_WRITE = 2, TNRI_WAIT_OVER = 4 };

typedef struct tnri_file_wait {
    int file;        /* below 0: not waited for */
    unsigned wanted; /* READ, WRITE; OVER comes by itself: hung up, or no use any more */
    unsigned found;
} tnri_file_wait;

/* Waits for one of at most TNRI_WAITS_MAX, for so many milliseconds (-1: for as long as it takes).
 * Returns how many were found. -1: refused, or interrupted (EINTR). A thread may be cancelled. */
enum { TNRI_WAITS_MAX = 64 };
int tnri_wait_any(tnri_file_wait *waits, size_t count, int milliseconds);

/* A descriptor that can be read when this process has ended. -1: the system has no such thing. */
int tnri_process_watch(void);

/* ---- sockets -------------------------------------------------------------------------------- */

/* MESSAGES: it keeps messages apart; else it is a stream. UNWAITED: accepting does not wait. */
enum { TNRI_SOCKET_MESSAGES = 1, TNRI_SOCKET_UNWAITED = 2 };

/* -1: refused. */
int tnri_socket_make(unsigned how);
/* A connected pair that keeps messages apart. 0: refused. */
int tnri_socket_pair(int files[2]);
/* Where a socket is found: a path; or, if `is_nameless`, a name that is in no folder, and goes with
 * the socket. The first two return 0 where they are refused, ENAMETOOLONG if the path is too long
 * for an address. A connection that is not accepted in so many seconds is refused. */
int tnri_socket_bind(int socket, const char *path, int is_nameless);
int tnri_socket_connect(int socket, const char *path, int is_nameless, int seconds);
/* The most bytes of a path, with its end. */
size_t tnri_socket_path_room(void);
/* 0: refused. */
int tnri_socket_listen(int socket, int waiting);
/* `how`: UNWAITED, for the connection. -1: refused. */
int tnri_socket_accept(int socket, unsigned how);
/* Hangs up, and wakes who waits. */
void tnri_socket_hang_up(int socket);
/* The process and the user at the other end, as the system says. 0: it does not. */
int tnri_socket_peer(int socket, int *process, uint32_t *user);
/* 1: it is a stream. 0: it keeps messages apart. -1: refused. */
int tnri_socket_is_stream(int socket);
/* Has exec close a descriptor that something else has made. */
void tnri_socket_keep_from_exec(int file);

/* Sends without waiting, with the descriptor `file` unless it is -1. Returns how many bytes. -1:
 * refused. A signal never comes of it. */
int64_t tnri_socket_send(int socket, const void *data, size_t bytes, int file);

/* Takes what is there without waiting, and no descriptor. Returns as below. */
int64_t tnri_socket_receive(int socket, void *data, size_t bytes);

/* Takes what is there without waiting, and descriptors that come with it, as far as there is room
 * for them. Returns how many bytes; 0: the other side has hung up; -1: refused. *is_cut: a message
 * was longer. */
enum { TNRI_SOCKET_FILES = 8 };
int64_t tnri_socket_take(int socket, void *data, size_t bytes, int files[TNRI_SOCKET_FILES],
                         size_t *files_count, int *is_cut);

#endif
