/* The first process of a sandbox: starts, feeds, watches and kills commands for a hub on the other end of a stream.
 *
 * What it says and is told is described in frames.py. One thread, one poll loop, no allocation that a command can make
 * grow without bound. Runs as PID 1 of a container, or as a plain process that adopts its descendants' orphans.
 *
 * A command runs below a keeper: a small process of this program that adopts every orphan of the command, so that all
 * that descends from it can be found in /proc whatever it does (setsid, double fork). Where a command kills its keeper,
 * the orphans fall to this process, which knows its keepers and kills what else appears below it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1, WINDOW = 256 << 10, PIECE = 64 << 10, LARGEST_FRAME = (256 << 10) + 5 };
enum { HIGH_WATER = 1 << 20 };                     /* of frames that wait to be written: above it nothing is read */
enum { LARGEST_LISTING = 64 << 20, LARGEST_TABLE = 1 << 20, MOST_FILES = 16384 };
enum { STREAMS = 1, KILLS_LEFTOVERS = 2, HAS_INPUT = 4 };
enum { TIMED_OUT = 1, OUT_OF_MEMORY = 2, KILLED = 4, KEEPER_KILLED = 8, UNKILLABLE = 16, CPU_LIMIT = 32 };
enum { NO_LINKS = 1, RECURSIVE = 1, DEEPEST = 256, KILL_MS = 20000, BUCKETS = 256 };
static const uint32_t ACCEPTED = 1u << 31;

enum kind { EXEC, READING, WRITING, LISTENING, CONNECTION };

/* Bytes in a row; `start` is where what is still needed begins. */
struct bytes {
    char *data;
    size_t start, length, capacity;
};

/* One output stream of a command: its head has been sent, its tail lies in a ring. */
struct stream {
    int fd;
    uint64_t head_left, dropped;
    char *ring;
    size_t ring_size, ring_most, ring_length, ring_at;
    int64_t left; /* once the command has ended: bytes of it that still lie in the pipe; -1 before */
};

struct channel {
    struct channel *next;
    uint32_t id;
    enum kind kind;
    bool is_over;
    /* exec */
    pid_t keeper, leader;
    int status_fd;
    uint32_t flags, ends; /* as asked; and those of the `E` frame */
    bool has_started, has_ended, is_retried, has_children;
    int32_t status;
    uint64_t cpu_us, began_us, deadline_us, oom_kills;
    uint64_t early_signals; /* a bit for each signal asked for before its keeper told the leader */
    struct bytes order;
    struct stream out, err;
    uint32_t survivors;
    /* input of an exec or a connection, output credit, files */
    int in_fd, fd;
    struct bytes input;
    bool input_ends, output_ended;
    int64_t credit;
    uint64_t number, most;
    struct bytes listing;
    char *path, *draft;
};

struct keeper {
    struct keeper *next;
    pid_t pid;
};

/* What a keeper tells: fixed size, so that it arrives whole. */
struct report {
    uint32_t kind; /* 'S' started, 'F' failed, 'E' ended */
    int32_t value; /* pid, errno, status */
    uint64_t cpu_us;
    uint32_t hit_cpu_limit, has_children;
    char step[40];
};

struct reader {
    const char *at, *end;
    bool is_short;
};

static struct channel *channels[BUCKETS];
static struct keeper *keepers;
static struct bytes outgoing;
static uint64_t ends_at_us; /* when the sandbox ends by itself; 0 never */
static uint32_t next_accepted;
static int oom_score_fd = -1, oom_kills_fd = -1, memory_fd = -1, signal_fd;
static char own_oom_score[16];
static pid_t self;
static int spares[2] = {-1, -1};
static struct rlimit files_limit; /* as commands are to find it */
static rlim_t open_most;          /* how many files this process may have open */
static bool no_new_privileges;

struct identity {
    uid_t uid;
    gid_t gid;
    char home[256], name[64];
};

static struct identity acting;       /* whose files it handles, and whom commands run as that name nobody else */
static bool is_apart;                /* it has ids of its own, that no command has */
static uint64_t command_capabilities; /* those that commands of root have, where it stands apart */

static void kill_everything(void);

/* End, and everything below with it. */
static void quit(const char *why) {
    if (why) dprintf(2, "supervisor: %s\n", why);
    kill_everything();
    _exit(why ? 1 : 0);
}

static uint64_t now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void reserve(struct bytes *bytes, size_t more) {
    if (bytes->start && bytes->start == bytes->length) bytes->start = bytes->length = 0;
    if (bytes->length + more <= bytes->capacity) return;
    if (bytes->start) {
        memmove(bytes->data, bytes->data + bytes->start, bytes->length - bytes->start);
        bytes->length -= bytes->start;
        bytes->start = 0;
    }
    if (bytes->length + more <= bytes->capacity) return;
    size_t capacity = bytes->capacity ? bytes->capacity : 4096;
    while (capacity < bytes->length + more) capacity *= 2;
    char *data = realloc(bytes->data, capacity);
    if (!data) {
        dprintf(2, "supervisor: out of memory\n");
        _exit(1);
    }
    bytes->data = data;
    bytes->capacity = capacity;
}

static void append(struct bytes *bytes, const void *data, size_t size) {
    if (!size) return;
    reserve(bytes, size);
    memcpy(bytes->data + bytes->length, data, size);
    bytes->length += size;
}

static void release(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){0};
}

static size_t pending(const struct bytes *bytes) { return bytes->length - bytes->start; }

static void put32(struct bytes *bytes, uint32_t value) { append(bytes, &value, 4); }
static void put64(struct bytes *bytes, uint64_t value) { append(bytes, &value, 8); }

static const char *take(struct reader *reader, size_t size) {
    if (reader->is_short || (size_t)(reader->end - reader->at) < size) {
        reader->is_short = true;
        return NULL;
    }
    const char *at = reader->at;
    reader->at += size;
    return at;
}

static uint32_t get32(struct reader *reader) {
    uint32_t value = 0;
    const char *at = take(reader, 4);
    if (at) memcpy(&value, at, 4);
    return value;
}

static uint64_t get64(struct reader *reader) {
    uint64_t value = 0;
    const char *at = take(reader, 8);
    if (at) memcpy(&value, at, 8);
    return value;
}

/* A string as a C string of its own; NULL where the frame is short or the string holds a NUL. */
static char *get_string(struct reader *reader) {
    uint32_t size = get32(reader);
    const char *at = take(reader, size);
    if (!at || memchr(at, 0, size)) {
        reader->is_short = true;
        return NULL;
    }
    char *string = malloc(size + 1);
    if (!string) quit("out of memory");
    memcpy(string, at, size);
    string[size] = 0;
    return string;
}

static char **get_strings(struct reader *reader) {
    uint32_t count = get32(reader);
    if (count > (uint32_t)(reader->end - reader->at) / 4) reader->is_short = true;
    if (reader->is_short) return NULL;
    char **strings = calloc(count + 1, sizeof *strings);
    if (!strings) quit("out of memory");
    for (uint32_t index = 0; index < count; index++) strings[index] = get_string(reader);
    return strings;
}

static void free_strings(char **strings) {
    for (char **each = strings; strings && *each; each++) free(*each);
    free(strings);
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static void send_head(char kind, uint32_t id, size_t size) {
    put32(&outgoing, (uint32_t)size + 5);
    append(&outgoing, &kind, 1);
    put32(&outgoing, id);
}

static void send_frame(char kind, uint32_t id, const void *payload, size_t size) {
    send_head(kind, id, size);
    append(&outgoing, payload, size);
}

static void send_number(uint32_t id, uint64_t number) { send_frame('e', id, &number, 8); }
static void send_credit(uint32_t id, uint32_t size) { send_frame('i', id, &size, 4); }

static void send_failure(uint32_t id, int error, const char *tried) {
    uint32_t length = (uint32_t)strlen(tried);
    send_head('f', id, 8 + length);
    put32(&outgoing, (uint32_t)error);
    put32(&outgoing, length);
    append(&outgoing, tried, length);
}

/* Write what waits; a hub that is gone is the end. */
static void flush(void) {
    while (pending(&outgoing)) {
        ssize_t size = write(1, outgoing.data + outgoing.start, pending(&outgoing));
        if (size > 0) {
            outgoing.start += (size_t)size;
            continue;
        }
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        quit(NULL);
    }
    outgoing.start = outgoing.length = 0;
    if (outgoing.capacity > 4 * HIGH_WATER) release(&outgoing);
}

/* ---- channels --------------------------------------------------------------------------------------------------- */

static struct channel *find(uint32_t id) {
    for (struct channel *channel = channels[id % BUCKETS]; channel; channel = channel->next)
        if (channel->id == id && !channel->is_over) return channel;
    return NULL;
}

static struct channel *open_channel(uint32_t id, enum kind kind) {
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel) quit("out of memory");
    channel->id = id;
    channel->kind = kind;
    channel->status_fd = channel->in_fd = channel->fd = channel->out.fd = channel->err.fd = -1;
    channel->out.left = channel->err.left = -1;
    channel->credit = WINDOW;
    channel->next = channels[id % BUCKETS];
    channels[id % BUCKETS] = channel;
    return channel;
}

static void shut(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Numbers to spare for what must work when all others are used up: a walk through /proc, to refuse a connection. */
static void hold_spares(void) {
    for (int index = 0; index < 2; index++)
        if (spares[index] < 0) spares[index] = fcntl(0, F_DUPFD_CLOEXEC, 3);
}

/* Its memory is freed when the loop comes round: somebody may still be walking over the channels. */
static void end_channel(struct channel *channel) {
    channel->is_over = true;
    shut(&channel->status_fd);
    shut(&channel->in_fd);
    shut(&channel->fd);
    shut(&channel->out.fd);
    shut(&channel->err.fd);
    if (channel->draft) unlink(channel->draft);
}

static void free_ended(void) {
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (struct channel **link = &channels[bucket]; *link;) {
            struct channel *channel = *link;
            if (!channel->is_over) {
                link = &channel->next;
                continue;
            }
            *link = channel->next;
            release(&channel->order);
            release(&channel->input);
            release(&channel->listing);
            free(channel->out.ring);
            free(channel->err.ring);
            free(channel->path);
            free(channel->draft);
            free(channel);
        }
    }
}

static void fail(struct channel *channel, int error, const char *tried) {
    send_failure(channel->id, error, tried);
    end_channel(channel);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

struct process {
    pid_t pid, parent;
    bool is_ours;
};

/* Processes in the order of their numbers, as /proc lists them. */
struct processes {
    struct process *list;
    size_t count, capacity;
};

static struct process *find_process(const struct processes *all, pid_t pid) {
    for (size_t low = 0, high = all->count; low < high;) {
        size_t middle = (low + high) / 2;
        if (all->list[middle].pid == pid) return &all->list[middle];
        if (all->list[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool is_keeper(pid_t pid) {
    for (struct keeper *keeper = keepers; keeper; keeper = keeper->next)
        if (keeper->pid == pid) return true;
    return false;
}

/* What is to be counted or killed: what descends from a keeper; from this process past its keepers; or both. */
enum below { A_KEEPER, STRAYS, EVERYTHING };

static bool is_below(const struct processes *all, const struct process *process, enum below below, pid_t root) {
    if (process->pid == self || (below != A_KEEPER && is_keeper(process->pid))) return false;
    if (process->parent == root || (below == EVERYTHING && is_keeper(process->parent))) return true;
    const struct process *parent = find_process(all, process->parent);
    return parent && parent->is_ours;
}

/* Who cannot see what is alive cannot kill it: only the end of this process ends it all. */
static void end_if_blind(const char *what) {
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM) return;
    dprintf(2, "supervisor: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* The parent of a live process; -1 for what is none: zombies without a living thread are dead already. */
static pid_t parent_of(long pid) {
    char path[64], text[1024], state;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC), parent, threads;
    if (fd < 0) {
        end_if_blind("looking at a process");
        return -1;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0) return -1;
    text[size] = 0;
    char *name_end = strrchr(text, ')');
    const char *fields = " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d";
    if (!name_end || sscanf(name_end + 1, fields, &state, &parent, &threads) != 3) return -1;
    return state == 'X' || (state == 'Z' && threads < 2) ? -1 : parent;
}

/* Take down a process that /proc shows; true where it is alive and one of those looked for. */
static bool meet(struct processes *all, long pid, enum below below, pid_t root) {
    pid_t parent = pid > 0 ? parent_of(pid) : -1;
    if (parent < 0) return false;
    if (all->count == all->capacity) {
        all->capacity = all->capacity ? 2 * all->capacity : 256;
        all->list = realloc(all->list, all->capacity * sizeof *all->list);
        if (!all->list) _exit(1);
    }
    struct process *process = &all->list[all->count++];
    *process = (struct process){(pid_t)pid, parent, false};
    return process->is_ours = is_below(all, process, below, root);
}

/* Find what is alive below; returns how many there are. Each is looked at, and sent a signal, right after it was named:
 * of a chain of processes that fork and end, the next has a higher number, and is met in turn. */
static size_t walk(struct processes *all, enum below below, pid_t root, int signal) {
    _Alignas(struct dirent) char piece[64]; /* for two names */
    size_t found = 0;
    all->count = 0;
    shut(&spares[0]), shut(&spares[1]);
    int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) end_if_blind("looking for processes");
    for (long size; folder >= 0 && (size = syscall(SYS_getdents64, folder, piece, sizeof piece)) > 0;) {
        for (char *at = piece; at < piece + size; at += ((struct dirent *)(void *)at)->d_reclen) {
            char *name = ((struct dirent *)(void *)at)->d_name, *rest;
            long pid = strtol(name, &rest, 10);
            if (*rest || !meet(all, pid, below, root)) continue;
            found++;
            if (signal) kill((pid_t)pid, signal);
        }
    }
    shut(&folder);
    hold_spares();
    for (bool has_changed = true; has_changed;) { /* children with a lower number than their parent */
        has_changed = false;
        for (size_t index = 0; index < all->count; index++) {
            struct process *process = &all->list[index];
            if (process->is_ours || !is_below(all, process, below, root)) continue;
            process->is_ours = has_changed = true;
            found++;
            if (signal) kill(process->pid, signal);
        }
    }
    return found;
}

static size_t count_below(enum below below, pid_t root) {
    struct processes all = {0};
    size_t found = walk(&all, below, root, 0);
    free(all.list);
    return found;
}

static bool reap(void);

static void pause_us(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

/* Whether nobody is left, where a walk has met nobody. A walk takes its time, and may miss who is born meanwhile; that
 * a process has no child any more is certain, and a keeper ends when it has none. */
static bool is_empty(enum below below, pid_t root, int walks) {
    bool has_children = reap();
    if (below == STRAYS) return walks >= 3;
    return root == self ? !has_children : !is_keeper(root);
}

/* Kill all of it and see it dead. First all is stopped, until a walk meets nobody who had not been told to: so nothing
 * forks ahead of the signals, and no death makes room for a new process. False where something is alive after KILL_MS.
 * `killed` counts. */
static bool kill_below(enum below below, pid_t root, uint64_t *killed) {
    if (below == A_KEEPER && root != self && !is_keeper(root)) return true; /* its number may be another's by now */
    uint64_t deadline = now_us() + KILL_MS * 1000;
    struct processes now = {0}, before = {0};
    int signal = SIGSTOP, empty_walks = 0;
    bool is_dead = false;
    for (int pass = 0; !is_dead && now_us() < deadline; pass++) {
        size_t found = walk(&now, below, root, signal), fresh = 0;
        empty_walks = found ? 0 : empty_walks + 1;
        is_dead = !found && is_empty(below, root, empty_walks);
        for (size_t index = 0; index < now.count && signal == SIGSTOP; index++) {
            const struct process *known = find_process(&before, now.list[index].pid);
            fresh += now.list[index].is_ours && !(known && known->is_ours);
        }
        if (signal == SIGSTOP && found && (!fresh || pass > 20)) {
            signal = SIGKILL;
            for (size_t index = 0; index < now.count; index++)
                if (now.list[index].is_ours && kill(now.list[index].pid, SIGKILL) == 0 && killed) ++*killed;
        } else if (!is_dead && (signal == SIGKILL || !found)) {
            reap();
            pause_us(pass < 8 ? 200 : 2000); /* dying takes the kernel a moment, and a keeper to notice */
        }
        struct processes older = before;
        before = now;
        now = older;
    }
    free(now.list);
    free(before.list);
    return is_dead;
}

static void kill_everything(void) { kill_below(EVERYTHING, self, NULL); }

static uint64_t read_number(int fd, const char *name) {
    char text[2048];
    ssize_t size = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (size <= 0) return 0;
    text[size] = 0;
    char *at = name ? strstr(text, name) : text;
    return at ? strtoull(at + (name ? strlen(name) : 0), NULL, 10) : 0;
}

static uint64_t oom_kills(void) { return read_number(oom_kills_fd, "oom_kill "); }

/* ---- the command, on its side of the fork ----------------------------------------------------------------------- */

struct order {
    uint32_t timeout_ms, flags, cpu_seconds;
    uint64_t keep_bytes, memory_bytes, file_bytes;
    char *user, *cwd, **argv, **environment;
};

static bool read_order(struct bytes *bytes, struct order *order) {
    struct reader reader = {bytes->data, bytes->data + bytes->length, false};
    order->timeout_ms = get32(&reader);
    order->flags = get32(&reader);
    order->keep_bytes = get64(&reader);
    order->cpu_seconds = get32(&reader);
    order->memory_bytes = get64(&reader);
    order->file_bytes = get64(&reader);
    order->user = get_string(&reader);
    order->cwd = get_string(&reader);
    order->argv = get_strings(&reader);
    order->environment = get_strings(&reader);
    return !reader.is_short && reader.at == reader.end && order->argv && order->argv[0];
}

static void free_order(struct order *order) {
    free(order->user);
    free(order->cwd);
    free_strings(order->argv);
    free_strings(order->environment);
}

/* A system file, if it is a regular one of a sensible size: nothing inside makes us wait for a fifo, or run out. */
static FILE *open_regular(const char *path) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size > LARGEST_TABLE)) shut(&fd);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

/* `name`, `uid`, either with `:group` or `:gid`; from /etc/passwd and /etc/group of the sandbox. */
static int identify(const char *user, struct identity *identity) {
    char name[256], *rest;
    snprintf(name, sizeof name, "%s", user);
    char *group = strchr(name, ':');
    if (group) *group++ = 0;
    unsigned long number = strtoul(name, &rest, 10);
    bool is_number = *name && !*rest, is_known = false;
    *identity = (struct identity){.uid = (uid_t)number, .gid = 0, .home = "/"};
    FILE *file = open_regular("/etc/passwd");
    for (struct passwd *entry; file && !is_known && (entry = fgetpwent(file));) {
        if (is_number ? entry->pw_uid != (uid_t)number : strcmp(entry->pw_name, name) != 0) continue;
        identity->uid = entry->pw_uid;
        identity->gid = entry->pw_gid;
        snprintf(identity->home, sizeof identity->home, "%s", entry->pw_dir);
        snprintf(identity->name, sizeof identity->name, "%s", entry->pw_name);
        is_known = true;
    }
    if (file) fclose(file);
    if (!is_known && !is_number) return ENOENT;
    if (!is_known) identity->gid = group ? 0 : (gid_t)number;
    if (!group) return 0;
    number = strtoul(group, &rest, 10);
    if (*group && !*rest) {
        identity->gid = (gid_t)number;
        return 0;
    }
    file = open_regular("/etc/group");
    for (struct group *entry; file && (entry = fgetgrent(file));) {
        if (strcmp(entry->gr_name, group) != 0) continue;
        identity->gid = entry->gr_gid;
        fclose(file);
        return 0;
    }
    if (file) fclose(file);
    return ENOENT;
}

static int take_groups(const struct identity *identity) {
    gid_t groups[64] = {identity->gid};
    size_t count = 1;
    FILE *file = *identity->name ? open_regular("/etc/group") : NULL;
    for (struct group *entry; file && count < 64 && (entry = fgetgrent(file));)
        for (char **member = entry->gr_mem; *member && count < 64; member++)
            if (strcmp(*member, identity->name) == 0) groups[count++] = entry->gr_gid;
    if (file) fclose(file);
    return setgroups(count, groups) ? errno : 0;
}

/* Have these capabilities, as far as they are had, and of those that programs inherit none but `inherited`. */
static int hold_capabilities(uint64_t held, uint64_t inherited) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data)) return errno;
    for (int half = 0; half < 2; half++) {
        data[half].effective = data[half].permitted &= (uint32_t)(held >> 32 * half);
        data[half].inheritable &= (uint32_t)(inherited >> 32 * half);
    }
    return syscall(SYS_capset, &header, data) ? errno : 0;
}

static int become(const struct identity *identity) {
    if (!is_apart && geteuid() == identity->uid && getegid() == identity->gid) return 0;
    bool is_other = identity->uid != acting.uid || identity->gid != acting.gid;
    if (is_apart && is_other && !(command_capabilities >> CAP_SETUID & 1)) return EPERM; /* no command could do so */
    int error = identity == &acting ? 0 : take_groups(identity); /* whose groups it has already */
    if (error) return error;
    if (setresgid(identity->gid, identity->gid, identity->gid) ||
        setresuid(identity->uid, identity->uid, identity->uid))
        return errno;
    return is_apart ? hold_capabilities(identity->uid ? 0 : command_capabilities, command_capabilities) : 0;
}

static void set_limits(int resource, uint64_t soft, uint64_t hard) {
    struct rlimit limit = {soft, hard}, old;
    if (getrlimit(resource, &old) == 0 && old.rlim_max < hard) limit.rlim_max = old.rlim_max;
    if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
}

static void set_limit(int resource, uint64_t most) { set_limits(resource, most, most); }

static void give_up(int fd, int error, const char *step) {
    struct report report = {.kind = 'F', .value = error};
    snprintf(report.step, sizeof report.step, "%s", step);
    if (write(fd, &report, sizeof report)) {}
    _exit(127);
}

/* Close all from a number on. */
static void close_from(int first) {
    DIR *folder = syscall(SYS_close_range, first, ~0u, 0) ? opendir("/proc/self/fd") : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int fd = atoi(entry->d_name);
        if (*entry->d_name != '.' && fd >= first && fd != dirfd(folder)) close(fd);
    }
    if (folder) closedir(folder);
}

/* Become the command; `fds` are its standard streams. Comes back never. */
static void run_command(const struct order *order, const int fds[3], int failure_fd) {
    setsid();
    for (int number = 1; number < 32; number++) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int fd = 0; fd < 3; fd++)
        if (dup2(fds[fd], fd) < 0) give_up(failure_fd, errno, "setting up its streams");
    setrlimit(RLIMIT_NOFILE, &files_limit);
    set_limit(RLIMIT_CORE, 0);
    /* SIGXCPU says why it ends; SIGKILL, which comes to those who ignore that one, does not. */
    if (order->cpu_seconds) set_limits(RLIMIT_CPU, order->cpu_seconds, order->cpu_seconds + 1ull);
    if (order->memory_bytes) set_limit(RLIMIT_AS, order->memory_bytes);
    if (order->file_bytes) set_limit(RLIMIT_FSIZE, order->file_bytes);
    struct identity identity;
    if (*order->user) {
        int error = identify(order->user, &identity);
        if (!error) error = become(&identity);
        if (error) give_up(failure_fd, error, "becoming its user");
        setenv("HOME", identity.home, 1);
    } else if (is_apart) {
        int error = become(&acting);
        if (error) give_up(failure_fd, error, "becoming its user");
    }
    if (no_new_privileges) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (*order->cwd && chdir(order->cwd)) give_up(failure_fd, errno, "entering its working directory");
    for (char **pair = order->environment; *pair; pair++)
        if (strchr(*pair, '=') && putenv(*pair)) give_up(failure_fd, errno, "setting its environment");
    execvp(order->argv[0], order->argv);
    give_up(failure_fd, errno, "running the program");
}

/* ---- the keeper ------------------------------------------------------------------------------------------------- */

static uint64_t time_us(const struct rusage *usage) {
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static bool used_up_cpu(int status, const struct rusage *usage, uint32_t cpu_seconds) {
    if (!cpu_seconds || !WIFSIGNALED(status)) return false;
    if (WTERMSIG(status) == SIGXCPU) return true;
    return WTERMSIG(status) == SIGKILL && time_us(usage) + 50000 >= (uint64_t)cpu_seconds * 1000000;
}

/* Never returns. Every signal but the two it waits for is for nobody: what comes from inside at most ends it. */
static void keep(const struct order *order, const int fds[3], int status_fd, pid_t supervisor) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGTERM); /* the supervisor died */
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != supervisor) _exit(1);
    int failure[2];
    if (pipe2(failure, O_CLOEXEC)) give_up(status_fd, errno, "starting");
    pid_t leader = fork();
    if (leader < 0) give_up(status_fd, errno, "forking");
    if (leader == 0) run_command(order, fds, failure[1]);
    /* Nothing of the hub's stays open here, and nothing of the command's either. */
    dup2(status_fd, 0);
    dup2(failure[0], 1);
    close_from(2);
    spares[0] = spares[1] = -1;
    self = getpid();
    keepers = NULL;
    struct report report;
    bool has_failed = read(1, &report, sizeof report) == sizeof report, is_orphaned = false, hit_limit = false;
    if (!has_failed) report = (struct report){.kind = 'S', .value = leader};
    close(1);
    for (bool has_news = true;;) {
        if (has_news && write(0, &report, sizeof report) < 0) is_orphaned = true;
        has_news = false;
        if (is_orphaned) { /* leave nothing behind */
            kill_below(A_KEEPER, self, NULL);
            _exit(0);
        }
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid < 0) _exit(0);
        if (pid == 0) {
            int number;
            is_orphaned = sigwait(&awaited, &number) == 0 && number == SIGTERM;
            continue;
        }
        hit_limit |= used_up_cpu(status, &usage, order->cpu_seconds);
        if (pid != leader || has_failed) continue;
        while ((pid = wait4(-1, &(int){0}, WNOHANG, &usage)) > 0) {}
        getrusage(RUSAGE_CHILDREN, &usage);
        report = (struct report){
            .kind = 'E',
            .value = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status),
            .cpu_us = time_us(&usage),
            .hit_cpu_limit = hit_limit,
            .has_children = pid == 0,
        };
        has_news = true;
    }
}

/* ---- starting and ending commands ------------------------------------------------------------------------------- */

static void set_oom_score(const char *score) {
    if (oom_score_fd >= 0 && *own_oom_score && pwrite(oom_score_fd, score, strlen(score), 0)) {}
}

static void shut_pair(int pair[2]) {
    shut(&pair[0]);
    shut(&pair[1]);
}

static int start_command(struct channel *channel, struct order *order) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, status[2] = {-1, -1};
    bool has_input = channel->flags & HAS_INPUT;
    if (!has_input) in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if ((has_input ? pipe2(in, O_CLOEXEC) : in[0] < 0) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) ||
        pipe2(status, O_CLOEXEC)) {
        int error = errno;
        shut_pair(in), shut_pair(out), shut_pair(err), shut_pair(status);
        return error;
    }
    struct keeper *keeper = malloc(sizeof *keeper);
    if (!keeper) quit("out of memory");
    set_oom_score("1000"); /* inherited: the kernel takes commands before this process */
    pid_t pid = fork();
    int error = errno;
    if (pid == 0) keep(order, (const int[3]){in[0], out[1], err[1]}, status[1], self);
    set_oom_score(own_oom_score);
    shut(&in[0]), shut(&out[1]), shut(&err[1]), shut(&status[1]);
    if (pid < 0) {
        free(keeper);
        shut_pair(in), shut_pair(out), shut_pair(err), shut_pair(status);
        return error;
    }
    *keeper = (struct keeper){keepers, pid};
    keepers = keeper;
    channel->keeper = pid;
    channel->in_fd = in[1];
    channel->out.fd = out[0];
    channel->err.fd = err[0];
    channel->status_fd = status[0];
    for (int index = 0; index < 4; index++) {
        int fd = (int[]){in[1], out[0], err[0], status[0]}[index];
        if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static bool is_busy(pid_t keeper) {
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        for (struct channel *channel = channels[bucket]; channel; channel = channel->next)
            if (!channel->is_over && channel->kind == EXEC && channel->keeper == keeper) return true;
    return false;
}

/* Make room where the limit of processes is used up by what finished commands left behind. */
static void kill_leftovers(void) {
    for (struct keeper *keeper = keepers; keeper;) {
        if (is_busy(keeper->pid))
            keeper = keeper->next;
        else if (kill_below(A_KEEPER, keeper->pid, NULL))
            keeper = keepers; /* it is gone, and maybe others */
        else
            break;
    }
    kill_below(STRAYS, self, NULL);
}

static void try_command(struct channel *channel) {
    struct order order;
    if (!read_order(&channel->order, &order)) quit("a command cannot be read");
    int error = start_command(channel, &order);
    if (error == EAGAIN && !channel->is_retried) {
        channel->is_retried = true;
        kill_leftovers();
        error = start_command(channel, &order);
    }
    if (error) fail(channel, error, "starting");
    free_order(&order);
}

static void set_keep(struct stream *stream, uint64_t keep) {
    stream->ring_most = keep / 2;
    stream->head_left = keep - keep / 2;
}

static void begin_command(uint32_t id, const char *payload, size_t size) {
    struct channel *channel = open_channel(id, EXEC);
    struct order order;
    append(&channel->order, payload, size);
    if (!read_order(&channel->order, &order)) quit("a command cannot be read");
    channel->flags = order.flags;
    channel->began_us = now_us();
    channel->deadline_us = order.timeout_ms ? channel->began_us + (uint64_t)order.timeout_ms * 1000 : 0;
    channel->oom_kills = oom_kills();
    set_keep(&channel->out, order.keep_bytes);
    set_keep(&channel->err, order.keep_bytes);
    free_order(&order);
    try_command(channel);
}

static void keep_tail(struct stream *stream, const char *data, size_t size) {
    if (!stream->ring_most) {
        stream->dropped += size;
        return;
    }
    if (size > stream->ring_most) {
        stream->dropped += size - stream->ring_most;
        data += size - stream->ring_most;
        size = stream->ring_most;
    }
    if (stream->ring_length + size > stream->ring_size && stream->ring_size < stream->ring_most) {
        size_t grown = stream->ring_size ? stream->ring_size : 4096;
        while (grown < stream->ring_length + size) grown *= 2;
        if (grown > stream->ring_most) grown = stream->ring_most;
        char *ring = realloc(stream->ring, grown); /* not yet turned over: it starts at 0 until it is full */
        if (!ring) quit("out of memory");
        stream->ring = ring;
        stream->ring_size = grown;
    }
    if (stream->ring_length + size > stream->ring_size) {
        size_t gone = stream->ring_length + size - stream->ring_size;
        stream->ring_at = (stream->ring_at + gone) % stream->ring_size;
        stream->ring_length -= gone;
        stream->dropped += gone;
    }
    size_t at = (stream->ring_at + stream->ring_length) % stream->ring_size;
    size_t first = size < stream->ring_size - at ? size : stream->ring_size - at;
    memcpy(stream->ring + at, data, first);
    memcpy(stream->ring, data + first, size - first);
    stream->ring_length += size;
}

/* Not before it is known to have started, so that the hub hears of that first. */
static bool may_read(const struct channel *channel) {
    bool has_credit = !(channel->flags & STREAMS) || channel->credit > 0;
    return channel->has_started && has_credit && pending(&outgoing) < HIGH_WATER;
}

/* Take what a stream offers now, within its credit. */
static void pump_stream(struct channel *channel, struct stream *stream, char kind) {
    static char piece[PIECE];
    /* A few pieces at a time: who writes faster than they are read must not keep everybody else waiting. */
    for (int pieces = 0; stream->fd >= 0 && stream->left != 0 && may_read(channel); pieces++) {
        if (stream->left < 0 && pieces == 8) return;
        size_t size = sizeof piece;
        if (channel->flags & STREAMS && (int64_t)size > channel->credit) size = (size_t)channel->credit;
        if (stream->left > 0 && (int64_t)size > stream->left) size = (size_t)stream->left;
        ssize_t got = read(stream->fd, piece, size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) {
            if (stream->left > 0) stream->left = 0; /* somebody else has read it */
            return;
        }
        if (got <= 0) {
            shut(&stream->fd);
            return;
        }
        if (stream->left > 0) stream->left -= got;
        if (channel->flags & STREAMS) {
            send_frame(kind, channel->id, piece, (size_t)got);
            channel->credit -= got;
            continue;
        }
        size_t head = (uint64_t)got < stream->head_left ? (size_t)got : (size_t)stream->head_left;
        if (head) send_frame(kind, channel->id, piece, head);
        stream->head_left -= head;
        if ((size_t)got > head) keep_tail(stream, piece + head, (size_t)got - head);
        if (got < (ssize_t)size && stream->left < 0) return;
    }
}

static void put_tail(struct stream *stream) {
    put32(&outgoing, (uint32_t)stream->ring_length);
    size_t first = stream->ring_size - stream->ring_at;
    if (first > stream->ring_length) first = stream->ring_length;
    append(&outgoing, stream->ring + stream->ring_at, first);
    append(&outgoing, stream->ring, stream->ring_length - first);
}

/* Tell the end of a command once everything it wrote before is told. */
static void finish_command(struct channel *channel) {
    if (!channel->has_ended || pending(&outgoing) >= HIGH_WATER || (channel->out.fd >= 0 && channel->out.left != 0) ||
        (channel->err.fd >= 0 && channel->err.left != 0))
        return;
    if (oom_kills() > channel->oom_kills) channel->ends |= OUT_OF_MEMORY;
    send_head('E', channel->id, 52 + channel->out.ring_length + channel->err.ring_length);
    put32(&outgoing, (uint32_t)channel->status);
    put32(&outgoing, channel->ends);
    put64(&outgoing, now_us() - channel->began_us);
    put64(&outgoing, channel->cpu_us);
    put32(&outgoing, channel->survivors);
    put64(&outgoing, channel->out.dropped);
    put64(&outgoing, channel->err.dropped);
    put_tail(&channel->out);
    put_tail(&channel->err);
    end_channel(channel);
}

/* From now on nothing new is waited for: what lies in the pipes is taken, background children may hold them open. */
static void note_end(struct channel *channel, int32_t status) {
    channel->has_started = channel->has_ended = true;
    channel->status = status;
    channel->deadline_us = 0;
    struct stream *streams[] = {&channel->out, &channel->err};
    for (int index = 0; index < 2; index++) {
        int lying = 0;
        if (streams[index]->fd < 0 || ioctl(streams[index]->fd, FIONREAD, &lying)) lying = 0;
        streams[index]->left = lying;
    }
    shut(&channel->in_fd);
    pump_stream(channel, &channel->out, 'd');
    pump_stream(channel, &channel->err, 'D');
    finish_command(channel);
}

static void kill_command(struct channel *channel, uint32_t flag) {
    channel->ends |= flag;
    channel->deadline_us = 0;
    if (!kill_below(A_KEEPER, channel->keeper, NULL)) {
        channel->ends |= UNKILLABLE;
        note_end(channel, -SIGKILL);
    }
}

static void pump_input(struct channel *channel);

static void hear_keeper(struct channel *channel) {
    struct report report;
    while (channel->status_fd >= 0 && !channel->is_over) {
        ssize_t size = read(channel->status_fd, &report, sizeof report);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        if (size != sizeof report) {
            shut(&channel->status_fd);
            /* A keeper that fell silent without telling the end was killed; its orphans are ours, and go. */
            if (!channel->has_ended) {
                kill_below(A_KEEPER, channel->keeper, NULL);
                kill_below(STRAYS, self, NULL);
                channel->ends |= KEEPER_KILLED;
                note_end(channel, -SIGKILL);
            }
            return;
        }
        if (report.kind == 'F') {
            if (report.value == EAGAIN && !channel->is_retried) {
                channel->is_retried = true;
                shut(&channel->status_fd), shut(&channel->in_fd), shut(&channel->out.fd), shut(&channel->err.fd);
                channel->keeper = 0;
                kill_leftovers();
                try_command(channel);
                continue;
            }
            report.step[sizeof report.step - 1] = 0;
            fail(channel, report.value, report.step);
        } else if (report.kind == 'S') {
            channel->has_started = true;
            channel->leader = report.value;
            release(&channel->order);
            if (channel->flags & STREAMS) send_credit(channel->id, 0);
            for (int number = 1; channel->early_signals; number++, channel->early_signals >>= 1)
                if (channel->early_signals & 1) kill(-channel->leader, number);
            pump_input(channel);
        } else {
            channel->cpu_us = report.cpu_us;
            if (report.hit_cpu_limit) channel->ends |= CPU_LIMIT;
            if (report.has_children) {
                bool is_dead = true;
                if (channel->flags & KILLS_LEFTOVERS || channel->ends & (TIMED_OUT | KILLED))
                    is_dead = kill_below(A_KEEPER, channel->keeper, NULL);
                if (!is_dead) channel->ends |= UNKILLABLE;
                channel->survivors = (uint32_t)count_below(A_KEEPER, channel->keeper);
            }
            note_end(channel, report.value);
        }
    }
}

/* Take leave of every child that died; keepers are forgotten, and those that were stopped from inside go on. Whether
 * there are children left. */
static bool reap(void) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (WIFSTOPPED(status)) {
            if (is_keeper(pid)) kill(pid, SIGCONT);
            continue;
        }
        for (struct keeper **link = &keepers; *link; link = &(*link)->next) {
            if ((*link)->pid != pid) continue;
            struct keeper *keeper = *link;
            *link = keeper->next;
            free(keeper);
            break;
        }
    }
    return pid == 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* Open a path without following a link anywhere in it. */
static int open_without_links(const char *path, int flags) {
    char part[NAME_MAX + 1];
    int folder = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (folder >= 0) {
        while (*path == '/') path++;
        size_t length = strcspn(path, "/");
        const char *rest = path + length;
        while (*rest == '/') rest++;
        if (length > NAME_MAX) {
            shut(&folder);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, path, length);
        part[length] = 0;
        bool is_last = !*rest;
        int how = O_NOFOLLOW | O_CLOEXEC | (is_last ? flags : O_PATH | O_DIRECTORY);
        int next = openat(folder, length ? part : ".", how);
        int error = errno;
        close(folder);
        errno = error;
        if (next < 0 || is_last) return next;
        folder = next;
        path = rest;
    }
    return -1;
}

static void begin_read(uint32_t id, struct reader *reader) {
    struct channel *channel = open_channel(id, READING);
    channel->most = get64(reader);
    uint32_t flags = get32(reader);
    char *path = get_string(reader);
    if (reader->is_short) quit("a request to read cannot be read");
    int how = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat status;
    channel->fd = flags & NO_LINKS ? open_without_links(path, how) : open(path, how);
    if (channel->fd < 0)
        fail(channel, errno, "opening the file");
    else if (fstat(channel->fd, &status))
        fail(channel, errno, "looking at the file");
    else if (!S_ISREG(status.st_mode))
        fail(channel, S_ISDIR(status.st_mode) ? EISDIR : EINVAL, "reading what is no regular file");
    else if ((uint64_t)status.st_size > channel->most)
        fail(channel, EFBIG, "reading the file");
    free(path);
}

static void pump_read(struct channel *channel) {
    static char piece[PIECE];
    while (!channel->is_over && channel->credit > 0 && pending(&outgoing) < HIGH_WATER) {
        size_t size = channel->credit < (int64_t)sizeof piece ? (size_t)channel->credit : sizeof piece;
        ssize_t got;
        if (channel->fd >= 0) {
            got = read(channel->fd, piece, size);
        } else {
            got = (ssize_t)(size < pending(&channel->listing) ? size : pending(&channel->listing));
            memcpy(piece, channel->listing.data + channel->listing.start, (size_t)got);
            channel->listing.start += (size_t)got;
        }
        if (got < 0) {
            fail(channel, errno, "reading the file");
        } else if (got == 0) {
            send_number(channel->id, channel->number);
            end_channel(channel);
        } else if (channel->fd >= 0 && channel->number + (uint64_t)got > channel->most) {
            fail(channel, EFBIG, "reading the file");
        } else {
            send_frame('d', channel->id, piece, (size_t)got);
            channel->credit -= got;
            if (channel->fd >= 0) channel->number += (uint64_t)got;
        }
    }
}

/* Make the folders of a path, those it makes owned by `identity` where there is one. */
static int make_folders(char *path, const struct identity *identity) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int result = mkdir(path, 0777);
        int error = errno;
        if (result == 0 && identity && lchown(path, identity->uid, identity->gid)) error = errno;
        struct stat status;
        bool is_there = result == 0 || (stat(path, &status) == 0 && S_ISDIR(status.st_mode));
        *slash = '/';
        if (!is_there) return error == EEXIST ? ENOTDIR : error;
    }
    return 0;
}

static void begin_write(uint32_t id, struct reader *reader) {
    struct channel *channel = open_channel(id, WRITING);
    uint32_t mode = get32(reader);
    char *user = get_string(reader);
    channel->path = get_string(reader);
    if (reader->is_short) quit("a request to write cannot be read");
    if (!*channel->path) return fail(channel, EINVAL, "writing to no path");
    struct identity identity;
    int error = *user ? identify(user, &identity) : 0;
    bool is_other = *user && !error && (identity.uid != acting.uid || identity.gid != acting.gid);
    free(user);
    if (error) return fail(channel, error, "finding the file's user");
    error = make_folders(channel->path, is_other ? &identity : NULL);
    if (error) return fail(channel, error, "making the file's folder");
    const char *slash = strrchr(channel->path, '/');
    int folder = slash ? (int)(slash - channel->path + 1) : 0;
    if (asprintf(&channel->draft, "%.*s.rollouthub-%d-%u", folder, channel->path, self, id) < 0) quit("out of memory");
    channel->fd = open(channel->draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (channel->fd < 0) {
        error = errno;
        free(channel->draft);
        channel->draft = NULL;
        return fail(channel, error, "creating the file");
    }
    if (fchmod(channel->fd, mode & 07777) || (is_other && fchown(channel->fd, identity.uid, identity.gid)))
        fail(channel, errno, "setting the file's mode and owner");
}

static void take_write(struct channel *channel, const char *data, size_t size) {
    if (!size) {
        struct stat status;
        if (lstat(channel->path, &status) == 0 && S_ISDIR(status.st_mode))
            return fail(channel, EISDIR, "replacing what is a folder");
        if (rename(channel->draft, channel->path)) return fail(channel, errno, "giving the file its name");
        free(channel->draft);
        channel->draft = NULL;
        send_number(channel->id, channel->number);
        return end_channel(channel);
    }
    channel->number += size;
    send_credit(channel->id, (uint32_t)size);
    while (size) {
        ssize_t wrote = write(channel->fd, data, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return fail(channel, wrote < 0 ? errno : ENOSPC, "writing the file");
        data += wrote;
        size -= (size_t)wrote;
    }
}

static uint8_t kind_of(mode_t mode) { return S_ISREG(mode) ? 0 : S_ISDIR(mode) ? 1 : S_ISLNK(mode) ? 2 : 3; }

static void put_entry(struct channel *channel, const struct stat *status, const char *path) {
    uint8_t kind = kind_of(status->st_mode);
    append(&channel->listing, &kind, 1);
    put32(&channel->listing, status->st_mode & 07777);
    put64(&channel->listing, kind == 0 ? (uint64_t)status->st_size : 0);
    put32(&channel->listing, (uint32_t)strlen(path));
    append(&channel->listing, path, strlen(path));
    channel->number++;
}

static int list_folder(struct channel *channel, int fd, const char *prefix, bool is_recursive, int depth) {
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return errno;
    }
    int error = 0;
    for (struct dirent *entry; !error && (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        struct stat status;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW)) continue; /* gone meanwhile */
        char *path;
        if (asprintf(&path, "%s%s%s", prefix, *prefix ? "/" : "", entry->d_name) < 0) quit("out of memory");
        if (channel->number >= channel->most || channel->listing.length > LARGEST_LISTING)
            error = E2BIG;
        else
            put_entry(channel, &status, path);
        if (!error && is_recursive && S_ISDIR(status.st_mode)) {
            int below = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (depth >= DEEPEST) {
                if (below >= 0) close(below);
                error = ELOOP;
            } else if (below >= 0) {
                error = list_folder(channel, below, path, true, depth + 1);
            } else if (errno != ENOENT && errno != EACCES) {
                error = errno;
            }
        }
        free(path);
    }
    closedir(folder);
    return error;
}

static void begin_list(uint32_t id, struct reader *reader) {
    struct channel *channel = open_channel(id, READING);
    uint32_t flags = get32(reader);
    channel->most = get32(reader);
    char *path = get_string(reader);
    if (reader->is_short) quit("a request to list cannot be read");
    struct stat status;
    int error = lstat(path, &status) ? errno : 0;
    if (!error && S_ISLNK(status.st_mode)) {
        struct stat target;
        if (stat(path, &target) == 0 && S_ISDIR(target.st_mode)) status = target; /* a link to a folder is asked for */
    }
    if (!error && S_ISDIR(status.st_mode)) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        error = fd < 0 ? errno : list_folder(channel, fd, "", flags & RECURSIVE, 0);
    } else if (!error) {
        put_entry(channel, &status, "");
    }
    free(path);
    if (error) fail(channel, error, "listing");
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void begin_listening(uint32_t id, struct reader *reader) {
    struct channel *channel = open_channel(id, LISTENING);
    const char *at = take(reader, 2);
    if (!at) quit("a request to listen cannot be read");
    uint16_t port;
    memcpy(&port, at, 2);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    channel->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    if (channel->fd < 0 || setsockopt(channel->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(channel->fd, (struct sockaddr *)&address, sizeof address) || listen(channel->fd, 64))
        return fail(channel, errno, "listening");
    send_number(id, 0);
}

static void accept_all(struct channel *listener) {
    while (pending(&outgoing) < HIGH_WATER) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno == EMFILE && spares[0] >= 0) { /* it would be announced for ever: take it and refuse it */
            shut(&spares[0]);
            fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        }
        if (fd < 0) return hold_spares();
        int in_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), half = (int)(open_most / 2);
        if (fd >= half || in_fd < 0 || in_fd >= half) { /* the others are for commands */
            shut(&fd), shut(&in_fd);
            hold_spares();
            continue;
        }
        struct channel *channel = open_channel(ACCEPTED | next_accepted++, CONNECTION);
        channel->fd = fd;
        channel->in_fd = in_fd;
        send_frame('o', channel->id, &listener->id, 4);
    }
}

/* Whether a connection to the loopback stands: at once, unless the port's queue is full, for which nobody waits. */
static int connected(int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&ready, 1, 20) != 1) return EAGAIN;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? errno : error;
}

static void begin_connecting(uint32_t id, struct reader *reader) {
    struct channel *channel = open_channel(id, CONNECTION);
    const char *at = take(reader, 2);
    if (!at) quit("a request to connect cannot be read");
    uint16_t port;
    memcpy(&port, at, 2);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    channel->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = channel->fd < 0 || connect(channel->fd, (struct sockaddr *)&address, sizeof address) ? errno : 0;
    if (error == EINPROGRESS) error = connected(channel->fd);
    if (error) return fail(channel, error, "connecting");
    channel->in_fd = fcntl(channel->fd, F_DUPFD_CLOEXEC, 3);
    if (channel->in_fd < 0 || channel->in_fd >= (int)(open_most / 2)) return fail(channel, EMFILE, "connecting");
    send_credit(id, 0);
}

static void pump_connection(struct channel *channel) {
    static char piece[PIECE];
    while (!channel->output_ended && channel->credit > 0 && pending(&outgoing) < HIGH_WATER) {
        size_t size = channel->credit < (int64_t)sizeof piece ? (size_t)channel->credit : sizeof piece;
        ssize_t got = read(channel->fd, piece, size);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        send_frame('d', channel->id, piece, got > 0 ? (size_t)got : 0);
        if (got <= 0) {
            channel->output_ended = true;
            if (channel->in_fd < 0) end_channel(channel);
            return;
        }
        channel->credit -= got;
    }
}

/* Hand on what the hub sent, as far as the other side takes it now. */
static void pump_input(struct channel *channel) {
    size_t taken = 0;
    if (channel->kind == EXEC && !channel->has_started) return; /* it may have to be started anew */
    while (channel->in_fd >= 0 && pending(&channel->input)) {
        ssize_t size = write(channel->in_fd, channel->input.data + channel->input.start, pending(&channel->input));
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) break;
        if (size < 0) { /* nobody reads any more: the rest is dropped */
            taken += pending(&channel->input);
            channel->input.start = channel->input.length;
            shut(&channel->in_fd);
            break;
        }
        taken += (size_t)size;
        channel->input.start += (size_t)size;
    }
    if (channel->in_fd < 0) {
        taken += pending(&channel->input);
        channel->input.start = channel->input.length;
    }
    if (taken) send_credit(channel->id, (uint32_t)taken);
    if (channel->input_ends && !pending(&channel->input) && channel->in_fd >= 0) {
        if (channel->kind == CONNECTION) shutdown(channel->in_fd, SHUT_WR);
        shut(&channel->in_fd);
    }
    if (channel->kind == CONNECTION && channel->in_fd < 0 && channel->output_ended) end_channel(channel);
}

/* ---- what the hub says ------------------------------------------------------------------------------------------ */

static void take_input(struct channel *channel, const char *data, size_t size) {
    if (channel->kind == WRITING) return take_write(channel, data, size);
    if (channel->kind == READING || channel->kind == LISTENING) quit("input on a channel that takes none");
    if (pending(&channel->input) + size > 2 * WINDOW) quit("input beyond its window");
    append(&channel->input, data, size);
    if (!size) channel->input_ends = true;
    pump_input(channel);
}

static void send_stats(uint32_t id) {
    send_head('s', id, 20);
    put64(&outgoing, read_number(memory_fd, NULL));
    put64(&outgoing, oom_kills());
    put32(&outgoing, (uint32_t)count_below(EVERYTHING, self));
}

static void obey(char kind, uint32_t id, const char *payload, size_t size) {
    struct reader reader = {payload, payload + size, false};
    struct channel *channel = find(id);
    if (kind && strchr("XRPLFC", kind)) {
        if (channel || id & ACCEPTED) quit("a channel's number was used twice");
        if (kind == 'X') return begin_command(id, payload, size);
        if (kind == 'R') return begin_read(id, &reader);
        if (kind == 'P') return begin_write(id, &reader);
        if (kind == 'L') return begin_list(id, &reader);
        if (kind == 'F') return begin_listening(id, &reader);
        return begin_connecting(id, &reader);
    }
    uint64_t killed = 0;
    switch (kind) {
    case 'I':
        if (channel) take_input(channel, payload, size);
        break;
    case 'A':
        if (channel) channel->credit += get32(&reader);
        break;
    case 'K':
        if (!channel) break;
        if (!size) quit("a signal without a number");
        if (channel->kind != EXEC)
            end_channel(channel);
        else if (!*payload)
            kill_command(channel, KILLED);
        else if (channel->leader && !channel->has_ended)
            kill(-channel->leader, *payload);
        else if (!channel->leader && *payload > 0 && *payload <= 64)
            channel->early_signals |= UINT64_C(1) << (*payload - 1);
        break;
    case 'Z':
        if (kill_below(EVERYTHING, self, &killed))
            send_number(id, killed);
        else
            send_failure(id, EBUSY, "killing every process");
        break;
    case 'T':
        ends_at_us = now_us() + (uint64_t)get32(&reader) * 1000000;
        send_number(id, 0);
        break;
    case 'S': send_stats(id); break;
    case 'Q': quit(NULL); break;
    default: quit("a frame of a kind that is not known");
    }
    if (reader.is_short) quit("a frame is too short");
}

static void hear_hub(void) {
    static struct bytes incoming;
    reserve(&incoming, PIECE);
    ssize_t size = read(0, incoming.data + incoming.length, incoming.capacity - incoming.length);
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (size <= 0) quit(NULL);
    incoming.length += (size_t)size;
    while (pending(&incoming) >= 9) {
        uint32_t length, id;
        const char *at = incoming.data + incoming.start;
        memcpy(&length, at, 4);
        if (length < 5 || length > LARGEST_FRAME) quit("a frame of an impossible length");
        if (pending(&incoming) < 4 + (size_t)length) break;
        memcpy(&id, at + 5, 4);
        incoming.start += 4 + (size_t)length;
        obey(at[4], id, at + 9, length - 5);
    }
}

/* ---- apart from commands ---------------------------------------------------------------------------------------- */

/* Take ids that nothing else has. The kernel lets a process change another's limits, trace it or read its memory where
 * all ids of both are one; those of this process differ among themselves, so that they are nobody's, not even of a root
 * that may become anyone. Files are still handled, and commands run, as whom `acting` says. */
static const char *stand_apart(uid_t own) {
    const uint64_t needed = 1ull << CAP_KILL | 1ull << CAP_SETGID | 1ull << CAP_SETUID;
    if (take_groups(&acting)) return "the groups of its user cannot be taken";
    for (unsigned long each = 0; each < 64; each++)
        if (!(command_capabilities >> each & 1) && prctl(PR_CAPBSET_DROP, each, 0, 0, 0) && errno != EINVAL)
            return "the capabilities of its commands cannot be bounded";
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setresgid(own, own, own + 1) || setresuid(own, own, own + 1))
        return "its own ids cannot be taken";
    if (hold_capabilities(needed | command_capabilities, command_capabilities))
        return "its own capabilities cannot be kept";
    setfsgid(acting.gid);
    setfsuid(acting.uid);
    if (setfsuid((uid_t)-1) != (int)acting.uid) return "files cannot be handled as its user";
    return NULL;
}

/* Of each architecture whose programs run on this machine: the numbers of the calls that are looked at. */
struct calls {
    uint32_t architecture, clone, unshare, clone3, prlimit;
    uint32_t steers[4]; /* set the scheduling of the process that their first argument names */
    uint32_t priority, io_priority;
};
static const struct calls every_call[] = {
#if defined(__x86_64__)
    {AUDIT_ARCH_X86_64, 56, 272, 435, 302, {142, 144, 203, 314}, 141, 251},
    {AUDIT_ARCH_I386, 120, 310, 435, 340, {154, 156, 241, 351}, 97, 289},
#elif defined(__aarch64__)
    {AUDIT_ARCH_AARCH64, 220, 97, 435, 261, {118, 119, 122, 274}, 140, 30},
    {AUDIT_ARCH_ARM, 120, 337, 435, 369, {154, 156, 241, 380}, 97, 314},
#endif
};

enum { MOST_STEPS = 192 };
static struct sock_filter steps[MOST_STEPS];
static unsigned short step_count;

static void step(uint16_t code, uint32_t value, uint8_t jump_if, uint8_t jump_else) {
    steps[step_count++] = (struct sock_filter){code, jump_if, jump_else, value};
}

/* The lower or the upper half of an argument; both architectures are little endian. */
static void load_argument(unsigned index, unsigned half) {
    step(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8 * index + 4 * half, 0, 0);
}

static void answer(uint32_t error) {
    step(BPF_RET | BPF_K, error ? SECCOMP_RET_ERRNO | error : SECCOMP_RET_ALLOW, 0, 0);
}

/* Where the call is this one (its number is loaded): refuse it if an argument is `value`, else allow it. */
static void refuse_where_argument_is(uint32_t call, unsigned argument, uint32_t value) {
    step(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load_argument(argument, 0);
    step(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    answer(EPERM);
    answer(0);
}

/* The same for two calls that name a process in their second argument, or with `everyone` in their first a whole user. */
static void refuse_priority(uint32_t call, uint32_t everyone) {
    step(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 6);
    load_argument(0, 0);
    step(BPF_JMP | BPF_JEQ | BPF_K, everyone, 2, 0);
    load_argument(1, 0);
    step(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)self, 0, 1);
    answer(EPERM);
    answer(0);
}

static void refuse_user_namespace(uint32_t call) {
    step(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load_argument(0, 0);
    step(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1);
    answer(EPERM);
    answer(0);
}

/* Let no program make a user namespace, in which it would be root, or set the limits or the scheduling of this process.
 * Flags of `clone3` lie in memory, where no filter sees them: it is refused as unknown, and libraries take `clone`. */
static const char *install_filter(void) {
    for (size_t index = 0; index < sizeof every_call / sizeof *every_call; index++) {
        const struct calls *calls = &every_call[index];
        step(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
        unsigned short guarded = step_count;
        step(BPF_JMP | BPF_JEQ | BPF_K, calls->architecture, 0, 0);
        step(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
        if (calls->architecture == AUDIT_ARCH_X86_64) step(BPF_ALU | BPF_AND | BPF_K, ~0x40000000u, 0, 0); /* x32 */
        step(BPF_JMP | BPF_JEQ | BPF_K, calls->clone3, 0, 1);
        answer(ENOSYS);
        refuse_user_namespace(calls->clone);
        refuse_user_namespace(calls->unshare);
        step(BPF_JMP | BPF_JEQ | BPF_K, calls->prlimit, 0, 8);
        load_argument(0, 0);
        step(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)self, 0, 5);
        load_argument(2, 0); /* where new limits lie; without them it reads */
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2);
        load_argument(2, 1);
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
        answer(EPERM);
        answer(0);
        for (int number = 0; number < 4; number++) refuse_where_argument_is(calls->steers[number], 0, (uint32_t)self);
        refuse_priority(calls->priority, PRIO_USER);
        refuse_priority(calls->io_priority, 3);
        answer(0);
        steps[guarded].jf = (uint8_t)(step_count - guarded - 1);
    }
    answer(0);
    struct sock_fprog program = {step_count, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        return "the filter of its system calls cannot be installed";
    return NULL;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

struct watch {
    struct channel *channel;
    char what; /* 's' status, 'o' output, 'e' errors, 'i' input, 'a' accept, 'c' connection */
};

static struct pollfd *polled;
static struct watch *watches;
static size_t watched, watch_capacity;

static void watch(struct channel *channel, char what, int fd, short events) {
    if (fd < 0) return;
    if (watched == watch_capacity) {
        watch_capacity = watch_capacity ? 2 * watch_capacity : 64;
        polled = realloc(polled, watch_capacity * sizeof *polled);
        watches = realloc(watches, watch_capacity * sizeof *watches);
        if (!polled || !watches) quit("out of memory");
    }
    polled[watched] = (struct pollfd){.fd = fd, .events = events};
    watches[watched++] = (struct watch){channel, what};
}

static void watch_channel(struct channel *channel) {
    bool is_free = pending(&outgoing) < HIGH_WATER;
    switch (channel->kind) {
    case EXEC:
        watch(channel, 's', channel->status_fd, POLLIN);
        if (may_read(channel) && channel->out.left != 0) watch(channel, 'o', channel->out.fd, POLLIN);
        if (may_read(channel) && channel->err.left != 0) watch(channel, 'e', channel->err.fd, POLLIN);
        if (channel->has_started && pending(&channel->input)) watch(channel, 'i', channel->in_fd, POLLOUT);
        break;
    case LISTENING:
        if (is_free) watch(channel, 'a', channel->fd, POLLIN);
        break;
    case CONNECTION:
        if (is_free && channel->credit > 0 && !channel->output_ended) watch(channel, 'c', channel->fd, POLLIN);
        if (pending(&channel->input)) watch(channel, 'i', channel->in_fd, POLLOUT);
        break;
    default: break;
    }
}

static void attend(struct channel *channel, char what) {
    if (channel->is_over) return;
    switch (what) {
    case 's': hear_keeper(channel); break;
    case 'o': pump_stream(channel, &channel->out, 'd'); break;
    case 'e': pump_stream(channel, &channel->err, 'D'); break;
    case 'i': pump_input(channel); break;
    case 'a': accept_all(channel); break;
    case 'c': pump_connection(channel); break;
    }
    if (!channel->is_over && channel->kind == EXEC) finish_command(channel);
}

/* Milliseconds until the next deadline; what is over its own is killed. */
static int keep_deadlines(void) {
    uint64_t now = now_us(), next = ends_at_us;
    if (ends_at_us && now >= ends_at_us) quit("its time to live is over");
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (struct channel *channel = channels[bucket]; channel; channel = channel->next) {
            if (channel->is_over || !channel->deadline_us) continue;
            if (now >= channel->deadline_us)
                kill_command(channel, TIMED_OUT);
            else if (!next || channel->deadline_us < next)
                next = channel->deadline_us;
        }
    }
    if (!next) return -1;
    now = now_us(); /* killing took its time */
    uint64_t wait = next > now ? (next - now + 999) / 1000 : 0;
    return wait > 1000000 ? 1000000 : (int)wait;
}

static void loop(void) {
    for (;;) {
        int timeout = keep_deadlines();
        bool has_files = false;
        watched = 0;
        watch(NULL, 'h', 0, pending(&outgoing) < HIGH_WATER ? POLLIN : 0); /* who does not read is not heard */
        watch(NULL, 'z', signal_fd, POLLIN);
        for (int bucket = 0; bucket < BUCKETS; bucket++) {
            for (struct channel *channel = channels[bucket]; channel; channel = channel->next) {
                if (channel->is_over) continue;
                if (channel->kind == READING) {
                    pump_read(channel);
                    has_files |= !channel->is_over && channel->credit > 0;
                    continue;
                }
                if (channel->kind == EXEC) finish_command(channel);
                if (!channel->is_over) watch_channel(channel);
            }
        }
        free_ended();
        if (pending(&outgoing)) flush();
        if (pending(&outgoing)) watch(NULL, 'w', 1, POLLOUT);
        if (has_files && !pending(&outgoing)) timeout = 0;
        if (poll(polled, watched, timeout) < 0 && errno != EINTR) quit("poll failed");
        size_t count = watched;
        for (size_t index = 0; index < count; index++) {
            if (!polled[index].revents) continue;
            char what = watches[index].what;
            struct signalfd_siginfo signals[16];
            if (what == 'h')
                hear_hub();
            else if (what == 'z') {
                if (read(signal_fd, signals, sizeof signals)) {}
                reap();
            } else if (what == 'w')
                flush();
            else
                attend(watches[index].channel, what);
        }
        if (pending(&outgoing)) flush();
    }
}

static void open_counters(void) {
    if (self != 1) return; /* the counters of a group that others are in would say nothing */
    oom_kills_fd = open("/sys/fs/cgroup/memory.events", O_RDONLY | O_CLOEXEC);
    memory_fd = open("/sys/fs/cgroup/memory.current", O_RDONLY | O_CLOEXEC);
    if (oom_kills_fd < 0) oom_kills_fd = open("/sys/fs/cgroup/memory/memory.oom_control", O_RDONLY | O_CLOEXEC);
    if (memory_fd < 0) memory_fd = open("/sys/fs/cgroup/memory/memory.usage_in_bytes", O_RDONLY | O_CLOEXEC);
}

struct options {
    const char *as;
    uint32_t own;
    bool is_filtered;
};

static bool read_options(int argc, char **argv, struct options *options) {
    for (int index = 1; index < argc; index++) {
        const char *name = argv[index], *value = index + 1 < argc ? argv[index + 1] : NULL;
        if (!strcmp(name, "--no-new-privileges"))
            no_new_privileges = true;
        else if (!strcmp(name, "--filter"))
            options->is_filtered = true;
        else if (value && !strcmp(name, "--ttl"))
            ends_at_us = now_us() + (uint64_t)(strtod(argv[++index], NULL) * 1e6);
        else if (value && !strcmp(name, "--as"))
            options->as = argv[++index];
        else if (value && !strcmp(name, "--own-id"))
            options->own = (uint32_t)strtoul(argv[++index], NULL, 10);
        else if (value && !strcmp(name, "--capabilities"))
            command_capabilities = strtoull(argv[++index], NULL, 16);
        else
            return false;
    }
    return !options->own == !options->as;
}

/* Set up what separates this process from commands. */
static void separate(const struct options *options) {
    const char *problem = NULL;
    acting = (struct identity){.uid = geteuid(), .gid = getegid()};
    if (options->as) {
        int error = identify(options->as, &acting);
        if (error) dprintf(2, "unable to find user %s: %s\n", options->as, strerror(error)), _exit(1);
        problem = stand_apart(options->own);
        is_apart = true;
    }
    if (!problem && options->is_filtered) problem = install_filter();
    if (problem) quit(problem);
}

int main(int argc, char **argv) {
    self = getpid();
    close_from(3); /* what whoever started this process forgot is not for commands */
    struct options options = {0};
    if (!read_options(argc, argv, &options)) {
        dprintf(2, "usage: supervisor [--ttl SECONDS] [--no-new-privileges] [--filter] "
                   "[--as USER --own-id UID [--capabilities HEX]]\n");
        return 2;
    }
    oom_score_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (oom_score_fd >= 0 && pread(oom_score_fd, own_oom_score, sizeof own_oom_score - 1, 0) <= 0) shut(&oom_score_fd);
    open_counters();
    separate(&options);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no process of the same user can trace it or reach its files */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (int number = 1; number < 32; number++) signal(number, SIG_DFL); /* whatever a nohup or a daemon ignored */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files_limit)) quit("its limit of open files cannot be read");
    open_most = files_limit.rlim_max < MOST_FILES ? files_limit.rlim_max : MOST_FILES;
    if (open_most < files_limit.rlim_cur) open_most = files_limit.rlim_cur;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){open_most, files_limit.rlim_max});
    hold_spares();
    /* SIGCHLD alone: a blocked signal would reach PID 1 from inside, an unblocked one without a handler does not. */
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    signal_fd = signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
    fcntl(0, F_SETFD, FD_CLOEXEC);
    fcntl(1, F_SETFD, FD_CLOEXEC);
    fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
    fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
    umask(022);
    struct utsname machine;
    uname(&machine);
    uint32_t length = (uint32_t)strlen(machine.machine);
    send_head('h', 0, 12 + length);
    put32(&outgoing, VERSION);
    put32(&outgoing, (uint32_t)self);
    put32(&outgoing, length);
    append(&outgoing, machine.machine, length);
    loop();
}
