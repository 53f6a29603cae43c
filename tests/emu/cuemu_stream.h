/* cuemu_stream.h - streams, events and captured graphs.
 *
 * A stream is a queue of operations. As a rule each is done when it is enqueued. With CUEMU_LATE=1 it is done when the
 * host waits for it, and not before; with CUEMU_LATE=2 the host's wait lets all other streams go first. Both are what a
 * device may do, and show a host that does not wait, or streams that do not wait for each other. */
#pragma once
#include "cuemu_memory.h"

#include <chrono>
#include <climits>
#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace cuemu
{
inline std::recursive_mutex gate; /* one thread of the host at a time is in the emulator */
inline thread_local int current;  /* device */
inline thread_local int captures; /* that this thread has begun and not ended */

struct operation {
    std::function<void()> run;
    const char *host; /* the pinned memory that it reads or writes: n bytes */
    size_t n;
    uint64_t number;             /* in the order of enqueueing, over all streams */
    std::function<bool()> ready; /* what another process has to do first is done; empty: nothing */
};
struct capture;
struct event;
} // namespace cuemu

struct CUgraph_st {
    std::vector<cuemu::operation> all;
    int device;
};
struct CUgraphExec_st {
    std::vector<cuemu::operation> all;
    int device;
};
struct CUstream_st {
    int device;
    bool blocking; /* it and the device's stream 0 wait for each other */
    std::deque<cuemu::operation> queue;
    std::shared_ptr<cuemu::capture> captured; /* what is enqueued is recorded */
};
struct CUevent_st {
    std::shared_ptr<cuemu::event> is;
};
typedef CUstream_st *cudaStream_t;
typedef CUevent_st *cudaEvent_t;
typedef CUgraph_st *cudaGraph_t;
typedef CUgraphExec_st *cudaGraphExec_t;

namespace cuemu
{
struct capture {
    CUgraph_st *graph;
    CUstream_st *origin;
    std::map<CUstream_st *, size_t> last, joined; /* operations recorded by a stream; of these, those waited for */
};
struct event {
    int device;
    bool timed;
    CUstream_st *in;                 /* of the last record */
    uint64_t number;                 /* of that operation; 0: never recorded */
    uint64_t done;                   /* the last record that was executed */
    double ms;                       /* when */
    std::weak_ptr<capture> captured; /* it was recorded in a capture .. */
    bool was_captured;
    size_t point; /* .. after so many of the stream's operations */
};

inline uint64_t numbers;
inline CUstream_st legacy[DEVICES]; /* stream 0 */
inline CUstream_st *legacy_of(int device)
{
    legacy[device].device = device;
    return &legacy[device];
}
inline std::vector<CUstream_st *> streams;
inline std::set<const void *> events, graphs, execs; /* that were not destroyed */

inline void check_stream(const CUstream_st *s)
{
    for (const CUstream_st *known : streams)
        if (known == s)
            return;
    for (const CUstream_st &known : legacy)
        if (&known == s)
            return;
    die("a stream that does not exist, or was destroyed");
}
inline CUstream_st *stream_of(CUstream_st *s)
{
    if (!s) {
        if (captures)
            die("stream 0 is used while this thread captures another");
        s = legacy_of(current);
    }
    check_stream(s);
    return s;
}
inline void check_alive(const std::set<const void *> &all, const void *p, const char *what)
{
    if (!all.count(p))
        die("%s that does not exist, or was destroyed", what);
}

/* ---- execution ---- */

inline void advance(CUstream_st *s, uint64_t number, bool waits = true);

inline bool is_ready(const CUstream_st *s)
{
    return !s->queue.front().ready || s->queue.front().ready();
}

inline void execute_first(CUstream_st *s)
{
    operation o = std::move(s->queue.front());
    s->queue.pop_front();
    if (s == legacy_of(s->device)) {
        for (size_t i = 0; i < streams.size(); i++)
            if (streams[i]->blocking && streams[i]->device == s->device)
                advance(streams[i], o.number);
    } else if (s->blocking) {
        advance(legacy_of(s->device), o.number);
    }
    o.run();
}

/* Executes what a stream has up to this number; unless it waits, until one is not ready. */
inline void advance(CUstream_st *s, uint64_t number, bool waits)
{
    while (!s->queue.empty() && s->queue.front().number <= number)
        if (is_ready(s))
            execute_first(s);
        else if (waits)
            usleep(100);
        else
            return;
}

/* The host waits for it. */
inline void wait_for(CUstream_st *s, uint64_t number)
{
    for (size_t i = streams.size(); set.late == 2 && i-- > 0;)
        if (streams[i] != s)
            advance(streams[i], UINT64_MAX);
    advance(s, number);
    check_blocks(s->device, "found when the host waits: ");
}
inline void wait_for_device(int device)
{
    for (size_t i = streams.size(); i-- > 0;)
        if (streams[i]->device == device || set.late == 2)
            advance(streams[i], UINT64_MAX);
    wait_for(legacy_of(device), UINT64_MAX);
}

/* Returns the operation's number; 0: it was recorded. */
inline uint64_t enqueue(CUstream_st *s, std::function<void()> run, const char *host = nullptr, size_t n = 0,
                        std::function<bool()> ready = nullptr)
{
    if (s->captured) {
        s->captured->graph->all.push_back({std::move(run), host, n, 0, nullptr});
        s->captured->last[s]++;
        return 0;
    }
    uint64_t number = ++numbers;
    s->queue.push_back({std::move(run), host, n, number, std::move(ready)});
    if (!set.late)
        advance(s, number, false);
    return number;
}

/* An operation that was enqueued, and not yet executed, uses some of this pinned memory. */
inline bool pending(const char *host, size_t n)
{
    auto uses = [&](const CUstream_st *s) {
        for (const operation &o : s->queue)
            if (o.host && o.host < host + n && host < o.host + o.n)
                return true;
        return false;
    };
    for (const CUstream_st *s : streams)
        if (uses(s))
            return true;
    for (const CUstream_st &s : legacy)
        if (uses(&s))
            return true;
    return false;
}

inline void not_captured(const char *what)
{
    if (captures)
        die("%s during a capture", what);
}

/* ---- events ---- */

inline void record(event *e, std::shared_ptr<event> is, CUstream_st *s)
{
    if (s->device != e->device)
        die("an event of device %d is recorded in a stream of device %d", e->device, s->device);
    e->was_captured = s->captured != nullptr;
    e->captured = s->captured;
    e->in = s;
    if (s->captured) {
        e->point = s->captured->last[s];
        return;
    }
    e->number = numbers + 1; /* before it is executed, which enqueue may do */
    enqueue(s, [is, number = e->number] {
        is->done = number;
        is->ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
    });
}

/* What the stream is given from now on waits for the event's last record. */
inline void wait_event(CUstream_st *s, std::shared_ptr<event> e)
{
    std::shared_ptr<capture> c = e->captured.lock();
    if (e->was_captured) {
        if (!c || (s->captured && s->captured != c))
            die("a stream waits for an event of another capture");
        c->joined[e->in] = std::max(c->joined[e->in], e->point);
        if (!s->captured)
            s->captured = c, c->last[s] = 0;
        else if (s != e->in)
            c->last[s]++; /* a node that joins the two: whoever joins s has e->in as well */
        return;
    }
    if (s->captured)
        die("a stream that is captured waits for an event that is not");
    if (e->number)
        enqueue(s, [e, in = e->in, number = e->number] {
            if (e->done < number)
                advance(in, number);
        });
}

inline CUgraph_st *end_capture(CUstream_st *s)
{
    std::shared_ptr<capture> c = s->captured;
    if (!c || c->origin != s)
        die("the end of a capture that this stream did not begin");
    for (auto &[stream, last] : c->last) {
        if (stream != s && c->joined[stream] < last)
            die("a capture ends before a stream that it forked has joined");
        stream->captured = nullptr;
    }
    s->captured = nullptr;
    return c->graph;
}

/* ---- copies ---- */

/* The memory that [p, p+n) is in; nullptr: memory of the host's own. */
inline mapping *operand(const void *p, size_t n, const char *what)
{
    mapping *m = find_mapping(p);
    if (!m || m->device < HOST)
        return nullptr;
    long long at = static_cast<const char *>(p) - m->at;
    std::string memory = memory_of(m->device);
    if (m->freed)
        die("%s: freed memory of %s", what, memory.c_str());
    if (at < 0 || (size_t)at + n > m->n)
        die("%s: bytes %lld to %lld of an allocation of %zu bytes of %s", what, at, at + (long long)n, m->n,
            memory.c_str());
    return m;
}

struct sides {
    mapping *to, *from;
};
/* kind: 1 to the device, 2 to the host, 3 on devices, 0 on the host, 4 as the addresses say */
inline sides check_copy(void *to, const void *from, size_t n, int kind)
{
    static const char *const kinds[] = {"HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice"};
    sides c = {operand(to, n, "a copy's target"), operand(from, n, "a copy's source")};
    bool from_device = c.from && c.from->device >= 0, to_device = c.to && c.to->device >= 0;
    if (kind != 4 && (to_device != (kind & 1) || from_device != (kind >> 1)))
        die("a copy cudaMemcpy%s whose %s is memory of the %s", kinds[kind],
            to_device != (kind & 1) ? "target" : "source",
            (to_device != (kind & 1) ? to_device : from_device) ? "device" : "host");
    return c;
}

/* Copies from and to memory of the host that is not pinned are done before the call returns, as a device does them. */
inline void copy_async(void *to, const void *from, size_t n, int kind, CUstream_st *s)
{
    if (n == 0)
        return;
    sides c = check_copy(to, from, n, kind);
    int there = c.to ? c.to->device : HOST, here = c.from ? c.from->device : HOST;
    bool on_host = there < 0 || here < 0, pinned = there < 0 ? c.to != nullptr : c.from != nullptr;
    if (on_host && !pinned && s->captured)
        die("a copy that is captured uses host memory that is not pinned");
    const char *host = !on_host ? nullptr : there < 0 ? static_cast<char *>(to) : static_cast<const char *>(from);
    if (set.late && !s->captured && pinned && there < 0 && !pending(host, n))
        for (size_t i = 0; i < n; i++) /* until then it may hold anything */
            static_cast<char *>(to)[i] = nan_page()[(reinterpret_cast<uintptr_t>(to) + i) % 4];
    uint64_t number = enqueue(
        s,
        [=] {
            opened a(there), b(here);
            memmove(to, from, n);
        },
        pinned ? host : nullptr, n);
    if (on_host && !pinned)
        advance(s, number);
}

inline void set_async(void *to, size_t pitch, int value, size_t width, size_t height, CUstream_st *s)
{
    if (!width || !height)
        return;
    mapping *m = operand(to, pitch * (height - 1) + width, "a memset's target");
    if (!m || m->device < 0)
        die("a memset of the host's memory");
    int device = m->device;
    enqueue(s, [=] {
        opened a(device);
        for (size_t i = 0; i < height; i++)
            memset(static_cast<char *>(to) + i * pitch, value, width);
    });
}

/* ---- at the end ---- */

struct leaks {
    ~leaks()
    {
        size_t blocks = 0, bytes = 0;
        for (auto &[at, m] : mappings)
            if (!m.freed && m.device >= HOST)
                blocks++, bytes += m.n;
        size_t others = streams.size() + events.size() + graphs.size() + execs.size();
        if (set.leaks && (blocks || others))
            die("leaked: %zu bytes in %zu allocations, %zu streams, %zu events, %zu graphs, %zu instances of graphs",
                bytes, blocks, streams.size(), events.size(), graphs.size(), execs.size());
    }
};
inline leaks at_exit;
} // namespace cuemu
