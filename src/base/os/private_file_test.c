/* private_file_test.c - secrets reach their file, and nothing that another user has put in its
 * place. */
#include "private_file.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "oom.h"
#include "unit.h"

enum { NOBODY = 65534, MOST = 4096, RACES = 100 };

static const char SECRET[] = "nexar://SECRET@";

typedef struct scratch {
    char folder[32], path[64], other[64];
} scratch;

static scratch scratch_make(void)
{
    scratch s = {.folder = "/tmp/nexar-file-XXXXXX"};

    assert_non_null(mkdtemp(s.folder));
    (void)snprintf(s.path, sizeof(s.path), "%s/secret", s.folder);
    (void)snprintf(s.other, sizeof(s.other), "%s/other", s.folder);
    return s;
}

/* Also checks that no temporary file is left. */
static void scratch_remove(const scratch *s)
{
    (void)unlink(s->path);
    (void)rmdir(s->path);
    (void)unlink(s->other);
    assert_int_equal(rmdir(s->folder), 0);
}

static nexar_err put(const char *path)
{
    return nx_private_file_write("the join file", path, SECRET, sizeof(SECRET));
}

static nexar_err get(const char *path, bool *there)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    nexar_err err = nx_private_file_read("the join file", path, MOST, &bytes, &len, there);

    if ((err == NEXAR_OK) && *there) {
        assert_int_equal(len, sizeof(SECRET));
        assert_memory_equal(bytes, SECRET, sizeof(SECRET));
    }
    nx_free(bytes);
    return err;
}

static void assert_says(const char *verb, const char *path, const char *words)
{
    const char *said = nexar_last_error();

    if ((strstr(said, verb) == NULL) || (strstr(said, path) == NULL) ||
        (strstr(said, words) == NULL)) {
        fail_msg("\"%s\" lacks \"%s\", \"%s\" or \"%s\"", said, verb, path, words);
    }
}

/* The file is neither written nor read, and the message contains |words|. */
static void assert_refused(const char *path, nexar_err err, const char *words)
{
    struct stat before, after;
    bool there = true;

    assert_int_equal(lstat(path, &before), 0);
    assert_int_equal(put(path), err);
    assert_says("cannot write the join file: ", path, words);
    assert_int_equal(get(path, &there), err);
    assert_false(there);
    assert_says("cannot read the join file: ", path, words);
    assert_int_equal(lstat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_size, after.st_size);
}

static void test_what_was_written_is_read_and_private(void **state)
{
    static const mode_t masks[] = {0, 0022, 0777};
    const scratch s = scratch_make();
    bool there = true;
    struct stat st;

    (void)state;
    assert_int_equal(get(s.path, &there), NEXAR_OK);
    assert_false(there);
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        const mode_t before = umask(masks[i]);

        assert_int_equal(put(s.path), NEXAR_OK);
        (void)umask(before);
        assert_int_equal(stat(s.path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(get(s.path, &there), NEXAR_OK);
        assert_true(there);
    }
    scratch_remove(&s);
}

/* A path without a directory, as on a command line. */
static void test_a_name_alone_is_in_the_current_directory(void **state)
{
    const scratch s = scratch_make();
    char before[PATH_MAX];
    bool there = false;

    (void)state;
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(s.folder), 0);
    assert_int_equal(put("secret"), NEXAR_OK);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(get(s.path, &there), NEXAR_OK);
    assert_true(there);
    scratch_remove(&s);
}

static void make_file(const char *path)
{
    const int fd = open(path, O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
}

static off_t size_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void test_a_symbolic_link_is_not_followed(void **state)
{
    const scratch s = scratch_make();

    (void)state;
    assert_int_equal(symlink("other", s.path), 0);
    assert_refused(s.path, NEXAR_EINVAL, "is a symbolic link; give the name of a regular file");
    assert_int_equal(access(s.other, F_OK), -1); /* a dangling link creates no file */
    make_file(s.other);
    assert_refused(s.path, NEXAR_EINVAL, "is a symbolic link");
    assert_int_equal(size_of(s.other), 0);
    assert_int_equal(unlink(s.path), 0);
    assert_int_equal(symlink("secret", s.path), 0);
    assert_refused(s.path, NEXAR_EINVAL, "is a symbolic link");
    scratch_remove(&s);
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)close(fd);
}

static void test_what_is_no_regular_file_gets_nothing(void **state)
{
    const scratch s = scratch_make();
    bool there;
    char byte;
    int fd;

    (void)state;
    assert_int_equal(mkfifo(s.path, 0600), 0);
    assert_refused(s.path, NEXAR_EINVAL, "is a FIFO"); /* and the call does not block */
    fd = open(s.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_refused(s.path, NEXAR_EINVAL, "is a FIFO");
    assert_int_equal(read(fd, &byte, 1), 0);
    (void)close(fd);
    assert_int_equal(unlink(s.path), 0);
    assert_int_equal(mkdir(s.path, 0700), 0);
    assert_refused(s.path, NEXAR_EINVAL, "is a directory");
    assert_int_equal(rmdir(s.path), 0);
    make_socket(s.path);
    assert_int_equal(put(s.path), NEXAR_EINVAL);
    assert_says("write", s.path, "is a socket");
    assert_int_equal(get(s.path, &there), NEXAR_ESYS); /* open(2) itself rejects a socket */
    assert_int_equal(unlink(s.path), 0);
    assert_refused("/dev/null", NEXAR_EINVAL, "is a device");
    scratch_remove(&s);
}

static void test_a_path_that_leads_nowhere_is_an_error(void **state)
{
    const scratch s = scratch_make();
    char path[128];

    (void)state;
    assert_int_equal(put("/nonexistent/secret"), NEXAR_ESYS);
    assert_says("cannot write the join file", "/nonexistent/secret", "No such file");
    (void)snprintf(path, sizeof(path), "%s/", s.folder);
    assert_int_equal(put(path), NEXAR_ESYS);
    assert_int_equal(put(""), NEXAR_ESYS);
    scratch_remove(&s);
}

static void test_other_names_of_the_file_keep_what_it_was(void **state)
{
    const scratch s = scratch_make();

    (void)state;
    make_file(s.path);
    assert_int_equal(link(s.path, s.other), 0);
    assert_int_equal(put(s.path), NEXAR_OK);
    assert_int_equal(size_of(s.other), 0);
    scratch_remove(&s);
}

static void test_a_file_that_others_may_use_is_not_read(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601};
    const scratch s = scratch_make();
    bool there;

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(put(s.path), NEXAR_OK);
        assert_int_equal(chmod(s.path, modes[i]), 0);
        assert_int_equal(get(s.path, &there), NEXAR_EAUTH);
        assert_says("cannot read", s.path, "chmod 600");
    }
    scratch_remove(&s);
}

static void test_a_file_that_is_too_long_is_not_read(void **state)
{
    const scratch s = scratch_make();
    bool there;

    (void)state;
    make_file(s.path);
    assert_int_equal(truncate(s.path, MOST + 1), 0);
    assert_int_equal(get(s.path, &there), NEXAR_EINVAL);
    assert_says("cannot read", s.path, "is too long");
    scratch_remove(&s);
}

/* ---- planted by another user --------------------------------------------------------- */

/* Runs |plant| in a child process under another user. */
static void as_nobody(bool (*plant)(const scratch *s), const scratch *s)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        const bool good = (setgid(NOBODY) == 0) && (setuid(NOBODY) == 0) && plant(s);

        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool plant_file(const scratch *s)
{
    return open(s->path, O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0666) >= 0;
}

static bool plant_fifo(const scratch *s)
{
    return mkfifo(s->path, 0666) == 0;
}

static bool plant_link(const scratch *s)
{
    return (symlink("other", s->path) == 0) &&
           (open(s->other, O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0666) >= 0);
}

static void test_what_another_user_has_planted_is_refused(void **state)
{
    const scratch s = scratch_make();

    (void)state;
    if (geteuid() != 0) {
        scratch_remove(&s);
        print_message("needs root: nothing was planted\n");
        skip();
    }
    assert_int_equal(chmod(s.folder, 01777), 0);
    as_nobody(plant_file, &s);
    assert_refused(s.path, NEXAR_EAUTH,
                   "belongs to another user (65534; this process is of user 0)");
    assert_int_equal(unlink(s.path), 0);
    as_nobody(plant_fifo, &s);
    assert_refused(s.path, NEXAR_EINVAL, "is a FIFO");
    assert_int_equal(unlink(s.path), 0);
    as_nobody(plant_link, &s);
    assert_refused(s.path, NEXAR_EINVAL, "is a symbolic link");
    assert_int_equal(size_of(s.other), 0);
    scratch_remove(&s);
}

typedef struct racer {
    scratch s;
    char fresh[64];
    atomic_bool stop;
} racer;

/* Repeatedly replaces the file by a link. */
static void *race(void *ctx)
{
    racer *r = ctx;

    while (!atomic_load(&r->stop)) {
        (void)!symlink("other", r->fresh);
        (void)!rename(r->fresh, r->s.path);
        (void)unlink(r->s.path);
    }
    return NULL;
}

static void test_a_name_that_changes_meanwhile_leads_nowhere_else(void **state)
{
    racer r = {.s = scratch_make()};
    pthread_t thread;

    (void)state;
    (void)snprintf(r.fresh, sizeof(r.fresh), "%s/fresh", r.s.folder);
    make_file(r.s.other);
    assert_int_equal(pthread_create(&thread, NULL, race, &r), 0);
    for (int i = 0; i < RACES; i++) {
        const nexar_err err = put(r.s.path);

        assert_true((err == NEXAR_OK) || (err == NEXAR_EINVAL));
    }
    atomic_store(&r.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(size_of(r.s.other), 0);
    (void)unlink(r.fresh);
    scratch_remove(&r.s);
}

/* ---- the directory, memory ----------------------------------------------------------- */

static void test_a_directory_in_which_all_may_rename_exposes(void **state)
{
    const scratch s = scratch_make();

    (void)state;
    assert_false(nx_private_file_exposed(s.path));
    assert_int_equal(chmod(s.folder, 0777), 0);
    assert_true(nx_private_file_exposed(s.path));
    assert_int_equal(chmod(s.folder, 01777), 0);
    assert_false(nx_private_file_exposed(s.path));
    assert_false(nx_private_file_exposed("/nonexistent/secret"));
    scratch_remove(&s);
}

static void test_out_of_memory_leaves_nothing_behind(void **state)
{
    const scratch s = scratch_make();

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        bool there = false;
        nexar_err err = put(s.path);

        err = (err == NEXAR_OK) ? get(s.path, &there) : err;
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
    }
    scratch_remove(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_read_and_private),
        cmocka_unit_test(test_a_name_alone_is_in_the_current_directory),
        cmocka_unit_test(test_a_symbolic_link_is_not_followed),
        cmocka_unit_test(test_what_is_no_regular_file_gets_nothing),
        cmocka_unit_test(test_a_path_that_leads_nowhere_is_an_error),
        cmocka_unit_test(test_other_names_of_the_file_keep_what_it_was),
        cmocka_unit_test(test_a_file_that_others_may_use_is_not_read),
        cmocka_unit_test(test_a_file_that_is_too_long_is_not_read),
        cmocka_unit_test(test_what_another_user_has_planted_is_refused),
        cmocka_unit_test(test_a_name_that_changes_meanwhile_leads_nowhere_else),
        cmocka_unit_test(test_a_directory_in_which_all_may_rename_exposes),
        cmocka_unit_test(test_out_of_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
