# SPDX-License-Identifier: Apache-2.0
"""The mutants: small faults, one line of the library each. A fault is a file, the text to find in
it, what to put there, and what is wrong then. The text must be there exactly once: check_mutants.py
says so if the code has moved on."""

MUTANTS = [
    # ---- lifetime: uses
    ("use_own_key", "lifetime/order/use.c",
     "atomic_load_explicit(&(*arena)->stream, memory_order_relaxed) != *stream)",
     "atomic_load_explicit(&(*arena)->stream, memory_order_relaxed) == *stream)",
     "record_use does nothing on other streams than the block's"),
    ("use_again_lost", "lifetime/order/use.c",
     "        *event = tnri_use_advance(use, number, *event);\n",
     "        (void)number;\n",
     "a second record_use of the same stream does not move the mark on"),
    ("use_first_lost", "lifetime/order/use.c",
     "        *status = tnri_use_begin(arena, block, stream, number, event);",
     "        tnri_lifetime_register();",
     "the first record_use of a stream is lost where the stream has marked before"),
    ("use_stream_ignored", "lifetime/order/use.c",
     "    return use_enter(arena, ptr, stream, 0, NULL);\n"
     "}\n"
     "\n"
     "tnr_status tnr_keep_until",
     "    return TNR_OK;\n"
     "}\n"
     "\n"
     "tnr_status tnr_keep_until",
     "record_stream is forgotten"),
    ("keep_ignored", "lifetime/order/use.c",
     "    return use_enter(arena, ptr, proxy, number, mark);",
     "    tnri_event_drop(mark);\n"
     "    return TNR_OK;",
     "keep_until is forgotten"),
    ("free_on_forgets", "lifetime/order/use.c",
     "    if (is_start)\n"
     "        status = tnr_record_use(ptr, stream);",
     "    (void)stream;\n"
     "    (void)is_start;",
     "free_on is a plain free"),
    # ---- lifetime: retirement
    ("retire_open_use", "lifetime/order/free.c",
     "    while (use != NULL && use->until_free != TNRI_UNTIL_FREE_OPEN)\n"
     "        use = use->next;",
     "    while (use != NULL)\n"
     "        use = use->next;",
     "the free does not mark what record_stream left open"),
    ("retire_first_only", "lifetime/order/retire.c",
     "        tnri_pending_add(stream, use);",
     "        if (use != uses->first) {\n"
     "            over++;\n"
     "            continue;\n"
     "        }\n"
     "        tnri_pending_add(stream, use);",
     "only the first stream's use of a block is waited for"),
    ("retire_poll_policy", "lifetime/order/retire.c",
     "            tnri_stream_is_after(own, stream, use->number, 0)) {",
     "            !tnri_stream_is_after(own, stream, use->number, 0)) {",
     "order is taken the wrong way round at the free"),
    ("sync_not_fenced", "lifetime/order/free.c",
     "    tnri_retire(arena, block, 1);",
     "    tnri_retire(arena, block, 0);",
     "free_sync waits for nobody"),
    ("unretire_early", "lifetime/order/retire.c",
     "    if (atomic_fetch_sub_explicit(&uses->pending, count, memory_order_acq_rel) != count)\n",
     "    if (atomic_fetch_sub_explicit(&uses->pending, count, memory_order_acq_rel) "
     "> count + 1)\n",
     "a block is ended one use too early"),
    # ---- lifetime: collecting
    ("poll_not_asked", "lifetime/order/collect.c",
     "    int over = tnri_event_is_over(event);\n"
     "    tnri_event_drop(event);",
     "    int over = 1;\n"
     "    tnri_event_drop(event);",
     "the first pending event is taken for over"),
    ("before_ignores_wait", "lifetime/order/collect.c",
     "        status = tnri_stream_follow(own, use->event, use->stream, use->number);\n",
     "        tnri_stream_waits(own, NULL, use->stream->index, use->number);\n",
     "the wait on the device is dropped"),
    ("before_first_only", "lifetime/order/collect.c",
     "        *waited |= status == TNR_OK;\n",
     "        *waited |= status == TNR_OK;\n"
     "        break;\n",
     "the stream is made to wait for the first use only"),
    ("fence_streams", "lifetime/order/batch.c",
     "            status = tnri_stream_follow(proxy, event, stream, number);\n",
     "            if (stream->is_legacy)\n"
     "                status = tnri_stream_follow(proxy, event, stream, number);\n",
     "the fence of free_sync does not follow the streams that Tenure knows"),
    ("fence_legacy", "lifetime/order/batch.c",
     "            status = tnri_stream_follow(proxy, event, stream, number);\n",
     "            if (!stream->is_legacy)\n"
     "                status = tnri_stream_follow(proxy, event, stream, number);\n",
     "the fence of free_sync does not follow the legacy stream"),
    ("launch_order_dropped", "lifetime/order/collect.c",
     "        if (status == TNR_OK)\n"
     "            status = uses_order(uses, stream, &waited);",
     "        (void)stream;\n"
     "        (void)waited;",
     "a launch is not ordered after uses of its pool's freed blocks"),
    # ---- lifetime: streams and what the program tells
    ("after_off_by_one", "alloc/memory/stream/mark.c",
     "    int after = tnri_clock_of(stream->clock, other->index) >= number;",
     "    int after = tnri_clock_of(stream->clock, other->index) + 64 >= number;",
     "a mark that is a little younger than the wait counts as covered"),
    ("after_any_blocking", "alloc/memory/stream/mark.c",
     "        ((stream->is_legacy && atomic_load(&other->is_blocking)) ||\n"
     "         (atomic_load(&stream->is_blocking) && other->is_legacy)))",
     "        (stream->is_legacy || other->is_legacy))",
     "non-blocking streams are taken to obey the legacy stream's rules"),
    ("waits_passes_on", "alloc/memory/stream/mark.c",
     "    tnri_clock *clock = waited <= moment ? tnri_clock_hold(stream->clock) : NULL;",
     "    (void)waited;\n"
     "    (void)moment;\n"
     "    tnri_clock *clock = tnri_clock_hold(stream->clock);",
     "an event is credited with waits that came after it"),
    ("waited_all", "alloc/memory/stream/mark.c",
     "    if (atomic_load_explicit(&stream->waited, memory_order_relaxed) < number)\n"
     "        return 0;\n",
     "    if (atomic_load_explicit(&stream->waited, memory_order_relaxed) >= number)\n"
     "        return 1;\n",
     "a stream that has waited for something later is taken to be after everything before"),
    ("stream_not_sealed", "alloc/memory/pool/pool.c",
     "        pool_seal(pool, stream);\n",
     "        (void)pool_seal;\n",
     "an ended stream's arenas are not given to others"),
    ("seal_not_followed", "alloc/memory/stream/stream.c",
     "    if (!atomic_load(&stream->is_dead) || atomic_load(&stream->pending_count) > 0)\n"
     "        return 1;\n",
     "    return !atomic_load(&stream->is_dead);\n",
     "free_sync forgets the work of destroyed streams"),
    ("event_number_late", "lifetime/order/announce.c",
     "    uint64_t number = before < announced ? before : announced;",
     "    uint64_t number = UINT64_MAX / 2;",
     "an announced event covers what comes after it"),
    ("event_forgotten_not", "lifetime/order/announced.c",
     "    tnri_announcement *found = (tnri_announcement *)*at;\n",
     "    tnri_announcement *found = NULL;\n",
     "a forgotten event is still credited"),
    ("stream_sync_future", "lifetime/order/announce.c",
     "    tnri_stream_completed(stream, began);\n"
     "    tnri_streams_completed(clock);",
     "    tnri_stream_completed(stream, UINT64_MAX / 2);\n"
     "    tnri_streams_completed(clock);",
     "after a synchronise everything on the stream is taken for over, forever"),
    ("stream_sync_other", "lifetime/order/announce.c",
     "    tnri_device_completed(device, began);",
     "    tnri_device_completed(device, began + 1000);",
     "after cuCtxSynchronize later marks are taken for over too"),
    ("mark_of_proxy", "lifetime/order/announced.c",
     "tnri_gpu_stream_follow((*proxy)->handle, event);",
     "        CUDA_SUCCESS;\n"
     "    (void)event;",
     "keep_until marks without waiting for the event"),
    # ---- alloc: other streams' memory
    ("donor_no_wait", "alloc/miss/execute.c",
     "    if (status == TNR_OK && !*refused && !is_lane)\n"
     "        status = tnri_stream_follow(own, *event, giver, number);\n",
     "    if (status == TNR_OK && !*refused && !is_lane)\n"
     "        tnri_stream_waits(own, NULL, giver->index, number);\n",
     "memory of another stream is taken without a wait"),
    ("donor_idle_ignored", "alloc/miss/execute.c",
     "    if (status == TNR_OK && !*refused && !is_lane)\n",
     "    *refused = 0;\n"
     "    if (status == TNR_OK && policy != TNRI_CROSS_IDLE && !is_lane)\n",
     "cross_stream:idle takes memory that is not idle"),
    ("donor_waited_all", "alloc/miss/execute.c",
     "        status = tnri_stream_follow(own, *event, giver, number);\n",
     "        status = tnri_stream_follow(own, *event, giver, number + 1000);\n",
     "the library credits its own wait with later marks"),
    ("lend_map_kept", "alloc/memory/arena/world_lend.c",
     "    tnri_block_map_clear(&world->space->map, pending->base, pending->bytes);\n"
     "    tnri_record_leave(world, pending);\n"
     "    if (tnri_world_owns(",
     "    tnri_record_leave(world, pending);\n"
     "    if (tnri_world_owns(",
     "the map leads to the records of the arena that has lent the addresses"),
    ("give_back_nowhere", "alloc/miss/give_back.c",
     "    tnri_world_take_back(home, base, bytes);",
     "    (void)base, (void)bytes;",
     "addresses that come home stay lent"),
    ("give_back_map_kept", "alloc/memory/arena/world_lend.c",
     "    tnri_world_unpromise_borrow(world);\n"
     "    tnri_block_map_clear(&world->space->map, pending->base, pending->bytes);\n",
     "    tnri_world_unpromise_borrow(world);\n",
     "the map leads to the records of the arena that has given addresses back"),
    ("lend_over_spans", "alloc/memory/arena/world_lend.c",
     "        if (first->base != end || is_span_border(world, end))\n",
     "        if (first->base != end)\n",
     "borrowed ranges of two spans become one"),
    ("lend_for_ever", "alloc/miss/ladder.c",
     "    return plan->moves == TNRI_MOVES_ALL && plan->pages_missing > 0 &&",
     "    return plan->pages_missing > 0 &&",
     "runs are lent for ever, whatever that costs"),
    ("apart_always", "alloc/miss/trade.c",
     "needs <= most + most / TNRI_TRADE_SAVES &&",
     "needs <= most * TNRI_TRADE_SAVES &&",
     "streams that take turns keep their memory"),
    ("grow_by_much", "alloc/memory/device/budget.c",
     "1 + over * TNRI_PRICE_TIMES / needs;",
     "1 + over / needs;",
     "a pool grows on, however much more than it needs it holds"),
    ("end_like_last_mark", "alloc/memory/stream/stream.c",
     "*number = tnri_number_next(); /* the last",
     "*number = tnri_number_now(); /* the last",
     "a stream that ends in a capture is over when its last mark is"),
    ("lend_all", "alloc/miss/lend.c",
     "    return *end - page <= most;",
     "    return most > 0;",
     "a request borrows a chunk of any size"),
    ("stale_not_proved", "alloc/miss/stale.c",
     "    return stale->event == NULL || tnri_event_is_over(stale->event);",
     "    return stale != NULL;",
     "old mappings are removed while they are in use"),
    ("move_without_event", "alloc/miss/execute.c",
     "        group_set_event(plan, 0, plan->own_count, event);\n"
     "        tnri_event_drop",
     "        tnri_event_drop",
     "a chunk's old address is given up without a mark"),
    ("seal_wait_dropped", "alloc/memory/pool/pool.c",
     "            status = tnri_stream_follow(stream, atomic_load(&before->seal), before, "
     "before->marked);\n",
     "            status = TNR_OK;\n",
     "who adopts a destroyed stream's memory does not wait for its end"),
    # ---- alloc: geometry and accounting
    ("carve_alignment", "alloc/memory/arena/run.c",
     "    size_t lead = (0 - run->base) & (alignment - 1);",
     "    size_t lead = (0 - run->base) & (alignment / 2 - 1);",
     "half the alignment that was asked for"),
    ("merge_forgets_above", "alloc/memory/arena/record.c",
     "    block->bytes += upper->bytes;\n"
     "    block->above = upper->above;",
     "    block->bytes += upper->bytes - TNR_ALIGNMENT_DEFAULT;\n"
     "    block->above = upper->above;",
     "a merge loses 512 bytes"),
    ("unbin_wrong_size", "alloc/memory/arena/bins.h",
     "    if (head == NULL || head->bytes != bytes)\n"
     "        return NULL;",
     "    if (head == NULL)\n"
     "        return NULL;",
     "a bin serves blocks of another size"),
    ("bin_keeps_first", "alloc/memory/arena/bins.h",
     "    world->bins.slots[slot] = block->next;\n",
     "",
     "a block that was taken from its bin can be taken again"),
    ("bin_bit_stays", "alloc/memory/arena/bins.c",
     "        if (tnri_likely(slots[slot] != NULL))\n"
     "            return slot;\n",
     "        return slot;\n",
     "a bin that has become empty still counts as one with blocks"),
    ("carve_keeps_uses", "alloc/memory/arena/run.h",
     "    run->what = tnri_block_what(TNRI_LIVE, 0);\n"
     "    run->uses = NULL;\n",
     "    run->what = tnri_block_what(TNRI_LIVE, 0);\n",
     "a block from the index keeps what was left in its record"),
    ("count_freed_slot", "alloc/api/cached.c",
     "    tnri_live_subtract(arena, world, 1, block->bytes, tnri_block_requested(block));",
     "    tnri_live_subtract(arena, world, 1, block->bytes, block->bytes);",
     "what was asked for and what was set aside are confused at the free"),
    ("double_free", "alloc/api/cached.c",
     "block->base != (uintptr_t)ptr || block->state != TNRI_LIVE)) {",
     "block->base != (uintptr_t)ptr)) {",
     "a double free is accepted"),
    ("uses_skipped", "alloc/api/cached.c",
     "    if (tnri_unlikely(block->uses != NULL)) {",
     "    if (tnri_unlikely(block->uses != NULL && block->bytes > 65536)) {",
     "the uses of small blocks are forgotten at the free"),
    ("mark_sealed", "alloc/memory/stream/mark.c",
     "    if (tnri_unlikely(seal_of(stream) != NULL)) {\n",
     "    if (tnri_unlikely(seal_of(stream) == event[0])) {\n",
     "a destroyed stream is named"),
    # ---- alloc: streams as objects
    ("thread_reaped_early", "alloc/memory/stream/stream.c",
     "        if (tnri_alive_is_gone(stream->thread_address, stream->thread_id))",
     "        if (tnri_alive_is_gone(stream->thread_address, stream->thread_id) ||\n"
     "            stream->marked > 0)",
     "a thread that lives is taken for gone"),
    ("dissolve_mapped", "alloc/memory/arena/world.c",
     "        if (state != TNRI_HOLE && world->count_in[state] > 0)\n"
     "            return 0;",
     "        if (state == TNRI_LIVE && world->count_in[state] > 0)\n"
     "            return 0;",
     "a trim takes the records of memory that is there"),
    ("spent_unseen", "alloc/memory/arena/bins.h",
     "            return world->is_spent ? tnri_world_bin_spent(world, block) : 0;",
     "            return 0;",
     "what is freed in an arena that had nothing to give is not found again"),
    ("alias_in_use", "alloc/miss/cached_window.c",
     "memory_order_relaxed) != look ||",
     "memory_order_relaxed) > look ||",
     "a chunk comes back to an old address although it lies in the window itself"),
    ("window_not_whole", "alloc/miss/window.c",
     "whole.pages_missing <= window->pages_missing)",
     "whole.pages_missing < window->pages_missing)",
     "a large block of whole pages lies across the borders of pages"),
    ("placed_smaller", "alloc/memory/arena/serve.c",
     "run_beside(run->above) > run_beside(run->below))",
     "run_beside(run->above) < run_beside(run->below))",
     "a large block goes beside the smaller of its neighbours, or beside a hole"),
    ("trough_never", "alloc/memory/arena/world.h",
     "    if (tnri_unlikely(world->headroom.bytes >= world->trough_headroom))\n",
     "    if (0)\n",
     "chunks never go home, and a program that repeats itself moves for ever"),
    ("alias_at_once", "alloc/memory/arena/trough.h",
     "    return atomic_load_explicit(&arena->trough.keeps, memory_order_relaxed);\n",
     "    return arena != NULL;\n",
     "old mappings take addresses in a first pass, and where weights stay"),
    ("alias_outlives", "alloc/miss/stale.c",
     "is_over && !stale_forget_aliases(arena, stale)",
     "0",
     "a chunk goes back to the driver and stays mapped at old addresses"),
    ("access_old", "alloc/memory/pool/peers.c",
     "    pool_forget_aliases(pool);\n",
     "",
     "chunks come back to addresses that have the access of before"),
    ("alias_never_drained", "alloc/miss/stale.c",
     "    if (wait && keep == 0) {",
     "    if (wait && keep == 1) {",
     "a sleep or a pool's end leaves old mappings"),
    ("spent_early", "alloc/memory/arena/world_spent.c",
     "        tnri_world_has_whole(world, TNRI_SPENT_LOOKS))",
     "        0)",
     "an arena with chunks that are free is passed by"),
    ("object_reused_early", "alloc/memory/stream/stream.h",
     "memory_order_acq_rel) == 1))\n"
     "        tnri_stream_idle(stream);",
     "memory_order_acq_rel) == 2))\n"
     "        tnri_stream_idle(stream);",
     "a stream's object is used again while somebody refers to it"),
    # ---- alloc: limits and giving back
    ("reclaim_gives_up", "alloc/miss/reclaim.c",
     "    if (collected > 0 && !thorough)\n",
     "    if (collected > 0)\n",
     "reclaiming stops at retired blocks that are of no use"),
    ("reclaim_excess", "alloc/miss/reclaim.c",
     "    return now > limit ? (size_t)(now - limit) : 0;",
     "    return now > limit ? 0 : 0;",
     "the excess over a lowered limit is not reclaimed"),
    ("stream_unknown", "alloc/memory/stream/stream.c",
     "        stream->all_next = registry.all;\n"
     "        registry.all = stream;\n"
     "        if (stream->thread",
     "        stream->all_next = registry.all;\n"
     "        registry.all = stream->is_default ? stream : registry.all;\n"
     "        if (stream->thread",
     "a stream is not among those that are waited for"),
    ("capture_unknown", "capture/graph/hooks.c",
     "    return *device == NULL ? TNR_OK : tnri_stream_find_captured(*device, stream, &object);\n",
     "    (void)object;\n"
     "    return TNR_OK;\n",
     "a stream that was met in a capture only is not known after it"),
    ("turn_ignored", "capture/graph/captured.c",
     "           captured->capture->order.views[*view].turns == turns;",
     "           turns <= UINT64_MAX;",
     "a stream that lost dependencies is still taken to be after what it was after"),
    ("view_goes_on", "capture/graph/order.c",
     "    if (*status == TNR_OK && !frontier_was_met(view, self.met)) {",
     "    if (*status == TNR_OK && frontier_was_met(view, self.met) > 1) {",
     "dependencies that were taken away are not noticed"),
    ("prepared_elsewhere", "alloc/memory/arena/serve.c",
     "!tnri_block_map_prepare(&world->space->map, base, world->is_small))",
     "!tnri_block_map_prepare(&world->space->map, run->base, world->is_small))",
     "the block map is prepared for the run's address, not for that of an aligned block"),
    ("limit_off_by_chunk", "alloc/memory/device/chunk.c",
     "        if (bytes > limit || now > limit - bytes)",
     "        if (bytes > limit || now > limit)",
     "the last chunk may exceed the limit"),
    # ---- capture
    ("held_freed_anyway", "lifetime/order/hold.c",
     "block->uses->holds + added > 0) {",
     "block->uses->holds + added > 1000) {",
     "what a graph refers to is freed at once"),
    ("hold_end_early", "lifetime/order/hold.c",
     "    tnri_assert(uses->holds > 0);\n",
     "    uses->holds = 1;\n",
     "the first of two graphs that ends lets a block go"),
    ("launch_not_ordered", "capture/graph/launch.c",
     "        status = tnri_event_order(before.mark, self->handle);\n"
     "        if (status == TNR_OK && number",
     "        if (status == TNR_OK && number",
     "launches into a shared pool are not ordered"),
    ("launch_holders", "capture/graph/launch.c",
     "    if (!has_held_blocks(place->arena))\n",
     "    if (has_held_blocks(place->arena))\n",
     "a launch is not ordered after those of graphs that refer to freed blocks of its pool"),
    ("launch_overwrites", "capture/graph/launch.c",
     "    if (base == 0)\n"
     "        return TNR_OK;",
     "    if (base == 0 || bytes > 0)\n"
     "        return TNR_OK;",
     "a launch that overwrites a live block is not refused"),
    ("launch_stream_lost", "capture/graph/launch.c",
     "        self->place->launch_stream = self->stream;",
     "        tnri_stream_drop(self->stream);\n"
     "        self->place->launch_stream = NULL;",
     "the latest launch is not remembered"),
    ("launch_over_unasked", "capture/graph/launched.c",
     "    while (own->first != NULL && tnri_event_is_over(own->first->event)) {",
     "    while (own->first != NULL) {",
     "a launch is said to be over that nobody has asked about"),
    ("launch_over_held_up", "capture/graph/launched.c",
     "    own->next = NULL;\n"
     "    *end = own;",
     "    own->next = queues;\n"
     "    queues = own;",
     "a stream that hangs keeps the ends of others' launches from being seen"),
    ("reach_first_only", "capture/graph/captured.c",
     "    for (size_t i = 0; told && i < captured->open_count; i++)\n"
     "        told = captured_reach_since(captured, captured->open[i].stream, "
     "captured->open[i].turns,\n"
     "                                    &view);",
     "    (void)view;",
     "record_stream in a capture is forgotten"),
    ("capture_use_ignored", "capture/graph/captured.c",
     "    else if (!captured_reach(captured, stream, &view))\n"
     "        captured->is_kept = 1;",
     "    else\n"
     "        (void)view;",
     "record_use in a capture is forgotten"),
    ("frontier_edges", "capture/graph/order.c",
     "edge_note(order, frontier[i], edges == NULL ? NULL : &edges[i], entries, &kept)",
     "edge_note(order, frontier[i], NULL, entries, &kept)",
     "a kernel that a stream follows by its port is taken for over"),
    ("node_edges", "capture/graph/order.c",
     "edge_note(order, from[i], &data[i], &order->edges[first], &kept)",
     "edge_note(order, from[i], NULL, &order->edges[first], &kept)",
     "the same further back in the graph"),
    ("edge_ports", "capture/graph/order.c",
     "edge == NULL || (edge->from_port == 0 && edge->to_port == 0 &&",
     "edge == NULL || (edge->to_port == 0 &&",
     "the same where the port alone says so"),
    ("edge_met_in_frontier", "capture/graph/order.c",
     "tnri_entry_node(old) == tnri_entry_node(entry) && (is_behind || entry >= 0 || old < 0))",
     "tnri_entry_node(old) == tnri_entry_node(entry) && (is_behind || entry >= 0 || 1))",
     "a stream that drops its full edge from a kernel still takes it for over"),
    ("begun_not_used", "capture/graph/captured.c",
     "        if (!tnri_captured_add_node(captured, tnri_entry_node(of->frontier[i])))",
     "        if (of->frontier[i] >= 0 && !tnri_captured_add_node(captured, of->frontier[i]))",
     "a block that is freed behind a kernel's port waits for nothing"),
    ("survivor_unguarded", "capture/graph/ending.c",
     "            !tnri_threats_add(captured, graph->number))",
     "            0)",
     "a graph is not told of another's live output in its memory"),
    ("survivor_homeless", "capture/graph/ending.c",
     "(home == NULL || tnri_use_add(arena, block, home, 0, &none) != TNR_OK);",
     "home == NULL;",
     "a block that outlives its capture is freed without a mark on its stream"),
    ("held_homeless", "lifetime/order/retire.c",
     "    int is_fenced = uses->is_sync || uses->is_orphaned;",
     "    int is_fenced = uses->is_sync;",
     "a block that a graph kept, without a home, waits for nobody"),
    ("stream_id_ignored", "alloc/memory/stream/facts.c",
     "    *is_same = result == CUDA_SUCCESS && id == known_id;",
     "    *is_same = result == CUDA_SUCCESS;",
     "a stream is taken for the one that had its handle"),
    # ---- alloc: memory that other devices reach
    ("access_new_closed", "alloc/memory/device/access.c",
     "    uint64_t peers = atomic_load(&access->peers);",
     "    uint64_t peers = atomic_load(&access->peers) & 0;",
     "a new mapping is not open to the peers of its pool"),
    ("access_old_closed", "alloc/memory/pool/peers.c",
     "        status = pool_change(pool, peer, wanted);",
     "        status = TNR_OK;",
     "what a pool has when it is opened or closed stays as it was"),
    ("access_free_missed", "alloc/memory/pool/peers.c",
     "                if (block_stays(block))",
     "                if (block->state == TNRI_LIVE)",
     "free memory is passed over when a pool is opened or closed"),
    ("access_not_taken_back", "alloc/memory/pool/peers.c",
     "    if (pool_change(pool, peer, before) != TNR_OK)",
     "    if (0)",
     "a change that fails half way is not taken back"),
    ("access_torn_forgotten", "alloc/memory/pool/peers.c",
     "        access->torn |= UINT64_C(1) << peer;",
     "        (void)0;",
     "a change whose way back fails leaves no note of it"),
    ("access_pool_begins_closed", "alloc/memory/pool/pool.c",
     "    atomic_store(&pool->account.access.peers, device->peers);",
     "    atomic_store(&pool->account.access.peers, 0);",
     "a new pool is not open to the peers of its device"),
    ("access_close_waits_not", "alloc/api/access.c",
     "    return peer_finish(peer);",
     "    (void)peer_finish;\n"
     "    return TNR_OK;",
     "closing does not wait for the peer's work"),
    # ---- alloc: segments of an owner's
    ("segment_for_others", "alloc/miss/reclaim.c",
     "            if (released < bytes && !tnri_account_is_kept(&pool->account))",
     "            if (released < bytes && (!tnri_account_is_kept(&pool->account) ||\n"
     "                                     tnri_account_is_foreign(&pool->account)))",
     "segments go back for what another pool wants, and in tnr_trim"),
    ("segment_over_threshold", "alloc/miss/reclaim.c",
     "    if (tnri_account_is_kept(&pool->account))\n"
     "        return;\n"
     "    if (threshold == UINT64_MAX) {",
     "    if (tnri_account_is_kept(&pool->account) && !tnri_account_is_foreign(&pool->account))\n"
     "        return;\n"
     "    if (threshold == UINT64_MAX) {",
     "segments go back where more is idle than the threshold says"),
    ("segment_not_offered", "alloc/miss/reclaim.c",
     "(tnri_account_is_foreign(account) &&\n"
     "                                           !tnri_account_is_known(account) && "
     "!account->is_vouched))",
     "0)",
     "a pool that lacks memory does not give its idle segments back"),
    ("segment_second_try", "alloc/miss/segment.c",
     "    if (status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT)\n"
     "        status = tnri_segment_create(account, least, world->is_small, stream, segment);",
     "    if (wanted <= least)\n"
     "        status = tnri_segment_create(account, least, world->is_small, stream, segment);",
     "where no whole segment is to be had, none is asked for that is just large enough"),
    ("segment_stream_lost", "alloc/memory/device/segment.c",
     "    owner_free(account, (void *)base, segment->pages << space->page_shift, "
     "stream_of(segment));",
     "    owner_free(account, (void *)base, segment->pages << space->page_shift, "
     "(tnr_stream)((uintptr_t)stream_of(segment) & 0));",
     "the owner is not told the stream that a segment was for"),
    ("segment_not_forgotten", "alloc/memory/device/segment.c",
     "    for (size_t i = 0; i < segment->pages; i++)\n"
     "        tnri_page_enter(space, segment->page + i, NULL);",
     "    for (size_t i = 1; i < segment->pages; i++)\n"
     "        tnri_page_enter(space, segment->page + i, NULL);",
     "what has gone back to its owner is taken for there"),
    ("segment_still_charged", "alloc/memory/device/segment.c",
     "        if (status != TNR_OK)\n"
     "            tnri_chunk_discharge(account, bytes);",
     "        (void)tnri_chunk_discharge;",
     "the limits are charged for what the owner did not give"),
    ("segments_joined", "alloc/memory/arena/world_lend.c",
     "    borrow_add(world, block);\n"
     "    tnri_record_enter(world, block, TNRI_FREE);",
     "    borrow_join(world, block);\n"
     "    tnri_record_enter(world, block, TNRI_FREE);",
     "two segments side by side become one range"),
    ("segment_map_kept", "alloc/memory/arena/world_lend.c",
     "    tnri_block_map_wipe(&world->space->map, stale->base, stale->bytes);\n",
     "",
     "the map leads to the records of segments that have gone back"),
    ("segment_unproved", "alloc/miss/stale.c",
     "        if (is_over && tnri_account_is_foreign(arena->account)) {",
     "        if (tnri_account_is_foreign(arena->account)) {",
     "segments go back while work on them is under way"),
    # ---- alloc: streams that end inside a capture
    ("late_over", "alloc/memory/device/event.c",
     "        return late_end(event) == CUDA_SUCCESS;",
     "        return 1;",
     "what a stream did that ended in a capture is taken for over"),
    ("late_not_waited", "alloc/memory/device/event.c",
     "    CUresult result = event->late != 0 ? late_end(event) :",
     "    CUresult result = event->late != 0 ? CUDA_SUCCESS :",
     "nobody waits for it"),
    ("late_not_ordered", "alloc/memory/device/event.c",
     "        return tnri_event_wait(event);\n"
     "    CUresult result = tnri_gpu_stream_follow(",
     "        return TNR_OK;\n"
     "    CUresult result = tnri_gpu_stream_follow(",
     "no stream waits for it"),
    ("late_by_earlier_wait", "alloc/memory/device/event.c",
     "    if (atomic_load(&device->events.waits_ended) >= event->late) {",
     "    if (atomic_load(&device->events.waits_ended) + 1 >= event->late) {",
     "a wait that was over before a stream ended counts for it"),
    ("late_refused", "alloc/memory/stream/stream.c",
     "    if (status == TNR_ERR_CAPTURE)\n"
     "        status = tnri_event_late(stream->device, event);",
     "    (void)tnri_event_late;",
     "a stream cannot end inside a capture"),
    # ---- alloc: traps and annotations
    ("guard_at_start", "alloc/miss/plan.c",
     "    plan->at = (base + bytes - request->bytes) & ~(request->alignment - 1);",
     "    plan->at = base;",
     "a guarded block does not end where its pages do"),
    ("guard_without_gap", "alloc/miss/plan.c",
     "    return base < end && end - base >= bytes + tnri_page_bytes(space) ? base : 0;",
     "    return base < end && end - base >= bytes ? base : 0;",
     "what is behind a guarded block may be another one"),
    ("guard_comes_back", "alloc/miss/plan.c",
     "        arena->guard_next = base + bytes + tnri_page_bytes(space);",
     "        arena->guard_next = 0;",
     "addresses of freed guarded blocks are handed out again at once"),
    ("guard_uses_unseen", "alloc/see/trap/guard.c",
     "        (void)tnri_upper_collect(arena, SIZE_MAX, wait ? TNRI_COLLECT_WAIT : "
     "TNRI_COLLECT_OVER);",
     "            (void)wait;",
     "a guarded block with uses elsewhere is never unmapped"),
    ("guard_of_any_size", "alloc/see/trap/guard.c",
     "    if (guards_look(arena->pool) + needed <= most)",
     "    if (guards_look(arena->pool) + needed > 0 && most > 0)",
     "guards take all memory that there is"),
    ("poison_of_another_chunk", "alloc/see/trap/trap.c",
     "        int is_there = stains[i].placed == tnri_poison_placed(arena, stains[i].base);",
     "        int is_there = 1;",
     "memory is looked at that is another's since it was filled"),
    ("poison_unseen", "alloc/see/trap/trap.c",
     "        if (is_there && stains[i].is_filled)",
     "        if (!is_there && stains[i].is_filled)",
     "nobody looks whether poison is still there"),
    ("poison_not_fenced", "lifetime/order/batch.c",
     "            tnri_trap_fenced(uses->block, uses->freed_stack, proxy);",
     "            (void)tnri_trap_fenced;",
     "what tnr_free_sync frees has no traps"),
    ("poison_fenced_late", "lifetime/order/free.c",
     "        fence_at_once(arena->device, waits);",
     "        (void)waits, (void)fence_at_once;",
     "what tnr_free_sync frees has traps only once memory is looked for"),
    ("poison_of_uses", "alloc/see/trap/trap.c",
     "is_sync || block->uses != NULL;",
     "is_sync;",
     "memory is filled while other streams still use it"),
    ("end_unseen", "alloc/see/trap/trap.c",
     "    tnri_trap_last_look(device);",
     "    (void)tnri_trap_last_look;",
     "nobody looks at what is in a trap at the end"),
    ("canary_for_ever", "alloc/see/trap/canary.c",
     "    if (!block->holds)\n"
     "        return 0;\n",
     "",
     "a canary is looked for in a block that has none"),
    ("trap_in_capture", "alloc/see/trap/work.c",
     "    if (tnri_capturing() || !tnri_stream_is_markable(stream))",
     "    if (!tnri_stream_is_markable(stream))",
     "fills and looks may enter a capture"),
    ("annotated_for_nothing", "alloc/api/cached.c",
     "    if (is_there && !arena->account->is_graph)\n"
     "        tnri_nvtx_block_gone",
     "    if ((is_there || ptr != NULL) && !arena->account->is_graph)\n"
     "        tnri_nvtx_block_gone",
     "tools are told of frees that are refused"),
    # ---- alloc: memory that was registered, and what is left to others
    ("registered_moves", "alloc/miss/ladder.c",
     "    if (stream == NULL || arena->is_guard || tnri_account_is_fixed(arena->account))",
     "    if (stream == NULL || arena->is_guard)",
     "memory that was registered moves to another address"),
    ("registered_goes_back", "alloc/miss/reclaim.c",
     "            if (released < bytes && !tnri_account_is_kept(&pool->account))",
     "            if (released < bytes && (!tnri_account_is_kept(&pool->account) ||\n"
     "                                     tnri_account_is_known(&pool->account)))",
     "memory that was registered goes back for what another pool wants"),
    ("registered_over_threshold", "alloc/miss/reclaim.c",
     "    if (tnri_account_is_kept(&pool->account))\n"
     "        return;\n"
     "    if (threshold == UINT64_MAX) {",
     "    if (tnri_account_is_kept(&pool->account) && !tnri_account_is_known(&pool->account))\n"
     "        return;\n"
     "    if (threshold == UINT64_MAX) {",
     "memory that was registered goes back where more is idle than the threshold says"),
    ("register_ignored", "alloc/api/api.c",
     "is_registered, 1, memory_order_release);",
     "is_registered, 0, memory_order_release);",
     "nobody notices that memory was registered"),
    ("headroom_ignored", "alloc/memory/device/chunk.c",
     "        (left >= kept && left - kept >= bytes))\n",
     "        (left >= kept / 2 && left - kept / 2 >= bytes))\n",
     "others are left half of what they were to have"),
    ("headroom_excess", "alloc/memory/device/chunk.c",
     "lack = left < kept && kept < most && bytes <= most - kept ? kept - left : 0;",
     "lack = left < kept && kept < most && bytes <= most - kept ? 0 : 0;",
     "the excess over a raised headroom is not reclaimed"),
    ("free_during_capture", "capture/graph/hooks.c",
     "        *status = tnri_capture_keep(capture, arena, block);",
     "        return 0;",
     "a free during a capture takes effect at once"),
    # ---- parked blocks
    ("parked_hidden", "alloc/memory/space/block_map.c",
     " | 1 << TNRI_PARKED };",
     " };",
     "a block that begins near a parked one hides it"),
    ("park_uses_forgotten", "capture/away/park.c",
     "    if (status == TNR_OK && !self->keeps)\n"
     "        status = uses_before(self, self->own);\n",
     "",
     "a block's memory serves others before its recorded uses are over"),
    ("park_early", "capture/away/park.c",
     "        status = streams_order(self, self->own, self->stream);",
     "        status = TNR_OK;",
     "a parked block's memory serves others before the copy of its contents is over"),
    ("park_save_early", "capture/away/park.c",
     "    tnr_status status = streams_order(self, self->stream, self->own);\n"
     "    if (status == TNR_OK)\n"
     "        status = uses_before(self, self->stream);",
     "    tnr_status status = uses_before(self, self->stream);",
     "contents are copied to the host before the block's own stream has written them"),
    ("unpark_early", "capture/away/park.c",
     "            status = streams_order(&self, self.stream, self.own);",
     "            status = TNR_OK;",
     "who unparks a block does not wait for those who had its memory"),
    ("unpark_copy_ignored", "capture/away/park.c",
     "    if (status == TNR_OK && self->own != self->stream)\n"
     "        status = copy_record(self, parked, *event, *number);",
     "    (void)copy_record;",
     "a block is freed before its contents have been copied back"),
    ("contents_again_early", "capture/away/staging.c",
     "            tnri_stream_is_after(stream, late->stream, late->number, 1))",
     "            stream != NULL)",
     "pinned memory is the next block's before the former one's copy is over"),
    ("unpark_unproved", "alloc/miss/unpark.c",
     "    return has_old && !tnri_event_is_over(parked->event);",
     "    return has_old && 0;",
     "an address gets other chunks before earlier work on it is over"),
    ("unpark_free_first", "alloc/miss/unpark.c",
     "tnri_moves moves = TNRI_MOVES_PARKED;",
     "tnri_moves moves = TNRI_MOVES_ALL;",
     "blocks in turn take what others have freed, and these what is parked"),
    ("unpark_half", "alloc/miss/execute.c",
     "(plan->moves == TNRI_MOVES_PARKED && plan->pages_missing > 0)",
     "0",
     "what is unparked gets new memory although there is some that is free"),
    ("parked_unordered", "alloc/miss/execute.c",
     "    tnr_status status = tnri_execute_order(plan->arena, donor, policy, &event, &refused);\n"
     "    tnri_event_drop(event);\n"
     "    if (status != TNR_OK || refused) {\n"
     "        while",
     "    tnr_status status = TNR_OK;\n"
     "    (void)policy;\n"
     "    event = NULL;\n"
     "    refused = 0;\n"
     "    tnri_event_drop(event);\n"
     "    if (status != TNR_OK || refused) {\n"
     "        while",
     "parked memory serves another stream that does not wait for its own"),
    ("parked_release_unproved", "alloc/miss/park_release.c",
     "        status = tnri_event_wait(event);",
     "        status = TNR_OK;",
     "parked memory goes back to the driver under its own work"),
    ("parked_mapping_left", "alloc/miss/evicted.c",
     "    tnri_evicted_unmap_all(arena->device, chunk);\n"
     "    tnri_chunk_release(arena->device, chunk);",
     "    tnri_chunk_release(arena->device, chunk);",
     "memory that goes back stays mapped where another block had it"),
    ("parked_access_old", "alloc/miss/evicted.c",
     "(is_changing || parked->evicted[i].epoch != epoch)",
     "is_changing",
     "what is unparked keeps the access that it had before the pool was opened or closed"),
    ("parked_order", "alloc/miss/park.c",
     "        parked->next = arena->parked;\n"
     "        arena->parked = parked;",
     "        tnri_parked **last = &arena->parked;\n"
     "        while (*last != NULL)\n"
     "            last = &(*last)->next;\n"
     "        *last = parked;",
     "who is needed next gives first"),
    # ---- published blocks
    ("relay_origin", "lifetime/share/relayed.c",
     "relay->origin.file >= 0 ? relay->origin.file : relay->sender.file",
     "relay->sender.file",
     "a publisher hands memory out that readers of a holder's holder have"),
    ("publish_older", "lifetime/share/publish/publish.c",
     "    if (count <= most)\n",
     "    if (count <= most + 100)\n",
     "generations that readers keep are not bounded"),
    ("publish_exists", "lifetime/share/publish/publish.c",
     "    if (replace || notice->holders_count == 0 || has_own(notice))\n",
     "    (void)replace;\n"
     "    if (notice != NULL)\n",
     "a name that another process holds is taken"),
    ("publish_kept", "lifetime/share/publish/publish.c",
     "    (void)tnri_exported_close(one->number); /* unless",
     "    (void)0; /* unless",
     "a generation that was replaced is kept for ever"),
    # ---- captures that come to nothing, and two devices
    ("peer_freed_at_once", "capture/graph/hooks.c",
     "        if (may_refer(capture)) {",
     "        if (may_refer(capture) && capture->device == arena->device) {",
     "a block of the other device that is freed during a capture goes at once"),
    ("peer_not_kept", "capture/graph/graph.c",
     "    tnri_assert_held(&arena->lock);\n"
     "    if (block->uses != NULL && tnri_set_has(&graph->holds, block->uses))\n"
     "        return TNR_OK;\n"
     "    if (!tnri_set_reserve(&graph->holds)",
     "    tnri_assert_held(&arena->lock);\n"
     "    if (arena->device != graph->device ||\n"
     "        (block->uses != NULL && tnri_set_has(&graph->holds, block->uses)))\n"
     "        return TNR_OK;\n"
     "    if (!tnri_set_reserve(&graph->holds)",
     "a graph keeps no blocks of the other device"),
    ("broken_keeps", "capture/graph/ending.c",
     "    else\n"
     "        tnri_holds_let_go(capture->device, &capture->kept);",
     "    else if (ending == TNRI_ENDING_READ)\n"
     "        tnri_holds_let_go(capture->device, &capture->kept);",
     "what was freed during a capture that came to nothing never comes back"),
    # ---- pinned host memory
    ("host_ordered", "lifetime/order/collect.c",
     "    if (tnri_device_is_host(arena->device))\n"
     "        return NULL;\n",
     "",
     "host memory is handed out when a stream comes after its uses, and not when they are over"),
    ("host_unmet", "alloc/memory/pool/peers.c",
     "    tnr_status status = host_meets(device);",
     "    tnr_status status = TNR_OK;\n    (void)host_meets;",
     "a device that comes into use later does not reach the host memory that is there"),
    ("host_unseen", "capture/graph/audit.c",
     "(device = tnri_device_nth(i)) != NULL && ok; i++)",
     "(device = tnri_device_at(i)) != NULL && ok; i++)",
     "an audit takes host memory for memory that is not mapped"),
    # ---- ranges whose pages get memory and lose it
    ("range_uses_lost", "lifetime/order/range.c",
     "status == TNR_OK && (range->whole.uses->first != NULL || range->whole.uses->is_orphaned);",
     "status != TNR_OK;",
     "a page serves its stream again though other streams still use it"),
    ("range_marks_lost", "lifetime/order/range.c",
     "        status = uses_mark(self.arena);\n",
     "        status = TNR_OK;\n",
     "a decommit does not mark what record_stream left open"),
    ("range_kept", "lifetime/order/range.c",
     "    if (is_range && status == TNR_OK)\n"
     "        arena_give_back(self.arena);",
     "    if (!is_range && status == TNR_OK)\n"
     "        arena_give_back(self.arena);",
     "pages that were taken out keep their memory"),
    ("range_access_old", "alloc/miss/stale.c",
     "        if (stale_open(arena, stale) != TNR_OK) {",
     "        if (arena == NULL && stale_open(arena, stale) != TNR_OK) {",
     "a page that comes back has the access that it had before the pool was opened or closed"),
    ("range_decided", "lifetime/order/range.c",
     "    else if (self.is_new)\n"
     "        range_take_back(self.arena);",
     "    else if (self.is_new > 1)\n"
     "        range_take_back(self.arena);",
     "a commit of pages that failed makes a range of the block"),
    ("range_not_undone", "lifetime/order/range.c",
     "        pages_undo(self, had);",
     "        (void)had;",
     "a commit that failed leaves some of its pages"),
    ("range_outlasted", "alloc/memory/arena/range.c",
     "        if (block->state != TNRI_RETIRED || block->uses != uses)",
     "        if (block->state != TNRI_RETIRED)",
     "with a range all its pages are free, also those that others still use"),
]

# What only programs with host memory can meet, and with ranges.
HOST = ["host_ordered", "host_unmet", "host_unseen"]
RANGES = [
    "range_uses_lost", "range_marks_lost", "range_kept", "range_access_old", "range_decided",
    "range_not_undone", "range_outlasted",
]

# What only programs with captures that come to nothing, or with graphs of one device that reach the
# other, can meet.
ODD = ["peer_freed_at_once", "peer_not_kept", "broken_keeps"]

# What only programs that park can meet.
PARKED = [
    "parked_hidden", "park_uses_forgotten", "park_early", "park_save_early", "unpark_early",
    "unpark_copy_ignored", "contents_again_early", "unpark_unproved",
    "unpark_free_first", "unpark_half", "parked_unordered", "parked_release_unproved",
    "parked_mapping_left", "parked_access_old", "parked_order",
]

# Those that the fuzzer needs more operations for than it is given, and the unit test that finds
# them.
UNIT_TESTS = {
    "alias_in_use": "unit_lend",
    "lend_over_spans": "unit_lend",
    "lend_all": "unit_lend",
    "lend_for_ever": "unit_lend",
    "apart_always": "unit_trade",
    "grow_by_much": "unit_price",
    # Guards, poison and canaries are settings that the fuzzer leaves alone.
    "guard_at_start": "unit_traps",
    "guard_without_gap": "unit_traps",
    "guard_comes_back": "unit_traps",
    "guard_uses_unseen": "unit_traps",
    "guard_of_any_size": "unit_traps",
    "poison_of_another_chunk": "unit_traps",
    "poison_unseen": "unit_traps",
    "poison_not_fenced": "unit_traps",
    "poison_fenced_late": "unit_traps",
    "poison_of_uses": "unit_traps",
    "end_unseen": "unit_last_look",
    "canary_for_ever": "unit_traps",
    "trap_in_capture": "unit_traps",
    "annotated_for_nothing": "unit_annotate",
    # What needs one call that fails, or one graph or release at the right moment.
    "access_torn_forgotten": "peers_access",
    "segment_unproved": "segments_pools",
    "segment_map_kept": "segments_threads",
    # Programs of the fuzzer have no edge data, and no block without a home that a graph keeps.
    "frontier_edges": "capture_edges",
    "node_edges": "capture_edges",
    "edge_ports": "capture_edges",
    "held_homeless": "capture_frees",
    # What the history says is no matter of safety.
    "launch_over_unasked": "snapshot_launches",
    "launch_over_held_up": "snapshot_launches",
    "stream_not_sealed": "lifetime_streams",
    "headroom_excess": "unit_oom",
    "relay_origin": "publish",
    "publish_older": "publish",
    "publish_exists": "publish",
    "publish_kept": "publish",
    # It judges neither where memory comes from nor what that costs.
    "parked_hidden": "park",
    "park_uses_forgotten": "park_random",
    "unpark_unproved": "park",
    "unpark_free_first": "park",
    "unpark_half": "park",
    "parked_unordered": "park",
    "parked_release_unproved": "park",
    "parked_mapping_left": "park",
    "parked_access_old": "peers_access",
    "parked_order": "park",
    # The fuzzer judges safety, not how much the pool grows by, or how often a program that repeats
    # itself moves.
    "window_not_whole": "unit_placed",
    "placed_smaller": "unit_placed",
    "trough_never": "unit_cached_window",
    "alias_at_once": "unit_cached_window",
}
