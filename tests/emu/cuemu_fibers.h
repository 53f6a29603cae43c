/* cuemu_fibers.h - the threads of a kernel: each is a fiber. */
#pragma once
#include "cuemu_memory.h"

#include <csetjmp>
#include <functional>
#include <ucontext.h>
#include <utility>
#include <vector>

enum { CUEMU_SMEM = 232448, CUEMU_STACK = 64 << 10, CUEMU_THREADS = 1024, CUEMU_CLUSTER = 16, CUEMU_REDZONE = 1024 };

namespace cuemu
{
enum state { READY, BARRIER, WARP, CLUSTER, DONE };
struct fiber {
    jmp_buf at;
    state is;
    bool begun;
    dim3 thread, block;
    int rank;                /* of its block in the cluster */
    unsigned lane_ops, mask; /* shuffles so far; whom this one waits for */
    char *stack;
};
enum { BOX = 32 }; /* bytes that a lane can hand over at once */
struct warp_box {
    unsigned char of[2][32][BOX];
};
inline fiber fibers[CUEMU_THREADS * CUEMU_CLUSTER];
inline warp_box boxes[CUEMU_THREADS * CUEMU_CLUSTER / 32];
inline unsigned char *shared[CUEMU_CLUSTER]; /* by block of the cluster */
inline fiber *now;
inline jmp_buf scheduler;
inline ucontext_t start, back;
inline std::function<void()> body;

inline void wait(state s)
{
    now->is = s;
    if (!_setjmp(now->at))
        _longjmp(scheduler, 1);
}
inline void run()
{
    for (;; wait(DONE)) /* a fiber that has ended is the same thread of the next block */
        body();
}
inline void resume(fiber *f)
{
    in_thread = true, now = f, threadIdx = f->thread, blockIdx = f->block;
    if (_setjmp(scheduler))
        return;
    if (f->begun)
        _longjmp(f->at, 1);
    f->begun = true;
    getcontext(&start);
    start.uc_stack.ss_sp = f->stack;
    start.uc_stack.ss_size = CUEMU_STACK;
    start.uc_link = nullptr;
    makecontext(&start, run, 0);
    setcontext(&start);
}
/* Lanes of a warp go on together where all that a shuffle's mask names have come. */
inline bool release_warp(fiber *w)
{
    unsigned come = 0, mask = 0;
    for (int i = 0; i < 32; i++)
        if (w[i].is == WARP)
            come |= 1u << i, mask |= w[i].mask;
    if (!come || (mask & ~come))
        return false;
    for (int i = 0; i < 32; i++)
        if (w[i].is == WARP)
            w[i].is = READY;
    return true;
}
inline std::vector<int> order_of(int n)
{
    unsigned seed = (unsigned)set.order;
    std::vector<int> o(n);
    for (int i = 0; i < n; i++)
        o[i] = seed == 1 ? n - 1 - i : i;
    for (int i = n - 1; seed > 1 && i > 0; i--)
        seed = seed * 1664525u + 1013904223u, std::swap(o[i], o[(seed >> 8) % (i + 1)]);
    return o;
}
/* Each warp goes on alone until all of it waits at a barrier, so that whoever needed one meets another's haste.
 * Returns how many threads wait for the cluster or have ended; *done: of those, the latter. */
inline int run_block(fiber *f, int threads, int *done)
{
    static const std::vector<int> lanes = order_of(32);
    for (;;) {
        int at[DONE + 1] = {};
        for (int w : order_of(threads / 32))
            do
                for (int l : lanes)
                    if (f[w * 32 + l].is == READY)
                        resume(&f[w * 32 + l]);
            while (release_warp(f + w * 32));
        for (int i = 0; i < threads; i++)
            at[f[i].is]++;
        if (at[WARP])
            die("a shuffle's mask names a lane that does not come");
        if (at[BARRIER] && at[BARRIER] != threads)
            die("a barrier that some threads never meet");
        *done = at[DONE];
        if (!at[BARRIER])
            return at[CLUSTER] + at[DONE];
        for (int i = 0; i < threads; i++)
            f[i].is = READY;
    }
}
/* The blocks of a cluster, which may wait for each other. */
inline void run_cluster(int first, int blocks, int threads, size_t smem)
{
    for (int b = 0, i = 0; b < blocks; b++) {
        unsigned char *&mine = shared[b];
        mine = mine ? mine : static_cast<unsigned char *>(aligned_alloc(16, CUEMU_SMEM + CUEMU_REDZONE));
        memset(mine, 0xff, smem + CUEMU_REDZONE); /* NaN */
        for (int t = 0; t < threads; t++, i++) {
            if (!fibers[i].stack)
                fibers[i].stack = static_cast<char *>(malloc(CUEMU_STACK));
            fibers[i].is = READY, fibers[i].lane_ops = 0, fibers[i].rank = b;
            fibers[i].thread = dim3(t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y));
            fibers[i].block = dim3((first + b) % gridDim.x, (first + b) / gridDim.x % gridDim.y,
                                   (first + b) / (gridDim.x * gridDim.y));
        }
    }
    for (int done = 0, all = blocks * threads; done < all;) {
        done = 0;
        for (int b : order_of(blocks)) {
            int ended;
            if (run_block(fibers + b * threads, threads, &ended) != threads)
                die("a cluster's barrier that some threads never meet");
            done += ended;
        }
        if (done && done != all)
            die("a cluster's barrier that some threads never meet");
        for (int i = 0; !done && i < all; i++)
            fibers[i].is = READY;
    }
    for (int b = 0; b < blocks; b++)
        for (size_t i = smem; i < smem + CUEMU_REDZONE; i++)
            if (shared[b][i] != 0xff)
                die("wrote shared memory beyond what was asked for");
}
inline void launch(dim3 grid, dim3 dim, int cluster, size_t smem, std::function<void()> fn)
{
    body = std::move(fn), gridDim = grid, blockDim = dim;
    int threads = dim.x * dim.y * dim.z, blocks = grid.x * grid.y * grid.z;
    if (threads > CUEMU_THREADS || threads % 32 || smem > CUEMU_SMEM || cluster > CUEMU_CLUSTER || blocks % cluster)
        die("a launch that no device takes, or a block that is not whole warps");
    for (int c : order_of(blocks / cluster))
        run_cluster(c * cluster, cluster, threads, smem);
    now = nullptr;
}
/* What all lanes of the mask hand over, BOX bytes apart; good until the lane's next but one. */
inline const unsigned char *gather(unsigned mask, const void *x, size_t n)
{
    int me = static_cast<int>(now - fibers), turn = now->lane_ops++ & 1;
    memcpy(boxes[me / 32].of[turn][me % 32], x, n);
    now->mask = mask;
    wait(WARP);
    return boxes[me / 32].of[turn][0];
}
template <class T> T shuffle(unsigned mask, T x, int from)
{
    const unsigned char *all = gather(mask, &x, sizeof x);
    if (from >= 0 && from < 32 && (mask >> from & 1))
        memcpy(&x, all + from * BOX, sizeof x);
    return x;
}
inline int lane()
{
    return static_cast<int>(now - fibers) % 32;
}
} // namespace cuemu
