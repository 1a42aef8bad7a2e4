/* program_check.c - finds a program and the libraries that it needs. */
#include "program_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "base/text/text.h"

enum { PATH_ROOM = 4096 };

/* The errno for which |path| cannot be run; 0: it can. */
static int why_not(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return EACCES;
    }
    return (access(path, X_OK) == 0) ? 0 : errno;
}

/* The first |name| in PATH that can be run, or an errno. */
static int find_in_path(const char *name, char path[PATH_ROOM])
{
    const char *dirs = getenv("PATH"); // NOLINT(concurrency-mt-unsafe): one thread
    int why = ENOENT;

    dirs = (dirs == NULL) ? "/usr/local/bin:/bin:/usr/bin" : dirs;
    for (;;) {
        const size_t len = strcspn(dirs, ":");
        const int got =
            snprintf(path, PATH_ROOM, "%.*s%s%s", (int)len, dirs, (len == 0) ? "" : "/", name);
        const int code = ((got > 0) && (got < PATH_ROOM)) ? why_not(path) : ENAMETOOLONG;

        if (code == 0) {
            return 0;
        }
        why = (code == EACCES) ? EACCES : why;
        if (dirs[len] == '\0') {
            return why;
        }
        dirs += len + 1;
    }
}

static int find(const char *name, char path[PATH_ROOM])
{
    if (strchr(name, '/') == NULL) {
        return find_in_path(name, path);
    }
    if (strlen(name) >= PATH_ROOM) {
        return ENAMETOOLONG;
    }
    memcpy(path, name, strlen(name) + 1);
    return why_not(path);
}

/* ---- libraries ----------------------------------------------------------------------- */

static bool read_at(FILE *file, size_t at, void *out, size_t len)
{
    return (fseek(file, (long)at, SEEK_SET) == 0) && (fread(out, 1, len, file) == len);
}

/* The loader that the ELF program |file| names. False: not for this machine, or statically
 * linked. */
static bool find_loader(FILE *file, char loader[PATH_ROOM])
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part = {0};
    bool found = false;

    if (!read_at(file, 0, &head, sizeof(head)) || (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) ||
        (head.e_ident[EI_CLASS] != ((sizeof(void *) == 8) ? ELFCLASS64 : ELFCLASS32)) ||
        (head.e_phentsize != sizeof(part))) {
        return false;
    }
    for (unsigned i = 0; !found && (i < head.e_phnum); i++) {
        found = read_at(file, head.e_phoff + i * sizeof(part), &part, sizeof(part)) &&
                (part.p_type == PT_INTERP);
    }
    return found && (part.p_filesz > 1) && (part.p_filesz <= PATH_ROOM) &&
           read_at(file, part.p_offset, loader, part.p_filesz) &&
           (loader[part.p_filesz - 1] == '\0');
}

static _Noreturn void become_loader(const char *loader, const char *path, int to)
{
    (void)nx_sys_dup2(to, STDOUT_FILENO);
    (void)nx_sys_dup2(to, STDERR_FILENO);
    (void)execl(loader, loader, "--list", path, (char *)NULL);
    _exit(0); /* the kernel reports the reason when the program runs */
}

/* "\tlibx.so.1 => not found", or the loader's own message when it fails. */
static bool names_missing(char *line, const char **what)
{
    static const char failed[] = "error while loading shared libraries: ";
    char *end = strstr(line, " => not found"), *words = strstr(line, failed);

    line[strcspn(line, "\n")] = '\0';
    if (end != NULL) {
        *end = '\0';
        *what = line + strspn(line, " \t");
        return true;
    }
    *what = (words != NULL) ? words + sizeof(failed) - 1 : line;
    return words != NULL;
}

/* Appends the libraries that the loader does not find to |missing|. */
static void read_missing(FILE *list, nx_text *missing)
{
    char line[PATH_ROOM];
    const char *what;

    while (fgets(line, sizeof(line), list) != NULL) {
        if (names_missing(line, &what)) {
            nx_text_addf(missing, "%s%s", (missing->len == 0) ? "" : ", ", what);
        }
    }
}

static nexar_err list_missing(const char *loader, const char *path, nx_text *missing)
{
    int fds[2];
    FILE *list;
    pid_t pid;

    if (nx_sys_pipe(fds, 0) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    pid = fork();
    if (pid == 0) {
        become_loader(loader, path, fds[1]);
    }
    (void)nx_sys_close(fds[1]);
    list = (pid < 0) ? NULL : fdopen(fds[0], "r");
    if (list == NULL) {
        (void)nx_sys_close(fds[0]);
        return nx_fail_sys("cannot look for the libraries of", path, errno);
    }
    read_missing(list, missing);
    (void)fclose(list);
    (void)nx_sys_waitpid(pid, NULL, 0);
    return NEXAR_OK;
}

static nexar_err check_libraries(const char *name, const char *path)
{
    char loader[PATH_ROOM];
    FILE *file = fopen(path, "re");
    const bool dynamic = (file != NULL) && find_loader(file, loader);
    nx_text missing = {0};
    nexar_err err = NEXAR_OK;

    if (file != NULL) {
        (void)fclose(file);
    }
    if (dynamic) {
        err = list_missing(loader, path, &missing);
    }
    if ((err == NEXAR_OK) && (missing.len > 0)) {
        err = nx_fail(NEXAR_EINVAL,
                      "cannot run %s: libraries not found: %s (LD_LIBRARY_PATH, ldconfig)", name,
                      nx_text_str(&missing));
    }
    nx_text_fini(&missing);
    return err;
}

nexar_err nx_compiled_check(const char *name)
{
    char path[PATH_ROOM], text[128];
    const int why = find(name, path);

    if (why != 0) {
        return nx_fail(NEXAR_EINVAL, "cannot run %s: %s", name,
                       strerror_r(why, text, sizeof(text)));
    }
    return check_libraries(name, path);
}
