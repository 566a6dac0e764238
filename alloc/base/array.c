/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow: see array.h. */
#include "base/array.h"

#include <string.h>

#include "base/host_memory.h"

enum { ROOM_MIN = 8 };

int tnri_array_grow(void **array, size_t *room, size_t need, size_t element_bytes)
{
    if (need <= *room)
        return 1;
    size_t wanted = *room == 0 ? ROOM_MIN : *room;
    while (wanted < need)
        wanted *= 2;
    void *fresh = tnri_host_alloc(wanted * element_bytes);
    if (fresh == NULL)
        return 0;
    if (*room > 0)
        memcpy(fresh, *array, *room * element_bytes);
    tnri_host_free(*array, *room * element_bytes);
    *array = fresh;
    *room = wanted;
    return 1;
}
