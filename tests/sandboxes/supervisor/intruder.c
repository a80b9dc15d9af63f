/* What a program of a sandbox may try against its supervisor, without a library or a shell to help it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void note(const char *name, int is_taken) {
    if (is_taken) printf("%s ", name);
}

static void open_below(pid_t pid, const char *name, int flags) {
    char path[64], byte;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    int fd = open(path, flags);
    note(name, fd >= 0 && (flags != O_RDONLY || read(fd, &byte, 1) >= 0 || errno == EISDIR));
}

/* Print what of a process can be read, written or traced. */
static void reach(pid_t pid) {
    const char *read_only[] = {"environ", "maps", "auxv", "cwd/.", "root/.", "fd/0", "exe"};
    char path[64], byte;
    for (size_t index = 0; index < sizeof read_only / sizeof *read_only; index++)
        open_below(pid, read_only[index], O_RDONLY | O_NONBLOCK);
    open_below(pid, "mem", O_RDWR);
    open_below(pid, "oom_score_adj", O_WRONLY);
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    note("fd", opendir(path) != NULL);
    struct iovec to = {&byte, 1}, from = {(void *)0x1000000, 1};
    note("memory", process_vm_readv(pid, &to, 1, &from, 1, 0) > 0 || errno == EFAULT);
    int handle = (int)syscall(SYS_pidfd_open, pid, 0);
    note("getfd", syscall(SYS_pidfd_getfd, handle, 0, 0) >= 0);
    note("seize", ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
    note("attach", ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0);
    printf("\n");
}

/* Print what of a process can be steered: its limits, its scheduling. First by who it is that asks, then by whoever that
 * may become, the target's own users and groups among them. */
static void steer(pid_t pid, int argc, char **users) {
    for (int index = -1; index < argc; index++) {
        fflush(stdout);
        pid_t child = fork();
        if (child) {
            waitpid(child, NULL, 0);
            continue;
        }
        uid_t user = index < 0 ? getuid() : (uid_t)atol(users[index]);
        if (index >= 0) note("become", setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0);
        struct rlimit none = {0, 0}, now;
        note("prlimit", prlimit(pid, RLIMIT_NOFILE, &none, NULL) == 0);
        note("looked", prlimit(pid, RLIMIT_NOFILE, NULL, &now) == 0);
        note("scheduler", sched_setscheduler(pid, SCHED_IDLE, &(struct sched_param){0}) == 0);
        note("priority", setpriority(PRIO_PROCESS, (id_t)pid, 19) == 0);
        note("users-priority", setpriority(PRIO_USER, user, 19) == 0);
        cpu_set_t none_but_one;
        CPU_ZERO(&none_but_one);
        CPU_SET(0, &none_but_one);
        note("affinity", sched_setaffinity(pid, sizeof none_but_one, &none_but_one) == 0);
        note("io", syscall(SYS_ioprio_set, 1, pid, 3 << 13) == 0);
        note("trace", ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
        exit(0);
    }
    printf("\n");
}

/* Print how a user namespace can be had. */
static void be_root(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        note("unshare", unshare(CLONE_NEWUSER) == 0);
        exit(0);
    }
    waitpid(child, NULL, 0);
    child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) _exit(0);
    note("clone", child > 0);
    unsigned long long arguments[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    child = (pid_t)syscall(SYS_clone3, arguments, sizeof arguments);
    if (child == 0) _exit(0);
    note("clone3", child > 0);
    printf("\n");
}

/* As many children as the limit of processes allows. */
static void fill(void) {
    int children = 0;
    for (pid_t pid; (pid = fork()) >= 0; children++)
        if (pid == 0) {
            setsid();
            for (;;) pause();
        }
    printf("%d children\n", children);
}

static void use_memory(void) {
    for (volatile char *piece; (piece = malloc(4096));)
        for (int index = 0; index < 4096; index += 64) piece[index] = 1;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    pid_t other = argc > 2 ? (strcmp(argv[2], "parent") ? atoi(argv[2]) : getppid()) : 0;
    if (!strcmp(argv[1], "reach")) {
        reach(other);
    } else if (!strcmp(argv[1], "reach-child")) { /* shows that the attempts succeed where nothing guards against them */
        pid_t child = fork();
        if (child == 0) execl("/proc/self/exe", argv[0], "stay", NULL);
        char path[64], byte;
        snprintf(path, sizeof path, "/proc/%d/environ", child);
        for (int fd = -1; fd < 0 || read(fd, &byte, 1) < 0; fd = open(path, O_RDONLY)) {}
        reach(child);
        kill(child, SIGKILL);
    } else if (!strcmp(argv[1], "blind")) {
        struct rlimit none = {0, 0};
        return prlimit(other, RLIMIT_NOFILE, &none, NULL) ? 1 : 0;
    } else if (!strcmp(argv[1], "steer")) {
        steer(other, argc - 3, argv + 3);
    } else if (!strcmp(argv[1], "be-root")) {
        be_root();
    } else if (!strcmp(argv[1], "signals")) {
        for (int number = 1; number <= 64; number++)
            if (kill(other, number) && errno == EPERM) return 1;
    } else if (!strcmp(argv[1], "kill-all")) {
        kill(-1, SIGKILL);
        for (;;) pause();
    } else if (!strcmp(argv[1], "fill")) {
        fill();
    } else if (!strcmp(argv[1], "memory")) {
        use_memory();
    } else if (!strcmp(argv[1], "print")) {
        printf("%d %d %s\n", getuid(), getppid(), argv[2]);
    } else if (!strcmp(argv[1], "stay")) {
        for (;;) pause();
    }
    return 0;
}
