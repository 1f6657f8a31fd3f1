// The part of NVML that torch 2.12 and later ask before they map expandable segments. One GPU, no NVLink, no fabric.
enum { SUCCESS = 0, NOT_SUPPORTED = 3 };
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = 13020, SUCCESS; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) { return *device = (void *)0x77, SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *n, void *list) { return *n = 0, SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, void *list) { return *n = 0, SUCCESS; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *pci) { return NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfoV(void *device, void *info) { return NOT_SUPPORTED; }
