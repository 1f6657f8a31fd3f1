// cuBLAS and cuDNN: their objects, and an answer to "which algorithm, with how much workspace". No arithmetic.
#include "standin.h"

// CREATE and DESTROY define an object's life; nothing is in it.
#define CREATE(symbol)               \
    ENTRY(int, symbol, void **object) { \
        *object = calloc(1, 4096);   \
        return SUCCESS;              \
    }
#define DESTROY(symbol)             \
    ENTRY(int, symbol, void *object) { \
        free(object);               \
        return SUCCESS;             \
    }
CREATE(cublasCreate_v2)
CREATE(cublasLtCreate)
CREATE(cublasLtMatmulDescCreate)
CREATE(cublasLtMatmulPreferenceCreate)
CREATE(cublasLtMatrixLayoutCreate)
DESTROY(cublasLtMatmulDescDestroy)
DESTROY(cublasLtMatmulPreferenceDestroy)
DESTROY(cublasLtMatrixLayoutDestroy)
CREATE(cudnnCreate)
CREATE(cudnnCreateTensorDescriptor)
CREATE(cudnnCreateFilterDescriptor)
CREATE(cudnnCreateConvolutionDescriptor)
DESTROY(cudnnDestroyTensorDescriptor)
DESTROY(cudnnDestroyFilterDescriptor)
DESTROY(cudnnDestroyConvolutionDescriptor)

ENTRY(int, cublasGetMathMode, void *handle, int *mode) {
    *mode = 0;
    return SUCCESS;
}
ENTRY(int, cublasGetPointerMode_v2, void *handle, int *mode) {
    *mode = 0;
    return SUCCESS;
}

// cublasLtMatmulHeuristicResult_t: one algorithm is found, which wants no workspace of its own.
typedef struct {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} Heuristic;
ENTRY(int, cublasLtMatmulAlgoGetHeuristic, void *h, void *d, void *a, void *b, void *c, void *r, void *p, int n,
      Heuristic *results, int *found) {
    memset(results, 0, sizeof *results);
    *found = 1;
    return SUCCESS;
}

// cuDNN 7's interface for convolutions (TORCH_CUDNN_V8_API_DISABLED=1): algorithm 1, no workspace.
typedef struct {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math;
    int reserved[3];
} Performance;
static int one_algorithm(int *found, Performance *p) {
    memset(p, 0, sizeof *p);
    p->algorithm = p->determinism = p->math = 1;
    *found = 1;
    return SUCCESS;
}
#define ALGORITHM(symbol)                                                                                     \
    ENTRY(int, symbol, void *h, void *a, void *b, void *c, void *d, int wanted, int *found, Performance *p) { \
        return one_algorithm(found, p);                                                                       \
    }
#define WORKSPACE(symbol)                                                                              \
    ENTRY(int, symbol, void *h, void *a, void *b, void *c, void *d, int algorithm, size_t *bytes) { \
        *bytes = 0;                                                                                    \
        return SUCCESS;                                                                                \
    }
ALGORITHM(cudnnGetConvolutionForwardAlgorithm_v7)
ALGORITHM(cudnnGetConvolutionBackwardDataAlgorithm_v7)
ALGORITHM(cudnnGetConvolutionBackwardFilterAlgorithm_v7)
WORKSPACE(cudnnGetConvolutionForwardWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardDataWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardFilterWorkspaceSize)

// cuDNN's graph interface, which PyTorch uses otherwise (bfloat16 needs it): every heuristic finds one engine without
// workspace. Without it convolutions in bfloat16 would take slow_conv2d, whose im2col buffer no card makes.
ENTRY(const char *, cudnnGetErrorString, int status) { return "status of the stand-in driver"; }
DESTROY(cudnnBackendDestroyDescriptor)
ENTRY(int, cudnnBackendCreateDescriptor, int type, void **descriptor) {
    *descriptor = calloc(1, 256);
    return SUCCESS;
}
enum {  // cudnnBackendAttributeName_t
    ENGINEHEUR_RESULTS = 202,
    ENGINECFG_ENGINE = 300,
    ENGINECFG_WORKSPACE_SIZE = 303,
    ENGINECFG_SHARED_MEMORY_USED = 304,
    EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    OPERATIONGRAPH_ENGINE_GLOBAL_COUNT = 802,
    ENGINE_GLOBAL_INDEX = 1301
};
ENTRY(int, cudnnBackendGetAttribute, void *descriptor, int name, int type, int64_t wanted, int64_t *count, void *values) {
    int64_t n = name == ENGINEHEUR_RESULTS || name == ENGINECFG_ENGINE;
    int number = name == EXECUTION_PLAN_WORKSPACE_SIZE || name == ENGINE_GLOBAL_INDEX || name == OPERATIONGRAPH_ENGINE_GLOBAL_COUNT ||
                 name == ENGINECFG_WORKSPACE_SIZE;
    if (name == ENGINECFG_SHARED_MEMORY_USED && values && wanted > 0) {
        *(int32_t *)values = 0;
        n = 1;
    }
    if (number && values && wanted > 0) {
        *(int64_t *)values = name == OPERATIONGRAPH_ENGINE_GLOBAL_COUNT;
        n = 1;
    }
    if (count) *count = n;
    return SUCCESS;
}
