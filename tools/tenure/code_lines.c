/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the source, one file of code after the other: see code_lines.h. */
#include "code_lines.h"

#include <stdio.h>
#include <string.h>

void code_lines_begin(code_lines *self)
{
    self->opened = NULL;
    self->path[0] = '\0';
    budget_start(&self->limits, (size_t)1 << 30);
}

void code_lines_end(code_lines *self)
{
    if (self->opened)
        debug_info_close(self->opened);
    code_lines_begin(self);
}

size_t code_lines_find(code_lines *self, const char *path, const char *build_id, uint64_t offset,
                       debug_place *places)
{
    char why[DEBUG_WHY_BYTES];
    if (strlen(path) >= sizeof(self->path) || strlen(build_id) >= sizeof(self->build_id))
        return 0;
    if (strcmp(path, self->path) != 0 || strcmp(build_id, self->build_id) != 0) {
        code_lines_end(self);
        snprintf(self->path, sizeof(self->path), "%s", path);
        snprintf(self->build_id, sizeof(self->build_id), "%s", build_id);
        self->opened =
            debug_info_open(path, build_id[0] == '\0' ? NULL : build_id, &self->limits, why);
    }
    return self->opened ? debug_info_find(self->opened, offset, places) : 0;
}
