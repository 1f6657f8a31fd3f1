// Device memory, pinned host memory and copies between them.
#include "standin.h"

#include <sys/mman.h>

#define MIB (1ull << 20)
#define PAGE (2 * MIB)  // what CUDA maps at once

// ---- addresses of the device: a range that no access is allowed to
static const uint64_t device_range = 1ull << 45;
static uint64_t device_base, device_next, device_end, used;
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;

static void reserve_device_range(void) {
    if (device_base) return;
    pthread_mutex_lock(&device_lock);
    if (!device_base) {
        void *p = mmap(0, device_range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            perror("stand-in driver: reserving addresses");
            abort();
        }
        device_next = ((uint64_t)p + PAGE) & ~(PAGE - 1);
        device_end = (uint64_t)p + device_range;
        device_base = (uint64_t)p;
    }
    pthread_mutex_unlock(&device_lock);
}

int is_device(const void *p) { return device_base && (uint64_t)p >= device_base && (uint64_t)p < device_end; }

// next_addresses hands out bytes of the range that were never handed out before, 0 where it is used up.
static uint64_t next_addresses(size_t bytes, uint64_t alignment) {
    reserve_device_range();
    if (alignment < PAGE) alignment = PAGE;
    pthread_mutex_lock(&device_lock);
    uint64_t at = (device_next + alignment - 1) / alignment * alignment;
    device_next = at + ((bytes + PAGE - 1) & ~(PAGE - 1));
    pthread_mutex_unlock(&device_lock);
    return device_next > device_end ? 0 : at;
}

// ---- sizes of what is allocated, by address: a table with open addressing
#define ENTRIES (1 << 20)
static uint64_t keys[ENTRIES];
static size_t sizes[ENTRIES];

static size_t find(uint64_t key) {
    size_t i = (key >> 9) * 11400714819323198485ull >> 44;
    while (keys[i] && keys[i] != key) i = (i + 1) % ENTRIES;
    return i;
}

static void remember(uint64_t key, size_t bytes) {
    size_t i = find(key);
    keys[i] = key;
    sizes[i] = bytes;
}

static size_t forget(uint64_t key) {
    size_t i = find(key), bytes = sizes[i];
    if (!keys[i]) return 0;
    sizes[i] = 0;
    return bytes;
}

// ---- cudaMalloc
size_t memory_total(void) { return environment("STANDIN_TOTAL_MIB", MIB) * MIB; }
size_t memory_used(void) { return used; }

ENTRY(int, cudaMalloc, void **p, size_t bytes) {
    uint64_t at = used + bytes > memory_total() ? 0 : next_addresses(bytes, 0);
    *p = (void *)at;
    if (!at) return OUT_OF_MEMORY;
    remember(at, bytes);
    used += bytes;
    return SUCCESS;
}

ENTRY(int, cudaFree, void *p) {
    if (p) used -= forget((uint64_t)p);
    return SUCCESS;
}

ENTRY(int, cudaMemGetInfo, size_t *free, size_t *total) {
    *total = memory_total();
    *free = memory_total() - used;
    return SUCCESS;
}

// ---- expandable segments: the driver's virtual memory. Ranges of addresses are used again, pages are only counted.
#define RANGES 4096
static struct {
    uint64_t at;
    size_t bytes;
    int taken;
} ranges[RANGES];
static int known_ranges;

static int granularity(size_t *bytes, const void *properties, int flags) {
    *bytes = PAGE;
    return SUCCESS;
}

static int address_reserve(uint64_t *p, size_t bytes, size_t alignment, uint64_t hint, unsigned long long flags) {
    for (int i = 0; i < known_ranges; i++)
        if (!ranges[i].taken && ranges[i].bytes == bytes) {
            ranges[i].taken = 1;
            *p = ranges[i].at;
            return SUCCESS;
        }
    *p = next_addresses(bytes, alignment);
    if (*p && known_ranges < RANGES) {
        ranges[known_ranges].at = *p;
        ranges[known_ranges].bytes = bytes;
        ranges[known_ranges++].taken = 1;
    }
    return *p ? SUCCESS : OUT_OF_MEMORY;
}

static int address_free(uint64_t p, size_t bytes) {
    for (int i = 0; i < known_ranges; i++)
        if (ranges[i].at == p) ranges[i].taken = 0;
    return SUCCESS;
}

static int page_create(uint64_t *page, size_t bytes, const void *properties, unsigned long long flags) {
    if (used + bytes > memory_total()) return OUT_OF_MEMORY;
    *page = (uint64_t)handle();
    remember(*page << 9, bytes);
    used += bytes;
    return SUCCESS;
}

static int page_release(uint64_t page) {
    used -= forget(page << 9);
    return SUCCESS;
}

void *virtual_memory_function(const char *name) {
    if (!strcmp(name, "cuMemGetAllocationGranularity")) return granularity;
    if (!strcmp(name, "cuMemAddressReserve")) return address_reserve;
    if (!strcmp(name, "cuMemAddressFree")) return address_free;
    if (!strcmp(name, "cuMemCreate")) return page_create;
    if (!strcmp(name, "cuMemRelease")) return page_release;
    return 0;
}

// ---- pinned host memory, from a range of its own so that it can be told from other memory; its pages cost nothing until
// they are written
static const uint64_t host_range = 1ull << 42;
static uint64_t host_base, host_next;
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_host(const void *p) {
    return host_base && (uint64_t)p >= host_base && (uint64_t)p < host_base + host_range;
}

ENTRY(int, cudaHostAlloc, void **p, size_t bytes, unsigned flags) {
    int status = SUCCESS;
    pthread_mutex_lock(&host_lock);
    if (!host_base) {
        void *m = mmap(0, host_range, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED)
            status = OUT_OF_MEMORY;
        else
            host_base = host_next = (uint64_t)m;
    }
    if (status == SUCCESS) {
        *p = (void *)host_next;
        host_next += ((bytes ? bytes : 1) + 4095) & ~4095ull;
    }
    pthread_mutex_unlock(&host_lock);
    return status;
}

ENTRY(int, cudaFreeHost, void *p) { return SUCCESS; }

ENTRY(int, cudaPointerGetAttributes, struct cudaPointerAttributes *a, const void *p) {
    memset(a, 0, sizeof *a);
    a->type = is_device(p) ? cudaMemoryTypeDevice : is_host(p) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    if (is_device(p)) a->devicePointer = (void *)p;
    if (is_host(p)) a->hostPointer = (void *)p;
    if (a->type == cudaMemoryTypeUnregistered) a->device = -1;
    return SUCCESS;
}

ENTRY(int, cuPointerGetAttribute, void *data, int attribute, uint64_t p) {
    *(uint64_t *)data = p;
    return SUCCESS;
}

// ---- copies. What is read from the device is zero, with two exceptions.

// 1. While standin_shadow(1), what the host copies to the device can be copied back: a value that a process sends itself
// through the device (the bucket indices of DDP, DeepSpeed's comparison of ranks).
#define SHADOWS 4096
static int shadowing, shadow_count;
static struct {
    uint64_t at;
    size_t bytes;
    char *data;
} shadows[SHADOWS];

void standin_shadow(int on) {
    pthread_mutex_lock(&device_lock);
    shadowing = on;
    for (int i = 0; i < shadow_count; i++) free(shadows[i].data);
    shadow_count = 0;
    pthread_mutex_unlock(&device_lock);
}

static void shadow_put(uint64_t at, const void *data, size_t bytes) {
    pthread_mutex_lock(&device_lock);
    if (shadow_count < SHADOWS && bytes <= MIB) {
        shadows[shadow_count].at = at;
        shadows[shadow_count].bytes = bytes;
        shadows[shadow_count].data = malloc(bytes);
        memcpy(shadows[shadow_count++].data, data, bytes);
    }
    pthread_mutex_unlock(&device_lock);
}

static char *shadow_of(uint64_t at, size_t bytes) {
    for (int i = shadow_count - 1; i >= 0; i--)
        if (shadows[i].at <= at && at + bytes <= shadows[i].at + shadows[i].bytes)
            return shadows[i].data + (at - shadows[i].at);
    return 0;
}

// 2. standin_push(v): the next copy of four bytes from the device reads v. For torch.nonzero, whose result is as long as
// the number of true entries that it reads; the recorder knows how many there would be.
static int pushed[64], pushed_count, pushed_next;
void standin_push(int value) {
    if (pushed_count < 64) pushed[pushed_count++] = value;
}
void standin_clear(void) { pushed_count = pushed_next = 0; }

static int copy(void *to, const void *from, size_t bytes) {
    static size_t most;  // larger copies leave the host's pages alone: offloading moves tens of gigabytes
    if (!most) most = environment("STANDIN_ZERO_MAX", 1ull << 62);
    if (shadowing) {
        char *shadow;
        if (is_device(to) && !is_device(from)) {
            shadow_put((uint64_t)to, from, bytes);
        } else if (is_device(from) && (shadow = shadow_of((uint64_t)from, bytes))) {
            if (!is_device(to)) {
                memcpy(to, shadow, bytes);
                return SUCCESS;
            }
            shadow_put((uint64_t)to, shadow, bytes);
        }
    }
    if (is_device(to)) return SUCCESS;
    if (!is_device(from)) {
        memmove(to, from, bytes);
        return SUCCESS;
    }
    if (bytes <= most) memset(to, 0, bytes);
    if (bytes == 4 && pushed_next < pushed_count) *(int *)to = pushed[pushed_next++];
    return SUCCESS;
}

ENTRY(int, cudaMemcpy, void *to, const void *from, size_t bytes, int kind) {
    if (!is_device(to)) device_caught_up();
    return copy(to, from, bytes);
}

ENTRY(int, cudaMemcpyAsync, void *to, const void *from, size_t bytes, int kind, void *stream) {
    return copy(to, from, bytes);
}
