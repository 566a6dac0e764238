/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that describe code: what a module has in it, by name, for programs whose code is not run.
 *
 * A kernel of such an image that is not registered does nothing when it is launched. It counts as
 * a read of what its pointer parameters lead to, one byte each, so that freeing such memory too
 * early, or writing to it meanwhile, is seen. Which of them it writes to is not known.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static struct sim_kernel *unknown_kernels; /* kept until the process ends: launches refer to them */

static void kernel_nothing(void *const *params)
{
    (void)params;
}

int sim_image_is(const void *image)
{
    return strncmp(image, SIMCUDA_IMAGE_MAGIC, sizeof(SIMCUDA_IMAGE_MAGIC)) == 0;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static int kernel_fits(const struct sim_kernel *kernel, const simcuda_image_kernel *wanted)
{
    if (strcmp(kernel->name, wanted->name) != 0 || kernel->param_count != wanted->param_count)
        return 0;
    for (size_t i = 0; i < wanted->param_count; i++)
        if (kernel->param_bytes[i] != wanted->param_bytes[i] ||
            kernel->param_offset[i] != wanted->param_offset[i])
            return 0;
    return 1;
}

static void kernel_lay_out(struct sim_kernel *kernel, const simcuda_image_kernel *wanted)
{
    kernel->packed_bytes = 0;
    for (size_t i = 0; i < wanted->param_count; i++) {
        kernel->param_offset[i] = wanted->param_offset[i];
        size_t end = wanted->param_offset[i] + wanted->param_bytes[i];
        kernel->packed_bytes = end > kernel->packed_bytes ? end : kernel->packed_bytes;
    }
}

/* The kernel as the image describes it; null when memory is short. */
static const struct sim_kernel *kernel_unknown(const simcuda_image_kernel *wanted)
{
    for (struct sim_kernel *kernel = unknown_kernels; kernel != NULL; kernel = kernel->next)
        if (kernel_fits(kernel, wanted))
            return kernel;
    struct sim_kernel *kernel =
        sim_kernel_new(wanted->name, wanted->param_count, wanted->param_bytes);
    if (kernel == NULL)
        return NULL;
    kernel_lay_out(kernel, wanted);
    kernel->run = kernel_nothing;
    kernel->is_unknown = 1;
    kernel->next = unknown_kernels;
    unknown_kernels = kernel;
    return kernel;
}

const struct sim_kernel *sim_image_kernel(const struct sim_module *module, const char *name)
{
    for (size_t i = 0; i < module->kernel_count; i++)
        if (strcmp(module->kernels[i]->name, name) == 0)
            return module->kernels[i];
    return NULL;
}

/* ---- what an unknown kernel touches --------------------------------------------------------- */

/* The address that a parameter holds, and the memory it leads to; null if it leads to none. */
static const struct sim_region *pointer_read(const struct sim_launch *launch, size_t index,
                                             CUdeviceptr *address)
{
    void *const *parameters = (void *const *)(void *)launch->storage;
    CUdeviceptr where = 0;
    if (launch->kernel->param_bytes[index] != sizeof(*address))
        return NULL;
    memcpy(address, parameters[index], sizeof(*address));
    if (*address == 0 || sim_reach(sim_current(), *address, 1, 0, &where) != SIM_REACH_OK)
        return NULL;
    return sim_region_find(*address);
}

/* 1 if an earlier parameter leads to the same region, to a lower address: this one may be the end
 * of the range that begins there, which is not touched. */
static int may_be_end(const struct sim_launch *launch, size_t index,
                      const struct sim_region *region, CUdeviceptr address)
{
    for (size_t i = 0; i < index; i++) {
        CUdeviceptr begin = 0;
        if (pointer_read(launch, i, &begin) == region && begin < address)
            return 1;
    }
    return 0;
}

size_t sim_image_accesses(const struct sim_launch *launch, simcuda_access *out, size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < launch->kernel->param_count; i++) {
        CUdeviceptr address = 0;
        const struct sim_region *region = pointer_read(launch, i, &address);
        if (region == NULL || may_be_end(launch, i, region, address))
            continue;
        if (count < capacity)
            out[count] = (simcuda_access){.address = address, .bytes = 1, .is_write = 0};
        count++;
    }
    return count;
}

/* ---- variables ------------------------------------------------------------------------------ */

static CUresult variables_make(struct sim_module *module, const simcuda_image *image)
{
    module->variables = calloc(image->variable_count + 1, sizeof(*module->variables));
    if (module->variables == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < image->variable_count; i++) {
        const simcuda_image_variable *from = &image->variables[i];
        struct sim_variable *variable = &module->variables[i];
        variable->name = strdup(from->name);
        CUresult result = variable->name == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                                                 : sim_block_alloc(&variable->address, from->bytes);
        if (result != CUDA_SUCCESS) {
            free(variable->name);
            return result;
        }
        module->variable_count = i + 1;
        variable->bytes = from->bytes;
        variable->buffer_id = sim_region_find(variable->address)->buffer_id;
        void *memory = (void *)(uintptr_t)variable->address;
        if (from->contents != NULL)
            memcpy(memory, from->contents, from->bytes);
        else
            memset(memory, 0, from->bytes);
    }
    return CUDA_SUCCESS;
}

CUresult sim_image_load(struct sim_module *module, const void *from)
{
    const simcuda_image *image = from;
    module->kernels = calloc(image->kernel_count + 1, sizeof(*module->kernels));
    if (module->kernels == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < image->kernel_count; i++) {
        module->kernels[i] = kernel_unknown(&image->kernels[i]);
        if (module->kernels[i] == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        module->kernel_count = i + 1;
    }
    return variables_make(module, image);
}

/* The end of its context has freed the variables already; their addresses may be another's. */
void sim_image_end(struct sim_module *module)
{
    for (size_t i = 0; i < module->variable_count; i++) {
        struct sim_region *region = sim_region_find(module->variables[i].address);
        if (region != NULL && region->buffer_id == module->variables[i].buffer_id)
            sim_block_free(region);
        free(module->variables[i].name);
    }
    free(module->variables);
    free(module->kernels);
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
                                      const char *name)
{
    SIM_ENTER(cuModuleGetGlobal_v2, SIM_NEEDS_CLEAN);
    const struct sim_module *module = sim_slot_get(hmod, SIM_MODULE, "module");
    if (module == NULL)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (name == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < module->variable_count; i++) {
        const struct sim_variable *variable = &module->variables[i];
        if (strcmp(variable->name, name) != 0)
            continue;
        if (dptr != NULL)
            *dptr = variable->address;
        if (bytes != NULL)
            *bytes = variable->bytes;
        return sim_leave(CUDA_SUCCESS);
    }
    return sim_leave(CUDA_ERROR_NOT_FOUND);
}
