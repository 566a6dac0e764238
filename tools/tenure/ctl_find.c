/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the processes that can be controlled: see ctl.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

enum { UNBORN_S = 60 };

/* ---- the folders ---------------------------------------------------------------------------- */

/* Opens the folder at a path. */
static exit_code folder_open(ctl_folder *folder, const char *path, char *error)
{
    struct stat found;
    snprintf(folder->path, sizeof(folder->path), "%.*s", (int)sizeof(folder->path) - 1, path);
    folder->file = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->file < 0 || fstat(folder->file, &found) != 0) {
        snprintf(error, CTL_ERROR_BYTES,
                 "%.200s: %s. Start a program with `tenure run` or with TENURE_CONF=control:on, or "
                 "name the folder that it uses with --dir",
                 folder->path, strerror(errno));
        if (folder->file >= 0)
            close(folder->file);
        return EXIT_CODE_NO_PROCESS;
    }
    folder->owner = found.st_uid;
    if ((found.st_uid == geteuid() || geteuid() == 0) && (found.st_mode & 077) == 0)
        return EXIT_CODE_OK;
    snprintf(error, CTL_ERROR_BYTES,
             "%.200s is of user %lu and has mode %03o: others may have put sockets there. It must "
             "be yours, with mode 700",
             folder->path, (unsigned long)found.st_uid, (unsigned)(found.st_mode & 0777));
    close(folder->file);
    return EXIT_CODE_BAD_INPUT;
}

/* The user whose folder in /tmp this is; -1: it is another folder. */
static long user_of(const char *path)
{
    static const char begin[] = "/tmp/tenure-";
    const char *digits = path + strlen(begin);
    if (strncmp(path, begin, strlen(begin)) != 0 || !*digits ||
        digits[strspn(digits, "0123456789")] != '\0')
        return -1;
    return strtol(digits, NULL, 10);
}

/* The user's folder in the runtime folder; empty: there is none. */
static void runtime_path(char path[PATH_MAX], long user)
{
    const char *named = getenv("XDG_RUNTIME_DIR");
    path[0] = '\0';
    if (named && named[0] == '/' && user == (long)geteuid())
        snprintf(path, PATH_MAX, "%s/tenure", named);
    if (path[0] == '\0' || access(path, X_OK) != 0)
        snprintf(path, PATH_MAX, "/run/user/%ld/tenure", user);
}

exit_code ctl_folders_open(ctl_folders *folders, const char *path, char *error)
{
    char paths[CTL_FOLDERS_MAX][PATH_MAX] = {""};
    long user = path ? user_of(path) : (long)geteuid();
    exit_code code = EXIT_CODE_OK;
    folders->count = 0;
    if (user >= 0)
        runtime_path(paths[0], user);
    if (path)
        snprintf(paths[1], PATH_MAX, "%s", path);
    else
        snprintf(paths[1], PATH_MAX, "/tmp/tenure-%ld", user);
    for (int i = 0; i < CTL_FOLDERS_MAX; i++) {
        if (paths[i][0] == '\0')
            continue;
        code = folder_open(&folders->items[folders->count], paths[i], error);
        folders->count += code == EXIT_CODE_OK;
    }
    if (folders->count > 0)
        snprintf(folders->text, sizeof(folders->text), "%s%s%s", folders->items[0].path,
                 folders->count > 1 ? " and " : "",
                 folders->count > 1 ? folders->items[1].path : "");
    return folders->count > 0 ? EXIT_CODE_OK : code;
}

void ctl_folders_close(ctl_folders *folders)
{
    while (folders->count > 0)
        close(folders->items[--folders->count].file);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* tenure-PID-BOOT-RANDOM.sock: the process, and the boot. 0: it is no such name. */
static int name_read(const char *name, long *pid, unsigned long *boot)
{
    static const char hex[] = "0123456789abcdef";
    if (strncmp(name, "tenure-", 7) != 0 || strlen(name) >= CTL_NAME_BYTES)
        return 0;
    const char *at = name + 7;
    size_t digits = strspn(at, "0123456789");
    *pid = strtol(at, NULL, 10);
    if (digits == 0 || at[digits] != '-' || *pid <= 0)
        return 0;
    at += digits + 1;
    digits = strspn(at, hex);
    *boot = strtoul(at, NULL, 16);
    if (digits == 0 || at[digits] != '-')
        return 0;
    at += digits + 1;
    return strcmp(at + strspn(at, hex), ".sock") == 0;
}

/* The boot that names of this machine carry. */
static unsigned long boot_here(void)
{
    char text[64] = "", digits[9] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t count = 0;
    if (file) {
        if (!fgets(text, sizeof(text), file))
            text[0] = '\0';
        fclose(file);
    }
    for (const char *at = text; *at && count < 8; at++)
        if (*at != '-')
            digits[count++] = *at;
    return strtoul(digits, NULL, 16);
}

/* Removes a socket at which nobody listens any more, and the snapshots that its process left. */
static void stale_remove(const ctl_folder *folder, const char *name)
{
    int again = openat(folder->file, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = again < 0 ? NULL : fdopendir(again);
    size_t length = strlen(name);
    if (!entries && again >= 0)
        close(again);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strncmp(entry->d_name, name, length) == 0 && entry->d_name[length] == '-')
            unlinkat(folder->file, entry->d_name, 0);
    if (entries)
        closedir(entries);
    unlinkat(folder->file, name, 0);
}

/* ---- connecting ----------------------------------------------------------------------------- */

/* Connects without waiting. 0, or an error number. */
static int socket_connect(int *made, const ctl_folder *folder, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t room = sizeof(address.sun_path);
    if ((size_t)snprintf(address.sun_path, room, "%s/%s", folder->path, name) >= room &&
        (size_t)snprintf(address.sun_path, room, "/proc/self/fd/%d/%s", folder->file, name) >= room)
        return ENAMETOOLONG;
    *made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*made < 0)
        return errno;
    if (connect(*made, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return 0;
    int error = errno;
    close(*made);
    *made = -1;
    return error;
}

/* Removes a socket that its process was about to publish when it died (.tenure-...: the name comes
 * when it listens). A process that lives refuses connections as well in that moment, and tries
 * again if it was so slow that this was taken for dead. */
static void unborn_remove(const ctl_folder *folder, const char *name, unsigned long boot_of_this)
{
    struct stat found;
    unsigned long boot;
    long pid;
    int made = -1;
    if (!name_read(name + 1, &pid, &boot) || boot != boot_of_this ||
        fstatat(folder->file, name, &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(found.st_mode) ||
        time(NULL) - found.st_mtime < UNBORN_S)
        return;
    if (socket_connect(&made, folder, name) == ECONNREFUSED)
        unlinkat(folder->file, name, 0);
    if (made >= 0)
        close(made);
}

/* Who listens: its process as this command sees it. -1: not the user whose folder it is. */
static long peer_pid(int socket, const ctl_folder *folder)
{
    struct ucred who = {0};
    socklen_t bytes = sizeof(who);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 ||
        (who.uid != folder->owner && who.uid != 0))
        return -1;
    return who.pid;
}

static void peer_add(ctl_peers *peers, const ctl_folder *folder, const char *name,
                     unsigned long boot_of_this)
{
    ctl_peer peer = {.folder = folder, .socket = -1};
    unsigned long boot;
    if (name[0] == '.')
        unborn_remove(folder, name, boot_of_this);
    if (peers->count == CTL_PEERS_MAX || !name_read(name, &peer.pid, &boot))
        return;
    int error = socket_connect(&peer.socket, folder, name);
    if (error == ECONNREFUSED && boot == boot_of_this)
        stale_remove(folder, name);
    if (error != 0 && error != EAGAIN) /* that is: many are waiting already */
        return;
    snprintf(peer.name, sizeof(peer.name), "%.*s", (int)sizeof(peer.name) - 1, name);
    if (error == 0) {
        peer.pid_here = peer_pid(peer.socket, folder);
        if (peer.pid_here < 0) {
            close(peer.socket);
            return;
        }
    }
    peers->items[peers->count++] = peer;
}

static int peers_order(const void *one, const void *other)
{
    return strcmp(((const ctl_peer *)one)->name, ((const ctl_peer *)other)->name);
}

static void folder_look(ctl_peers *peers, const ctl_folder *folder, unsigned long boot)
{
    int again = openat(folder->file, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = again < 0 ? NULL : fdopendir(again);
    if (!entries) {
        if (again >= 0)
            close(again);
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries));)
        peer_add(peers, folder, entry->d_name, boot);
    closedir(entries);
}

void ctl_peers_find(ctl_peers *peers, const ctl_folders *folders)
{
    unsigned long boot = boot_here();
    peers->count = 0;
    for (int i = 0; i < folders->count; i++)
        folder_look(peers, &folders->items[i], boot);
    qsort(peers->items, (size_t)peers->count, sizeof(peers->items[0]), peers_order);
}

void ctl_peers_release(ctl_peers *peers)
{
    for (int i = 0; i < peers->count; i++)
        if (peers->items[i].socket >= 0)
            close(peers->items[i].socket);
    peers->count = 0;
}

/* ---- choosing ------------------------------------------------------------------------------- */

static int is_meant(const ctl_peer *peer, long pid, int by_here, const char *name)
{
    if (pid != 0 && (by_here ? peer->pid_here : peer->pid) != pid)
        return 0;
    return !name || strstr(peer->name, name);
}

void ctl_peers_choose(ctl_peers *peers, long pid, const char *name)
{
    int kept = 0, by_here = 0;
    /* A number means what it means to who types it; only if no process has it here, one that has it
     * in another container. */
    for (int i = 0; i < peers->count; i++)
        by_here |= pid != 0 && peers->items[i].pid_here == pid;
    for (int i = 0; i < peers->count; i++) {
        if (is_meant(&peers->items[i], pid, by_here, name))
            peers->items[kept++] = peers->items[i];
        else if (peers->items[i].socket >= 0)
            close(peers->items[i].socket);
    }
    peers->count = kept;
}
