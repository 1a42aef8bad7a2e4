/*
 * deny.c - runs a program to which some of what the kernel has is refused, by a seccomp filter
 * as containers have them.
 *
 *     deny WHAT[,WHAT]... PROGRAM [ARGUMENT]...
 *
 * WHAT is
 *     memory       reading and writing the memory of other processes: EPERM
 *     pidfd        descriptors of processes: EPERM
 *     udp_segment  the socket option of that name, as before Linux 4.18
 *     udp_gro      the same, as before Linux 5.0
 *     recvmmsg     the call: EPERM
 *     getrandom    the call: EPERM
 *     accept4      the call: EPERM
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 64 };

/* Where the lower half of an argument is. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
enum { LOW = 4 };
#else
enum { LOW = 0 };
#endif

static struct sock_filter code[MOST];
static unsigned short len;

static void load(size_t off)
{
    code[len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)off);
}

/* If what was loaded is not |value|, |skip| steps are left out. */
static void only(long value, uint8_t skip)
{
    code[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)value, 0, skip);
}

static void answer(uint32_t what)
{
    code[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what);
}

static void deny_call(long number)
{
    load(offsetof(struct seccomp_data, nr));
    only(number, 1);
    answer(SECCOMP_RET_ERRNO | EPERM);
}

static void deny_option(int level, int option)
{
    load(offsetof(struct seccomp_data, nr));
    only(SYS_setsockopt, 5);
    load(offsetof(struct seccomp_data, args[1]) + LOW);
    only(level, 3);
    load(offsetof(struct seccomp_data, args[2]) + LOW);
    only(option, 1);
    answer(SECCOMP_RET_ERRNO | ENOPROTOOPT);
}

/* False: there is no such thing. */
static bool deny(const char *what)
{
    if (strcmp(what, "memory") == 0) {
        deny_call(SYS_process_vm_readv);
        deny_call(SYS_process_vm_writev);
    } else if (strcmp(what, "pidfd") == 0) {
        deny_call(SYS_pidfd_open);
    } else if (strcmp(what, "udp_segment") == 0) {
        deny_option(IPPROTO_UDP, UDP_SEGMENT);
    } else if (strcmp(what, "udp_gro") == 0) {
        deny_option(IPPROTO_UDP, UDP_GRO);
    } else if (strcmp(what, "recvmmsg") == 0) {
        deny_call(SYS_recvmmsg);
    } else if (strcmp(what, "getrandom") == 0) {
        deny_call(SYS_getrandom);
    } else if (strcmp(what, "accept4") == 0) {
        deny_call(SYS_accept4);
    } else {
        return false;
    }
    return true;
}

static bool deny_all(char *list)
{
    char *rest = list, *what;

    while ((what = strsep(&rest, ",")) != NULL) {
        if ((len > MOST / 2) || !deny(what)) {
            return false;
        }
    }
    answer(SECCOMP_RET_ALLOW);
    return true;
}

int main(int argc, char **argv)
{
    struct sock_fprog filter = {.filter = code};

    if ((argc < 3) || !deny_all(argv[1])) {
        (void)fprintf(stderr, "usage: deny WHAT[,WHAT]... PROGRAM [ARGUMENT]...\n"
                              "WHAT: memory, pidfd, udp_segment, udp_gro, recvmmsg, getrandom, "
                              "accept4\n");
        return 2;
    }
    filter.len = len;
    if ((prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ||
        (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)) {
        perror("deny: seccomp");
        return 77; /* not here */
    }
    (void)execvp(argv[2], argv + 2);
    perror("deny: execvp");
    return 2;
}
