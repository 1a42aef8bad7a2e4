/* pty.c - posix_openpt and its terminal in raw mode. */
#include "pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "base/os/sys.h"

/* The other end of |master|, in raw mode; -1 with errno. */
static int open_slave(int master, const struct winsize *window)
{
    char name[64];
    struct termios mode;
    int fd;

    if ((grantpt(master) != 0) || (unlockpt(master) != 0)) {
        return -1;
    }
    errno = ptsname_r(master, name, sizeof(name));
    if (errno != 0) {
        return -1;
    }
    /* Without O_NOCTTY the terminal would become the controlling terminal of a session leader. */
    fd = nx_sys_open(name, O_RDWR | O_NOCTTY, 0);
    if ((fd < 0) || (tcgetattr(fd, &mode) != 0)) {
        return fd;
    }
    cfmakeraw(&mode);
    (void)tcsetattr(fd, TCSANOW, &mode);
    if (window != NULL) {
        (void)ioctl(fd, TIOCSWINSZ, window);
    }
    return fd;
}

nexar_err nx_pty_open(const struct winsize *window, int *ours, int *theirs, int *code)
{
    const int master = nx_sys_lift(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    const int slave = (master < 0) ? -1 : open_slave(master, window);

    if (slave < 0) {
        *code = errno;
        if (master >= 0) {
            (void)nx_sys_close(master);
        }
        return nx_fail_sys("posix_openpt", "", *code);
    }
    *ours = master;
    *theirs = slave;
    return NEXAR_OK;
}

bool nx_pty_window(int fd, struct winsize *window)
{
    return (ioctl(fd, TIOCGWINSZ, window) == 0) && (window->ws_col != 0);
}
