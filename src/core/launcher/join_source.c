/* join_source.c - the origin of the join string. */
#include "core/launcher/join_source.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/launcher/secret_file.h"

#define FILE_PREFIX "file:"
#define SCHEME      "nexar://"

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The path of the join file; NULL if none is given. */
static const char *join_path(const nexar_config *cfg)
{
    char buf[NX_NUMBER_ROOM];
    const char *join = nx_config_text(cfg, NX_SET_JOIN, buf);
    const char *file = nx_config_text(cfg, NX_SET_JOIN_FILE, buf);

    return begins(join, FILE_PREFIX) ? join + strlen(FILE_PREFIX) : (file[0] != '\0') ? file : NULL;
}

static nexar_err check_conflict(const nexar_config *cfg)
{
    char buf[NX_NUMBER_ROOM];

    if ((nx_config_text(cfg, NX_SET_JOIN, buf)[0] != '\0') &&
        (nx_config_text(cfg, NX_SET_JOIN_FILE, buf)[0] != '\0')) {
        return nx_fail(NEXAR_EINVAL, "settings join and join_file (NEXAR_JOIN, NEXAR_JOIN_FILE): "
                                     "both name a cluster; give one of them");
    }
    return NEXAR_OK;
}

static nexar_err set_join(nexar_config *cfg, const char *text)
{
    return nx_config_set_launched(cfg, NX_SET_JOIN, text, "file");
}

static nexar_err read_join(nexar_config *cfg, const char *path)
{
    const uint64_t wait_ns = nx_config_number(cfg, NX_SET_FORMATION_TIMEOUT);
    char text[NX_JOIN_STRING_MAX];
    nexar_err err = nx_secret_file_read(path, "join file", wait_ns, text, sizeof(text));

    if (err != NEXAR_OK) {
        return err;
    }
    err = begins(text, SCHEME) ? set_join(cfg, text)
                               : nx_fail(NEXAR_EINVAL,
                                         "join file %s: its first line is no join string "
                                         "(nexar://...); `nexar seed --join-file` writes one",
                                         path);
    explicit_bzero(text, sizeof(text));
    return err;
}

static nexar_err read_token(const nexar_config *cfg, char token[NX_JOIN_STRING_MAX])
{
    char buf[NX_NUMBER_ROOM];

    token[0] = '\0';
    return (nx_config_text(cfg, NX_SET_TOKEN_FILE, buf)[0] == '\0')
               ? NEXAR_OK
               : nx_secret_file_read(nx_config_text(cfg, NX_SET_TOKEN_FILE, buf), "token file", 0,
                                     token, NX_JOIN_STRING_MAX);
}

/* Inserts the token into a join string that has none. */
static nexar_err add_token(nexar_config *cfg, const char *token)
{
    char buf[NX_NUMBER_ROOM], whole[NX_JOIN_STRING_MAX];
    const char *rest = nx_config_text(cfg, NX_SET_JOIN, buf) + strlen(SCHEME);
    const char *at = strrchr(rest, '@');
    nexar_err err;
    int n;

    if (at != NULL) {
        return ((strlen(token) == (size_t)(at - rest)) && begins(rest, token))
                   ? NEXAR_OK
                   : nx_fail(NEXAR_EINVAL, "settings join and token_file: the join string has "
                                           "another token than the file; give one of them");
    }
    n = snprintf(whole, sizeof(whole), SCHEME "%s@%s", token, rest);
    err = ((n > 0) && ((size_t)n < sizeof(whole)))
              ? set_join(cfg, whole)
              : nx_fail(NEXAR_EINVAL, "the join string with the token of token_file is too long");
    explicit_bzero(whole, sizeof(whole));
    return err;
}

nexar_err nx_join_source_add_token(nexar_config *cfg)
{
    char token[NX_JOIN_STRING_MAX];
    nexar_err err = read_token(cfg, token);

    if ((err == NEXAR_OK) && (token[0] != '\0')) {
        err = add_token(cfg, token);
    }
    explicit_bzero(token, sizeof(token));
    return err;
}

nexar_err nx_join_source_resolve(nexar_config *cfg, bool *alone)
{
    char buf[NX_NUMBER_ROOM];
    nexar_err err = check_conflict(cfg);

    *alone = false;
    if ((err == NEXAR_OK) && (strcmp(nx_config_text(cfg, NX_SET_JOIN, buf), "none") == 0)) {
        *alone = true;
        return set_join(cfg, "");
    }
    if ((err == NEXAR_OK) && (join_path(cfg) != NULL)) {
        err = read_join(cfg, join_path(cfg));
    }
    if ((err != NEXAR_OK) || (nx_config_text(cfg, NX_SET_JOIN, buf)[0] == '\0')) {
        return err;
    }
    return nx_join_source_add_token(cfg);
}

nexar_err nx_join_source_token(const nexar_config *cfg, nx_token *out, bool *given)
{
    char text[NX_JOIN_STRING_MAX];
    nexar_err err = read_token(cfg, text);

    *given = (text[0] != '\0');
    if ((err == NEXAR_OK) && *given && !nx_token_parse(text, out)) {
        char buf[NX_NUMBER_ROOM];

        err = nx_fail(NEXAR_EINVAL,
                      "token file %s: its first line is not 43 characters of A-Z a-z 0-9 - _",
                      nx_config_text(cfg, NX_SET_TOKEN_FILE, buf));
    }
    explicit_bzero(text, sizeof(text));
    return err;
}
