/* cuemu_fibers.h - runs a kernel: each thread of a block is a fiber, and one runs at a time.
 *
 * A warp's lanes run one after the other, each until it waits for others: in a shuffle, at a barrier of its block or of
 * its cluster. A warp goes on alone until all its lanes wait for other warps, so that one that needed a barrier meets
 * another's haste. Blocks run one after the other, those of a cluster in turns.
 *
 * A thread that ends without waiting costs a function call: the next one begins on its stack. */
#pragma once
#include "cuemu_memory.h"

#include <vector>

/* Inlined without optimisation, too: they run at every wait. */
#define CUEMU_INLINE inline __attribute__((always_inline))

enum { CUEMU_SMEM = 227 << 10, CUEMU_THREADS = 1024, CUEMU_CLUSTER = 16 };

/* Pushes what a function has to keep, stores the stack's pointer at *from, and goes on where `to` was stored so.
 * Outside of the compiler's sight, since another thread's code runs before it returns. */
extern "C" void cuemu_switch(void **from, void *to);
asm(R"(
    .pushsection .text.cuemu_switch, "axG", @progbits, cuemu_switch, comdat
    .weak cuemu_switch
    .hidden cuemu_switch
    .type cuemu_switch, @function
cuemu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size cuemu_switch, . - cuemu_switch
    .popsection
)");

namespace cuemu
{
enum { BOX = 32 };                                         /* bytes that a lane can hand over at once */
enum { STACK = 256 << 10, BELOW = 1 << 20, MARGIN = 256 }; /* BELOW: bytes that nobody may touch */

struct stack {
    void *sp; /* where it goes on */
    stack *next;
};
struct thread {
    void *sp;  /* where it goes on */
    stack *on; /* NULL: it has not begun */
    dim3 index;
    int lane, rank; /* rank: of its block in the cluster */
};
struct warp {
    unsigned ready, waiting; /* bits count in the order in which lanes run */
    unsigned come, need;     /* lanes that wait in a shuffle, and those that their masks name */
    bool mixed;              /* not all in the same one */
    int turn;                /* which boxes they fill */
    unsigned lanes, mask[32];
    int kind[32];
    alignas(16) unsigned char box[2][32][BOX];
};
struct block {
    dim3 index;
    int at_barrier, at_cluster, done, kind;
    int count, counted; /* predicates that hold, at this barrier and the last */
};

inline thread fibers[CUEMU_THREADS * CUEMU_CLUSTER];
inline warp warps[CUEMU_THREADS * CUEMU_CLUSTER / 32];
inline block blocks[CUEMU_CLUSTER];
inline unsigned char *shared[CUEMU_CLUSTER]; /* by block of the cluster */
inline mapping *shared_mapping[CUEMU_CLUSTER];
inline stack *idle;
inline void *main_sp;

struct launched {
    void (*call)(const void *);
    const void *args;
    int threads, warps, cluster; /* of a block, of a block, blocks */
    size_t smem;
};
inline launched grid;

/* What runs: thread now of warp warp_now, the w-th of the b-th block. */
inline thread *now;
inline warp *warp_now;
inline thread *warp_first; /* its first thread */
inline int w, b;

/* ---- order ---- */

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
/* The same, kept for the small numbers of lanes, warps and blocks of a cluster. */
inline const int *small_order(int n)
{
    static std::vector<int> of[33];
    if (of[n].empty())
        of[n] = order_of(n);
    return of[n].data();
}

inline void turn_to_warp(int i)
{
    w = i;
    int at = small_order(grid.cluster)[b] * grid.warps + small_order(grid.warps)[i];
    warp_now = &warps[at];
    warp_first = &fibers[at * 32];
}
inline void turn_to_block(int i)
{
    b = i;
    blockIdx = blocks[small_order(grid.cluster)[i]].index;
    turn_to_warp(0);
}

/* ---- what threads wait for ---- */

/* All that the lane's mask names wait in the same shuffle. */
inline bool complete(const warp *of, int lane)
{
    for (int j = 0; j < 32; j++)
        if ((of->mask[lane] >> j & 1) &&
            (!(of->come >> j & 1) || of->mask[j] != of->mask[lane] || of->kind[j] != of->kind[lane]))
            return false;
    return true;
}
/* Lanes go on together when all that their masks name have come. False: there are none. */
inline bool release_warp(warp *of)
{
    if (!of->waiting || (!of->mixed && (of->need & ~of->come)))
        return false;
    unsigned go_on = of->come, *mask = of->mask;
    for (int i = 0; of->mixed && i < 32; i++)
        if ((of->come >> i & 1) && !complete(of, i))
            go_on &= ~(1u << i);
    if (!go_on)
        return false;
    of->turn ^= 1;
    of->ready = of->waiting;
    of->come &= ~go_on;
    of->waiting = of->need = 0;
    for (int p = 0; of->come && p < 32; p++) /* the others stay, with what they brought */
        if (int i = small_order(32)[p]; of->come >> i & 1) {
            of->ready &= ~(1u << p);
            of->waiting |= 1u << p;
            of->need |= mask[i];
            memcpy(of->box[of->turn][i], of->box[of->turn ^ 1][i], BOX);
        }
    of->mixed = of->mixed && of->come;
    return true;
}
/* A warp whose lanes wait in vain. */
[[noreturn]] inline void die_in_warp(const warp *of, int number)
{
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++)
            if ((of->come >> i & 1) && (of->mask[i] >> j & 1) && (of->come >> j & 1) &&
                (of->mask[j] != of->mask[i] || of->kind[j] != of->kind[i]))
                die("lanes %d and %d of warp %d wait in different shuffles, or name different lanes", i, j, number);
    die("lanes %08x of warp %d wait in a shuffle for lanes %08x, which do not come", of->come, number,
        of->need & ~of->come);
}

inline void make_ready(int block)
{
    for (int i = 0; i < grid.warps; i++) {
        int first = i * 32, n = grid.threads - first;
        warp *of = &warps[block * grid.warps + i];
        of->ready = 0;
        for (int p = 0; n < 32 && p < 32; p++)
            of->ready |= small_order(32)[p] < n ? 1u << p : 0;
        of->ready = n < 32 ? of->ready : ~0u;
    }
}

/* All warps of the block that runs have gone as far as they can. True: they go on from a barrier. */
inline bool release_block()
{
    int at = small_order(grid.cluster)[b];
    block *of = &blocks[at];
    place = IN_BLOCK;
    for (int i = 0; i < grid.warps; i++)
        if (const warp *one = &warps[at * grid.warps + i]; one->waiting)
            die_in_warp(one, i);
    if (of->at_barrier && of->at_barrier != grid.threads)
        die("%d of %d threads wait at a barrier that the others never meet", of->at_barrier, grid.threads);
    if (of->at_cluster && of->at_cluster != grid.threads)
        die("%d of %d threads wait at a cluster's barrier that the others never meet", of->at_cluster, grid.threads);
    place = IN_THREAD;
    if (!of->at_barrier)
        return false;
    of->at_barrier = 0;
    of->counted = of->count;
    of->count = 0;
    make_ready(at);
    return true;
}
/* The same of all blocks of the cluster. False: all have ended. */
inline bool release_cluster()
{
    int waiting = 0;
    for (int i = 0; i < grid.cluster; i++)
        waiting += blocks[i].at_cluster != 0;
    if (waiting && waiting != grid.cluster)
        die("%d of %d blocks wait at a cluster's barrier that the others never meet", waiting, grid.cluster);
    for (int i = 0; waiting && i < grid.cluster; i++)
        blocks[i].at_cluster = 0, make_ready(i);
    return waiting != 0;
}

/* A warp that can go on; false: all threads of the cluster have ended. */
inline bool turn()
{
    while (!warp_now->ready && !release_warp(warp_now)) {
        if (w + 1 < grid.warps)
            turn_to_warp(w + 1);
        else if (release_block())
            turn_to_warp(0);
        else if (b + 1 < grid.cluster)
            turn_to_block(b + 1);
        else if (release_cluster())
            turn_to_block(0);
        else
            return false;
    }
    return true;
}
/* Who runs next; NULL: all threads of the cluster have ended. */
CUEMU_INLINE thread *pick()
{
    if (!warp_now->ready && !turn())
        return nullptr;
    unsigned ready = warp_now->ready, later = ready & (ready - 1);
    warp_now->ready = later;
    if (later)
        __builtin_prefetch(warp_first[__builtin_ctz(later)].sp);
    return warp_first + __builtin_ctz(ready);
}

/* ---- fibers ---- */

inline void run_threads();

inline stack *take_stack()
{
    if (stack *s = idle) {
        idle = s->next;
        return s;
    }
    static size_t made;
    mapping *m = make_mapping(STACKS, BELOW + STACK, false, false);
    mprotect(m->from, PAGE + BELOW, PROT_NONE);
    /* Not all at the same place in their pages, which share a few lines of the caches. */
    stack *s = reinterpret_cast<stack *>(m->at + BELOW + STACK - 64 - made++ % 31 * 128);
    void **sp = reinterpret_cast<void **>(s);
    *--sp = nullptr; /* whence run_threads would return */
    *--sp = reinterpret_cast<void *>(run_threads);
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
    s->sp = sp;
    return s;
}
CUEMU_INLINE void go_to(void **from, thread *t)
{
    if (!t->on) {
        t->on = take_stack();
        t->sp = t->on->sp;
    }
    now = t;
    threadIdx = t->index;
    cuemu_switch(from, t->sp);
}

/* The life of a fiber: thread after thread that ends on its stack. */
inline void run_threads()
{
    for (;;) {
        grid.call(grid.args);
        stack *mine = now->on;
        now->on = nullptr;
        thread *next = pick();
        if (next && !next->on) {
            next->on = mine;
            now = next;
            threadIdx = next->index;
            continue;
        }
        mine->next = idle;
        idle = mine;
        if (next)
            go_to(&mine->sp, next);
        else
            cuemu_switch(&mine->sp, main_sp);
    }
}
/* This thread has said what it waits for. */
CUEMU_INLINE void pass()
{
    thread *me = now, *next = pick();
    if (next == me)
        return;
    go_to(&me->sp, next);
}

enum state { BARRIER, CLUSTER };
inline void wait(state s, int kind = 0)
{
    block *of = &blocks[now->rank];
    if (s == CLUSTER) {
        of->at_cluster++;
    } else {
        if (of->at_barrier++ && of->kind != kind)
            die("threads of a block wait at barriers of different kinds");
        of->kind = kind;
    }
    pass();
}
/* How many threads bring a predicate that holds to this barrier. */
inline int count(bool holds, int kind)
{
    blocks[now->rank].count += holds;
    wait(BARRIER, kind);
    return blocks[now->rank].counted;
}

inline int lane()
{
    return now->lane;
}

/* What all lanes of the mask hand over, BOX bytes apart; good until the lane's next. All bring the same kind. */
inline const unsigned char *gather(unsigned mask, const void *x, size_t n, int kind = 0)
{
    warp *mine = warp_now;
    int me = now->lane;
    unsigned bit = 1u << me;
    if (!(mask & bit))
        die("a lane that is not in its own mask, %08x", mask);
    memcpy(mine->box[mine->turn][me], x, n);
    mine->mask[me] = mask;
    mine->kind[me] = kind;
    if (mine->come) {
        int one = __builtin_ctz(mine->come);
        mine->mixed |= mine->mask[one] != mask || mine->kind[one] != kind;
    }
    mine->come |= bit;
    mine->need |= mask;
    mine->waiting |= 1u << (now - warp_first);
    pass();
    return mine->box[mine->turn ^ 1][0];
}

enum { SYNC = 1, VOTE }; /* kinds; those of shuffles are above 100, and count the bytes */

/* from: a lane; -1: none. */
template <class T> T shuffle(unsigned mask, T x, int from, int kind)
{
    static_assert(sizeof(T) <= BOX && std::is_trivially_copyable_v<T>, "a shuffle of a number");
    const unsigned char *all = gather(mask, &x, sizeof x, kind + (int)sizeof x);
    if (from < 0)
        return x;
    if (mask >> from & 1)
        memcpy(&x, all + from * BOX, sizeof x);
    else
        memset(&x, 0xff, sizeof x); /* undefined */
    return x;
}

/* ---- grids ---- */

inline void describe_threads()
{
    static dim3 dim = dim3(0);
    static int cluster;
    if (dim.x == blockDim.x && dim.y == blockDim.y && dim.z == blockDim.z && cluster == grid.cluster)
        return;
    dim = blockDim;
    cluster = grid.cluster;
    for (int i = 0; i < grid.cluster * grid.warps * 32; i++) {
        unsigned lane = (unsigned)small_order(32)[i % 32], t = (unsigned)(i / 32 % grid.warps) * 32 + lane;
        fibers[i].index = dim3(t % dim.x, t / dim.x % dim.y, t / (dim.x * dim.y));
        fibers[i].lane = (int)lane;
        fibers[i].rank = i / 32 / grid.warps;
    }
}

/* Shared memory ends where its pages end, so that the first byte beyond it is a fault. */
inline void take_shared(int block)
{
    mapping *&m = shared_mapping[block];
    if (!m)
        m = make_mapping(SHARED, CUEMU_SMEM + MARGIN, false, false);
    m->at = m->from + m->size - PAGE - whole(grid.smem, 16);
    m->n = grid.smem;
    shared[block] = reinterpret_cast<unsigned char *>(m->at);
    mark(m->from, m->from, m->at - MARGIN, MARGIN + whole(grid.smem, 16));
    memset(m->at - MARGIN, 0xff, MARGIN + whole(grid.smem, 16));
    mark(m->from + PAGE, m->from + m->size - PAGE, m->at, m->n);
}
inline void check_shared(int block)
{
    if (__asan_poison_memory_region)
        return;
    const unsigned char *at = shared[block];
    for (size_t i = 0; i < MARGIN; i++)
        if (at[(ptrdiff_t)i - MARGIN] != 0xff)
            die("wrote before its shared memory, at %td", (ptrdiff_t)i - MARGIN);
    for (size_t i = grid.smem; i < whole(grid.smem, 16); i++)
        if (at[i] != 0xff)
            die("wrote beyond the %zu bytes of shared memory that were asked for, at %zu", grid.smem, i);
}

/* The blocks from this one on, which may wait for each other. */
inline void run_cluster(unsigned first)
{
    for (int i = 0; i < grid.cluster; i++) {
        unsigned at = first + (unsigned)i;
        blocks[i] = {};
        blocks[i].index = dim3(at % gridDim.x, at / gridDim.x % gridDim.y, at / gridDim.x / gridDim.y);
        memset(shared[i], 0xff, grid.smem); /* NaN */
        make_ready(i);
    }
    turn_to_block(0);
    place = IN_THREAD;
    go_to(&main_sp, pick());
    place = IN_GRID;
}

/* call(args) for each thread. */
inline void launch(dim3 blocks_of, dim3 dim, int cluster, size_t smem, void (*call)(const void *), const void *args)
{
    gridDim = blocks_of, blockDim = dim;
    int n = (int)(dim.x * dim.y * dim.z);
    grid = {call, args, n, (n + 31) / 32, cluster, smem};
    describe_threads();
    for (int i = 0; i < cluster; i++)
        take_shared(i);
    place = IN_GRID;
    unsigned clusters = gridDim.x * gridDim.y * gridDim.z / (unsigned)cluster;
    if (set.order == 0)
        for (unsigned i = 0; i < clusters; i++)
            run_cluster(i * (unsigned)cluster);
    else
        for (int i : order_of((int)clusters))
            run_cluster((unsigned)(i * cluster));
    for (int i = 0; i < cluster; i++)
        check_shared(i);
}
} // namespace cuemu
