/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of gated programs: what only this report has, and what only the report of the
 * simulated device has. See fuzz_report.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"
#include "fuzz_report.h"
#include "json.h"

static double rate_of(const fuzz_totals *totals)
{
    return totals->elapsed_ns == 0 ? 0
                                   : (double)totals->operations * 1e9 / (double)totals->elapsed_ns;
}

static double opening_us(const fuzz_totals *totals)
{
    return totals->programs == 0
               ? 0
               : (double)totals->gates.opening_ns / 1e3 / (double)totals->programs;
}

static uint64_t unavailable_count(const fuzz_totals *totals)
{
    uint64_t count = 0;
    for (int i = 0; i < FUZZ_KINDS; i++)
        count += totals->unavailable[i];
    return count;
}

void fuzz_report_device(const fuzz_report *report)
{
    const gate_device_facts *facts = report->facts;
    printf("%s, %.0f MiB, driver %s\n", facts->name, (double)facts->memory_bytes / (1 << 20),
           facts->driver);
    printf("streams are held by %s\n",
           facts->has_memory_operations ? "stream memory operations" : "kernels that spin");
}

void fuzz_report_gates_text(const fuzz_report *report)
{
    const fuzz_totals *totals = report->totals;
    const gate_counts *gates = &totals->gates;
    printf("\n%" PRIu64 " program%s, %" PRIu64 " operations in %.1f s: %.0f a second\n",
           totals->programs, tnri_plural(totals->programs), totals->operations,
           (double)totals->elapsed_ns / 1e9, rate_of(totals));
    printf("%" PRIu64 " complete check%s, %" PRIu64 " operation%s skipped, %" PRIu64
           " allocation%s refused\n",
           totals->checks, tnri_plural(totals->checks), totals->skipped,
           tnri_plural(totals->skipped), totals->failed_allocations,
           tnri_plural(totals->failed_allocations));
    printf("gates: %" PRIu64 ", opened %" PRIu64 " as drawn, %" PRIu64
           " for calls that waited, %" PRIu64 " for lack of room\n",
           gates->placed, gates->opened_drawn, gates->opened_waiting, gates->opened_full);
    printf("operations that were over before an older one had begun: %" PRIu64
           "; that waited for something else: %" PRIu64 "\n",
           gates->overtaking, gates->late);
    printf("memory of the device that was not free again after a program: at most %" PRIu64
           " bytes\n",
           gates->kept_bytes);
    printf("a gate takes %.0f us to open\n", opening_us(totals));
    printf("contents: %" PRIu64 " reads checked, %" PRIu64 " words in them, %" PRIu64
           " words written; %" PRIu64 " program%s with a mismatch\n",
           gates->reads, gates->words_read, gates->words_written, totals->mismatches,
           tnri_plural(totals->mismatches));
    if (unavailable_count(totals) > 0) {
        printf("not done, because a real device cannot be made to:");
        for (int i = 0; i < FUZZ_KINDS; i++)
            if (totals->unavailable[i] > 0)
                printf(" %s %" PRIu64, fuzz_kind_verb((fuzz_kind)i), totals->unavailable[i]);
        printf("\n");
    }
}

void fuzz_report_gates_json(json_writer *json, const fuzz_report *report)
{
    const fuzz_totals *totals = report->totals;
    const gate_counts *gates = &totals->gates;
    json_text(json, "device", report->facts->name);
    json_unsigned(json, "devices", (uint64_t)report->facts->devices);
    json_text(json, "driver", report->facts->driver);
    json_text(json, "held_by",
              report->facts->has_memory_operations ? "stream memory operations" : "kernels");
    json_real(json, "operations_per_second", rate_of(totals), 1);
    json_object_begin(json, "gates");
    json_unsigned(json, "placed", gates->placed);
    json_unsigned(json, "opened_as_drawn", gates->opened_drawn);
    json_unsigned(json, "opened_for_waiting_calls", gates->opened_waiting);
    json_unsigned(json, "opened_for_lack_of_room", gates->opened_full);
    json_unsigned(json, "overtaking", gates->overtaking);
    json_unsigned(json, "late", gates->late);
    json_real(json, "opening_us", opening_us(totals), 1);
    json_object_end(json);
    json_object_begin(json, "contents");
    json_unsigned(json, "reads_checked", gates->reads);
    json_unsigned(json, "words_read", gates->words_read);
    json_unsigned(json, "words_written", gates->words_written);
    json_unsigned(json, "programs_with_a_mismatch", totals->mismatches);
    json_object_end(json);
    json_unsigned(json, "bytes_kept_at_most", gates->kept_bytes);
    json_object_begin(json, "not_done");
    for (int i = 0; i < FUZZ_KINDS; i++)
        if (totals->unavailable[i] > 0)
            json_unsigned(json, fuzz_kind_verb((fuzz_kind)i), totals->unavailable[i]);
    json_object_end(json);
}
