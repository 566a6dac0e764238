/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compiler registers before main: fat binaries, the functions that stand for kernels on
 * the host, and the variables of the device.
 *
 * A binary becomes a module of the driver's when something of it is first used in a context. The
 * module's image says which kernels and variables there are (tenure/simcuda.h). A kernel is then
 * looked up: what the program has registered for it by that time runs.
 *
 * The lock guards all lists. No call of the driver is made under it but loading and look-ups.
 */
#include "rt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum { BUCKETS = 1024 };

typedef struct loaded {
    unsigned long long context_id;
    int device;
    CUmodule module;
    struct loaded *next;
} loaded;

struct rt_binary {
    const void *fatbin;
    rt_code code;
    int is_read;
    loaded *modules;
    struct rt_binary *next;
};

typedef struct variable {
    const void *host; /* its shadow, or what points to a managed one */
    const char *name;
    size_t bytes;
    rt_binary *binary;
    int is_managed;
    struct variable *next;
} variable;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rt_binary *binaries;
static rt_kernel *kernels[BUCKETS]; /* by entry */
static variable *variables;

static rt_kernel **bucket_of(const void *entry)
{
    return &kernels[((uintptr_t)entry >> 4) % BUCKETS];
}

/* ---- registering ---------------------------------------------------------------------------- */

void **__cudaRegisterFatBinary(void *fatCubin)
{
    rt_binary *binary = calloc(1, sizeof(*binary));
    if (binary == NULL) {
        rt_say("no host memory for a program's code");
        abort();
    }
    const rt_fatbin_wrapper *one = fatCubin;
    if (one != NULL && one->magic == RT_WRAPPER_MAGIC)
        binary->fatbin = one->data;
    pthread_mutex_lock(&lock);
    binary->next = binaries;
    binaries = binary;
    pthread_mutex_unlock(&lock);
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
    (void)fatCubinHandle;
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize)
{
    (void)deviceFun, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
    rt_kernel *kernel = calloc(1, sizeof(*kernel));
    if (kernel == NULL) {
        rt_say("no host memory for the kernel %s", deviceName);
        abort();
    }
    kernel->entry = hostFun;
    kernel->name = deviceName;
    kernel->binary = (rt_binary *)fatCubinHandle;
    kernel->carveout = -1;
    pthread_mutex_lock(&lock);
    rt_kernel **bucket = bucket_of(hostFun);
    kernel->next = *bucket;
    *bucket = kernel;
    pthread_mutex_unlock(&lock);
}

static void variable_register(void **binary, const void *host, const char *name, size_t bytes,
                              int is_managed)
{
    variable *one = calloc(1, sizeof(*one));
    if (one == NULL) {
        rt_say("no host memory for the variable %s", name);
        abort();
    }
    *one = (variable){host, name, bytes, (rt_binary *)binary, is_managed, NULL};
    pthread_mutex_lock(&lock);
    one->next = variables;
    variables = one;
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                       const char *deviceName, int ext, size_t size, int constant, int global)
{
    (void)deviceAddress, (void)ext, (void)constant, (void)global;
    variable_register(fatCubinHandle, hostVar, deviceName, size, 0);
}

void __cudaRegisterHostVar(void **fatCubinHandle, const char *deviceName, char *hostVar,
                           size_t size)
{
    variable_register(fatCubinHandle, hostVar, deviceName, size, 0);
}

void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global)
{
    (void)deviceAddress, (void)ext, (void)constant, (void)global;
    variable_register(fatCubinHandle, hostVarPtrAddress, deviceName, size, 1);
}

/* ---- modules -------------------------------------------------------------------------------- */

static void code_read(rt_binary *binary)
{
    if (binary->is_read)
        return;
    binary->is_read = 1;
    if (!rt_fatbin_read(binary->fatbin, &binary->code))
        rt_say("no host memory for a program's code");
}

const rt_code *rt_binary_code(rt_binary *binary)
{
    pthread_mutex_lock(&lock);
    code_read(binary);
    pthread_mutex_unlock(&lock);
    return &binary->code;
}

static CUresult image_load(const rt_code *code, CUmodule *module)
{
    simcuda_image_kernel *described = calloc(code->kernel_count + 1, sizeof(*described));
    simcuda_image_variable *memory = calloc(code->variable_count + 1, sizeof(*memory));
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (described != NULL && memory != NULL) {
        for (size_t i = 0; i < code->kernel_count; i++)
            described[i] =
                (simcuda_image_kernel){code->kernels[i].name, code->kernels[i].param_count,
                                       code->kernels[i].param_bytes, code->kernels[i].param_offset};
        for (size_t i = 0; i < code->variable_count; i++)
            memory[i] = (simcuda_image_variable){code->variables[i].name, code->variables[i].bytes,
                                                 code->variables[i].contents};
        const simcuda_image image = {SIMCUDA_IMAGE_MAGIC, described, code->kernel_count, memory,
                                     code->variable_count};
        result = rt.cuModuleLoadData(module, &image);
    }
    free(described);
    free(memory);
    return result;
}

/* The binary's module in the current context, which has this number. Under the lock. */
static CUresult module_get(rt_binary *binary, unsigned long long context_id, CUmodule *module)
{
    for (const loaded *one = binary->modules; one != NULL; one = one->next)
        if (one->context_id == context_id) {
            *module = one->module;
            return CUDA_SUCCESS;
        }
    loaded *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    code_read(binary);
    CUresult result = image_load(&binary->code, &made->module);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    made->context_id = context_id;
    made->device = rt_device();
    made->next = binary->modules;
    binary->modules = made;
    *module = made->module;
    return CUDA_SUCCESS;
}

/* Modules of contexts that are over went with them. */
static void module_unload(const loaded *one)
{
    CUcontext context = NULL;
    unsigned flags = 0;
    unsigned long long id = 0;
    int is_active = 0;
    if (rt.cuDevicePrimaryCtxGetState(one->device, &flags, &is_active) != CUDA_SUCCESS ||
        !is_active || rt_primary(one->device, &context) != CUDA_SUCCESS)
        return;
    if (rt.cuCtxGetId(context, &id) != CUDA_SUCCESS || id != one->context_id ||
        rt.cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return;
    (void)rt.cuModuleUnload(one->module);
    (void)rt.cuCtxPopCurrent(&context);
}

static void kernels_forget(const rt_binary *binary)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (rt_kernel **at = &kernels[i]; *at != NULL;) {
            rt_kernel *kernel = *at;
            if (kernel->binary != binary) {
                at = &kernel->next;
                continue;
            }
            *at = kernel->next;
            free(kernel);
        }
    for (variable **at = &variables; *at != NULL;) {
        variable *one = *at;
        if (one->binary != binary) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
}

void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
    rt_binary *binary = (rt_binary *)fatCubinHandle;
    pthread_mutex_lock(&lock);
    rt_binary **at = &binaries;
    while (*at != NULL && *at != binary)
        at = &(*at)->next;
    if (*at != NULL) {
        *at = binary->next;
        kernels_forget(binary);
    }
    pthread_mutex_unlock(&lock);
    while (binary->modules != NULL) {
        loaded *one = binary->modules;
        binary->modules = one->next;
        module_unload(one);
        free(one);
    }
    rt_code_free(&binary->code);
    free(binary);
}

static cudaError_t context_number(unsigned long long *id)
{
    CUcontext context = NULL;
    CUresult result = rt.cuCtxGetCurrent(&context);
    return rt_end(result == CUDA_SUCCESS ? rt.cuCtxGetId(context, id) : result);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Handles of functions are used again once their context is over: only those of the current one
 * count. */
rt_kernel *rt_kernel_of(CUfunction function)
{
    unsigned long long id = 0;
    CUcontext context = NULL;
    if (rt.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == NULL ||
        rt.cuCtxGetId(context, &id) != CUDA_SUCCESS)
        return NULL;
    rt_kernel *found = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; found == NULL && i < BUCKETS; i++)
        for (rt_kernel *one = kernels[i]; one != NULL; one = one->next)
            if (one->function == function && one->context_id == id)
                found = one;
    pthread_mutex_unlock(&lock);
    return found;
}

/* What is given as a kernel may be its entry, a handle of it, or a function of the driver's. */
rt_kernel *rt_kernel_find(const void *entry)
{
    pthread_mutex_lock(&lock);
    rt_kernel *kernel = *bucket_of(entry);
    while (kernel != NULL && kernel->entry != entry)
        kernel = kernel->next;
    for (size_t i = 0; kernel == NULL && i < BUCKETS; i++)
        for (rt_kernel *one = kernels[i]; one != NULL; one = one->next)
            if (one == entry)
                kernel = one;
    pthread_mutex_unlock(&lock);
    return kernel != NULL || entry == NULL ? kernel : rt_kernel_of((CUfunction)(uintptr_t)entry);
}

const rt_code_kernel *rt_kernel_code(rt_kernel *kernel)
{
    pthread_mutex_lock(&lock);
    code_read(kernel->binary);
    const rt_code *code = &kernel->binary->code;
    for (size_t i = 0; !kernel->is_looked_up && i < code->kernel_count; i++)
        if (strcmp(code->kernels[i].name, kernel->name) == 0) {
            kernel->code = &code->kernels[i];
            break;
        }
    kernel->is_looked_up = 1;
    const rt_code_kernel *found = kernel->code;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The name as it stands in the source: of a function in no class and of no template, so that no
 * other kernel has it. 0: there is none such. */
static int name_plain(const char *mangled, char *plain, size_t room)
{
    int length = 0, digits = 0;
    if (strncmp(mangled, "_Z", 2) != 0 || sscanf(mangled + 2, "%d%n", &length, &digits) != 1 ||
        length <= 0 || (size_t)length >= room)
        return 0;
    const char *from = mangled + 2 + digits;
    if (strlen(from) <= (size_t)length || from[length] == 'I')
        return 0;
    memcpy(plain, from, (size_t)length);
    plain[length] = '\0';
    return 1;
}

/* The name under which the driver finds the kernel: what runs for it on the host, else what the
 * image says of it. Null after a sentence. */
static const char *name_choose(const rt_kernel *kernel, const rt_code_kernel *code, char *plain,
                               size_t room)
{
    const char *names[] = {kernel->name, name_plain(kernel->name, plain, room) ? plain : NULL};
    size_t count = code == NULL ? 0 : code->param_count;
    for (size_t i = 0; i < 2; i++) {
        int known = names[i] == NULL
                        ? 0
                        : rt.kernel_known(names[i], count, code ? code->param_bytes : NULL);
        if (known == 1 || (known != 0 && code == NULL))
            return names[i];
        if (known == 0)
            continue;
        rt_say("the host version of the kernel %s is registered with other parameters than the "
               "%zu that the kernel has: their number or their sizes differ",
               kernel->name, count);
        return NULL;
    }
    const char *wanted = getenv("TENURE_SIM_KERNELS");
    if (code == NULL)
        rt_say("the kernel %s has no machine code that can be read here, so its parameters are not "
               "known: build it for an architecture (-arch=sm_90) and without compression "
               "(-no-compress), or register a host version of it",
               kernel->name);
    else if (wanted != NULL && strcmp(wanted, "known") == 0)
        rt_say("the kernel %s has no host version, and TENURE_SIM_KERNELS=known makes that an "
               "error: register one (tenure/simcuda_kernel.h)",
               kernel->name);
    else
        return kernel->name;
    return NULL;
}

static void launches_say(const rt_kernel *kernel, const rt_code_kernel *code)
{
    static int was_said; /* under the lock */
    if (code == NULL || !code->launches || was_said)
        return;
    was_said = 1;
    rt_say("the kernel %s, or one beside it, launches kernels from the device: no device code "
           "runs here, so what those would use is not seen",
           kernel->name);
}

cudaError_t rt_kernel_function(rt_kernel *kernel, CUfunction *function)
{
    enum { NAME_MAX_BYTES = 512 };
    char plain[NAME_MAX_BYTES];
    unsigned long long id = 0;
    CUmodule module = NULL;
    cudaError_t error = context_number(&id);
    if (error != cudaSuccess)
        return error;
    const rt_code_kernel *code = rt_kernel_code(kernel);
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_SUCCESS;
    if (kernel->function == NULL || kernel->context_id != id) {
        const char *name = name_choose(kernel, code, plain, sizeof(plain));
        launches_say(kernel, code);
        result = module_get(kernel->binary, id, &module);
        if (name == NULL)
            error = code == NULL ? cudaErrorNoKernelImageForDevice : cudaErrorInvalidDeviceFunction;
        else if (result == CUDA_SUCCESS)
            result = rt.cuModuleGetFunction(&kernel->function, module, name);
        if (name != NULL && result == CUDA_SUCCESS)
            kernel->context_id = id;
    }
    *function = kernel->function;
    pthread_mutex_unlock(&lock);
    return error != cudaSuccess ? rt_fail(error) : rt_end(result);
}

cudaError_t rt_function(const void *entry, CUfunction *function)
{
    rt_kernel *kernel = rt_kernel_find(entry);
    if (kernel == NULL)
        return rt_fail(cudaErrorInvalidDeviceFunction);
    return rt_kernel_function(kernel, function);
}

/* ---- variables ------------------------------------------------------------------------------ */

static variable *variable_find(const void *symbol)
{
    variable *one = variables;
    while (one != NULL && one->host != symbol)
        one = one->next;
    return one;
}

cudaError_t rt_variable(const void *symbol, CUdeviceptr *address, size_t *bytes)
{
    unsigned long long id = 0;
    CUmodule module = NULL;
    cudaError_t error = context_number(&id);
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&lock);
    const variable *one = variable_find(symbol);
    CUresult result = CUDA_SUCCESS;
    if (one == NULL)
        error = cudaErrorInvalidSymbol;
    else if ((result = module_get(one->binary, id, &module)) == CUDA_SUCCESS)
        result = rt.cuModuleGetGlobal(address, bytes, module, one->name);
    pthread_mutex_unlock(&lock);
    if (result == CUDA_ERROR_NOT_FOUND)
        error = cudaErrorInvalidSymbol;
    return error != cudaSuccess ? rt_fail(error) : rt_end(result);
}

/* The host reaches managed variables through pointers, which are set before it can read them. */
char __cudaInitModule(void **fatCubinHandle)
{
    if (rt_begin() != cudaSuccess)
        return 0;
    for (int more = 1; more;) {
        more = 0;
        pthread_mutex_lock(&lock);
        variable *one = variables;
        while (one != NULL && (!one->is_managed || (void **)one->binary != fatCubinHandle))
            one = one->next;
        pthread_mutex_unlock(&lock);
        if (one == NULL)
            break;
        CUdeviceptr address = 0;
        if (rt_variable(one->host, &address, NULL) != cudaSuccess)
            return 0;
        void *memory = (void *)(uintptr_t)address;
        memcpy((void *)(uintptr_t)one->host, &memory, sizeof(memory));
        one->is_managed = 0; /* done; it is found by its address like the others */
        more = 1;
    }
    return 1;
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    CUdeviceptr address = 0;
    RT_BEGIN();
    if (devPtr == NULL)
        return rt_fail(cudaErrorInvalidValue);
    cudaError_t error = rt_variable(symbol, &address, NULL);
    if (error == cudaSuccess)
        *devPtr = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr address = 0;
    RT_BEGIN();
    return size == NULL ? rt_fail(cudaErrorInvalidValue) : rt_variable(symbol, &address, size);
}
