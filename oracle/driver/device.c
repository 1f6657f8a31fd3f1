// The device: what it says of itself, streams, events, and kernels that are never launched.
#include "standin.h"

// ---- what decides allocations: the compute capability (times ten) and the number of multiprocessors
static int capability(void) { return (int)environment("STANDIN_CC", 80); }
static int multiprocessors(void) { return (int)environment("STANDIN_SMS", 108); }

// Shared memory that a block may ask for, and resident threads, by compute capability (CUDA C++ Programming Guide, table
// "Technical Specifications per Compute Capability").
static int shared_optin(void) {
    int c = capability();
    return c == 80 || c == 87 ? 166912 : c >= 90 && c < 120 ? 232448 : 101376;
}
static int resident_threads(void) {
    int c = capability();
    return c == 75 ? 1024 : c == 86 || c == 87 || c == 89 || c / 10 == 12 ? 1536 : 2048;
}

#if CUDA13
ENTRY(int, cudaGetDeviceProperties, struct cudaDeviceProp *p, int device) {
#else
ENTRY(int, cudaGetDeviceProperties_v2, struct cudaDeviceProp *p, int device) {
#endif
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "stand-in sm_%d", capability());
    p->major = capability() / 10;
    p->minor = capability() % 10;
    p->multiProcessorCount = multiprocessors();
    p->totalGlobalMem = memory_total();
    p->totalConstMem = 65536;
    p->sharedMemPerBlock = 49152;
    p->sharedMemPerBlockOptin = shared_optin();
    p->sharedMemPerMultiprocessor = shared_optin() + 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = resident_threads();
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxBlocksPerMultiProcessor = 32;
    p->memPitch = 2147483647;
    p->textureAlignment = 512;
    p->l2CacheSize = 40 << 20;
    p->asyncEngineCount = 3;
    p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = p->streamPrioritiesSupported = 1;
    p->managedMemory = p->cooperativeLaunch = p->hostRegisterSupported = p->memoryPoolsSupported = 1;
    p->computePreemptionSupported = 1;
#if !CUDA13
    p->clockRate = 1410000;
#endif
    return SUCCESS;
}

// Numbers of enum cudaDeviceAttr, which the driver's enum CUdevice_attribute shares.
static int attribute(int *value, int which, int device) {
    switch (which) {
    case 1: case 2: case 3: *value = 1024; break;   // threads a block, block's x and y
    case 4: *value = 64; break;                     // block's z
    case 5: *value = 2147483647; break;             // grid's x
    case 6: case 7: *value = 65535; break;          // grid's y and z
    case 8: *value = 49152; break;                  // shared memory a block
    case 9: case 12: case 82: *value = 65536; break;  // constant memory, registers a block and a multiprocessor
    case 10: *value = 32; break;                    // warp
    case 16: *value = multiprocessors(); break;
    case 38: *value = 40 << 20; break;              // L2
    case 39: *value = resident_threads(); break;
    case 75: *value = capability() / 10; break;
    case 76: *value = capability() % 10; break;
    case 81: *value = shared_optin() + 1024; break; // shared memory of a multiprocessor
    case 97: *value = shared_optin(); break;
    case 106: *value = 32; break;                   // blocks a multiprocessor
    case 19: case 31: case 41: case 78: case 95: case 115: *value = 1; break;  // what it can do
    default: *value = 0;
    }
    return SUCCESS;
}

ENTRY(int, cudaDeviceGetAttribute, int *value, int which, int device) { return attribute(value, which, device); }
ENTRY(int, cuDeviceGetAttribute, int *value, int which, int device) { return attribute(value, which, device); }

static int set(int *value, int to) {
    *value = to;
    return SUCCESS;
}
ENTRY(int, cudaGetDevice, int *device) { return set(device, 0); }
ENTRY(int, cuDeviceGet, int *device, int ordinal) { return set(device, 0); }
ENTRY(int, cuCtxGetDevice, int *device) { return set(device, 0); }
ENTRY(int, cudaGetDeviceCount, int *count) { return set(count, 1); }
ENTRY(int, cudaDriverGetVersion, int *version) { return set(version, CUDA_VERSION); }
ENTRY(int, cudaRuntimeGetVersion, int *version) { return set(version, CUDA_VERSION); }
ENTRY(int, cudaDeviceGetPCIBusId, char *id, int length, int device) {
    snprintf(id, length, "0000:01:00.0");
    return SUCCESS;
}
ENTRY(const char *, cudaGetErrorString, int status) { return "error of the stand-in driver"; }
ENTRY(const char *, cudaGetErrorName, int status) { return "standinError"; }

// ---- handles, streams
static uintptr_t last_handle = 0x1000;
void *handle(void) {
    last_handle += 16;
    return (void *)last_handle;
}
static int make(void **p) {
    *p = handle();
    return SUCCESS;
}
ENTRY(int, cudaStreamCreate, void **stream) { return make(stream); }
ENTRY(int, cudaStreamCreateWithPriority, void **stream, unsigned flags, int priority) { return make(stream); }
ENTRY(int, cudaStreamGetPriority, void *stream, int *priority) { return set(priority, 0); }
ENTRY(int, cudaStreamIsCapturing, void *stream, int *status) { return set(status, 0); }
ENTRY(int, cuStreamIsCapturing, void *stream, int *status) { return set(status, 0); }
ENTRY(int, cudaThreadExchangeStreamCaptureMode, int *mode) { return SUCCESS; }
ENTRY(int, cudaDeviceGetStreamPriorityRange, int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return SUCCESS;
}

static int capture_info(int *status, unsigned long long *id, size_t *count) {
    if (status) *status = 0;
    if (id) *id = 0;
    if (count) *count = 0;
    return SUCCESS;
}
ENTRY(int, cudaStreamGetCaptureInfo_v2, void *s, int *status, unsigned long long *id, void *g, void *d, size_t *n) {
    return capture_info(status, id, n);
}
#if CUDA13
ENTRY(int, cudaStreamGetCaptureInfo, void *s, int *status, unsigned long long *id, void *g, void *d, void *e, size_t *n) {
    return capture_info(status, id, n);
}
#endif

// ---- events. By default the device is infinitely fast: every event has happened. With STANDIN_LAZY=1 it is infinitely
// slow: nothing has happened until the host waits for it, so that blocks which another stream used stay taken for as long as
// they can. A card lies between the two.
#define EVENTS (1 << 20)
static uint64_t recorded[EVENTS], sequence = 1, done;

static uint64_t *event(void *e) { return &recorded[(((uint64_t)e - 0x1000) >> 4) & (EVENTS - 1)]; }
static int record(void *e) {
    *event(e) = sequence++;
    return SUCCESS;
}
static int lazy(void) {
    static int read = -1;
    if (read < 0) read = (int)environment("STANDIN_LAZY", 0);
    return read;
}
void device_caught_up(void) { done = sequence; }

ENTRY(int, cudaEventCreate, void **e) { return make(e); }
ENTRY(int, cudaEventCreateWithFlags, void **e, unsigned flags) { return make(e); }
ENTRY(int, cudaEventRecord, void *e, void *stream) { return record(e); }
ENTRY(int, cudaEventRecordWithFlags, void *e, void *stream, unsigned flags) { return record(e); }
ENTRY(int, cudaEventQuery, void *e) { return lazy() && *event(e) > done ? NOT_READY : SUCCESS; }
ENTRY(int, cudaEventSynchronize, void *e) {
    if (*event(e) > done) done = *event(e);
    return SUCCESS;
}
ENTRY(int, cudaEventElapsedTime, float *ms, void *from, void *to) {
    *ms = 1;
    return SUCCESS;
}
ENTRY(int, cudaStreamSynchronize, void *stream) {
    device_caught_up();
    return SUCCESS;
}
ENTRY(int, cudaDeviceSynchronize, void) {
    device_caught_up();
    return SUCCESS;
}

// ---- kernels: registered, asked about, not launched. Two blocks a multiprocessor decide the scratch of some reductions.
enum { RESIDENT_BLOCKS = 2 };
static void *fat_binary[4];
ENTRY(void **, __cudaRegisterFatBinary, void *binary) { return fat_binary; }
ENTRY(char, __cudaInitModule, void **binary) { return 1; }

static __thread struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} launch;
ENTRY(unsigned, __cudaPushCallConfiguration, dim3 grid, dim3 block, size_t shared, void *stream) {
    launch.grid = grid;
    launch.block = block;
    launch.shared = shared;
    launch.stream = stream;
    return SUCCESS;
}
ENTRY(int, __cudaPopCallConfiguration, dim3 *grid, dim3 *block, size_t *shared, void **stream) {
    *grid = launch.grid;
    *block = launch.block;
    *shared = launch.shared;
    *stream = launch.stream;
    return SUCCESS;
}
// compiled is what runs on the card of what PyTorch's kernels were compiled for (torch.cuda.get_arch_list(), 2.9.1 and
// 2.15.0): CUB looks for its parameters by it, and has none for what lies between.
static int compiled(void) {
    static const int architectures[] = {120, 100, 90, 86, 80, 75, 70};
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (architectures[i] <= capability()) return architectures[i];
    return capability();
}
ENTRY(int, cudaFuncGetAttributes, struct cudaFuncAttributes *a, const void *function) {
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->numRegs = 32;
    a->ptxVersion = a->binaryVersion = compiled();
    a->maxDynamicSharedSizeBytes = 49152;
    return SUCCESS;
}
ENTRY(int, cuFuncGetAttribute, int *value, int which, void *function) {
    return set(value, which == 0 ? 1024 : which == 4 ? 32 : 0);  // threads a block, registers
}
ENTRY(int, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *n, const void *f, int b, size_t s, unsigned fl) {
    return set(n, RESIDENT_BLOCKS);
}
ENTRY(int, cuOccupancyMaxActiveBlocksPerMultiprocessor, int *n, void *f, int b, size_t s) { return set(n, RESIDENT_BLOCKS); }
ENTRY(int, cuOccupancyMaxActiveClusters, int *n, void *f, void *config) { return set(n, 1); }
ENTRY(int, cuModuleGetFunction, void **function, void *module, const char *name) { return make(function); }
ENTRY(int, cuModuleLoad, void **module, const char *file) { return make(module); }
ENTRY(int, cuModuleLoadData, void **module, const void *image) { return make(module); }
ENTRY(int, cuModuleLoadDataEx, void **module, const void *image, unsigned n, void *options, void *values) {
    return make(module);
}

// ---- the driver's entry points that are looked up by name
static int context_current(void **context) {
    *context = (void *)0x1234;
    return SUCCESS;
}
static int context_state(int device, unsigned *flags, int *active) {
    if (flags) *flags = 0;
    return set(active, 1);
}
static int error_string(int status, const char **s) {
    *s = "error of the stand-in driver";
    return SUCCESS;
}
ENTRY(int, cuCtxGetCurrent, void **context) { return context_current(context); }
ENTRY(int, cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active) {
    return context_state(device, flags, active);
}
ENTRY(int, cuGetErrorString, int status, const char **s) { return error_string(status, s); }

static int succeed(void) { return SUCCESS; }
static int entry_point(const char *name, void **function, int *result) {
    *function = virtual_memory_function(name);
    if (!strcmp(name, "cuGetErrorString")) *function = error_string;
    if (!strcmp(name, "cuDeviceGetAttribute")) *function = attribute;
    if (!strcmp(name, "cuCtxGetCurrent")) *function = context_current;
    if (!strcmp(name, "cuDevicePrimaryCtxGetState")) *function = context_state;
    if (!*function) *function = succeed;
    if (result) *result = 0;
    return SUCCESS;
}
ENTRY(int, cudaGetDriverEntryPoint, const char *name, void **f, unsigned long long flags, int *result) {
    return entry_point(name, f, result);
}
ENTRY(int, cudaGetDriverEntryPointByVersion, const char *name, void **f, unsigned v, unsigned long long fl, int *result) {
    return entry_point(name, f, result);
}
