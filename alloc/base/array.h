/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of host memory that grow by doubling. */
#ifndef TNRI_BASE_ARRAY_H
#define TNRI_BASE_ARRAY_H

#include <stddef.h>

/* Makes room for `need` elements. 0 if there is no host memory; nothing has changed. New elements
 * are zeroed. */
int tnri_array_grow(void **array, size_t *room, size_t need, size_t element_bytes);

#define TNRI_ARRAY_GROW(array, room, need)                                                         \
    tnri_array_grow((void **)&(array), &(room), (need), sizeof(*(array)))

#endif
