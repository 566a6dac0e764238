/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: see value.h. Tags: 0 a constant, 1 a small whole number, else a pointer to the store.
 */
#include "value.h"

#include <limits.h>
#include <string.h>

enum {
    TAG_CONSTANT,
    TAG_SMALL, /* the upper 61 bits are the number, signed */
    TAG_WIDE,
    TAG_REAL,
    TAG_TEXT,
    TAG_LIST,
    TAG_TUPLE,
    TAG_DICT,
    TAG_MASK = 7,
};

/* A number that needs more than 61 bits. */
typedef struct wide {
    uint64_t bits;
    int negative;
} wide;

static const int64_t small_max = INT64_MAX >> 3, small_min = INT64_MIN >> 3;

static void *pointer_of(value any)
{
    return (void *)(uintptr_t)(any & ~(uint64_t)TAG_MASK);
}

static value tagged(const void *pointer, unsigned tag)
{
    return (value)(uintptr_t)pointer | tag;
}

/* ---- the heap ------------------------------------------------------------------------------- */

static int buckets_start(array *buckets, budget *limits, size_t count)
{
    if (array_reserve(buckets, limits, sizeof(void *), count) != 0)
        return -1;
    memset(buckets->items, 0, count * sizeof(void *));
    buckets->count = count;
    return 0;
}

int value_heap_start(value_heap *heap, budget *limits)
{
    memset(heap, 0, sizeof(*heap));
    store_start(&heap->place, limits);
    if (buckets_start(&heap->texts, limits, 1024) != 0 ||
        buckets_start(&heap->shapes, limits, 256) != 0)
        return -1;
    heap->empty = store_take(&heap->place, sizeof(*heap->empty));
    return heap->empty ? 0 : -1;
}

void value_heap_release(value_heap *heap)
{
    budget *limits = heap->place.limits;
    array_release(&heap->texts, limits, sizeof(void *));
    array_release(&heap->shapes, limits, sizeof(void *));
    store_release(&heap->place);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* FNV-1a, eight bytes at a time where there are as many. */
static uint32_t bytes_hash(const char *bytes, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ length;
    size_t i = 0;
    for (; i + 8 <= length; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(hash ^ hash >> 32);
}

static value_text *text_find(const value_heap *heap, uint32_t hash, const char *bytes,
                             size_t length)
{
    value_text **buckets = heap->texts.items;
    for (value_text *text = buckets[hash & (heap->texts.count - 1)]; text; text = text->next)
        if (text->hash == hash && text->length == length && memcmp(text->bytes, bytes, length) == 0)
            return text;
    return NULL;
}

const value_text *value_text_find(const value_heap *heap, const char *bytes, size_t length)
{
    return text_find(heap, bytes_hash(bytes, length), bytes, length);
}

/* Four times as many buckets. Without memory it stays as it is: only slower. */
static void texts_spread(value_heap *heap)
{
    array wider = {NULL, 0, 0};
    if (buckets_start(&wider, heap->place.limits, heap->texts.count * 4) != 0) {
        heap->place.limits->refused = 0; /* nothing failed by it */
        return;
    }
    value_text **old = heap->texts.items, **new = wider.items;
    for (size_t i = 0; i < heap->texts.count; i++) {
        for (value_text *text = old[i], *next; text; text = next) {
            next = text->next;
            text->next = new[text->hash & (wider.count - 1)];
            new[text->hash & (wider.count - 1)] = text;
        }
    }
    array_release(&heap->texts, heap->place.limits, sizeof(void *));
    heap->texts = wider;
}

int value_make_text(value_heap *heap, const char *bytes, size_t length, value *result)
{
    uint32_t hash = bytes_hash(bytes, length);
    value_text *text = text_find(heap, hash, bytes, length);
    if (!text) {
        if (length > UINT32_MAX - sizeof(*text) - 1)
            return -1;
        text = store_take(&heap->place, sizeof(*text) + length + 1);
        if (!text)
            return -1;
        text->hash = hash;
        text->length = (uint32_t)length;
        memcpy(text->bytes, bytes, length);
        if (heap->texts_count++ >= heap->texts.count)
            texts_spread(heap);
        value_text **bucket = (value_text **)heap->texts.items + (hash & (heap->texts.count - 1));
        text->next = *bucket;
        *bucket = text;
    }
    *result = tagged(text, TAG_TEXT);
    return 0;
}

/* ---- numbers and constants ------------------------------------------------------------------ */

value value_constant(value_kind kind)
{
    return (value)kind << 3 | TAG_CONSTANT;
}

static int wide_make(value_heap *heap, uint64_t bits, int negative, value *result)
{
    wide *number = store_take(&heap->place, sizeof(*number));
    if (!number)
        return -1;
    number->bits = bits;
    number->negative = negative;
    *result = tagged(number, TAG_WIDE);
    return 0;
}

int value_make_signed(value_heap *heap, int64_t number, value *result)
{
    if (number < small_min || number > small_max)
        return wide_make(heap, (uint64_t)number, number < 0, result);
    *result = (uint64_t)number << 3 | TAG_SMALL;
    return 0;
}

int value_make_unsigned(value_heap *heap, uint64_t number, value *result)
{
    if (number > (uint64_t)small_max)
        return wide_make(heap, number, 0, result);
    *result = number << 3 | TAG_SMALL;
    return 0;
}

int value_make_real(value_heap *heap, double number, value *result)
{
    double *real = store_take(&heap->place, sizeof(*real));
    if (!real)
        return -1;
    *real = number;
    *result = tagged(real, TAG_REAL);
    return 0;
}

/* ---- lists and dictionaries ----------------------------------------------------------------- */

static unsigned depth_of(value any)
{
    switch (any & TAG_MASK) {
    case TAG_LIST:
    case TAG_TUPLE:
        return ((value_list *)pointer_of(any))->depth;
    case TAG_DICT:
        return ((value_dict *)pointer_of(any))->depth;
    default:
        return 0;
    }
}

/* Where a tuple of these two is kept if there is one, or null if it is not of two small numbers. */
static value *pair_place(value_heap *heap, value_kind kind, const value *items, size_t count)
{
    if (kind != VALUE_TUPLE || count != 2 || (items[0] & TAG_MASK) != TAG_SMALL ||
        (items[1] & TAG_MASK) != TAG_SMALL)
        return NULL;
    return &heap->pairs[(items[0] * 31 + items[1]) >> 3 & (VALUE_PAIRS - 1)];
}

int value_make_list(value_heap *heap, value_kind kind, const value *items, size_t count,
                    value *result)
{
    value *kept = pair_place(heap, kind, items, count);
    if (kept && *kept && memcmp(value_as_list(*kept)->items, items, 2 * sizeof(value)) == 0) {
        *result = *kept; /* nothing changes a tuple */
        return 0;
    }
    value_list *list = store_take(&heap->place, sizeof(*list));
    if (!list)
        return -1;
    list->depth = 1;
    *result = tagged(list, kind == VALUE_TUPLE ? TAG_TUPLE : TAG_LIST);
    int code = count > 0 ? value_append(heap, *result, items, count) : 0;
    if (kept && code == 0)
        *kept = *result;
    return code;
}

/* Places for items, from those that were given back. */
static value *items_take(value_heap *heap, size_t count)
{
    value *items = count <= VALUE_SPARE_MAX ? heap->spare[count] : NULL;
    if (!items)
        return store_take(&heap->place, count * sizeof(*items));
    heap->spare[count] = (value *)(uintptr_t)items[0];
    return items;
}

static void items_give(value_heap *heap, value *items, size_t count)
{
    if (count == 0 || count > VALUE_SPARE_MAX)
        return; /* lost until the store goes */
    items[0] = (value)(uintptr_t)heap->spare[count];
    heap->spare[count] = items;
}

/* Room for `wanted` items. Growth is by doubling, and the first room is exact: most lists are made
 * whole. */
static value *items_grow(value_heap *heap, value *old, uint32_t used, uint32_t *capacity,
                         size_t wanted)
{
    size_t room = *capacity ? (size_t)*capacity * 2 : wanted;
    if (room < wanted)
        room = wanted;
    if (room > UINT32_MAX) {
        heap->place.limits->refused = 1;
        return NULL;
    }
    value *items = items_take(heap, room);
    if (!items)
        return NULL;
    if (used > 0)
        memcpy(items, old, used * sizeof(*items));
    items_give(heap, old, *capacity);
    *capacity = (uint32_t)room;
    return items;
}

int value_append(value_heap *heap, value list, const value *items, size_t count)
{
    value_list *into = pointer_of(list);
    if (count > into->capacity - into->count) {
        value *grown =
            items_grow(heap, into->items, into->count, &into->capacity, into->count + count);
        if (!grown)
            return VALUE_NO_MEMORY;
        into->items = grown;
    }
    unsigned depth = into->depth;
    for (size_t i = 0; i < count; i++) {
        unsigned deeper = depth_of(items[i]) + 1;
        depth = deeper > depth ? deeper : depth;
    }
    if (depth > VALUE_DEPTH_MAX)
        return VALUE_TOO_DEEP;
    into->depth = (uint8_t)depth;
    if (count > 0)
        memcpy(into->items + into->count, items, count * sizeof(*items));
    into->count += (uint32_t)count;
    return 0;
}

int value_make_dict(value_heap *heap, value *result)
{
    value_dict *dict = store_take(&heap->place, sizeof(*dict));
    if (!dict)
        return -1;
    dict->shape = heap->empty;
    dict->depth = 1;
    *result = tagged(dict, TAG_DICT);
    return 0;
}

int value_shape_find(const value_shape *shape, const value_text *key)
{
    for (; shape->parent; shape = shape->parent)
        if (shape->key == key)
            return (int)shape->count - 1;
    return -1;
}

/* A capacity is at most twice the keys that a dictionary may have. */
static int dict_grow(value_heap *heap, value_dict *into, size_t wanted)
{
    uint32_t capacity = into->capacity;
    value *grown = items_grow(heap, into->items, into->shape->count, &capacity, wanted);
    if (!grown)
        return VALUE_NO_MEMORY;
    into->items = grown;
    into->capacity = (uint16_t)capacity;
    return 0;
}

static size_t shape_bucket(const value_heap *heap, const value_shape *parent, const value_text *key)
{
    uint64_t mixed = ((uintptr_t)parent >> 3) * UINT64_C(0x9e3779b97f4a7c15) ^ key->hash;
    return (size_t)(mixed ^ mixed >> 32) & (heap->shapes.count - 1);
}

static void shapes_spread(value_heap *heap)
{
    array old = heap->shapes;
    array wider = {NULL, 0, 0};
    if (buckets_start(&wider, heap->place.limits, old.count * 4) != 0) {
        heap->place.limits->refused = 0; /* nothing failed by it */
        return;
    }
    heap->shapes = wider;
    for (size_t i = 0; i < old.count; i++) {
        for (value_shape *shape = ((value_shape **)old.items)[i], *next; shape; shape = next) {
            next = shape->next;
            value_shape **bucket =
                (value_shape **)wider.items + shape_bucket(heap, shape->parent, shape->key);
            shape->next = *bucket;
            *bucket = shape;
        }
    }
    array_release(&old, heap->place.limits, sizeof(void *));
}

/* The shape with `key` after those of `parent`, if there is one; so `parent` has no such key. */
static const value_shape *shape_known(const value_heap *heap, const value_shape *parent,
                                      const value_text *key)
{
    value_shape **buckets = heap->shapes.items;
    const value_shape *shape = buckets[shape_bucket(heap, parent, key)];
    while (shape && (shape->parent != parent || shape->key != key))
        shape = shape->next;
    return shape;
}

static const value_shape *shape_make(value_heap *heap, const value_shape *parent,
                                     const value_text *key)
{
    value_shape *shape = store_take(&heap->place, sizeof(*shape));
    if (!shape)
        return NULL;
    /* Shapes are constant but for their place in the table. */
    shape->parent = (value_shape *)(uintptr_t)parent;
    shape->key = key;
    shape->count = parent->count + 1;
    if (heap->shapes_count++ >= heap->shapes.count)
        shapes_spread(heap);
    value_shape **bucket = (value_shape **)heap->shapes.items + shape_bucket(heap, parent, key);
    shape->next = *bucket;
    *bucket = shape;
    return shape;
}

int value_put(value_heap *heap, value dict, value key, value item)
{
    value_dict *into = pointer_of(dict);
    const value_text *name = pointer_of(key);
    unsigned depth = depth_of(item) + 1;
    if (depth > VALUE_DEPTH_MAX)
        return VALUE_TOO_DEEP;
    if (depth > into->depth)
        into->depth = (uint8_t)depth;
    /* Looking through all keys is slow, and only needed where the last one is new here. */
    const value_shape *shape = shape_known(heap, into->shape, name);
    if (!shape) {
        if (value_shape_find(into->shape, name) >= 0)
            return VALUE_TWICE;
        if (into->shape->count >= VALUE_KEYS_MAX)
            return VALUE_TOO_MANY;
        if (heap->shapes_count >= VALUE_SHAPES_MAX)
            return VALUE_TOO_VARIED;
        shape = shape_make(heap, into->shape, name);
    }
    if (!shape)
        return VALUE_NO_MEMORY;
    if (into->shape->count == into->capacity &&
        dict_grow(heap, into, into->capacity ? into->capacity + 1 : 4) != 0)
        return VALUE_NO_MEMORY;
    into->items[into->shape->count] = item;
    into->shape = shape;
    return 0;
}

int value_dict_reserve(value_heap *heap, value dict, size_t more)
{
    value_dict *into = pointer_of(dict);
    uint32_t count = into->shape->count;
    /* More than the limit is refused by value_put, with the right words. */
    if (more <= into->capacity - count || more > VALUE_KEYS_MAX)
        return 0;
    return dict_grow(heap, into, count + more);
}

void value_spend(value_heap *heap, value any)
{
    if ((any & TAG_MASK) == TAG_DICT) {
        value_dict *dict = pointer_of(any);
        items_give(heap, dict->items, dict->capacity);
        dict->items = NULL;
        dict->capacity = 0;
        dict->shape = heap->empty;
        dict->is_spent = 1;
    } else if ((any & TAG_MASK) == TAG_LIST) {
        value_list *list = pointer_of(any);
        items_give(heap, list->items, list->capacity);
        list->items = NULL;
        list->count = list->capacity = 0;
    }
}

uint32_t value_known(value any)
{
    if ((any & TAG_MASK) == TAG_DICT)
        return ((const value_dict *)pointer_of(any))->known - 1;
    return ((const value_list *)pointer_of(any))->known - 1;
}

void value_know(value any, uint32_t number)
{
    if ((any & TAG_MASK) == TAG_DICT)
        ((value_dict *)pointer_of(any))->known = number + 1;
    else
        ((value_list *)pointer_of(any))->known = number + 1;
}

/* ---- reading -------------------------------------------------------------------------------- */

value_kind value_kind_of(value any)
{
    switch (any & TAG_MASK) {
    case TAG_CONSTANT:
        return (value_kind)(any >> 3);
    case TAG_SMALL:
    case TAG_WIDE:
        return VALUE_INT;
    case TAG_REAL:
        return VALUE_REAL;
    case TAG_TEXT:
        return VALUE_TEXT;
    case TAG_LIST:
        return VALUE_LIST;
    case TAG_TUPLE:
        return VALUE_TUPLE;
    default:
        return VALUE_DICT;
    }
}

const char *value_kind_name(value any)
{
    switch (value_kind_of(any)) {
    case VALUE_NONE:
        return "nothing";
    case VALUE_FALSE:
    case VALUE_TRUE:
        return "a truth value";
    case VALUE_INT:
        return "a whole number";
    case VALUE_REAL:
        return "a fraction";
    case VALUE_TEXT:
        return "a text";
    case VALUE_LIST:
        return "a list";
    case VALUE_TUPLE:
        return "a tuple";
    case VALUE_DICT:
        break;
    }
    return "a dictionary";
}

const value_text *value_as_text(value text)
{
    return pointer_of(text);
}

const value_list *value_as_list(value list)
{
    return pointer_of(list);
}

const value_dict *value_as_dict(value dict)
{
    return pointer_of(dict);
}

int value_as_signed(value any, int64_t *number)
{
    if ((any & TAG_MASK) == TAG_SMALL) {
        *number = (int64_t)any >> 3;
        return 1;
    }
    if ((any & TAG_MASK) != TAG_WIDE)
        return 0;
    const wide *large = pointer_of(any);
    if (!large->negative && large->bits > INT64_MAX)
        return 0;
    *number = (int64_t)large->bits;
    return 1;
}

int value_as_unsigned(value any, uint64_t *number)
{
    if ((any & TAG_MASK) == TAG_SMALL) {
        *number = any >> 3;
        return (int64_t)any >= 0;
    }
    if ((any & TAG_MASK) != TAG_WIDE)
        return 0;
    const wide *large = pointer_of(any);
    *number = large->bits;
    return !large->negative;
}

double value_as_real(value real)
{
    if ((real & TAG_MASK) == TAG_REAL)
        return *(const double *)pointer_of(real);
    int64_t number;
    uint64_t positive = 0;
    if (value_as_signed(real, &number))
        return (double)number;
    (void)value_as_unsigned(real, &positive);
    return (double)positive;
}

int value_get(const value_heap *heap, value dict, const char *key, value *item)
{
    *item = value_constant(VALUE_NONE);
    const value_text *text = value_text_find(heap, key, strlen(key));
    if (!text || value_kind_of(dict) != VALUE_DICT)
        return 0;
    const value_dict *from = value_as_dict(dict);
    int at = value_shape_find(from->shape, text);
    if (at < 0)
        return 0;
    *item = from->items[at];
    return 1;
}
