/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All benchmarks that time allocation: those of `tenure bench`, and before them those that compare
 * Tenure with its own targets. It is called like the command:
 *
 *   bench_sections bench [options] [TRACE...]
 */
#include "bench_sections.h"

#include <string.h>

#include "bench_uses.h"

static const bench_section sections[] = {
    {"uses",
     "blocks that a second stream uses, and pairs while blocks wait",
     bench_uses_run,
     {.rows = 6, .tenure_s = 0.2, .driver_s = 0.1, .torch_s = 0.2}},
    {"moves",
     "blocks that only fit when 2, 16 or 256 chunks move",
     bench_moves_run,
     {.rows = 3, .tenure_s = 0.5, .driver_s = 0.1}},
    {"handover",
     "allocations by one thread, frees by another",
     bench_handover_run,
     {.rows_per_threads = 1, .tenure_s = 0.2, .driver_s = 1.4, .torch_s = 1.4}},
    {"storm",
     "blocks that four other streams use, on several threads",
     bench_storm_run,
     {.rows_per_threads = 1, .tenure_s = 1.2, .driver_s = 1.2, .torch_s = 1.2}},
};

static const bench_group groups[] = {
    {"move", "A block that only fits when chunks of 2 MiB move", 0},
    {"handover", "4 KiB: one thread allocates, another frees; M/s counts both", 1},
};

int main(int argc, char **argv)
{
    static const bench_program program = {
        .name = "bench_sections bench",
        .sections = sections,
        .sections_count = sizeof(sections) / sizeof(sections[0]),
        .groups = groups,
        .groups_count = sizeof(groups) / sizeof(groups[0]),
        .table = bench_uses_table,
    };
    if (argc < 2 || strcmp(argv[1], "bench") != 0) {
        fputs("usage: bench_sections bench [options] [TRACE...]; --help has the options\n", stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    return bench_main(&program, argc - 2, argv + 2);
}
