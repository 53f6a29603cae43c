/* cuemu_device.h - the CUDA runtime's errors and devices. Names, types and constants are those of the toolkit's header,
 * as far as they are used here. */
#pragma once
#include "cuemu_fibers.h"
#include "cuemu_stream.h"

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorPeerAccessAlreadyEnabled = 704,
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrClusterLaunch = 120
};
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
union cudaLaunchAttributeValue {
    struct {
        unsigned x, y, z;
    } clusterDim;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int warpSize, maxThreadsPerBlock, major, minor, multiProcessorCount, l2CacheSize;
};

/* ---- errors, devices ---- */

namespace cuemu
{
inline thread_local cudaError_t last_error;
inline cudaError_t fail(cudaError_t e)
{
    return last_error = e;
}
inline cudaError_t no_device()
{
    return set.devices > 0 ? cudaSuccess : fail(set.devices ? cudaErrorInsufficientDriver : cudaErrorNoDevice);
}
/* At the top of each function. */
#define CUEMU_ENTER                                                                                                    \
    std::lock_guard<std::recursive_mutex> cuemu_entered(cuemu::gate);                                                  \
    if (cuemu::no_device())                                                                                            \
    return cuemu::last_error
} // namespace cuemu

inline cudaError_t cudaGetLastError()
{
    cudaError_t e = cuemu::last_error;
    cuemu::last_error = cudaSuccess;
    return e;
}
inline cudaError_t cudaPeekAtLastError()
{
    return cuemu::last_error;
}
namespace cuemu
{
struct known_error {
    cudaError_t error;
    const char *name, *text;
};
inline const known_error errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
};
} // namespace cuemu
inline const char *cudaGetErrorName(cudaError_t e)
{
    for (auto &known : cuemu::errors)
        if (known.error == e)
            return known.name;
    return "unrecognized error code";
}
inline const char *cudaGetErrorString(cudaError_t e)
{
    for (auto &known : cuemu::errors)
        if (known.error == e)
            return known.text;
    return "unrecognized error code";
}
inline cudaError_t cudaDriverGetVersion(int *v)
{
    *v = cuemu::set.devices < 0 ? 0 : 13000;
    return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = 13000;
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 0;
    CUEMU_ENTER;
    *n = cuemu::set.devices;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device)
{
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    cuemu::current = device;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    CUEMU_ENTER;
    *device = cuemu::current;
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    *p = {};
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    snprintf(p->name, sizeof p->name, "emulated GPU");
    p->totalGlobalMem = cuemu::set.memory;
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = CUEMU_SMEM;
    p->sharedMemPerMultiprocessor = CUEMU_SMEM + 1024;
    p->warpSize = 32;
    p->maxThreadsPerBlock = CUEMU_THREADS;
    p->major = 9;
    p->multiProcessorCount = 132;
    p->l2CacheSize = 50 << 20;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int device)
{
    cudaDeviceProp p;
    *value = 0;
    cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e != cudaSuccess)
        return e;
    const struct {
        cudaDeviceAttr which;
        int value;
    } known[] = {
        {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlock, (int)p.sharedMemPerBlock},
        {cudaDevAttrWarpSize, p.warpSize},
        {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
        {cudaDevAttrL2CacheSize, p.l2CacheSize},
        {cudaDevAttrComputeCapabilityMajor, p.major},
        {cudaDevAttrComputeCapabilityMinor, p.minor},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)p.sharedMemPerMultiprocessor},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin},
        {cudaDevAttrClusterLaunch, 1},
    };
    for (auto &a : known)
        if (a.which == which) {
            *value = a.value;
            return cudaSuccess;
        }
    return cuemu::fail(cudaErrorInvalidValue);
}
inline cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    snprintf(id, (size_t)size, "0000:%02X:00.0", 0x1b + device);
    return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices || peer < 0 || peer >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    CUEMU_ENTER;
    if (peer < 0 || peer >= cuemu::set.devices || peer == cuemu::current)
        return cuemu::fail(cudaErrorInvalidDevice);
    if (cuemu::peers[cuemu::current][peer])
        return cuemu::fail(cudaErrorPeerAccessAlreadyEnabled);
    cuemu::peers[cuemu::current][peer] = true;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize()
{
    CUEMU_ENTER;
    cuemu::not_captured("cudaDeviceSynchronize");
    cuemu::wait_for_device(cuemu::current);
    return cudaSuccess;
}
