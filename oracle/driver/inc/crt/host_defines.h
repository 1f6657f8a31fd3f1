/* The markers that CUDA's own headers put on their declarations, emptied, so that a plain C compiler can read the
   structures in them. It stands where a header of the compiler's package would. */
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __cudart_builtin__
#define __device__
#define __host__
#define CUDARTAPI
