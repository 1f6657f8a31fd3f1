// What the files of the stand-in driver share. The driver lets the unmodified CUDA build of PyTorch run where there is no
// GPU: memory is handed out as addresses that nobody may read, kernels are not launched, what is copied from the device
// reads as zero. All that decides memory above it is PyTorch's own.
#ifndef STANDIN_H
#define STANDIN_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <driver_types.h>
#include <vector_types.h>

#if CUDA13  // set by build.sh where torch was built for CUDA 13 (torch 2.12 and later)
#define CUDA_VERSION 13020
#else
#define CUDA_VERSION 12080
#endif

// ENTRY defines an exported entry point. Its C name differs from the symbol's, so that no header's prototype is in the way.
#define ENTRY(result, symbol, ...) NAMED(result, symbol, __VA_ARGS__)
#define NAMED(result, symbol, ...)                           \
    result standin_##symbol(__VA_ARGS__) __asm__(#symbol);   \
    result standin_##symbol(__VA_ARGS__)

// Status codes of CUDA and of its driver that are used here.
enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NOT_READY = 600 };

// environment reads a number from the environment.
static inline unsigned long long environment(const char *name, unsigned long long otherwise) {
    const char *value = getenv(name);
    return value ? strtoull(value, 0, 0) : otherwise;
}

#pragma GCC visibility push(hidden)  // from here on, only for these files

// handle makes a handle that is like no other: streams, events, modules and functions are nothing more.
void *handle(void);

// Device memory.
int is_device(const void *p);
size_t memory_total(void);
size_t memory_used(void);

// The driver's functions for expandable segments, which PyTorch looks up by name.
void *virtual_memory_function(const char *name);

// The device is done with everything that was asked of it so far.
void device_caught_up(void);

#pragma GCC visibility pop
#endif
