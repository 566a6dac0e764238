/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process of the native program, to send tensors to and to have them from: the same program
 * started anew with the word "other". It does what it is told, as a receiver of
 * torch.multiprocessing does: orders and answers are messages of a socket.
 */
#ifndef TENURE_TESTS_TORCH_OTHERS_H
#define TENURE_TESTS_TORCH_OTHERS_H

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>

#include <tenure/tenure.h>

namespace others
{

namespace cca = c10::cuda::CUDACachingAllocator;
constexpr int control = 3; /* the other's descriptor */

struct message {
    char what;
    long number;
    long count;
    size_t bytes;
    char handle[128];
};

inline bool send(int socket, const message &one)
{
    return ::send(socket, &one, sizeof(one), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(one));
}

inline bool receive(int socket, message &one)
{
    return ::read(socket, &one, sizeof(one)) == static_cast<ssize_t>(sizeof(one));
}

inline void handle_put(message &to, const cca::ShareableHandle &from)
{
    to.bytes = from.handle.size();
    to.number = static_cast<long>(from.offset);
    std::memcpy(to.handle, from.handle.data(), from.handle.size());
}

inline std::string handle_of(const message &from)
{
    return std::string(from.handle, from.bytes);
}

inline int value_at(const void *ptr)
{
    unsigned char value = 0;
    if (cuMemcpyDtoH(&value, reinterpret_cast<CUdeviceptr>(ptr), 1) != CUDA_SUCCESS)
        return -1;
    return value;
}

inline bool value_put(void *ptr, int value)
{
    return cuMemsetD8(reinterpret_cast<CUdeviceptr>(ptr), static_cast<unsigned char>(value), 1) ==
               CUDA_SUCCESS &&
           cuCtxSynchronize() == CUDA_SUCCESS;
}

/* Descriptors that are sockets. */
inline int sockets_count()
{
    int count = 0;
    for (int file = 0; file < 256; file++) {
        char path[64], target[64] = "";
        std::snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
        if (readlink(path, target, sizeof(target) - 1) > 0)
            count += std::strncmp(target, "socket:", 7) == 0;
    }
    return count;
}

/* ---- what the other does -------------------------------------------------------------------- */

/* It drops a tensor while a stream is being captured. */
inline bool drop_in_capture(std::vector<std::shared_ptr<void>> &open)
{
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    void *ptr = open.back().get();
    const c10::MempoolId_t id = {0, 21};
    tnr_import_info info = {};
    info.struct_bytes = sizeof(info);
    bool good = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(stream, 0));
    cca::beginAllocateToPool(0, id, [stream](cudaStream_t asked) { return asked == stream; });
    good = good && cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS;
    c10::GetAllocator(c10::kCUDA)->allocate(512);
    open.clear();
    good = good && tnr_import_get(&info, ptr) == TNR_OK; /* it is open still */
    good = good && cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS;
    cca::endAllocateToPool(0, id);
    cca::releasePool(0, id);
    good = good && cuGraphDestroy(graph) == CUDA_SUCCESS;
    cca::emptyCache();
    return good && tnr_import_get(&info, ptr) == TNR_ERR_FOREIGN_POINTER;
}

inline int work()
{
    std::vector<std::shared_ptr<void>> open;
    c10::DataPtr own;
    message order;
    while (receive(control, order)) {
        message said = {};
        try {
            switch (order.what) {
            case 'o': /* open; the value there, and how many different addresses */
                open.push_back(cca::getIpcDevPtr(handle_of(order)));
                said.number = value_at(static_cast<char *>(open.back().get()) + order.number);
                for (const auto &one : open)
                    said.count += one != open.back();
                break;
            case 'w':
                said.number = value_put(open.back().get(), static_cast<int>(order.number));
                break;
            case 'r': /* the use of such a tensor by a stream */
                cca::recordStream(c10::DataPtr(open.back().get(), c10::Device(c10::kCUDA, 0)),
                                  c10::cuda::getCurrentCUDAStream(0));
                break;
            case 'd':
                open.clear();
                break;
            case 'c':
                said.number = drop_in_capture(open);
                break;
            case 's': /* a tensor of its own */
                own = c10::GetAllocator(c10::kCUDA)->allocate(order.bytes);
                said.count = value_put(own.get(), 9);
                handle_put(said, cca::get()->shareIpcHandle(own.get()));
                break;
            case 'f':
                own.clear();
                break;
            default:
                return 1;
            }
            said.what = 'y';
        } catch (const c10::Error &error) {
            said.what = 'n';
            std::snprintf(said.handle, sizeof(said.handle), "%s", error.what_without_backtrace());
        }
        if (!send(control, said))
            return 1;
    }
    return 0;
}

/* ---- this side ------------------------------------------------------------------------------ */

struct process {
    pid_t number = -1;
    int socket = -1;

    explicit process(const char *native)
    {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
            return;
        number = fork();
        if (number == 0) {
            dup2(pair[1], control);
            execl("/proc/self/exe", "native_program", native, "other", nullptr);
            _exit(127);
        }
        close(pair[1]);
        socket = pair[0];
    }
    message ask(message order) const
    {
        message said = {};
        if (!send(socket, order) || !receive(socket, said))
            said.what = '-';
        return said;
    }
    message ask(char what, long number_given = 0, size_t bytes = 0) const
    {
        message order = {};
        order.what = what;
        order.number = number_given;
        order.bytes = bytes;
        return ask(order);
    }
    message open(const cca::ShareableHandle &handle) const
    {
        message order = {};
        handle_put(order, handle);
        order.what = 'o';
        return ask(order);
    }
    /* True: it ended as it should. */
    bool end()
    {
        int status = 0;
        close(socket);
        bool good = waitpid(number, &status, 0) == number;
        number = -1;
        return good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
};

} // namespace others

#endif
