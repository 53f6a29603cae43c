/* cuemu_memory.h - what the emulator is told by the environment, how it reports an error, and the memory of devices.
 *
 * An allocation is a mapping of its own between two pages that nobody may touch; the bytes around it in its pages are
 * a red zone. Its first 64 MiB are filled with NaN, by mapping one file of NaNs again and again: pages that are never
 * touched take no memory. Freed memory stays mapped for a while, closed. */
#pragma once
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuemu
{
enum { DEVICES = 16, ALIGN = 256, KEPT = 1024 }; /* KEPT: allocations that were freed */
constexpr long PAGE = 4096;

/* ---- settings ---- */

struct settings {
    int devices = 1;             /* CUEMU_DEVICES; 0: the driver finds none; -1: there is no driver */
    int order = 0;               /* CUEMU_ORDER */
    int late = 0;                /* CUEMU_LATE */
    bool guard = false;          /* CUEMU_GUARD */
    bool leaks = false;          /* CUEMU_LEAKS */
    size_t memory = 16ull << 30; /* CUEMU_MEMORY: bytes of a device */
    FILE *trace = nullptr; /* CUEMU_TRACE: a file that gets a line for each launch, those of recordings included */
    int breaks = 0;        /* CUEMU_BREAKS */
};

inline settings read_settings()
{
    settings s;
    auto number = [](const char *name, long long otherwise) {
        const char *text = getenv(name);
        return text && *text ? strtoll(text, nullptr, 10) : otherwise;
    };
    s.devices = (int)number("CUEMU_DEVICES", s.devices);
    s.devices = s.devices > DEVICES ? (int)DEVICES : s.devices;
    s.order = (int)number("CUEMU_ORDER", s.order);
    s.late = (int)number("CUEMU_LATE", s.late);
    s.guard = number("CUEMU_GUARD", s.guard) != 0;
    s.leaks = number("CUEMU_LEAKS", s.leaks) != 0;
    s.breaks = (int)number("CUEMU_BREAKS", s.breaks);
    s.memory = (size_t)number("CUEMU_MEMORY", (long long)s.memory);
    if (const char *trace = getenv("CUEMU_TRACE"))
        s.trace = fopen(trace, "a");
    return s;
}
inline const settings set = read_settings();

/* ---- errors ---- */

inline const void *kernel; /* that runs; NULL: none does, the host's code runs */
enum part { IN_GRID, IN_BLOCK, IN_THREAD };
inline part place; /* of the kernel: where it is */

inline std::string name_of(const void *function)
{
    Dl_info info = {};
    char text[64];
    if (!dladdr(function, &info) || info.dli_saddr != function || !info.dli_sname) {
        snprintf(text, sizeof text, " + 0x%zx", (size_t)function - (size_t)info.dli_fbase);
        return (info.dli_fname ? info.dli_fname : "?") + std::string(text);
    }
    int rc;
    char *plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &rc);
    std::string name = plain ? plain : info.dli_sname;
    free(plain);
    return name;
}

/* "kernel f, block (0,0,0), thread (3,0,0): ", as far as it is so. */
inline std::string where()
{
    if (!kernel)
        return "";
    auto index = [](const char *what, dim3 i) {
        char text[64];
        snprintf(text, sizeof text, ", %s (%u,%u,%u)", what, i.x, i.y, i.z);
        return std::string(text);
    };
    return "kernel " + name_of(kernel) + (place >= IN_BLOCK ? index("block", blockIdx) : "") +
           (place >= IN_THREAD ? index("thread", threadIdx) : "") + ": ";
}

__attribute__((format(printf, 1, 2))) inline void say(const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "cuemu: %s%s\n", where().c_str(), text);
}

template <class... A> [[noreturn]] void die(const char *format, A... a)
{
    say(format, a...);
    abort();
}
[[noreturn]] inline void die(const char *what)
{
    die("%s", what);
}

/* ---- mappings ---- */

/* Of the address sanitizer, where the program was built with it: then it reports the first byte outside of an
 * allocation, too. */
extern "C" __attribute__((weak)) void __asan_poison_memory_region(const volatile void *p, size_t n);
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *p, size_t n);

/* [from, to) is closed but for n bytes at p. */
inline void mark(const char *from, const char *to, const char *p, size_t n)
{
    if (__asan_poison_memory_region) {
        __asan_poison_memory_region(from, (size_t)(to - from));
        __asan_unpoison_memory_region(p, n);
    }
}

enum { HOST = -1, STACKS = -2, SHARED = -3 }; /* in place of a device's number: pinned memory, and the emulator's own */

struct mapping {
    int device;
    char *from; /* the first page, which nobody may touch */
    size_t size;
    char *at; /* what was asked for: n bytes */
    size_t n;
    bool freed;
};
inline std::map<const char *, mapping> mappings; /* by their first byte */
inline std::deque<const char *> freed;           /* of them, in the order in which they were freed */
inline std::set<mapping *> in_use[DEVICES];      /* a device's memory */
inline size_t used[DEVICES];
inline bool peers[DEVICES][DEVICES]; /* [i][j]: kernels of device i may touch the memory of device j */

inline size_t whole(size_t n, size_t of)
{
    return (n + of - 1) / of * of;
}

/* That contains p; NULL: none. */
inline mapping *find_mapping(const void *p)
{
    auto at = mappings.upper_bound(static_cast<const char *>(p));
    if (at == mappings.begin())
        return nullptr;
    mapping *m = &(--at)->second;
    return p < m->from + m->size ? m : nullptr;
}
/* As find_mapping, of memory that is in use. */
inline mapping *find_block(const void *p)
{
    mapping *m = find_mapping(p);
    return m && !m->freed && m->device >= HOST ? m : nullptr;
}

inline std::string memory_of(int device)
{
    return device == HOST ? "pinned host memory" : "device " + std::to_string(device);
}

/* An access that the processor refused, in words. */
inline void explain(const char *p)
{
    const mapping *m = find_mapping(p);
    if (!m)
        return;
    long long at = p - m->at;
    std::string memory = memory_of(m->device);
    if (m->device == STACKS)
        say("a thread's variables need more than its stack");
    else if (m->device == SHARED)
        say("reaches shared memory outside of the %zu bytes that were asked for, at %lld", m->n, at);
    else if (m->freed)
        say("uses freed memory of %s: byte %lld of %zu", memory.c_str(), at, m->n);
    else if (at < 0 || at >= (long long)m->n)
        say("reaches outside of an allocation of %zu bytes of %s, at %lld", m->n, memory.c_str(), at);
    else if (kernel)
        say("uses memory of %s, which it has no access to: byte %lld of %zu", memory.c_str(), at, m->n);
    else
        say("the host's code uses memory of %s: byte %lld of %zu", memory.c_str(), at, m->n);
}

inline struct sigaction before_us[NSIG];
inline void on_fault(int sig, siginfo_t *info, void *)
{
    if (sig != SIGILL)
        explain(static_cast<const char *>(info->si_addr));
    else if (kernel)
        say("an address that is not aligned to its type"); /* for which the compiler was asked to make a trap */
    sigaction(sig, &before_us[sig], nullptr);              /* it faults again on return, as if we had not been here */
}

/* The words of a NaN, whatever is read of it: float, double, bf16. */
inline const uint32_t NAN_WORD = 0xffc0ffeeu;

inline char *nan_page()
{
    static char page[2 * PAGE];
    if (!page[0])
        for (int i = 0; i < 2 * PAGE; i += 4)
            memcpy(page + i, &NAN_WORD, 4);
    return page;
}

enum { NAN_FILE = 4 << 20, NANS = 64 << 20 };
inline int nan_file()
{
    static int fd = -1;
    if (fd >= 0)
        return fd;
    fd = memfd_create("cuemu", MFD_CLOEXEC);
    for (int i = 0; i < NAN_FILE / PAGE; i++)
        if (write(fd, nan_page(), PAGE) != PAGE)
            die("no memory for the emulator's own use");
    return fd;
}

/* A mapping with room for n bytes that end where it ends, and a closed page on both sides. */
inline mapping *make_mapping(int device, size_t n, bool nans, bool closed)
{
    static bool ready;
    if (!ready) {
        struct sigaction act = {};
        static char stack[64 << 10];
        stack_t own = {}, old;
        own.ss_sp = stack, own.ss_size = sizeof stack;
        if (!sigaltstack(nullptr, &old) && (old.ss_flags & SS_DISABLE))
            sigaltstack(&own, nullptr);
        act.sa_sigaction = on_fault;
        act.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int sig : {SIGSEGV, SIGBUS, SIGILL})
            sigaction(sig, &act, &before_us[sig]);
        ready = true;
    }
    size_t body = whole(n, ALIGN), room = whole(body, PAGE);
    int prot = closed ? PROT_NONE : PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_NORESERVE;
    char *from = static_cast<char *>(mmap(nullptr, room + 2 * PAGE, prot, how | MAP_ANONYMOUS, -1, 0));
    bool ok = from != MAP_FAILED;
    for (size_t i = 0; ok && nans && i < room && i < NANS; i += NAN_FILE)
        ok = mmap(from + PAGE + i, room - i < NAN_FILE ? room - i : (size_t)NAN_FILE, prot, how | MAP_FIXED, nan_file(),
                  0) != MAP_FAILED;
    if (!ok)
        die("mmap of %zu bytes: %s", n, strerror(errno));
    mprotect(from, PAGE, PROT_NONE);
    mprotect(from + PAGE + room, PAGE, PROT_NONE);
    mapping m = {device, from, room + 2 * PAGE, from + PAGE + room - body, n, false};
    mark(from + PAGE, from + PAGE + room, m.at, m.n);
    return &(mappings[from] = m);
}

/* ---- allocations ---- */

/* NULL: the device has no such room left. */
inline void *take(int device, size_t n)
{
    size_t counted = whole(n, ALIGN);
    if (device >= 0 && (counted > set.memory || used[device] > set.memory - counted))
        return nullptr;
    mapping *m = make_mapping(device, n, true, device >= 0 && set.guard);
    if (device >= 0) {
        used[device] += counted;
        in_use[device].insert(m);
    }
    return m->at;
}

/* The memory of a device, open for a kernel or a copy; with CUEMU_GUARD nobody else may touch it. */
struct opened {
    int device;
    bool with_peers;
    static inline int open[DEVICES]; /* by how many */

    explicit opened(int device, bool with_peers = false) : device(device), with_peers(with_peers)
    {
        change(+1);
    }
    ~opened()
    {
        change(-1);
    }
    opened(const opened &) = delete;
    opened &operator=(const opened &) = delete;
    void change(int by)
    {
        for (int i = 0; set.guard && i < set.devices; i++)
            if (i == device || (with_peers && device >= 0 && peers[device][i])) {
                bool was = open[i] > 0;
                open[i] += by;
                if (was != (open[i] > 0))
                    protect(i, was ? PROT_NONE : PROT_READ | PROT_WRITE);
            }
    }
    static void protect(int device, int prot)
    {
        for (const mapping *m : in_use[device])
            mprotect(m->from + PAGE, m->size - 2 * PAGE, prot);
    }
};

/* Looks at what lies around an allocation in its pages. */
inline void check_block(const mapping &m, const char *when)
{
    if (__asan_poison_memory_region)
        return;
    auto look = [&](const char *from, const char *to) {
        for (; from < to; from++)
            if (*from != nan_page()[(uintptr_t)from % 4])
                die("%sa write outside of an allocation of %zu bytes of %s, at %td", when, m.n,
                    memory_of(m.device).c_str(), from - m.at);
    };
    const char *first = std::max(m.from + PAGE, m.at - ALIGN), *end = m.from + m.size - PAGE;
    if (m.at - first > 0 && memcmp(first, nan_page() + (uintptr_t)first % 4, (size_t)(m.at - first)))
        look(first, m.at);
    if (m.n < NANS)
        look(m.at + m.n, end);
}
inline void check_blocks(int device, const char *when)
{
    opened now(device);
    for (const mapping *m : in_use[device])
        check_block(*m, when);
}

inline void give(mapping *m)
{
    {
        opened now(m->device);
        check_block(*m, "found when it is freed: ");
    }
    if (m->device >= 0) {
        used[m->device] -= whole(m->n, ALIGN);
        in_use[m->device].erase(m);
    }
    m->freed = true;
    mark(m->from, m->from, m->from, m->size);
    mmap(m->from, m->size, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    freed.push_back(m->from);
    if (freed.size() > KEPT) {
        munmap(const_cast<char *>(freed.front()), mappings[freed.front()].size);
        mappings.erase(freed.front());
        freed.pop_front();
    }
}
} // namespace cuemu
