/* ssh.c - command lines of ssh and srun. They contain no secret, since all users can read them. */
#include "ssh.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/text/text.h"

enum { PATH_ROOM = 4096 };

/* Runs the first of its arguments that exists. It contains no ' and no !, so that any login
 * shell passes it to sh unchanged. */
static const char script[] =
    "for n in \"$@\"; do if command -v \"$n\" >/dev/null 2>&1; then exec \"$n\" run --agent; fi; "
    "done; echo \"nexar is not installed there: tried $*; give --remote-nexar PATH\" >&2; exit 127";

void nx_command_line_fini(nx_command_line *w)
{
    for (size_t i = 0; i < w->n; i++) {
        nx_free(w->argv[i]);
    }
    nx_free(w->argv);
    *w = (nx_command_line){0};
}

static nexar_err add(nx_command_line *w, const char *word)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the elements are pointers */
    char **grown = nx_vec_grow(w->argv, &w->room, w->n + 2, sizeof(*w->argv));

    if (grown == NULL) {
        return nx_fail_nomem("a command line");
    }
    w->argv = grown;
    w->argv[w->n] = nx_strdup(word);
    if (w->argv[w->n] == NULL) {
        return nx_fail_nomem("a command line");
    }
    w->argv[++w->n] = NULL;
    return NEXAR_OK;
}

static nexar_err add_all(nx_command_line *w, const char *const *words)
{
    nexar_err err = NEXAR_OK;

    for (; (err == NEXAR_OK) && (*words != NULL); words++) {
        err = add(w, *words);
    }
    return err;
}

/* Adds the words of |text|, separated by blanks. */
static nexar_err add_split(nx_command_line *w, const char *text)
{
    char *copy = nx_strdup(text), *save = NULL;
    nexar_err err = (copy == NULL) ? nx_fail_nomem("a command line") : NEXAR_OK;

    for (const char *word = (copy == NULL) ? NULL : strtok_r(copy, " \t", &save);
         (err == NEXAR_OK) && (word != NULL); word = strtok_r(NULL, " \t", &save)) {
        err = add(w, word);
    }
    nx_free(copy);
    return err;
}

static nexar_err own_path(char path[PATH_ROOM])
{
    const ssize_t len = readlink("/proc/self/exe", path, PATH_ROOM - 1);

    if (len < 0) {
        return nx_fail_sys("readlink", "/proc/self/exe", errno);
    }
    path[len] = '\0';
    return NEXAR_OK;
}

/* 'a'\''b': one word for a shell. */
static void add_quoted(nx_text *t, const char *word)
{
    nx_text_addf(t, " '");
    for (; *word != '\0'; word++) {
        nx_text_addf(t, (*word == '\'') ? "'\\''" : "%c", *word);
    }
    nx_text_addf(t, "'");
}

/* ssh joins its words with blanks and passes them to the login shell, so this adds one quoted
 * word. */
static nexar_err add_remote_command(nx_command_line *w, const char *const *paths)
{
    nx_text t = {0};
    nexar_err err;

    nx_text_addf(&t, "exec sh -c");
    add_quoted(&t, script);
    add_quoted(&t, "nexar");
    for (; *paths != NULL; paths++) {
        add_quoted(&t, *paths);
    }
    err = t.failed ? nx_fail_nomem("a command line") : add(w, nx_text_str(&t));
    nx_text_fini(&t);
    return err;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return (slash == NULL) ? path : slash + 1;
}

/* BatchMode: without its own terminal ssh would wait for a password indefinitely. ControlMaster:
 * a connection that other processes may share must not end with the job. Programs other than ssh
 * may not know these options. */
static nexar_err ssh_words(const nx_shell *shell, const nx_host *host, const char *const *paths,
                           nx_command_line *w)
{
    static const char *const options[] = {
        "-T", "-x", "-o", "BatchMode=yes", "-o", "ControlMaster=no", NULL};
    nexar_err err = add_split(w, (shell->ssh == NULL) ? "ssh" : shell->ssh);

    if ((err == NEXAR_OK) && (w->n == 0)) {
        return nx_fail(NEXAR_EINVAL, "--ssh is empty; give a command, such as --ssh 'ssh -F file'");
    }
    if ((err == NEXAR_OK) && (strcmp(base_name(w->argv[0]), "ssh") == 0)) {
        err = add_all(w, options);
    }
    err = (err == NEXAR_OK) ? add(w, host->target) : err;
    return (err == NEXAR_OK) ? add_remote_command(w, paths) : err;
}

/* One step per host. The steps share the CPUs of the job and bind no process. The agent enters
 * the directory itself. */
static nexar_err srun_words(const nx_host *host, const char *const *paths, nx_command_line *w)
{
    static const char *const before[] = {"srun",
                                         "--nodes=1",
                                         "--ntasks=1",
                                         "--ntasks-per-node=1",
                                         "--overlap",
                                         "--cpu-bind=none",
                                         "--mpi=none",
                                         "--kill-on-bad-exit=0",
                                         "--job-name=nexar",
                                         "--chdir=/",
                                         "--quiet",
                                         "--nodelist",
                                         NULL};
    const char *const behind[] = {host->target, "sh", "-c", script, "nexar", NULL};
    nexar_err err = add_all(w, before);

    err = (err == NEXAR_OK) ? add_all(w, behind) : err;
    return (err == NEXAR_OK) ? add_all(w, paths) : err;
}

nexar_err nx_shell_words(const nx_shell *shell, const nx_host *host, nx_command_line *words)
{
    char own[PATH_ROOM] = "";
    const char *direct[] = {own, "run", "--agent", NULL};
    const char *paths[] = {own, "nexar", NULL};
    nexar_err err = own_path(own);

    if (shell->nexar != NULL) {
        paths[0] = shell->nexar;
        paths[1] = NULL;
    }
    if (err != NEXAR_OK) {
        return err;
    }
    if (shell->kind == NX_SHELL_SRUN) {
        return srun_words(host, paths, words);
    }
    return nx_host_is_here(host) ? add_all(words, direct) : ssh_words(shell, host, paths, words);
}

const char *nx_shell_name(const nx_shell *shell, const nx_host *host, char *buf, size_t size)
{
    const char *end;

    if (shell->kind == NX_SHELL_SRUN) {
        return "srun";
    }
    if (nx_host_is_here(host)) {
        return "nexar";
    }
    if (shell->ssh == NULL) {
        return "ssh";
    }
    end = shell->ssh + strspn(shell->ssh, " \t");
    (void)snprintf(buf, size, "%.*s", (int)strcspn(end, " \t"), end);
    return base_name(buf);
}
