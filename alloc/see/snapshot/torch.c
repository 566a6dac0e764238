/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's dictionary of a snapshot: see torch.h. */
#include "see/snapshot/torch.h"

#include <stddef.h>

static const char *const words[] = {
#define WORD(word) #word,
#include "see/snapshot/torch_words.def"
#undef WORD
    "N/A",
};

void tnri_torch_word_put(tnri_torch *to, tnri_torch_word word)
{
    if (to->numbers[word] > 0) {
        tnri_pickle_again(&to->out, to->numbers[word] - 1u);
        return;
    }
    tnri_pickle_text(&to->out, words[word]);
    tnri_pickle_memo(&to->out, to->words_count);
    to->numbers[word] = ++to->words_count;
}

void tnri_torch_int(tnri_torch *to, tnri_torch_word key, int64_t number)
{
    tnri_torch_word_put(to, key);
    tnri_pickle_int(&to->out, number);
}

void tnri_torch_text(tnri_torch *to, tnri_torch_word key, const char *text)
{
    tnri_torch_word_put(to, key);
    tnri_pickle_text(&to->out, text);
}

void tnri_torch_list(tnri_torch *to, tnri_torch_word key)
{
    tnri_torch_word_put(to, key);
    tnri_pickle_list(&to->out);
}

static void words_put(tnri_torch *to, tnri_torch_word key, tnri_torch_word value)
{
    tnri_torch_word_put(to, key);
    tnri_torch_word_put(to, value);
}

static void stack_put(tnri_torch *to, uint32_t stack)
{
    tnri_torch_word_put(to, TNRI_TORCH_frames);
    to->stack(to, stack);
}

static void pool_id_put(tnri_torch *to, tnri_torch_word key, const int64_t id[2])
{
    tnri_torch_int(to, key, id[0]);
    tnri_pickle_int(&to->out, id[1]);
    tnri_pickle_pair(&to->out);
}

static void item_begin(tnri_torch *to)
{
    tnri_pickle_item(&to->out);
    tnri_pickle_dict(&to->out);
}

void tnri_torch_segment_begin(tnri_torch *to, const tnri_torch_segment *segment)
{
    to->allocated = to->active = to->requested = 0;
    item_begin(to);
    tnri_torch_int(to, TNRI_TORCH_device, segment->device);
    tnri_torch_int(to, TNRI_TORCH_address, (int64_t)segment->address);
    tnri_torch_int(to, TNRI_TORCH_total_size, (int64_t)segment->bytes);
    tnri_torch_int(to, TNRI_TORCH_stream, segment->stream);
    words_put(to, TNRI_TORCH_segment_type, segment->is_small ? TNRI_TORCH_small : TNRI_TORCH_large);
    pool_id_put(to, TNRI_TORCH_segment_pool_id, segment->pool);
    tnri_torch_word_put(to, TNRI_TORCH_is_expandable);
    tnri_pickle_boolean(&to->out, segment->is_expandable);
    if (segment->tag != NULL)
        tnri_torch_text(to, TNRI_TORCH_tag, segment->tag);
    stack_put(to, segment->stack);
    tnri_torch_list(to, TNRI_TORCH_blocks);
}

void tnri_torch_block_put(tnri_torch *to, const tnri_torch_block *block)
{
    if (block->state == TNRI_TORCH_active_allocated)
        to->allocated += block->bytes;
    if (block->state != TNRI_TORCH_inactive) {
        to->active += block->bytes;
        to->requested += block->requested;
    }
    item_begin(to);
    tnri_torch_int(to, TNRI_TORCH_address, (int64_t)block->address);
    tnri_torch_int(to, TNRI_TORCH_size, (int64_t)block->bytes);
    tnri_torch_int(to, TNRI_TORCH_requested_size, (int64_t)block->requested);
    words_put(to, TNRI_TORCH_state, block->state);
    stack_put(to, block->stack);
    tnri_pickle_dict_end(&to->out);
}

void tnri_torch_segment_end(tnri_torch *to)
{
    tnri_pickle_list_end(&to->out);
    tnri_torch_int(to, TNRI_TORCH_allocated_size, (int64_t)to->allocated);
    tnri_torch_int(to, TNRI_TORCH_active_size, (int64_t)to->active);
    tnri_torch_int(to, TNRI_TORCH_requested_size, (int64_t)to->requested);
    tnri_pickle_dict_end(&to->out);
}

void tnri_torch_entry_put(tnri_torch *to, const tnri_torch_entry *entry)
{
    item_begin(to);
    words_put(to, TNRI_TORCH_action, entry->action);
    tnri_torch_int(to, entry->action == TNRI_TORCH_oom ? TNRI_TORCH_device_free : TNRI_TORCH_addr,
                   (int64_t)entry->address);
    tnri_torch_int(to, TNRI_TORCH_size, (int64_t)entry->bytes);
    tnri_torch_int(to, TNRI_TORCH_stream, entry->stream);
    if (entry->time_us >= 0)
        tnri_torch_int(to, TNRI_TORCH_time_us, entry->time_us);
    if (entry->stack >= 0)
        stack_put(to, (uint32_t)entry->stack);
    words_put(to, TNRI_TORCH_compile_context, TNRI_TORCH_none);
    if (entry->mark >= 0) {
        tnri_torch_word_put(to, TNRI_TORCH_user_metadata);
        to->mark(to, (uint32_t)entry->mark);
    }
    if (entry->pool != NULL)
        pool_id_put(to, TNRI_TORCH_pool_id, entry->pool);
    tnri_pickle_dict_end(&to->out);
}

void tnri_torch_pool_put(tnri_torch *to, const char *kind, const char *name,
                         const uint64_t numbers[4])
{
    static const tnri_torch_word keys[4] = {TNRI_TORCH_device, TNRI_TORCH_number,
                                            TNRI_TORCH_reserved_bytes, TNRI_TORCH_asleep_bytes};
    item_begin(to);
    for (size_t i = 0; i < 4; i++)
        tnri_torch_int(to, keys[i], (int64_t)numbers[i]);
    tnri_torch_text(to, TNRI_TORCH_kind, kind);
    tnri_torch_text(to, TNRI_TORCH_name, name);
    tnri_pickle_dict_end(&to->out);
}

void tnri_torch_stream_put(tnri_torch *to, int64_t device, int64_t stream, const char *name)
{
    item_begin(to);
    tnri_torch_int(to, TNRI_TORCH_device, device);
    tnri_torch_int(to, TNRI_TORCH_stream, stream);
    tnri_torch_text(to, TNRI_TORCH_name, name);
    tnri_pickle_dict_end(&to->out);
}

void tnri_torch_wait_put(tnri_torch *to, const tnri_torch_wait *wait)
{
    item_begin(to);
    tnri_torch_int(to, TNRI_TORCH_address, (int64_t)wait->address);
    tnri_torch_text(to, TNRI_TORCH_kind, wait->kind);
    if (wait->has_stream)
        tnri_torch_int(to, TNRI_TORCH_stream, wait->stream);
    if (wait->mark_number >= 0)
        tnri_torch_int(to, TNRI_TORCH_mark_number, wait->mark_number);
    if (wait->since_us >= 0)
        tnri_torch_int(to, TNRI_TORCH_since_us, wait->since_us);
    if (wait->graph >= 0)
        tnri_torch_int(to, TNRI_TORCH_graph, wait->graph);
    tnri_pickle_dict_end(&to->out);
}
