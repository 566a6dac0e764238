/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure doctor`: what is in force, what is missing, and how to get what is missing.
 *
 * It is the command for machines on which nothing works yet. So it collects every finding first,
 * and no failure ends it early. It works with no driver, with a driver that is too old, with no
 * device, and with devices without virtual memory management.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>
#include <tenure/cgroup.h>
#include <tenure/host.h>
#include <tenure_commit.h>

#include "base/plural.h"
#include "cli.h"
#include "commands.h"
#include "exit_code.h"
#include "json.h"
#include "newer.h"
#include "reach.h"
#include "session.h"
#include "shown.h"
#include "table.h"
#include "wrap.h"

extern char **environ;

static int is_json;
static const char *driver_option, *settings_option;

static const cli_option options[] = {
    {"driver", "NAME", OPTION_DRIVER_HELP, &driver_option, NULL},
    {"conf", "STR", OPTION_CONF_HELP, &settings_option, NULL},
    {"json", NULL, OPTION_JSON_HELP, NULL, &is_json},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "doctor",
    "which driver, devices and settings are in force; what is missing",
    "[options]",
    "Examples:\n"
    "  tenure doctor\n"
    "  tenure doctor --json\n"
    "\n"
    "Exit codes: 0 memory can be allocated; 2 settings that are not understood; 3 no driver, a\n"
    "driver that is too old, or no device with virtual memory management.\n",
    options,
    0,
    0,
};

enum { DEVICES_MAX = 64, PROBLEMS_MAX = 16, NEWER_MAX = 64 };

/* One finding that keeps something from working, and what to do about it. */
typedef struct problem {
    char what[1024];
    const char *remedy;
} problem;

/* Everything that was found out. */
typedef struct findings {
    session_choice choice;
    tnr_status status; /* of starting the library */
    tnr_driver_info driver;
    int has_driver;
    const char *newer[NEWER_MAX]; /* see newer.h */
    size_t newer_count;
    tnr_device_info devices[DEVICES_MAX];
    uint64_t reach[DEVICES_MAX]; /* see reach.h */
    int devices_count;
    problem problems[PROBLEMS_MAX];
    int problems_count;
    exit_code code;
} findings;

/* ---- finding out ---------------------------------------------------------------------------- */

static const char remedy_driver[] =
    "Install NVIDIA's driver: on Debian or Ubuntu the package nvidia-driver (or \"sudo "
    "ubuntu-drivers install\"); in a container start it with --gpus all and the NVIDIA container "
    "toolkit. Then `nvidia-smi` must list the GPU. Without a GPU, --driver sim runs everything on "
    "the simulated device.";

/* What to do about a failed start. */
static const char *remedy_of(tnr_status status)
{
    switch (status) {
    case TNR_ERR_NO_DRIVER:
        return remedy_driver;
    case TNR_ERR_DRIVER_TOO_OLD:
        return "Update NVIDIA's driver: 525 or newer is needed (CUDA 12.0); `nvidia-smi` shows the "
               "one that is installed.";
    case TNR_ERR_NO_DEVICE:
        return "See whether `nvidia-smi` lists a GPU, whether CUDA_VISIBLE_DEVICES hides it, and, "
               "in a container, whether it was started with --gpus all.";
    case TNR_ERR_NO_VMM:
        return "Tenure needs virtual memory management: a GPU of the Pascal generation or newer, "
               "in a mode that supports it (not every vGPU profile does).";
    case TNR_ERR_CONFIG:
        return "Correct TENURE_CONF or --conf; `tenure conf` lists all settings.";
    default:
        return "Run `tenure doctor --json` and report what it prints.";
    }
}

static void problem_add(findings *all, const char *what, const char *remedy)
{
    if (all->problems_count == PROBLEMS_MAX)
        return;
    problem *next = &all->problems[all->problems_count++];
    snprintf(next->what, sizeof(next->what), "%s", what);
    next->remedy = remedy;
}

static void start_failed(findings *all, tnr_status status)
{
    all->status = status;
    all->code = exit_code_of(status);
    problem_add(all, tnr_last_error(), remedy_of(status));
}

/* Asks for each device. One without VMM is a problem; it is fatal if no device has it. */
static void devices_find(findings *all)
{
    int usable = 0;
    for (int i = 0; i < all->driver.devices_count && i < DEVICES_MAX; i++) {
        tnr_device_info *device = &all->devices[i];
        device->struct_bytes = sizeof(*device);
        tnr_status status = tnr_device_get(device, i);
        if (status != TNR_OK) {
            start_failed(all, status);
            continue;
        }
        all->devices_count = i + 1;
        usable += device->has_vmm;
        if (!device->has_vmm) {
            char what[512];
            snprintf(what, sizeof(what), "Device %d (%s) has no virtual memory management.", i,
                     device->name);
            problem_add(all, what, remedy_of(TNR_ERR_NO_VMM));
        }
    }
    reach_find(all->reach, all->devices_count, &all->driver);
    if (usable == 0 && all->code == EXIT_CODE_OK)
        all->code = EXIT_CODE_NO_DEVICE;
}

/* Returns 0, or the exit code of a command line that cannot be carried out. */
static exit_code findings_collect(findings *all)
{
    char error[512];
    memset(all, 0, sizeof(*all));
    exit_code code = session_choose(&all->choice, driver_option, error, sizeof(error));
    if (code != EXIT_CODE_OK) {
        cli_usage_error(&syntax, "%s", error);
        return code;
    }
    tnr_status status = tnr_init();
    if (status == TNR_OK && settings_option)
        status = tnr_configure(settings_option);
    if (status != TNR_OK) {
        start_failed(all, status);
        if (all->choice.fell_back && !all->choice.simulated[0])
            problem_add(all, "The simulated device (libtenure_simcuda.so) was not found either.",
                        "Build or install Tenure with TNR_BUILD_TOOLS=ON.");
    }
    /* A wrong setting is not the driver's fault: what can be said of the driver is still said. */
    all->driver.struct_bytes = sizeof(all->driver);
    all->has_driver = tnr_driver_get(&all->driver) == TNR_OK;
    if (all->has_driver) {
        all->newer_count = newer_find(all->newer, NEWER_MAX, &all->driver);
        if (all->newer_count > NEWER_MAX)
            all->newer_count = NEWER_MAX;
        devices_find(all);
    }
    if (all->choice.fell_back)
        problem_add(all, all->choice.gpu.reason, remedy_driver);
    return EXIT_CODE_OK;
}

/* ---- showing -------------------------------------------------------------------------------- */

static const char *how_chosen(const session_choice *choice)
{
    if (choice->by_user)
        return driver_option && strcmp(driver_option, "auto") != 0 ? "by --driver"
                                                                   : "by TENURE_DRIVER";
    return choice->fell_back ? "because no GPU was found" : "because there is a GPU";
}

static void heading(const char *text)
{
    int colour = colour_wanted(stdout);
    printf("\n%s%s%s\n", colour ? "\033[1m" : "", text, colour ? "\033[0m" : "");
}

static void headline_print(const findings *all)
{
    if (!all->has_driver)
        printf("tenure %d.%d.%d (%s): no usable driver\n", TNR_VERSION_MAJOR, TNR_VERSION_MINOR,
               TNR_VERSION_PATCH, TNR_COMMIT);
    else
        printf("tenure %d.%d.%d (%s): %s, CUDA %d.%d, %d device%s\n", TNR_VERSION_MAJOR,
               TNR_VERSION_MINOR, TNR_VERSION_PATCH, TNR_COMMIT,
               all->driver.simulated ? "simulated device" : "NVIDIA driver",
               all->driver.version / 1000, all->driver.version % 1000 / 10, all->devices_count,
               tnri_plural((uint64_t)all->devices_count));
}

/* Prints a text below its heading; `first` begins its first line. */
static void wrapped_print(const char *first, const char *text)
{
    enum { INDENT = 4 };
    fputs(first, stdout);
    wrap_words(stdout, text, strlen(text), INDENT, INDENT, wrap_width(stdout));
}

/* Versions of functions that `tenure run` does not know. Programs may ask for older ones. */
static void newer_print(const findings *all)
{
    if (all->newer_count == 0)
        return;
    char text[4096];
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < all->newer_count && length < sizeof(text); i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i > 0 ? ", " : "",
                                   all->newer[i]);
    puts("  newer functions   newer than this Tenure, and left to the driver by `tenure run`, "
         "whose\n"
         "                    --stats says if a program asks for them:");
    wrapped_print("    ", text);
}

static void driver_print(const findings *all)
{
    heading("Driver");
    if (all->has_driver) {
        say(stdout, "  library           %s%s\n", all->driver.path,
            all->driver.simulated ? "  (simulated)" : "");
        printf("  CUDA version      %d.%d\n", all->driver.version / 1000,
               all->driver.version % 1000 / 10);
        newer_print(all);
    } else {
        printf("  library           none that works\n");
    }
    printf("  chosen            %s\n", how_chosen(&all->choice));
    printf("  simulated device  %s\n",
           all->choice.simulated[0] ? all->choice.simulated : "not found");
}

/* Where there are several: which of the others a device can be let in to. */
static void reach_print(const findings *all, int device)
{
    if (all->devices_count < 2)
        return;
    fputs("     reaches the memory of ", stdout);
    const char *between = "";
    for (int i = 0; i < all->devices_count; i++)
        if ((all->reach[device] >> i & 1) != 0) {
            printf("%s%d", between, i);
            between = ", ";
        }
    puts(all->reach[device] == 0 ? "no other device" : "");
}

/* What control groups let the process have of a device. */
static void cgroup_print(int device)
{
    char limit[32], used[32];
    tnr_cgroup_info info = {.struct_bytes = sizeof(info)};
    if (tnr_cgroup_get(&info, device) != TNR_OK)
        return;
    if (info.hard_bytes != SIZE_MAX)
        say(stdout, "     at most %s, of which %s are used, by %s\n",
            format_bytes_binary(info.hard_bytes, limit),
            format_bytes_binary(info.hard_used_bytes, used), info.hard_file);
    if (info.soft_bytes != SIZE_MAX)
        say(stdout, "     above %s, of which %s are used, idle memory goes back, by %s\n",
            format_bytes_binary(info.soft_bytes, limit),
            format_bytes_binary(info.soft_used_bytes, used), info.soft_file);
}

static void devices_print(const findings *all)
{
    char memory[32], granularity[32];
    heading("Devices");
    for (int i = 0; i < all->devices_count; i++) {
        const tnr_device_info *device = &all->devices[i];
        say(stdout, "  %d  %s\n", i, device->name);
        printf("     memory %s, granularity %s, compute capability %d.%d\n",
               format_bytes_binary(device->memory_bytes, memory),
               format_size(device->granularity_bytes, granularity), device->compute_major,
               device->compute_minor);
        printf("     virtual memory %s, POSIX fd %s, fabric %s, GPUDirect RDMA %s\n",
               device->has_vmm ? "yes" : "no", device->has_posix_fd ? "yes" : "no",
               device->has_fabric ? "yes" : "no", device->has_gpu_direct_rdma ? "yes" : "no");
        reach_print(all, i);
        cgroup_print(i);
    }
    if (all->devices_count == 0)
        puts("  none");
}

/* What the system allows to be pinned. */
static void host_print(void)
{
    char left[32], untouched[32], locked[32];
    tnr_host_info host = {.struct_bytes = sizeof(host)};
    heading("Pinned host memory");
    if (tnr_host_get(&host) != TNR_OK || host.left_bytes == UINT64_MAX)
        puts("  left              no limit was found");
    else
        say(stdout, "  left              %s, by %s; Tenure leaves %s of it\n",
            format_bytes_binary(host.left_bytes, left), host.limited_by,
            format_bytes_binary(host.untouched_bytes, untouched));
    printf("  locked memory     %s (ulimit -l)%s\n",
           host.locked_bytes == UINT64_MAX ? "no limit"
                                           : format_bytes_binary(host.locked_bytes, locked),
           host.locked_bytes == UINT64_MAX ? ""
                                           : ", for drivers that count pinned memory as locked");
}

static void settings_print(void)
{
    int count = 0;
    heading("Settings that differ from their defaults");
    for (size_t i = 0;; i++) {
        tnr_setting_info info = {.struct_bytes = sizeof(info)};
        if (tnr_setting_get(&info, i) != TNR_OK)
            break;
        if (!info.is_set)
            continue;
        say(stdout, "  %s = %s  (default %s)\n", info.key, info.value, info.default_value);
        count++;
    }
    if (count == 0)
        puts("  none; `tenure conf` lists all settings");
}

static int is_ours(const char *variable)
{
    return strncmp(variable, "TENURE_", 7) == 0 ||
           strncmp(variable, "CUDA_VISIBLE_DEVICES=", 21) == 0;
}

static void environment_print(const findings *all)
{
    int count = 0;
    heading("Environment");
    for (char **variable = environ; *variable; variable++) {
        /* TENURE_DRIVER is there because we have set it; what matters is whether the user did. */
        if (!is_ours(*variable) || (strncmp(*variable, "TENURE_DRIVER=", 14) == 0 &&
                                    strcmp(how_chosen(&all->choice), "by TENURE_DRIVER") != 0))
            continue;
        say(stdout, "  %s\n", *variable);
        count++;
    }
    if (count == 0)
        puts("  no TENURE_ variable is set");
}

static void problems_print(const findings *all)
{
    heading("Missing");
    for (int i = 0; i < all->problems_count; i++) {
        wrapped_print("  - ", all->problems[i].what);
        wrapped_print("    ", all->problems[i].remedy);
    }
    if (all->problems_count == 0)
        puts("  nothing");
}

static void cgroup_json(json_writer *json, int device)
{
    tnr_cgroup_info info = {.struct_bytes = sizeof(info)};
    if (tnr_cgroup_get(&info, device) != TNR_OK)
        return;
    const struct {
        const char *name, *file;
        size_t limit, used;
    } limits[] = {{"cgroup_hard", info.hard_file, info.hard_bytes, info.hard_used_bytes},
                  {"cgroup_soft", info.soft_file, info.soft_bytes, info.soft_used_bytes}};
    for (size_t i = 0; i < 2; i++) {
        if (limits[i].limit == SIZE_MAX)
            continue;
        json_object_begin(json, limits[i].name);
        json_unsigned(json, "limit_bytes", limits[i].limit);
        json_unsigned(json, "used_bytes", limits[i].used);
        json_text(json, "file", limits[i].file);
        json_object_end(json);
    }
}

static void device_json(json_writer *json, const findings *all, int index)
{
    const tnr_device_info *device = &all->devices[index];
    json_object_begin(json, NULL);
    json_unsigned(json, "device", (uint64_t)index);
    json_text(json, "name", device->name);
    json_unsigned(json, "memory_bytes", device->memory_bytes);
    json_unsigned(json, "granularity_bytes", device->granularity_bytes);
    json_unsigned(json, "compute_major", (uint64_t)device->compute_major);
    json_unsigned(json, "compute_minor", (uint64_t)device->compute_minor);
    json_boolean(json, "vmm", device->has_vmm);
    json_boolean(json, "posix_fd", device->has_posix_fd);
    json_boolean(json, "fabric", device->has_fabric);
    json_boolean(json, "gpu_direct_rdma", device->has_gpu_direct_rdma);
    json_array_begin(json, "reaches");
    for (int i = 0; i < all->devices_count; i++)
        if ((all->reach[index] >> i & 1) != 0)
            json_unsigned(json, NULL, (uint64_t)i);
    json_array_end(json);
    cgroup_json(json, index);
    json_object_end(json);
}

static void host_json(json_writer *json)
{
    tnr_host_info host = {.struct_bytes = sizeof(host)};
    if (tnr_host_get(&host) != TNR_OK)
        return;
    json_object_begin(json, "pinned_host_memory");
    if (host.left_bytes != UINT64_MAX)
        json_unsigned(json, "left_bytes", host.left_bytes);
    json_text(json, "limited_by", host.limited_by[0] ? host.limited_by : NULL);
    json_unsigned(json, "untouched_bytes", host.untouched_bytes);
    if (host.locked_bytes != UINT64_MAX)
        json_unsigned(json, "locked_bytes", host.locked_bytes);
    json_object_end(json);
}

static void surroundings_json(json_writer *json)
{
    json_object_begin(json, "settings");
    for (size_t i = 0;; i++) {
        tnr_setting_info info = {.struct_bytes = sizeof(info)};
        if (tnr_setting_get(&info, i) != TNR_OK)
            break;
        if (info.is_set)
            json_text(json, info.key, info.value);
    }
    json_object_end(json);
    json_object_begin(json, "environment");
    for (char **variable = environ; *variable; variable++) {
        char name[128];
        const char *equals = strchr(*variable, '=');
        if (!is_ours(*variable) || !equals || (size_t)(equals - *variable) >= sizeof(name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(equals - *variable), *variable);
        json_text(json, name, equals + 1);
    }
    json_object_end(json);
}

static void findings_json(const findings *all)
{
    json_writer json;
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    json_text(&json, "commit", TNR_COMMIT);
    json_text(&json, "status", tnr_status_name(all->status));
    json_text(&json, "driver_path", all->has_driver ? all->driver.path : NULL);
    json_unsigned(&json, "driver_version", all->has_driver ? (uint64_t)all->driver.version : 0);
    json_array_begin(&json, "newer_entry_points");
    for (size_t i = 0; i < all->newer_count; i++)
        json_text(&json, NULL, all->newer[i]);
    json_array_end(&json);
    json_boolean(&json, "simulated", all->has_driver && all->driver.simulated);
    json_text(&json, "chosen", how_chosen(&all->choice));
    json_text(&json, "simulated_path", all->choice.simulated[0] ? all->choice.simulated : NULL);
    json_array_begin(&json, "devices");
    for (int i = 0; i < all->devices_count; i++)
        device_json(&json, all, i);
    json_array_end(&json);
    host_json(&json);
    surroundings_json(&json);
    json_array_begin(&json, "problems");
    for (int i = 0; i < all->problems_count; i++) {
        json_object_begin(&json, NULL);
        json_text(&json, "what", all->problems[i].what);
        json_text(&json, "remedy", all->problems[i].remedy);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
    json_end(&json);
}

int command_doctor(int argc, char **argv)
{
    cli_result arguments;
    if (cli_parse(&syntax, argc, argv, &arguments) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (arguments.help_wanted)
        return EXIT_CODE_OK;
    findings *all = malloc(sizeof(*all));
    if (!all) {
        fputs("tenure doctor: no host memory\n", stderr);
        return EXIT_CODE_NO_MEMORY;
    }
    exit_code code = findings_collect(all);
    if (code == EXIT_CODE_OK) {
        code = all->code;
        if (is_json) {
            findings_json(all);
        } else {
            headline_print(all);
            driver_print(all);
            devices_print(all);
            host_print();
            settings_print();
            environment_print(all);
            problems_print(all);
        }
    }
    free(all);
    return code;
}
