// NCCL doing nothing. PyTorch's own ProcessGroupNCCL runs on it as one rank of a world of any size: its streams, events,
// the tensors that it keeps until a collective is over and its flat buffers are real. Nothing is sent, and what NCCL itself
// would allocate outside PyTorch's allocator is not there.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char internal[128]; } UniqueId;
typedef struct { int ranks, rank; } Communicator;

extern int cudaMalloc(void **, size_t);
extern int cudaFree(void *);

static int join(Communicator **c, int ranks, int rank) {
    *c = calloc(1, sizeof **c);
    (*c)->ranks = ranks;
    (*c)->rank = rank;
    return 0;
}

int ncclGetVersion(int *v) { return *v = 22705, 0; }
int ncclGetUniqueId(UniqueId *id) { return memset(id, 7, sizeof *id), 0; }
int ncclCommInitRank(Communicator **c, int n, UniqueId id, int rank) { return join(c, n, rank); }
int ncclCommInitRankConfig(Communicator **c, int n, UniqueId id, int rank, void *config) { return join(c, n, rank); }
int ncclCommInitRankScalable(Communicator **c, int n, int rank, int ids, UniqueId *id, void *config) { return join(c, n, rank); }
int ncclCommInitAll(Communicator **c, int n, const int *devices) {
    for (int i = 0; i < n; i++) join(c + i, n, i);
    return 0;
}
// How many join a part of a communicator, and as which of them, is known to whoever calls every rank: the process says it
// before it splits (0: all, as they are).
static int split_ranks = 0, split_rank = 0;
void standin_split(int ranks, int rank) { split_ranks = ranks, split_rank = rank; }
int ncclCommSplit(Communicator *c, int color, int key, Communicator **out, void *config) {
    if (color < 0) return *out = NULL, 0; // NCCL_SPLIT_NOCOLOR
    return split_ranks ? join(out, split_ranks, split_rank) : join(out, c->ranks, c->rank);
}
int ncclCommCount(const Communicator *c, int *n) { return *n = c->ranks, 0; }
int ncclCommUserRank(const Communicator *c, int *rank) { return *rank = c->rank, 0; }
int ncclCommGetAsyncError(Communicator *c, int *status) { return *status = 0; }
const char *ncclGetErrorString(int status) { return "error of the stand-in NCCL"; }
const char *ncclGetLastError(Communicator *c) { return ""; }
int ncclMemAlloc(void **p, size_t bytes) { return cudaMalloc(p, bytes); }
int ncclMemFree(void *p) { return cudaFree(p); }
int ncclCommRegister(Communicator *c, void *buffer, size_t bytes, void **handle) { return *handle = buffer, 0; }
int ncclCommWindowRegister(Communicator *c, void *buffer, size_t bytes, void **window, int flags) { return *window = buffer, 0; }

#define DONE(symbol) int symbol(void) { return 0; }
DONE(ncclCommDestroy) DONE(ncclCommAbort) DONE(ncclCommFinalize) DONE(ncclCommDeregister) DONE(ncclCommWindowDeregister)
DONE(ncclGroupStart) DONE(ncclGroupEnd) DONE(ncclGroupSimulateEnd)
DONE(ncclAllGather) DONE(ncclAllReduce) DONE(ncclBcast) DONE(ncclBroadcast) DONE(ncclReduce) DONE(ncclReduceScatter)
DONE(ncclSend) DONE(ncclRecv) DONE(ncclRedOpCreatePreMulSum) DONE(ncclRedOpDestroy)
