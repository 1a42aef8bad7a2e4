/* host_list.c - host lists and host files. */
#include "host_list.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/text/text.h"

static const char form[] = "[USER@]NAME[:SLOTS], an IPv6 address in brackets";
static const char blanks[] = " \t\r\n";

void nx_host_list_fini(nx_host_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        nx_free(list->hosts[i]);
    }
    nx_free(list->hosts);
    *list = (nx_host_list){0};
}

uint64_t nx_host_list_slots(const nx_host_list *list)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < list->n; i++) {
        sum += list->hosts[i]->slots;
    }
    return sum;
}

static nx_host *find(const nx_host_list *list, const char *target)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->hosts[i]->target, target) == 0) {
            return list->hosts[i];
        }
    }
    return NULL;
}

/* Rejects names that ssh would parse as an option or a shell as syntax. */
static bool well_formed(const char *target)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-:%@";
    const char *at = strchr(target, '@'), *name = (at == NULL) ? target : at + 1;

    return (target[0] != '-') && (target[0] != '@') && (name[0] != '\0') && (name[0] != '-') &&
           (strchr(name, '@') == NULL) && (target[strspn(target, allowed)] == '\0') &&
           (strlen(target) < NX_HOST_MAX);
}

static nexar_err append(nx_host_list *list, const char *target)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the elements are pointers */
    nx_host **grown = nx_vec_grow(list->hosts, &list->room, list->n + 1, sizeof(*list->hosts));
    nx_host *host;
    const char *at;

    if (grown == NULL) {
        return nx_fail_nomem("the hosts");
    }
    list->hosts = grown;
    host = nx_zalloc(sizeof(*host));
    if (host == NULL) {
        return nx_fail_nomem("the hosts");
    }
    (void)snprintf(host->target, sizeof(host->target), "%s", target);
    at = strchr(host->target, '@');
    host->name = (at == NULL) ? host->target : at + 1;
    list->hosts[list->n++] = host;
    return NEXAR_OK;
}

nexar_err nx_host_list_add(nx_host_list *list, const char *target, uint64_t slots)
{
    nx_host *host;
    nexar_err err = NEXAR_OK;

    if (!well_formed(target)) {
        return nx_fail(NEXAR_EINVAL, "\"%s\" is no host; accepted: %s", target, form);
    }
    host = find(list, target);
    if ((slots == 0) || (slots + ((host == NULL) ? 0 : host->slots) > NX_HOST_SLOTS_MAX)) {
        return nx_fail(NEXAR_EINVAL, "host %s: slots must be from 1 to %d", target,
                       NX_HOST_SLOTS_MAX);
    }
    if (host == NULL) {
        err = append(list, target);
        host = (err == NEXAR_OK) ? list->hosts[list->n - 1] : NULL;
    }
    if (host != NULL) {
        host->slots += (uint32_t)slots;
    }
    return err;
}

/* ---- entries ------------------------------------------------------------------------- */

/* Removes the brackets of "[...]"; |*rest| is the text after them. False: a bracket is missing. */
static bool strip_brackets(char *entry, char **rest)
{
    char *open = strchr(entry, '['), *close = strchr(entry, ']');

    if ((open == NULL) || (close == NULL) || (close < open) ||
        ((open != entry) && (open[-1] != '@'))) {
        return false;
    }
    *close = '\0';
    *rest = close + 1;
    memmove(open, open + 1, strlen(open + 1) + 1);
    return true;
}

/* Divides |entry| into target and slots; |*slots| is unchanged if the entry has none. */
static nexar_err split_entry(char *entry, uint64_t *slots)
{
    char *rest = NULL;
    const char *shown = entry;

    if (strpbrk(entry, "[]") != NULL) {
        if (!strip_brackets(entry, &rest) || ((rest[0] != '\0') && (rest[0] != ':'))) {
            return nx_fail(NEXAR_EINVAL, "\"%s\" is no host; accepted: %s", shown, form);
        }
    } else {
        rest = strchr(entry, ':');
        if ((rest != NULL) && (strchr(rest + 1, ':') != NULL)) {
            return nx_fail(NEXAR_EINVAL, "host %s: an IPv6 address goes in brackets: [%s]", shown,
                           shown);
        }
    }
    if ((rest == NULL) || (rest[0] == '\0')) {
        return NEXAR_OK;
    }
    rest[0] = '\0';
    return nx_parse_uint(rest + 1, slots)
               ? NEXAR_OK
               : nx_fail(NEXAR_EINVAL, "host %s: \"%s\" is no number of slots; accepted: %s", entry,
                         rest + 1, form);
}

static nexar_err add_entry(nx_host_list *list, char *entry, uint64_t slots)
{
    nexar_err err = split_entry(entry, &slots);

    return (err == NEXAR_OK) ? nx_host_list_add(list, entry, slots) : err;
}

static nexar_err parse(nx_host_list *list, char *text)
{
    nexar_err err = NEXAR_OK;
    char *next = text;

    while ((err == NEXAR_OK) && (next != NULL)) {
        char *entry = strsep(&next, ",");

        err = (entry[0] != '\0') ? add_entry(list, entry, 1)
                                 : nx_fail(NEXAR_EINVAL, "an entry of the host list is empty; "
                                                         "accepted: node1:4,node2:4");
    }
    return err;
}

nexar_err nx_host_list_parse(nx_host_list *list, const char *text)
{
    char *copy = nx_strdup(text);
    nexar_err err = (copy == NULL) ? nx_fail_nomem("the host list") : parse(list, copy);

    nx_free(copy);
    return err;
}

/* ---- files --------------------------------------------------------------------------- */

/* A word after the host: "slots=4" of Open MPI. Its max_slots concerns oversubscription and is
 * ignored. */
static nexar_err apply_word(const char *word, uint64_t *slots)
{
    static const char key[] = "slots=";
    const bool known =
        (strncmp(word, "max_slots=", 10) == 0) || (strncmp(word, "max-slots=", 10) == 0);

    if (strncmp(word, key, sizeof(key) - 1) == 0) {
        return nx_parse_uint(word + sizeof(key) - 1, slots)
                   ? NEXAR_OK
                   : nx_fail(NEXAR_EINVAL, "\"%s\": no number", word);
    }
    return known
               ? NEXAR_OK
               : nx_fail(NEXAR_EINVAL, "unknown word \"%s\"; accepted: slots=N, max_slots=N", word);
}

static nexar_err add_line(nx_host_list *list, char *line)
{
    char *save = NULL, *host, *word;
    uint64_t slots = 1;
    nexar_err err = NEXAR_OK;

    line[strcspn(line, "#")] = '\0';
    host = strtok_r(line, blanks, &save);
    if (host == NULL) {
        return NEXAR_OK;
    }
    while ((err == NEXAR_OK) && ((word = strtok_r(NULL, blanks, &save)) != NULL)) {
        err = apply_word(word, &slots);
    }
    return (err == NEXAR_OK) ? add_entry(list, host, slots) : err;
}

static nexar_err read_lines(nx_host_list *list, FILE *file, const char *path)
{
    char line[1024], why[NX_ERROR_ROOM];
    nexar_err err = NEXAR_OK;
    int number = 0;

    while ((err == NEXAR_OK) && (fgets(line, sizeof(line), file) != NULL)) {
        number++;
        err = ((strlen(line) + 1 < sizeof(line)) || (line[sizeof(line) - 2] == '\n'))
                  ? add_line(list, line)
                  : nx_fail(NEXAR_EINVAL, "the line is too long");
        if (err != NEXAR_OK) {
            (void)snprintf(why, sizeof(why), "%s", nexar_last_error());
            err = nx_fail(err, "host file %s, line %d: %s", path, number, why);
        }
    }
    if ((err == NEXAR_OK) && (ferror(file) != 0)) {
        err = nx_fail_sys("cannot read the host file", path, errno);
    }
    if ((err == NEXAR_OK) && (list->n == 0)) {
        err = nx_fail(NEXAR_EINVAL, "host file %s names no host", path);
    }
    return err;
}

nexar_err nx_host_list_read(nx_host_list *list, const char *path)
{
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    nexar_err err;

    if (file == NULL) {
        return nx_fail_sys("cannot read the host file", path, errno);
    }
    err = read_lines(list, file, path);
    if (!standard) {
        (void)fclose(file);
    }
    return err;
}

/* ---- ranks --------------------------------------------------------------------------- */

static void drop_unused(nx_host_list *list)
{
    while ((list->n > 0) && (list->hosts[list->n - 1]->ranks == 0)) {
        nx_free(list->hosts[--list->n]);
    }
}

nexar_err nx_host_list_assign(nx_host_list *list, uint64_t n)
{
    const uint64_t slots = nx_host_list_slots(list), all = (n == 0) ? slots : n;
    uint64_t given = 0;

    if (all > slots) {
        return nx_fail(NEXAR_EINVAL,
                       "%llu ranks on %zu hosts with %llu slots; give more slots (NAME:SLOTS), "
                       "or a smaller -n",
                       (unsigned long long)all, list->n, (unsigned long long)slots);
    }
    if (all > NX_HOST_RANKS_MAX) {
        return nx_fail(NEXAR_EINVAL, "%llu ranks; at most %d are possible", (unsigned long long)all,
                       NX_HOST_RANKS_MAX);
    }
    for (size_t i = 0; i < list->n; i++) {
        nx_host *host = list->hosts[i];

        host->first = (uint32_t)given;
        host->ranks = (all - given < host->slots) ? (uint32_t)(all - given) : host->slots;
        given += host->ranks;
    }
    drop_unused(list);
    return NEXAR_OK;
}

/* ---- this machine -------------------------------------------------------------------- */

static bool same_address(const struct sockaddr *a, const struct in_addr *v4,
                         const struct in6_addr *v6)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if ((a->sa_family == AF_INET) && (v4 != NULL)) {
        memcpy(&in, a, sizeof(in));
        return in.sin_addr.s_addr == v4->s_addr;
    }
    if ((a->sa_family == AF_INET6) && (v6 != NULL)) {
        memcpy(&in6, a, sizeof(in6));
        return memcmp(&in6.sin6_addr, v6, sizeof(*v6)) == 0;
    }
    return false;
}

static bool own_address(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    const bool is4 = inet_pton(AF_INET, name, &v4) == 1, is6 = inet_pton(AF_INET6, name, &v6) == 1;
    struct ifaddrs *list = NULL;
    bool found = false;

    if ((!is4 && !is6) || (getifaddrs(&list) != 0)) {
        return false;
    }
    for (const struct ifaddrs *i = list; (i != NULL) && !found; i = i->ifa_next) {
        found =
            (i->ifa_addr != NULL) && same_address(i->ifa_addr, is4 ? &v4 : NULL, is6 ? &v6 : NULL);
    }
    freeifaddrs(list);
    return found;
}

bool nx_host_is_here(const nx_host *host)
{
    char own[NX_HOST_MAX] = "";
    const size_t given = strcspn(host->name, ".");

    if (host->name != host->target) {
        return false;
    }
    (void)gethostname(own, sizeof(own) - 1);
    /* A name without a domain also matches this machine's name up to its domain. */
    if ((strcasecmp(host->name, "localhost") == 0) || (strcasecmp(host->name, own) == 0)) {
        return true;
    }
    return (((host->name[given] == '\0') && (own[given] == '.') &&
             (strncasecmp(host->name, own, given) == 0)) ||
            own_address(host->name));
}
