/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of handles: see handles.h. */
#include "handles.h"

#include <stdlib.h>

static uint64_t mixed(const void *handle)
{
    return (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
}

static unsigned part_of(const void *handle)
{
    return (unsigned)(mixed(handle) >> 56);
}

/* Where the handle's node hangs, or would. Under the lock. */
static handle_node **node_link(handles *table, unsigned part, const void *handle)
{
    handle_node **link = &table->parts[part][(mixed(handle) >> 52) % HANDLES_LISTS];
    while (*link != NULL && (*link)->handle != handle)
        link = &(*link)->next;
    return link;
}

int handles_set(handles *table, const void *handle, uint64_t value)
{
    unsigned part = part_of(handle);
    handle_node *fresh = malloc(sizeof(*fresh));
    pthread_mutex_lock(&table->locks[part]);
    handle_node **link = node_link(table, part, handle);
    if (*link == NULL && fresh != NULL) {
        *fresh = (handle_node){NULL, handle, value};
        *link = fresh;
        fresh = NULL;
    } else if (*link != NULL) {
        (*link)->value = value;
    }
    int is_known = *link != NULL;
    atomic_fetch_add(&table->changes, 1);
    pthread_mutex_unlock(&table->locks[part]);
    free(fresh);
    return is_known;
}

static int handles_find(handles *table, const void *handle, uint64_t *value, int is_taken)
{
    unsigned part = part_of(handle);
    handle_node *gone = NULL;
    pthread_mutex_lock(&table->locks[part]);
    handle_node **link = node_link(table, part, handle);
    handle_node *node = *link;
    if (node != NULL && value != NULL)
        *value = node->value;
    if (node != NULL && is_taken) {
        *link = node->next;
        gone = node;
        atomic_fetch_add(&table->changes, 1);
    }
    pthread_mutex_unlock(&table->locks[part]);
    free(gone);
    return node != NULL;
}

int handles_get(handles *table, const void *handle, uint64_t *value)
{
    return handles_find(table, handle, value, 0);
}

int handles_take(handles *table, const void *handle, uint64_t *value)
{
    return handles_find(table, handle, value, 1);
}

static void list_clear(handles *table, handle_node **link, uint64_t value)
{
    while (*link != NULL) {
        handle_node *node = *link;
        if (value != 0 && node->value != value) {
            link = &node->next;
            continue;
        }
        *link = node->next;
        free(node);
        atomic_fetch_add(&table->changes, 1);
    }
}

void handles_clear(handles *table, uint64_t value)
{
    for (unsigned part = 0; part < HANDLES_PARTS; part++) {
        pthread_mutex_lock(&table->locks[part]);
        for (unsigned i = 0; i < HANDLES_LISTS; i++)
            list_clear(table, &table->parts[part][i], value);
        pthread_mutex_unlock(&table->locks[part]);
    }
}
