/* hosts.c - network namespaces, and the wire between them. */
#include "hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = NXT_HOSTS_MOST + 2 };

static _Noreturn void die(const char *what)
{
    perror(what);
    _exit(1);
}

/* ---- namespaces ------------------------------------------------------------------------- */

/* Requests the network namespace of this process. */
static int here(void)
{
    const int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        die("/proc/self/ns/net");
    }
    return fd;
}

static void enter(int fd)
{
    if (setns(fd, CLONE_NEWNET) != 0) {
        die("setns");
    }
}

static void set_address(int s, struct ifreq *request, unsigned long what, const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    (void)inet_pton(AF_INET, address, &in.sin_addr);
    memcpy(&request->ifr_addr, &in, sizeof(in));
    if (ioctl(s, what, request) != 0) {
        die(address);
    }
}

/* Assigns |address| (NULL: it has one) to the interface |name| of this namespace, and brings it
 * up. */
static void take_up(const char *name, const char *address)
{
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {0};

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (address != NULL) {
        set_address(s, &request, SIOCSIFADDR, address);
        set_address(s, &request, SIOCSIFNETMASK, "255.255.255.0");
    }
    request.ifr_flags = IFF_UP;
    if (ioctl(s, SIOCSIFFLAGS, &request) != 0) {
        die(name);
    }
    (void)close(s);
}

static void address_of(int i, char *text, size_t size)
{
    (void)snprintf(text, size, "10.90.0.%d", i + 1);
}

void nxt_hosts_enter(const nxt_hosts *h, int i)
{
    enter(h->namespaces[i]);
}

/* ---- the wire --------------------------------------------------------------------------- */

static void name_of(const nxt_hosts *h, int i, char *text, size_t size)
{
    (void)snprintf(text, size, "/proc/self/fd/%d", h->namespaces[i]);
}

static _Noreturn void be_wire(const nxt_hosts *h, const char *wire, int in, int out)
{
    char texts[NXT_HOSTS_MOST][80], name[32], address[24], self[] = "wire";
    char *arguments[MOST_ARGUMENTS] = {self};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(in, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    for (int i = 0; i < h->n; i++) {
        (void)fcntl(h->namespaces[i], F_SETFD, 0);
        name_of(h, i, name, sizeof(name));
        address_of(i, address, sizeof(address));
        (void)snprintf(texts[i], sizeof(texts[i]), "%s=%s", name, address);
        arguments[i + 1] = texts[i];
    }
    (void)execv(wire, arguments);
    die(wire);
}

/* Reads a line from the wire program; false: it has ended. */
static bool answered(const nxt_hosts *h)
{
    char c = 0;

    while ((c != '\n') && (read(h->answers, &c, 1) == 1)) {
    }
    return c == '\n';
}

static bool start_wire(nxt_hosts *h, const char *wire)
{
    int in[2], out[2];

    if ((pipe2(in, O_CLOEXEC) != 0) || (pipe2(out, O_CLOEXEC) != 0)) {
        die("pipe");
    }
    h->wire = fork();
    if (h->wire == 0) {
        be_wire(h, wire, in[0], out[1]);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    h->orders = in[1];
    h->answers = out[0];
    return answered(h);
}

void nxt_hosts_order(nxt_hosts *h, const char *word, int i)
{
    char line[64], name[32];
    int len;

    name_of(h, i, name, sizeof(name));
    len = snprintf(line, sizeof(line), "%s %s\n", word, name);
    if ((write(h->orders, line, (size_t)len) != len) || !answered(h)) {
        die("the wire");
    }
}

/* ---- all of it --------------------------------------------------------------------------- */

bool nxt_hosts_open(nxt_hosts *h, int n, const char *wire)
{
    const int home = here();
    char address[24];
    bool ok;

    *h = (nxt_hosts){.n = n};
    for (int i = 0; i < n; i++) {
        if (unshare(CLONE_NEWNET) != 0) {
            perror("network namespaces are not possible here");
            return false;
        }
        h->namespaces[i] = here();
        take_up("lo", NULL);
    }
    enter(home);
    ok = start_wire(h, wire);
    for (int i = 0; ok && (i < n); i++) {
        enter(h->namespaces[i]);
        address_of(i, address, sizeof(address));
        take_up("nx0", address);
    }
    enter(home);
    (void)close(home);
    return ok;
}

int nxt_hosts_sockets(const nxt_hosts *h, int i)
{
    const int home = here();
    char line[512];
    int count = 0;
    FILE *f;

    enter(h->namespaces[i]);
    f = fopen("/proc/thread-self/net/unix", "re");
    while ((f != NULL) && (fgets(line, sizeof(line), f) != NULL)) {
        count += (strchr(line, '@') != NULL);
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    enter(home);
    (void)close(home);
    return count;
}

void nxt_hosts_close(nxt_hosts *h)
{
    (void)close(h->orders);
    (void)close(h->answers);
    (void)waitpid(h->wire, NULL, 0);
    for (int i = 0; i < h->n; i++) {
        (void)close(h->namespaces[i]);
    }
}
