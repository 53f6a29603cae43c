/* nccl.cc - a stand-in for NCCL over the emulator, as libnccl.so.2: broadcasts between processes, by files in a folder
 * of $TMPDIR. It shares the emulator's state with the plugin, since g++ makes inline variables unique in a process.
 *
 * Communicators do not block: they connect while they are asked, and a broadcast that lacks its bytes holds up its
 * stream. NCCLEMU_FAIL=KIND:RANK:GROUP fails on request, in one rank:
 *   version      the library is too old
 *   id           no id is made
 *   init, absent its communicator fails, or waits for ever
 *   bytes        it sends others than it has
 *   group        the end of its group number GROUP fails; the first is a trial
 *   silent       its broadcasts in that group are never sent
 *   remote       it finds an error of another while that group is under way */
#include <cuda_runtime.h>

#include <fcntl.h>
#include <string>
#include <sys/stat.h>

namespace
{
enum { SUCCESS, SYSTEM = 2, ARGUMENT = 4, USAGE = 5, REMOTE = 6, IN_PROGRESS = 7, FLOAT = 7 };

struct fault {
    char kind[16] = "";
    int rank = 0, group = 0;
    fault()
    {
        const char *text = getenv("NCCLEMU_FAIL");
        if (text)
            sscanf(text, "%15[a-z]:%d:%d", kind, &rank, &group);
    }
    bool is(const char *what, int of, int in = 0) const
    {
        return !strcmp(kind, what) && rank == of && group == in;
    }
};
const fault asked;

struct id {
    char folder[128];
};
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};
struct comm {
    std::string folder, bus;
    int n, me, device, groups, state;
    uint64_t sent; /* broadcasts */
    bool aborted, finalized;
};
struct task {
    std::shared_ptr<comm> c;
    char *at;
    size_t bytes;
    int root;
    CUstream_st *stream;
    uint64_t number;
};

std::map<comm *, std::shared_ptr<comm>> comms;
std::vector<task> tasks;
int depth;
std::string said;

int fail(int result, const char *why)
{
    said = why;
    return result;
}

/* ---- files ---- */

std::string name_of(const comm &c, const char *what, int from, int to, uint64_t number)
{
    return c.folder + "/" + what + "." + std::to_string(number) + "." + std::to_string(from) + "." + std::to_string(to);
}

void write_file(const std::string &name, const void *bytes, size_t n)
{
    FILE *f = fopen((name + "~").c_str(), "w");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) || rename((name + "~").c_str(), name.c_str()))
        cuemu::die("NCCL's stand-in cannot write %s", name.c_str());
}

std::string read_file(const std::string &name)
{
    std::string text;
    char part[4096];
    FILE *f = fopen(name.c_str(), "r");
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
        text.append(part, n);
    if (f)
        fclose(f);
    return text;
}

bool is_there(const std::string &name)
{
    return access(name.c_str(), F_OK) == 0;
}

/* ---- broadcasts ---- */

void send(const task &t)
{
    std::string bytes;
    {
        cuemu::opened now(t.c->device);
        bytes.assign(t.at, t.bytes);
    }
    if (asked.is("bytes", t.c->me))
        bytes[0] ^= 1;
    for (int k = 0; k < t.c->n; k++)
        if (k != t.c->me)
            write_file(name_of(*t.c, "bytes", t.c->me, k, t.number), bytes.data(), bytes.size());
}

void receive(const task &t)
{
    if (t.c->aborted)
        return;
    std::string file = name_of(*t.c, "bytes", t.root, t.c->me, t.number), bytes = read_file(file);
    unlink(file.c_str());
    if (bytes.size() != t.bytes)
        cuemu::die("a broadcast of %zu bytes, of which rank %d awaits %zu", bytes.size(), t.c->me, t.bytes);
    cuemu::opened now(t.c->device);
    memcpy(t.at, bytes.data(), t.bytes);
}

/* All of a group are under way at once: what this process sends waits for nothing that it receives. */
int run_group()
{
    std::vector<task> all = std::move(tasks);
    std::set<comm *> of;
    std::map<CUstream_st *, uint64_t> last;
    tasks.clear();
    for (const task &t : all)
        if (of.insert(t.c.get()).second) {
            t.c->groups++;
            if (asked.is("group", t.c->me, t.c->groups))
                return t.c->state = fail(SYSTEM, "as NCCLEMU_FAIL asked");
            if (asked.is("remote", t.c->me, t.c->groups))
                t.c->state = REMOTE;
        }
    for (const task &t : all)
        if (t.root == t.c->me)
            last[t.stream] = cuemu::enqueue(
                t.stream, [t] { send(t); }, nullptr, 0,
                [t, never = asked.is("silent", t.c->me, t.c->groups)] { return !never || t.c->aborted; });
    for (const task &t : all)
        if (t.root != t.c->me)
            cuemu::enqueue(
                t.stream, [t] { receive(t); }, nullptr, 0,
                [t, last] {
                    for (auto &[stream, number] : last)
                        if (stream != t.stream)
                            cuemu::advance(stream, number, false);
                    return t.c->aborted || is_there(name_of(*t.c, "bytes", t.root, t.c->me, t.number));
                });
    return of.empty() ? SUCCESS : IN_PROGRESS;
}

/* ---- connecting ---- */

std::string hello(const comm &c, int k)
{
    return name_of(c, "hello", k, c.n, 0);
}

void connect(comm &c)
{
    if (asked.is("absent", c.me))
        return;
    if (asked.is("init", c.me)) {
        c.state = fail(SYSTEM, "as NCCLEMU_FAIL asked");
        return;
    }
    if (!is_there(hello(c, c.me)))
        write_file(hello(c, c.me), c.bus.data(), c.bus.size());
    for (int k = 0; k < c.n; k++)
        if (!is_there(hello(c, k)))
            return;
    c.state = SUCCESS;
    for (int k = 0; k < c.n; k++)
        if (k != c.me && read_file(hello(c, k)) == c.bus)
            c.state = fail(USAGE, "Duplicate GPU detected");
}

comm *known(comm *c)
{
    std::lock_guard<std::recursive_mutex> in(cuemu::gate);
    if (!comms.count(c))
        cuemu::die("a communicator of NCCL that does not exist, or was destroyed");
    return c;
}
} // namespace

extern "C" {
int ncclGetVersion(int *version)
{
    *version = strcmp(asked.kind, "version") ? 22809 : 21304;
    return SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return texts[result];
}

const char *ncclGetLastError(comm *)
{
    return said.c_str();
}

int ncclGetUniqueId(id *to)
{
    const char *folder = getenv("TMPDIR");
    if (asked.is("id", 0))
        return fail(SYSTEM, "as NCCLEMU_FAIL asked");
    snprintf(to->folder, sizeof to->folder, "%s/nccl.XXXXXX", folder ? folder : "/tmp");
    return mkdtemp(to->folder) ? SUCCESS : fail(SYSTEM, strerror(errno));
}

int ncclCommInitRankConfig(comm **c, int n, id of, int me, const config *how)
{
    char bus[32];
    if (how->size != sizeof *how || how->magic != 0xcafebeef || how->version != 21400 || how->blocking)
        return fail(ARGUMENT, "another configuration than one of 2.14 that does not block");
    cudaDeviceGetPCIBusId(bus, sizeof bus, cuemu::current);
    auto made = std::make_shared<comm>(comm{of.folder, bus, n, me, cuemu::current, 0, IN_PROGRESS, 0, false, false});
    comms[ *c = made.get()] = made;
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(comm *c, int *state)
{
    if (known(c)->state == IN_PROGRESS)
        connect(*c);
    *state = c->state;
    return SUCCESS;
}

int ncclGroupStart(void)
{
    depth++;
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    std::lock_guard<std::recursive_mutex> in(cuemu::gate);
    return --depth ? SUCCESS : run_group();
}

int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, comm *c, CUstream_st *stream)
{
    std::lock_guard<std::recursive_mutex> in(cuemu::gate);
    cuemu::mapping *m = cuemu::operand(to, n * sizeof(float), "a broadcast");
    if (from != to || type != FLOAT || root < 0 || root >= known(c)->n || !depth || c->state != SUCCESS)
        return fail(ARGUMENT, "of ncclBroadcast");
    if (!m || m->device != c->device || stream->device != c->device)
        cuemu::die("a broadcast on device %d of memory of %s", c->device,
                   m ? cuemu::memory_of(m->device).c_str() : "the host");
    tasks.push_back({comms[c], static_cast<char *>(to), n * sizeof(float), root, stream, c->sent++});
    return SUCCESS;
}

int ncclCommFinalize(comm *c)
{
    known(c)->finalized = true;
    return SUCCESS;
}

/* The last of them removes the folder. */
int ncclCommDestroy(comm *c)
{
    if (!known(c)->finalized)
        cuemu::die("a communicator is destroyed before it is finalized");
    unlink(hello(*c, c->me).c_str());
    rmdir(c->folder.c_str());
    comms.erase(c);
    return SUCCESS;
}

int ncclCommAbort(comm *c)
{
    known(c)->aborted = true;
    comms.erase(c);
    return SUCCESS;
}
}
