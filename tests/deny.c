/*
 * deny.c - runs a program that may not read or write the memory of other processes.
 *
 *     deny PROGRAM [ARGUMENT]...
 *
 * process_vm_readv and process_vm_writev fail with EPERM, by a seccomp filter as
 * containers have them.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (argc < 2) {
        (void)fprintf(stderr, "usage: deny PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    if ((prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ||
        (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)) {
        perror("deny: seccomp");
        return 77; /* not here */
    }
    (void)execvp(argv[1], argv + 1);
    perror("deny: execvp");
    return 2;
}
