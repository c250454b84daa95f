/* A CUDA driver that does nothing: each function says that all is well, so that what a call costs is the caller's share.
   Memory is the host's; a device has a context of its own; launches run nothing. */
#include <stdlib.h>
#include <string.h>
typedef unsigned long long u64;
typedef unsigned u;
static __thread void *current;
static u64 handles = 0x7f0000001000;
static u64 handle(void) { return handles += 16; }
int cuInit(u flags) { return 0; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuGetErrorName(int code, const char **s) { *s = "CUDA_ERROR"; return 0; }
int cuGetErrorString(int code, const char **s) { *s = "no text"; return 0; }
int cuDeviceGetCount(int *n) { const char *said = getenv("SILENT_DEVICES"); *n = said ? atoi(said) : 1; return 0; }
int cuDeviceGet(int *d, int ordinal) { *d = ordinal; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "no device", n); return 0; }
int cuDeviceGetAttribute(int *o, int a, int d) { *o = a == 75 ? 9 : a == 76 ? 0 : a == 97 ? 232448 : a == 115 ? 1 : 2048; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)(0x7f0000000010ull + 16 * d); return 0; }
int cuCtxGetCurrent(void **c) { *c = current; return 0; }
int cuCtxSetCurrent(void *c) { current = c; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadDataEx(void **m, const char *text, u n, int *options, void **values) {
  ((char *)values[0])[0] = 0; *m = (void *)handle(); return 0; }
int cuModuleUnload(void *m) { return 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = (void *)handle(); return 0; }
int cuFuncGetAttribute(int *o, int a, void *f) { *o = 0; return 0; }
int cuFuncSetAttribute(void *f, int a, int value) { return 0; }
int cuMemAllocAsync(u64 *p, size_t n, void *s) { return posix_memalign((void **)p, 256, n) != 0; }
int cuMemFreeAsync(u64 p, void *s) { free((void *)p); return 0; }
int cuMemcpyHtoDAsync_v2(u64 d, void *h, size_t n, void *s) { memcpy((void *)d, h, n); return 0; }
int cuMemcpyDtoHAsync_v2(void *h, u64 d, size_t n, void *s) { memcpy(h, (void *)d, n); return 0; }
int cuPointerGetAttribute(void *out, int a, u64 p) { *(u *)out = a == 2 ? 2 : 0; return 0; }
int cuStreamCreate(void **s, u flags) { *s = (void *)handle(); return 0; }
int cuStreamDestroy_v2(void *s) { return 0; }
int cuStreamSynchronize(void *s) { return 0; }
int cuStreamWaitEvent(void *s, void *e, u flags) { return 0; }
int cuEventCreate(void **e, u flags) { *e = (void *)handle(); return 0; }
int cuEventRecord(void *e, void *s) { return 0; }
int cuEventSynchronize(void *e) { return 0; }
int cuEventDestroy_v2(void *e) { return 0; }
int cuTensorMapEncodeTiled(void *m, int kind, u rank, void *base, void *dims, void *strides, void *box, void *steps, int a, int b, int c, int d) {
  memset(m, 1, 128); return 0; }
int cuLaunchKernel(void *f, u gx, u gy, u gz, u bx, u by, u bz, u shared, void *s, void **a, void **extra) { return 0; }
int cuLaunchKernelEx(void *config, void *f, void **a, void **extra) { return 0; }
/* DLPack's C exchange, of objects whose first slot is the bytes of their DLTensor; their library works in the default stream. */
int silent_tensor(char *object, void *tensor) { memcpy(tensor, *(char **)(object + 16) + 32, 48); return 0; }
int silent_stream(int kind, int device, void **stream) { *stream = 0; return 0; }
