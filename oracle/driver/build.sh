#!/bin/sh
# build.sh VENV OUT: the stand-in driver for the PyTorch in VENV, as OUT/libcuda.so.1 (and OUT/libnvidia-ml.so.1 where that
# PyTorch wants it). Needs gcc and nm. CUDA's structures come from the headers that PyTorch's own dependencies install.
set -eu
venv=$1 out=$2
cd "$(dirname "$0")"
mkdir -p "$out"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
if [ -d "$site/nvidia/cu13" ]; then cuda="-DCUDA13=1 -I$site/nvidia/cu13/include"; else cuda="-I$site/nvidia/cuda_runtime/include"; fi
for part in memory device math nccl; do
  # shellcheck disable=SC2086 # several flags
  gcc -O2 -fPIC -w -Iinc $cuda -c $part.c -o "$out/$part.o"
done

# Every entry point of CUDA that PyTorch's libraries want and that is not written here becomes one that says "done".
nm "$out/memory.o" "$out/device.o" "$out/math.o" | awk '$2 == "T" {print $3}' | sort -u > "$out/have"
{
  for lib in libtorch_cuda libc10_cuda libtorch_python libcaffe2_nvrtc libtorch_cpu libtorch_cuda_linalg; do
    nm -D --undefined-only "$site/torch/lib/$lib.so" 2>/dev/null | awk '{print $2}' || true
  done | sed 's/@.*//' |
    grep -E '^(cuda[A-Z]|__cuda|cublas|cudnn|cu(Ctx|Device|Func|GetError|Launch|Link|Module|Occup|Pointer|TensorMap|Init|Mem))' |
    grep -vE '^cudnnGet(Version|CudartVersion|Property)$' # cuDNN's own are real
  # what Triton's launcher links against: what its source calls, and the names that cuda.h makes of some of these
  grep -ohE '\bcu[A-Z][A-Za-z0-9]+\(' "$site/triton/backends/nvidia/driver.c" | tr -d '('
  printf '%s\n' cuLaunchKernelEx cuInit cuDeviceGetCount cuDeviceGetName cuCtxCreate_v2 cuCtxSynchronize cuStreamSynchronize \
    cuMemcpyDtoH_v2 cuMemcpyHtoD_v2 cuDeviceTotalMem_v2 cuTensorMapEncodeIm2col cuKernelGetAttribute cuLibraryLoadData \
    cuCtxGetCurrent cuCtxGetLimit cuCtxSetCurrent cuCtxSetLimit cuDeviceGet cuDevicePrimaryCtxRetain cuFuncSetAttribute \
    cuFuncSetCacheConfig cuGetErrorString cuModuleGetFunction cuModuleLoadData
} | sort -u > "$out/need"
comm -13 "$out/have" "$out/need" |
  while read -r s; do echo "int stub_$s(void) __asm__(\"$s\"); int stub_$s(void) { return 0; }"; done > "$out/stubs.c"
gcc -O1 -fPIC -w -c "$out/stubs.c" -o "$out/stubs.o"
gcc -shared -Wl,-soname,libcuda.so.1 -o "$out/libcuda.so.1" "$out/memory.o" "$out/device.o" "$out/math.o" "$out/nccl.o" \
  "$out/stubs.o" -ldl -lpthread
if [ -d "$site/nvidia/cu13" ]; then
  gcc -O1 -shared -fPIC -w -Wl,-soname,libnvidia-ml.so.1 -o "$out/libnvidia-ml.so.1" nvml.c
else
  rm -f "$out/libnvidia-ml.so.1"
fi
ln -sf libcuda.so.1 "$out/libcuda.so" # Triton links with -lcuda
