/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that give kernels addresses in structures. The kernel looks at the second word; so the
 * third one is what a kernel may leave unread. */
#include "zoo.h"

/* As many launches as it takes until a word is believed (CHANGES_MIN in check/words.c); a word in
 * the middle of large structures. */
enum { LAUNCHES = 8, MIDDLE = 37 };

typedef struct structure {
    CUdeviceptr number, first, second;
} structure;

static void use(CUfunction kernel, structure given, CUstream stream)
{
    void *params[] = {&given};
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* Launches with a block of its own each, which stay allocated. None is beside another: that would
 * be how the end of a range looks. */
static void use_many(int count)
{
    for (int i = 0; i < count; i++) {
        structure given = {7, make(the.a), 0};
        (void)make(the.a);
        wait_for(the.a, the.b);
        use(the.whole, given, the.b);
    }
}

/* The last use of a block, and its free. */
static void use_and_free(structure given, CUdeviceptr block)
{
    wait_for(the.a, the.b);
    use(the.whole, given, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

static void use_and_free_one(void)
{
    CUdeviceptr block = make(the.a);
    use_and_free((structure){7, block, 0}, block);
}

void animal_structure_given(void)
{
    touch(make(the.a), the.a);
    use_many(LAUNCHES);
    use_and_free_one();
}

void animal_structure_given_after_free(void)
{
    use_many(LAUNCHES);
    structure given = {7, make(the.a), 0};
    if (!the.is_wrong)
        use(the.whole, given, the.a);
    MUST(cuMemFreeAsync(given.first, the.a));
    if (the.is_wrong)
        use(the.whole, given, the.a);
}

/* The same block twice by one call: the first launch is certain, and the error is one. A compiler
 * that knew how often would make two calls of it. */
void animal_structure_given_twice(void)
{
    volatile int times = 2;
    use_many(LAUNCHES);
    structure given = {7, make(the.a), 0};
    wait_for(the.a, the.b);
    for (int i = 0; i < times; i++)
        use(the.whole, given, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(given.first, the.a));
}

/* One error that one call makes again and again: once it is certain it is another finding. */
void animal_structure_given_in_turn(void)
{
    volatile int times = LAUNCHES + 1;
    for (int i = 0; i < times; i++) {
        (void)make(the.a); /* has what was freed: the next one is where none has been */
        use_and_free_one();
    }
}

/* A certain use takes the place of a possible one before it. */
void animal_structure_and_parameter(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    use(the.whole, (structure){7, block, 0}, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* A graph is read when it is instantiated; if its node is changed afterwards, nobody reads that. */
static void structure_with_graph(int is_changed)
{
    CUdeviceptr block = make(the.a);
    (void)make(the.a);
    (void)exec_by_hand(block, is_changed);
    use_many(LAUNCHES);
    use_and_free_one();
}

void animal_structure_and_graph(void)
{
    structure_with_graph(0);
}

void animal_structure_and_changed_graph(void)
{
    structure_with_graph(1);
}

/* One launch too few. */
void animal_structure_early(void)
{
    use_many(LAUNCHES - 1);
    use_and_free_one();
}

/* An array of which a part is filled: what is left over may be what the kernel does not read. */
void animal_structure_left_over(void)
{
    structure given = {2, 0, 0};
    for (int i = 0; i < LAUNCHES; i++) {
        given.first = make(the.a);
        (void)make(the.a);
        given.second = make(the.a);
        (void)make(the.a);
        wait_for(the.a, the.b);
        use(the.whole, given, the.b);
    }
    wait_for(the.b, the.a);
    given.number = 1;
    given.first = make(the.a);
    use_and_free(given, given.second);
}

/* The same of a structure that another kernel was given. */
void animal_structure_shared(void)
{
    use_many(LAUNCHES);
    structure given = {7, make(the.a), 0};
    use(the.twin, given, the.a);
    use_and_free(given, given.first);
}

/* The same of one that was given up: what its words hold is remembered nevertheless. */
void animal_structure_of_a_list(void)
{
    use(the.twin, (structure){7, 0, 0}, the.a);
    use(the.twin, (structure){7, make(the.a), 0}, the.a);
    (void)make(the.a);
    animal_structure_shared();
}

/* Another parameter is a list, filled in part, and has the address, too. */
void animal_structure_beside_a_list(void)
{
    for (int i = 0; i <= LAUNCHES; i++) {
        structure given = {7, make(the.a), 0};
        (void)make(the.a);
        CUdeviceptr listed[4] = {i < LAUNCHES ? make(the.a) : given.first};
        (void)make(the.a);
        if (i % 2 == 0)
            listed[1] = make(the.a);
        wait_for(the.a, the.b);
        void *params[] = {listed, &given};
        MUST(cuLaunchKernel(the.beside, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
        if (i < LAUNCHES)
            continue;
        if (!the.is_wrong)
            wait_for(the.b, the.a);
        MUST(cuMemFreeAsync(given.first, the.a));
    }
}

/* It was null once. */
void animal_structure_null(void)
{
    use_many(LAUNCHES);
    use(the.whole, (structure){7, 0, 0}, the.b);
    use_many(LAUNCHES);
    use_and_free_one();
}

/* Another word was null, all along but now: the structure is one that is filled in part. */
void animal_structure_filled_in_part(void)
{
    use_many(LAUNCHES);
    CUdeviceptr block = make(the.a);
    (void)make(the.a);
    use_and_free((structure){7, block, make(the.a)}, block);
}

/* Always the same work space, which no launch shows to be read, and another at last. */
void animal_structure_constant(void)
{
    structure given = {7, make(the.a), 0};
    for (int i = 0; i < 2 * LAUNCHES; i++)
        use(the.whole, given, the.a);
    (void)make(the.a);
    use_and_free_one();
}

/* The second word is where a range ends, and another block begins. */
void animal_structure_range(void)
{
    CUdeviceptr end = 0;
    for (int i = 0; i <= LAUNCHES; i++) {
        CUdeviceptr begin = make(the.a);
        end = make(the.a);
        if (end != begin + BYTES)
            exit(1);
        wait_for(the.a, the.b);
        use(the.whole, (structure){7, begin, end}, the.b);
    }
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(end, the.a));
}

/* What was known of the kernel is forgotten with any module. */
void animal_structure_unloaded(void)
{
    CUmodule module;
    use_many(LAUNCHES);
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleUnload(module));
    use_and_free_one();
}

/* A captured launch was read before the graph is. */
void animal_structure_captured(void)
{
    CUgraph graph;
    CUgraphExec exec;
    use_many(LAUNCHES);
    structure given = {7, make(the.a), 0};
    wait_for(the.a, the.b);
    MUST(cuStreamBeginCapture(the.b, CU_STREAM_CAPTURE_MODE_RELAXED));
    use(the.whole, given, the.b);
    MUST(cuStreamEndCapture(the.b, &graph));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.b));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(given.first, the.a));
}

/* A launch that was wrong itself, if it reads the word, ends it. */
void animal_structure_dead_before(void)
{
    animal_structure_given_after_free();
    use_many(LAUNCHES);
    use_and_free_one();
}

/* The memory that a launch was given is freed, and given to a launch again as another block. */
void animal_structure_reused(void)
{
    CUdeviceptr first = 0;
    for (int i = 0; i < 2; i++) {
        structure given = {7, make(the.a), 0};
        if (i > 0 && given.first != first)
            exit(1);
        first = given.first;
        wait_for(the.a, the.b);
        use(the.whole, given, the.b);
        if (i == 0 || !the.is_wrong)
            wait_for(the.b, the.a);
        MUST(cuMemFreeAsync(first, the.a));
    }
}

/* ---- large ones ----------------------------------------------------------------------------- */

typedef struct large {
    CUdeviceptr words[LARGE_WORDS];
} large;

static void use_large(CUfunction kernel, large *given, unsigned word, CUstream stream)
{
    void *params[] = {given, &word};
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* The address at one word, and at all others what begins like it and leads nowhere: where powers of
 * two end, far behind all blocks. */
static large large_of_likes(CUdeviceptr block, unsigned word)
{
    large given;
    for (unsigned i = 0; i < LARGE_WORDS; i++)
        given.words[i] = i == word ? block : block | (((CUdeviceptr)1 << (28 + i % 19)) - 1);
    return given;
}

/* The address is at each word once. At every third launch, and so at each place among 16 words, the
 * others are like it. */
void animal_structure_large(void)
{
    for (unsigned word = 0; word < LARGE_WORDS; word++) {
        large given = {{0}};
        CUdeviceptr block = make(the.a);
        if (word % 3 == 0)
            given = large_of_likes(block, word);
        given.words[word] = block;
        wait_for(the.a, the.b);
        use_large(the.large, &given, word, the.b);
        if (!the.is_wrong)
            wait_for(the.b, the.a);
        MUST(cuMemFreeAsync(block, the.a));
    }
}

/* It is always at the same word, in the middle. */
void animal_structure_large_given(void)
{
    large given = {{0}};
    for (int i = 0; i <= LAUNCHES; i++) {
        given.words[MIDDLE] = make(the.a);
        (void)make(the.a); /* as in use_many */
        wait_for(the.a, the.b);
        use_large(the.large, &given, MIDDLE, the.b);
    }
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(given.words[MIDDLE], the.a));
}

/* A block of the current device, which another stream of the device's uses. */
static void use_large_there(void)
{
    large given = {{0}};
    CUmodule module;
    CUfunction kernel;
    CUstream own, other;
    CUevent event;
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&kernel, module, "large"));
    MUST(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    given.words[MIDDLE] = make(own);
    MUST(cuStreamSynchronize(own));
    use_large(kernel, &given, MIDDLE, other);
    MUST(cuEventRecord(event, other));
    if (!the.is_wrong)
        MUST(cuStreamWaitEvent(own, event, 0));
    MUST(cuMemFreeAsync(given.words[MIDDLE], own));
    MUST(cuCtxSynchronize());
}

/* The addresses of two devices have less in common than those of one: it may be no more than zeros
 * have with them. */
void animal_structure_large_of_devices(void)
{
    CUdevice device;
    CUcontext contexts[2] = {the.context, NULL};
    MUST(cuDeviceGet(&device, 1));
    MUST(cuDevicePrimaryCtxRetain(&contexts[1], device));
    for (int i = 0; i < 4; i++) { /* the second time Tenure has both */
        MUST(cuCtxSetCurrent(contexts[i % 2]));
        use_large_there();
    }
    MUST(cuCtxSetCurrent(the.context));
}

/* ---- what a kernel leaves unread ------------------------------------------------------------ */

/* As cuSOLVER does: the third word has the address of work space that was given back before the
 * launch. The program's next block gets the memory, and the kernel does not look there. `behind`:
 * the address lies inside of the work space, of which the block gets a part. */
static void structure_stale(size_t behind)
{
    CUdeviceptr block = 0;
    for (int i = 0; i <= LAUNCHES; i++) {
        CUdeviceptr space, first = make(the.a);
        (void)make(the.a);
        MUST(cuMemAllocAsync(&space, behind + BYTES, the.a));
        MUST(cuMemFreeAsync(space, the.a));
        if (behind > 0 && make(the.a) != space)
            exit(1);
        block = make(the.a);
        if (block < space + behind || block >= space + behind + BYTES)
            exit(1);
        wait_for(the.a, the.b);
        use(the.whole, (structure){7, first, block}, the.b);
    }
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_structure_stale(void)
{
    structure_stale(0);
}

void animal_structure_stale_inside(void)
{
    structure_stale(BYTES);
}

/* The first word is how many items there are: none at last. */
void animal_structure_no_items(void)
{
    use_many(LAUNCHES);
    CUdeviceptr block = make(the.a);
    use_and_free((structure){0, block, 0}, block);
}

/* An array of pointers, each of them another at each launch. */
void animal_structure_pointers(void)
{
    structure given;
    for (int i = 0; i <= LAUNCHES; i++) {
        for (CUdeviceptr *one = &given.number; one <= &given.second; one++) {
            *one = make(the.a);
            (void)make(the.a);
        }
        wait_for(the.a, the.b);
        use(the.whole, given, the.b);
    }
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(given.first, the.a));
}
