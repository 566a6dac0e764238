/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: host functions registered under a name, modules that find them, and launches.
 *
 * No device code is run. A launch copies its parameters at the call, in either of the driver's two
 * forms, asks the kernel what it will touch, and queues an operation.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS_PER_BLOCK = 1024 };

static struct sim_kernel *kernels; /* newest first; kept until the process ends */

/* ---- registration --------------------------------------------------------------------------- */

/* A parameter is aligned as C would align a type of its size made of equal parts. */
static size_t parameter_alignment(size_t bytes)
{
    size_t alignment = bytes & (~bytes + 1);
    return alignment > 16 ? 16 : alignment;
}

struct sim_kernel *sim_kernel_new(const char *name, size_t count, const size_t *bytes)
{
    struct sim_kernel *kernel = calloc(1, sizeof(*kernel));
    if (kernel == NULL)
        return NULL;
    kernel->name = strdup(name);
    kernel->param_count = count;
    kernel->param_bytes = calloc(count + 1, sizeof(*kernel->param_bytes));
    kernel->param_offset = calloc(count + 1, sizeof(*kernel->param_offset));
    if (kernel->name == NULL || kernel->param_bytes == NULL || kernel->param_offset == NULL) {
        free(kernel->name);
        free(kernel->param_bytes);
        free(kernel->param_offset);
        free(kernel);
        return NULL;
    }
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        size_t alignment = parameter_alignment(bytes[i]);
        offset = (offset + alignment - 1) / alignment * alignment;
        kernel->param_bytes[i] = bytes[i];
        kernel->param_offset[i] = offset;
        offset += bytes[i];
    }
    kernel->packed_bytes = offset;
    return kernel;
}

int simcuda_kernel_register(const char *name, size_t param_count, const size_t *param_bytes,
                            simcuda_kernel_run run, simcuda_kernel_accesses accesses)
{
    if (name == NULL || run == NULL || (param_count != 0 && param_bytes == NULL))
        return -1;
    for (size_t i = 0; i < param_count; i++)
        if (param_bytes[i] == 0)
            return -1;
    struct sim_kernel *kernel = sim_kernel_new(name, param_count, param_bytes);
    if (kernel == NULL)
        return -1;
    kernel->run = run;
    kernel->accesses = accesses;
    sim_lock();
    kernel->next = kernels;
    kernels = kernel;
    sim_unlock();
    return 0;
}

int simcuda_kernel_known(const char *name, size_t param_count, const size_t *param_bytes)
{
    sim_lock();
    const struct sim_kernel *kernel = kernels;
    while (kernel != NULL && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    int known = kernel != NULL;
    if (known && kernel->param_count != param_count)
        known = -1;
    for (size_t i = 0; known == 1 && i < param_count; i++)
        if (kernel->param_bytes[i] != param_bytes[i])
            known = -1;
    sim_unlock();
    return known;
}

/* ---- modules -------------------------------------------------------------------------------- */

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
    SIM_ENTER(cuModuleLoadData, SIM_NEEDS_CLEAN);
    if (module == NULL || image == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    struct sim_module *loaded = calloc(1, sizeof(*loaded));
    struct sim_slot *slot = loaded == NULL ? NULL : sim_slot_new(SIM_MODULE, loaded);
    if (slot == NULL || !sim_overhead_take(sim_current()->device, SIM_OVERHEAD_MODULE)) {
        if (slot != NULL)
            sim_slot_free(slot);
        free(loaded);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    loaded->slot = slot;
    loaded->context = sim_current();
    CUresult result = sim_image_is(image) ? sim_image_load(loaded, image) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        sim_module_end(loaded);
    else
        *module = (CUmodule)slot;
    return sim_leave(result);
}

void sim_module_end(struct sim_module *module)
{
    while (module->functions != NULL) {
        struct sim_function *function = module->functions;
        module->functions = function->next;
        if (function->is_loaded)
            sim_overhead_give(module->context->device, SIM_OVERHEAD_LAUNCH);
        sim_slot_free(function->slot);
        free(function);
    }
    sim_overhead_give(module->context->device, SIM_OVERHEAD_MODULE);
    sim_image_end(module);
    sim_slot_free(module->slot);
    free(module);
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod)
{
    SIM_ENTER(cuModuleUnload, SIM_NEEDS_CONTEXT);
    struct sim_module *module = sim_slot_get(hmod, SIM_MODULE, "module");
    CUresult result = module == NULL ? CUDA_ERROR_INVALID_HANDLE : sim_capture_unsafe();
    if (result == CUDA_SUCCESS)
        sim_module_end(module);
    return sim_leave(result);
}

/* The same name gives the same handle, as long as the module is loaded. */
static CUresult function_get(struct sim_module *module, const char *name, CUfunction *out)
{
    for (struct sim_function *function = module->functions; function != NULL;
         function = function->next) {
        if (strcmp(function->kernel->name, name) == 0) {
            *out = (CUfunction)function->slot;
            return CUDA_SUCCESS;
        }
    }
    const struct sim_kernel *kernel = kernels;
    while (kernel != NULL && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    if (kernel == NULL)
        kernel = sim_image_kernel(module, name);
    if (kernel == NULL)
        return CUDA_ERROR_NOT_FOUND;
    struct sim_function *function = calloc(1, sizeof(*function));
    struct sim_slot *slot = function == NULL ? NULL : sim_slot_new(SIM_FUNCTION, function);
    if (slot == NULL) {
        free(function);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    function->slot = slot;
    function->context = module->context;
    function->kernel = kernel;
    function->next = module->functions;
    module->functions = function;
    *out = (CUfunction)slot;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    SIM_ENTER(cuModuleGetFunction, SIM_NEEDS_CLEAN);
    struct sim_module *module = sim_slot_get(hmod, SIM_MODULE, "module");
    if (hfunc == NULL || name == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(module == NULL ? CUDA_ERROR_INVALID_HANDLE
                                    : function_get(module, name, hfunc));
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                                    size_t *paramSize)
{
    SIM_ENTER(cuFuncGetParamInfo, SIM_NEEDS_CONTEXT);
    const struct sim_function *function = sim_slot_get(func, SIM_FUNCTION, "function");
    if (function == NULL)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (paramOffset == NULL || paramIndex >= function->kernel->param_count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *paramOffset = function->kernel->param_offset[paramIndex];
    if (paramSize != NULL)
        *paramSize = function->kernel->param_bytes[paramIndex];
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction hfunc)
{
    SIM_ENTER(cuFuncGetName, SIM_NEEDS_CONTEXT);
    const struct sim_function *function = sim_slot_get(hfunc, SIM_FUNCTION, "function");
    if (name == NULL || function == NULL)
        return sim_leave(name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    *name = function->kernel->name;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- launches ------------------------------------------------------------------------------- */

/* The packed buffer that `extra` describes; 0 if it is not a valid description. */
static int extra_parse(void *const *extra, const unsigned char **buffer, size_t *bytes)
{
    *buffer = NULL;
    *bytes = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            memcpy(bytes, extra[i + 1], sizeof(*bytes));
        else
            return 0;
    return *buffer != NULL || *bytes == 0;
}

/* Storage: pointers to parameters, then the parameters in their packed form. */
static struct sim_launch *launch_new(const struct sim_kernel *kernel, const struct sim_call *call,
                                     size_t packed_bytes)
{
    size_t header = (kernel->param_count * sizeof(void *) + 15) & ~(size_t)15;
    struct sim_launch *launch = sim_launch_new(header + packed_bytes);
    if (launch == NULL)
        return NULL;
    void **pointers = (void **)(void *)launch->storage;
    unsigned char *bytes = (unsigned char *)launch->storage + header;
    for (size_t i = 0; i < kernel->param_count; i++)
        pointers[i] = bytes + kernel->param_offset[i];
    launch->kernel = kernel;
    launch->packed_bytes = packed_bytes;
    launch->call = *call;
    launch->call.parameters = NULL;
    launch->call.extra = NULL;
    void *const extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &launch->packed_bytes,
                           CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_END};
    memcpy(launch->extra, extra, sizeof(extra));
    if (call->extra != NULL)
        launch->call.extra = launch->extra;
    else if (call->parameters != NULL)
        launch->call.parameters = pointers;
    return launch;
}

static struct sim_launch *launch_pack(const struct sim_kernel *kernel, const struct sim_call *call,
                                      const unsigned char *packed, size_t packed_bytes)
{
    int described = packed != NULL;
    struct sim_launch *launch =
        launch_new(kernel, call, described ? packed_bytes : kernel->packed_bytes);
    if (launch == NULL)
        return NULL;
    if (described) {
        memcpy(launch->extra[3], packed, packed_bytes);
        return launch;
    }
    void *const *pointers = (void *const *)(void *)launch->storage;
    for (size_t i = 0; i < kernel->param_count; i++)
        memcpy(pointers[i], call->parameters[i], kernel->param_bytes[i]);
    return launch;
}

/* The same launch once more, without accesses. */
struct sim_launch *sim_kernel_copy(const struct sim_launch *launch)
{
    struct sim_launch *copy = launch_new(launch->kernel, &launch->call, launch->packed_bytes);
    if (copy != NULL)
        memcpy(copy->extra[3], launch->extra[3], launch->packed_bytes);
    return copy;
}

static size_t kernel_accesses(const struct sim_launch *launch, simcuda_access *out, size_t room)
{
    void *const *parameters = (void *const *)(void *)launch->storage;
    return launch->kernel->is_unknown ? sim_image_accesses(launch, out, room)
                                      : launch->kernel->accesses(parameters, out, room);
}

/* Asks the kernel what it will touch; the list grows until it fits. 0 when memory is short. */
int sim_kernel_ask(struct sim_launch *launch)
{
    simcuda_access answer[16];
    simcuda_access *list = answer;
    size_t room = sizeof(answer) / sizeof(answer[0]);
    if (launch->kernel->accesses == NULL && !launch->kernel->is_unknown)
        return 1;
    size_t count = kernel_accesses(launch, list, room);
    while (count > room) {
        free(list == answer ? NULL : list);
        room = count;
        list = calloc(room, sizeof(*list));
        if (list == NULL)
            return 0;
        count = kernel_accesses(launch, list, room);
    }
    int fits = count <= sizeof(launch->few) / sizeof(launch->few[0]);
    launch->access = fits ? launch->few : calloc(count, sizeof(*launch->access));
    int good = launch->access != NULL;
    for (size_t i = 0; good && i < count; i++)
        launch->access[i] =
            (struct sim_access){list[i].address, list[i].bytes, list[i].is_write != 0};
    launch->access_count = good ? count : 0;
    free(list == answer ? NULL : list);
    return good;
}

static int shape_valid(const struct sim_call *call)
{
    const unsigned *grid = call->grid;
    const unsigned *block = call->block;
    return grid[0] != 0 && grid[1] != 0 && grid[2] != 0 && block[0] != 0 && block[1] != 0 &&
           block[2] != 0 && grid[0] <= 2147483647 && grid[1] <= 65535 && grid[2] <= 65535 &&
           block[0] <= MAX_THREADS_PER_BLOCK && block[1] <= MAX_THREADS_PER_BLOCK &&
           block[2] <= 64 && (uint64_t)block[0] * block[1] * block[2] <= MAX_THREADS_PER_BLOCK;
}

/* A launch as an operation that is not queued yet and does not know its accesses. */
CUresult sim_kernel_op(const struct sim_call *call, struct sim_op *op)
{
    struct sim_function *function = sim_slot_get(call->function, SIM_FUNCTION, "function");
    const unsigned char *packed = NULL;
    size_t packed_bytes = 0;
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct sim_kernel *kernel = function->kernel;
    if (!shape_valid(call) || (call->parameters != NULL && call->extra != NULL) ||
        (call->extra != NULL && !extra_parse(call->extra, &packed, &packed_bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel->param_count != 0 && call->parameters == NULL &&
        (packed == NULL || packed_bytes < kernel->packed_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!function->is_loaded && !sim_overhead_take(function->context->device, SIM_OVERHEAD_LAUNCH))
        return CUDA_ERROR_OUT_OF_MEMORY;
    function->is_loaded = 1;
    *op = (struct sim_op){.kind = SIM_OP_KERNEL};
    op->launch = launch_pack(kernel, call, packed, packed_bytes);
    return op->launch == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult launch_submit(const struct sim_call *call, CUstream handle)
{
    CUresult result = CUDA_SUCCESS;
    struct sim_op op;
    struct sim_stream *stream = sim_stream_get(handle, &result);
    if (stream == NULL)
        return result;
    result = sim_kernel_op(call, &op);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_kernel_ask(op.launch)) {
        sim_op_dispose(&op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (call->begun != NULL) {
        result = stream->capture != NULL ? CUDA_ERROR_NOT_SUPPORTED
                                         : sim_event_record(call->begun, handle, 0);
        if (result != CUDA_SUCCESS) {
            sim_op_dispose(&op);
            return result;
        }
    }
    return sim_submit(stream, &op);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                unsigned int gridDimZ, unsigned int blockDimX,
                                unsigned int blockDimY, unsigned int blockDimZ,
                                unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
                                void **extra)
{
    SIM_ENTER(cuLaunchKernel, SIM_NEEDS_CLEAN);
    const struct sim_call call = {.function = f,
                                  .grid = {gridDimX, gridDimY, gridDimZ},
                                  .block = {blockDimX, blockDimY, blockDimZ},
                                  .shared_bytes = sharedMemBytes,
                                  .parameters = kernelParams,
                                  .extra = extra};
    return sim_leave(launch_submit(&call, hStream));
}

/* Attributes that say how a kernel is placed mean nothing here. A launch that may begin early does
 * so in graphs alone: a driver is free not to make use of it. Events of kernels are over as the
 * kernel begins, which no driver does later, and are refused in captures. */
static void attributes_read(const CUlaunchConfig *config, struct sim_call *call)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        switch (config->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            call->is_programmatic = value->programmaticStreamSerializationAllowed != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            call->begun = value->programmaticEvent.event;
            break;
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            call->begun = value->launchCompletionEvent.event;
            break;
        default:
            break;
        }
    }
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                  void **extra)
{
    SIM_ENTER(cuLaunchKernelEx, SIM_NEEDS_CLEAN);
    if (config == NULL || (config->numAttrs != 0 && config->attrs == NULL))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    struct sim_call call = {.function = f,
                            .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                            .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                            .shared_bytes = config->sharedMemBytes,
                            .parameters = kernelParams,
                            .extra = extra};
    attributes_read(config, &call);
    return sim_leave(launch_submit(&call, config->hStream));
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    SIM_ENTER(cuLaunchHostFunc, SIM_NEEDS_CLEAN);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(hStream, &result);
    if (stream == NULL || fn == NULL)
        return sim_leave(stream == NULL ? result : CUDA_ERROR_INVALID_VALUE);
    struct sim_op op = {.kind = SIM_OP_HOST};
    op.host.function = fn;
    op.host.data = userData;
    return sim_leave(sim_submit(stream, &op));
}
