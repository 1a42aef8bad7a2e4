/* report_signal.c - the signal handler, and the descriptors that it writes to. */
#include "core/report/report_signal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/os/sys.h"

enum { SLOTS = 1024 };

/* A slot is fd + 1 in its lower half and the signal above it; 0: free.  The handler reads slots
 * without the lock.  With |running|, a remover waits until no handler still uses a value that it
 * has read. */
static _Atomic uint64_t slots[SLOTS];
static atomic_uint running;
static atomic_uint counts[2]; /* of SIGUSR1, SIGUSR2 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users[2]; /* of SIGUSR1, SIGUSR2: slots in use */
static const int numbers[2] = {SIGUSR1, SIGUSR2};

static void on_signal(int number)
{
    const int saved = errno;

    atomic_fetch_add(&running, 1);
    atomic_fetch_add(&counts[number == SIGUSR2], 1);
    for (size_t i = 0; i < SLOTS; i++) {
        const uint64_t slot = atomic_load(&slots[i]);

        if ((slot != 0) && ((int)(slot >> 32) == number)) {
            nx_sys_event_set((int)(uint32_t)slot - 1);
        }
    }
    atomic_fetch_sub(&running, 1);
    errno = saved;
}

/* Whether the disposition of |number| is |handler|. */
static bool handled_by(int number, void (*handler)(int))
{
    struct sigaction now;

    return (sigaction(number, NULL, &now) == 0) && ((now.sa_flags & SA_SIGINFO) == 0) &&
           (now.sa_handler == handler);
}

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void nx_report_signal_add(int number, int fd)
{
    const int which = (number == SIGUSR2);
    size_t i = 0;

    (void)pthread_mutex_lock(&lock);
    while ((i < SLOTS) && (atomic_load(&slots[i]) != 0)) {
        i++;
    }
    if ((i < SLOTS) && handled_by(number, (users[which] == 0) ? SIG_DFL : on_signal)) {
        atomic_store(&slots[i], ((uint64_t)(uint32_t)number << 32) | (uint32_t)(fd + 1));
        if (users[which]++ == 0) {
            set_handler(number, on_signal);
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

unsigned nx_report_signal_count(int number)
{
    return atomic_load_explicit(&counts[number == SIGUSR2], memory_order_relaxed);
}

void nx_report_signal_remove(int fd)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < SLOTS; i++) {
        const uint64_t slot = atomic_load(&slots[i]);

        if ((uint32_t)slot == (uint32_t)(fd + 1)) {
            const int which = ((int)(slot >> 32) == SIGUSR2);

            if ((--users[which] == 0) && handled_by(numbers[which], on_signal)) {
                set_handler(numbers[which], SIG_DFL);
            }
            atomic_store(&slots[i], 0);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    while (atomic_load(&running) != 0) {
        (void)sched_yield();
    }
}
