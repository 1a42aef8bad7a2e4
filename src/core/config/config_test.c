/* config_test.c - every setting: default, environment, set, and rejected values. */
#include "core/config/config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "oom.h"
#include "reduce/reduce.h"
#include "unit.h"

/* A value that each setting accepts and that is not its default, its normalised text, and a value
 * that it rejects. */
static const struct sample {
    const char *good, *got, *bad;
} samples[NX_SETTINGS] = {
    [NX_SET_LOG] = {"Debug", "debug", "loud"},
    [NX_SET_ALGORITHMS] = {"allreduce:0-16k:recdbl", "allreduce:0-16k:recdbl", "allreduce:ring"},
    [NX_SET_SEGMENT] = {"65536", "64k", "4095"},
    [NX_SET_KERNELS] = {"portable", "portable", "sse"},
    [NX_SET_AEAD] = {"gnutls", "gnutls", "none"},
    [NX_SET_CONGESTION] = {"cubic", "cubic", "reno"},
    [NX_SET_JOIN] = {"nexar://a@b:1/?pin=c", "nexar://a@b:1/?pin=c", "http://a"},
    [NX_SET_JOIN_FILE] = {"job.join", "job.join", "my file"},
    [NX_SET_TOKEN_FILE] = {"job.token", "job.token", "my token"},
    [NX_SET_RANK] = {"7", "7", "65536"},
    [NX_SET_WORLD_SIZE] = {"4", "4", "65537"},
    [NX_SET_FORMATION_TIMEOUT] = {"5s", "5s", "99ms"},
    [NX_SET_IDLE_TIMEOUT] = {"10s", "10s", "999ms"},
    [NX_SET_LISTEN] = {"[::]:4433", "[::]:4433", "10.0.0.7 "},
    [NX_SET_PORT_RANGE] = {"4400-4500", "4400-4500", "4500-4400"},
    [NX_SET_INTERFACES] = {"eth0,10.0.0.0/8", "eth0,10.0.0.0/8", "eth0, eth1"},
    [NX_SET_ADVERTISE] = {"198.51.100.7", "198.51.100.7", "a b"},
    [NX_SET_HOST_ID] = {"rack-7", "rack-7", "rack 7"},
    [NX_SET_TRANSPORTS] = {"quic", "quic", "carrier-pigeon"},
    [NX_SET_UNEXPECTED] = {"128m", "128m", "1k"},
    [NX_SET_INLINE] = {"4k", "4k", "64k"},
    [NX_SET_EAGER] = {"1m", "1m", "1g"},
    [NX_SET_SPIN] = {"20us", "20us", "2s"},
    [NX_SET_AFFINITY] = {"on", "on", "core"},
    [NX_SET_RPC_THREADS] = {"16", "16", "0"},
    [NX_SET_RPC_TIMEOUT] = {"30s", "30s", "25h"},
    [NX_SET_QLOG_DIR] = {"qlogs", "qlogs", "my logs"},
    [NX_SET_VERIFY] = {"off", "off", "maybe"},
    [NX_SET_COLLECTIVE_TIMEOUT] = {"90s", "90s", "25h"},
    [NX_SET_STALL_REPORT] = {"500ms", "500ms", "25h"},
    [NX_SET_REPORT_SIGNAL] = {"usr2", "usr2", "term"},
    [NX_SET_DIRECT] = {"short", "short", "long"},
    [NX_SET_HEARTBEAT_INTERVAL] = {"100ms", "100ms", "9ms"},
    [NX_SET_HEARTBEAT_TIMEOUT] = {"2s", "2s", "2h"},
    [NX_SET_QUORUM] = {"majority", "majority", "all"},
    [NX_SET_MIN_WORLD] = {"2", "2", "65537"},
    [NX_SET_MAX_WORLD] = {"8", "8", "-1"},
    [NX_SET_SEED_STATE] = {"seed.state", "seed.state", "my state"},
    [NX_SET_RECOVERY] = {"automatic", "automatic", "none"},
    [NX_SET_RETRY] = {"on", "on", "twice"},
    [NX_SET_ON_ERROR] = {"abort", "abort", "exit"},
};

enum { VARIABLES = 8 };
static char variables[VARIABLES][256];
static char *environment[VARIABLES + 1];

/* Makes "NAME=value" lines the whole environment.  Not setenv, which is not thread-safe: this
 * process may replace environ. */
static void set_environment(int n, const char *const *lines)
{
    assert_true(n <= VARIABLES);
    for (int i = 0; i < n; i++) {
        (void)snprintf(variables[i], sizeof(variables[i]), "%s", lines[i]);
        environment[i] = variables[i];
    }
    environment[n] = NULL;
    environ = environment;
}

static void set_variable(const char *name, const char *value)
{
    char line[256];
    const char *const lines[] = {line};

    (void)snprintf(line, sizeof(line), "%s=%s", name, value);
    set_environment(1, lines);
}

static int clear_environment(void **state)
{
    (void)state;
    set_environment(0, NULL);
    return 0;
}

static nexar_config *fresh(void)
{
    nexar_config *cfg = NULL;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    return cfg;
}

static void expect(const nexar_config *cfg, nx_setting_id id, const char *want, nx_origin origin)
{
    char value[256];

    assert_int_equal(nexar_config_get(cfg, nx_settings[id].name, value, sizeof(value)), NEXAR_OK);
    assert_string_equal(value, want);
    assert_int_equal(nx_config_origin(cfg, id), origin);
}

static void test_every_default_can_be_set_again(void **state)
{
    nexar_config *cfg = fresh();

    (void)state;
    for (int i = 0; i < NX_SETTINGS; i++) {
        nx_setting_id id = (nx_setting_id)i;
        const nx_setting *s = &nx_settings[id];

        expect(cfg, id, s->preset, NX_ORIGIN_DEFAULT);
        assert_int_equal(nexar_config_set(cfg, s->name, s->preset), NEXAR_OK);
        expect(cfg, id, s->preset, NX_ORIGIN_SET);
        assert_true(strlen(s->help) > 10);
    }
    nexar_config_free(cfg);
}

static void test_every_setting_takes_a_good_value_and_keeps_it_after_a_bad_one(void **state)
{
    nexar_config *cfg = fresh();

    (void)state;
    for (int i = 0; i < NX_SETTINGS; i++) {
        nx_setting_id id = (nx_setting_id)i;
        const char *name = nx_settings[id].name;

        assert_int_equal(nexar_config_set(cfg, name, samples[id].good), NEXAR_OK);
        expect(cfg, id, samples[id].got, NX_ORIGIN_SET);
        assert_int_equal(nexar_config_set(cfg, name, samples[id].bad), NEXAR_EINVAL);
        assert_non_null(strstr(nexar_last_error(), name));
        assert_int_equal(strstr(nexar_last_error(), samples[id].bad) != NULL,
                         !nx_settings[id].secret);
        expect(cfg, id, samples[id].got, NX_ORIGIN_SET);
    }
    nexar_config_free(cfg);
}

static void test_every_setting_is_taken_from_its_variable(void **state)
{
    char variable[NX_VARIABLE_ROOM];

    (void)state;
    for (int i = 0; i < NX_SETTINGS; i++) {
        nx_setting_id id = (nx_setting_id)i;
        nexar_config *cfg = NULL;

        (void)nx_setting_variable(nx_settings[id].name, variable);
        set_variable(variable, samples[id].good);
        cfg = fresh();
        expect(cfg, id, samples[id].got, NX_ORIGIN_ENVIRONMENT);
        nexar_config_free(cfg);

        cfg = NULL;
        set_variable(variable, samples[id].bad);
        assert_int_equal(nexar_config_create(&cfg), NEXAR_EINVAL);
        assert_null(cfg);
        assert_non_null(strstr(nexar_last_error(), variable));
        assert_int_equal(strstr(nexar_last_error(), samples[id].bad) != NULL,
                         !nx_settings[id].secret);
    }
}

static void test_a_variable_that_is_set_but_empty_is_refused(void **state)
{
    char variable[NX_VARIABLE_ROOM];

    (void)state;
    for (int i = 0; i < NX_SETTINGS; i++) {
        nexar_config *cfg = NULL;

        (void)nx_setting_variable(nx_settings[i].name, variable);
        set_variable(variable, "");
        assert_int_equal(nexar_config_create(&cfg), NEXAR_EINVAL);
        assert_non_null(strstr(nexar_last_error(), variable));
        assert_non_null(strstr(nexar_last_error(), "set but empty"));
    }
}

static void test_errors_say_what_would_be_accepted(void **state)
{
    nexar_config *cfg = fresh();

    (void)state;
    assert_int_equal(nexar_config_set(cfg, "segment", "2k"), NEXAR_EINVAL);
    assert_string_equal(nexar_last_error(), "setting segment: \"2k\" is not accepted; give a size "
                                            "such as 64k, 8m or 1g, from 4k to 1g");
    assert_int_equal(nexar_config_set(cfg, "log", ""), NEXAR_EINVAL);
    assert_string_equal(nexar_last_error(), "setting log: \"\" is not accepted; give error, warn, "
                                            "info or debug");
    assert_int_equal(nexar_config_set(cfg, "segmnet", "4k"), NEXAR_EINVAL);
    assert_string_equal(nexar_last_error(),
                        "there is no setting \"segmnet\"; did you mean segment?");
    assert_int_equal(nexar_config_set(cfg, "colour", "red"), NEXAR_EINVAL);
    assert_string_equal(nexar_last_error(),
                        "there is no setting \"colour\"; `nexar info` lists them");
    assert_int_equal(nexar_config_set(cfg, "segment", "2g"), NEXAR_EINVAL);
    assert_int_equal(nexar_config_set(cfg, "segment", "1g"), NEXAR_OK);
    assert_int_equal(nx_config_size(cfg, NX_SET_SEGMENT), 1 << 30);
    nexar_config_free(cfg);
}

static void test_null_arguments_are_refused_by_name(void **state)
{
    nexar_config *cfg = fresh();
    char value[8];

    (void)state;
    assert_int_equal(nexar_config_create(NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_config_set(NULL, "log", "warn"), NEXAR_EINVAL);
    assert_int_equal(nexar_config_set(cfg, NULL, "warn"), NEXAR_EINVAL);
    assert_int_equal(nexar_config_set(cfg, "log", NULL), NEXAR_EINVAL);
    assert_string_equal(nexar_last_error(), "nexar_config_set: value is NULL");
    assert_int_equal(nexar_config_get(NULL, "log", value, 8), NEXAR_EINVAL);
    assert_int_equal(nexar_config_get(cfg, NULL, value, 8), NEXAR_EINVAL);
    assert_int_equal(nexar_config_get(cfg, "log", NULL, 8), NEXAR_EINVAL);
    assert_int_equal(nexar_config_get(cfg, "lag", value, 8), NEXAR_EINVAL);
    nexar_config_free(cfg);
    nexar_config_free(NULL);
}

static void test_a_small_buffer_is_left_alone(void **state)
{
    nexar_config *cfg = fresh();
    char value[5] = "abcd";

    (void)state;
    assert_int_equal(nexar_config_get(cfg, "log", value, 4), NEXAR_ETRUNC);
    assert_string_equal(value, "abcd");
    assert_string_equal(nexar_last_error(), "the value of log needs 5 bytes; there are 4");
    assert_int_equal(nexar_config_get(cfg, "log", value, 5), NEXAR_OK);
    assert_string_equal(value, "warn");
    nexar_config_free(cfg);
}

static void test_rules_follow_the_algorithms_setting(void **state)
{
    nexar_config *cfg = fresh();

    (void)state;
    assert_null(nx_config_rules(cfg));
    assert_int_equal(nexar_config_set(cfg, "algorithms", "allreduce:0-:ring"), NEXAR_OK);
    assert_non_null(nx_config_rules(cfg));
    assert_int_equal(nexar_config_set(cfg, "algorithms", ""), NEXAR_OK);
    assert_null(nx_config_rules(cfg));
    nexar_config_free(cfg);
}

static void test_without_memory_nothing_changes(void **state)
{
    (void)state;
    set_variable("NEXAR_ALGORITHMS", "allreduce:0-:ring");
    NXT_FOR_EACH_OOM (n) {
        nexar_config *cfg = NULL;
        nexar_err err = nexar_config_create(&cfg);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        assert_int_equal(cfg == NULL, nx_alloc_failed());
        nexar_config_free(cfg);
    }
    set_environment(0, NULL);
    NXT_FOR_EACH_OOM (n) {
        nexar_config *cfg = NULL;
        nexar_err err;

        nx_alloc_fail_after(-1);
        cfg = fresh();
        nx_alloc_fail_after(n);
        err = nexar_config_set(cfg, "algorithms", samples[NX_SET_ALGORITHMS].good);
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        assert_int_equal(nx_config_rules(cfg) == NULL, nx_alloc_failed());
        nexar_config_free(cfg);
    }
}

static void test_applying_sets_log_and_kernels(void **state)
{
    nexar_config *cfg = fresh();

    (void)state;
    assert_int_equal(nexar_config_set(cfg, "log", "debug"), NEXAR_OK);
    assert_false(nx_log_on(NX_LOG_DEBUG));
    assert_int_equal(nx_config_apply(cfg), NEXAR_OK);
    assert_true(nx_log_on(NX_LOG_DEBUG));
    assert_int_equal(nx_reduce_path_now(), nx_reduce_path_best());
    for (int i = 0; i < NX_REDUCE_PATHS; i++) {
        nx_reduce_path path = (nx_reduce_path)i, before = nx_reduce_path_now();
        bool usable = nx_reduce_path_usable(path);

        assert_int_equal(nexar_config_set(cfg, "kernels", nx_reduce_path_name(path)), NEXAR_OK);
        assert_int_equal(nx_config_apply(cfg), usable ? NEXAR_OK : NEXAR_EINVAL);
        assert_int_equal(nx_reduce_path_now(), usable ? path : before);
        if (!usable) {
            assert_non_null(strstr(nexar_last_error(), "portable"));
        }
    }
    nexar_config_free(cfg);
    cfg = fresh();
    assert_int_equal(nx_config_apply(cfg), NEXAR_OK);
    nexar_config_free(cfg);
}

/* The output of |create| to stderr. */
static void capture_create(char *text, size_t room)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t n;

    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    nexar_config_free(fresh());
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(ends[1]);
    n = read(ends[0], text, room - 1);
    (void)close(ends[0]);
    text[(n < 0) ? 0 : n] = '\0';
}

/* Must be first: the warning is printed once per process. */
static void test_the_least_world_is_not_above_the_largest(void **state)
{
    nexar_config *cfg;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "min_world", "4"), NEXAR_OK);
    assert_int_equal(nx_config_apply(cfg), NEXAR_OK); /* no maximum */
    assert_int_equal(nexar_config_set(cfg, "max_world", "3"), NEXAR_OK);
    assert_int_equal(nx_config_apply(cfg), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "min_world and max_world: 4 is more than 3"));
    assert_int_equal(nexar_config_set(cfg, "max_world", "4"), NEXAR_OK);
    assert_int_equal(nx_config_apply(cfg), NEXAR_OK);
    nexar_config_free(cfg);
}

#define JOIN "NEXAR_JOIN=nexar://a@b:1/?pin=c"

/* The result of the launcher's variables |lines|, up to NULL: rank, size, and their origin. */
typedef struct launch {
    const char *lines[6];
    const char *rank, *rank_from, *size, *size_from;
} launch;

static int count_lines(const launch *l)
{
    int n = 0;

    while ((n < 6) && (l->lines[n] != NULL)) {
        n++;
    }
    return n;
}

static const launch launches[] = {
    {{"SLURM_PROCID=3", "SLURM_NTASKS=4"}, "auto", "default", "0", "default"}, /* alone */
    {{JOIN}, "auto", "default", "0", "default"},
    {{JOIN, "SLURM_PROCID=3", "SLURM_NTASKS=4"}, "3", "SLURM_PROCID", "4", "SLURM_NTASKS"},
    {{JOIN, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=65536"},
     "0",
     "OMPI_COMM_WORLD_RANK",
     "65536",
     "OMPI_COMM_WORLD_SIZE"},
    {{JOIN, "PMI_RANK=65535", "PMI_SIZE=1"}, "65535", "PMI_RANK", "1", "PMI_SIZE"},
    {{JOIN, "PMIX_RANK=2", "PMIX_SIZE=9"}, "2", "PMIX_RANK", "0", "default"},
    /* The innermost launcher wins, with its own size. */
    {{JOIN, "SLURM_PROCID=0", "SLURM_NTASKS=4", "PMIX_RANK=5"}, "5", "PMIX_RANK", "0", "default"},
    {{JOIN, "PMI_RANK=1", "OMPI_COMM_WORLD_RANK=2", "PMI_SIZE=3"},
     "2",
     "OMPI_COMM_WORLD_RANK",
     "0",
     "default"},
    /* Explicit settings take precedence; with an explicit rank the launcher's size is not used
     * either. */
    {{JOIN, "SLURM_PROCID=3", "SLURM_NTASKS=4", "NEXAR_RANK=1"},
     "1",
     "environment",
     "0",
     "default"},
    {{JOIN, "SLURM_PROCID=x", "SLURM_NTASKS=y", "NEXAR_RANK=auto"},
     "auto",
     "environment",
     "0",
     "default"},
    {{JOIN, "SLURM_PROCID=3", "SLURM_NTASKS=y", "NEXAR_WORLD_SIZE=8"},
     "3",
     "SLURM_PROCID",
     "8",
     "environment"},
    /* Of Slurm only the tasks of steps: not a script, not a shell, nor their children. */
    {{JOIN, "SLURM_PROCID=3", "SLURM_JOB_ID=77", "SLURM_STEP_ID=0"},
     "3",
     "SLURM_PROCID",
     "0",
     "default"},
    {{JOIN, "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=77"},
     "auto",
     "default",
     "0",
     "default"},
    /* torchrun runs inside srun; RANK alone says nothing; Kubernetes gives no size. */
    {{JOIN, "RANK=2", "WORLD_SIZE=4", "TORCHELASTIC_RUN_ID=x", "SLURM_PROCID=0"},
     "2",
     "RANK",
     "4",
     "WORLD_SIZE"},
    {{JOIN, "RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=node1", "PMI_RANK=1", "PMI_SIZE=8"},
     "1",
     "PMI_RANK",
     "8",
     "PMI_SIZE"},
    {{JOIN, "RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=node1", "SLURM_PROCID=0"},
     "2",
     "RANK",
     "4",
     "WORLD_SIZE"},
    {{JOIN, "RANK=2", "WORLD_SIZE=4"}, "auto", "default", "0", "default"},
    {{JOIN, "RANK=2", "MASTER_ADDR=node1"}, "auto", "default", "0", "default"},
    {{JOIN, "JOB_COMPLETION_INDEX=5"}, "5", "JOB_COMPLETION_INDEX", "0", "default"},
    {{JOIN, "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=77", "SLURM_STEP_ID=4294967290"},
     "auto",
     "default",
     "0",
     "default"},
};

static void test_a_launcher_sets_rank_and_size_of_a_joiner(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
        const launch *l = &launches[i];
        nexar_config *cfg, *copy = NULL;

        set_environment(count_lines(l), l->lines);
        cfg = fresh();
        assert_int_equal(nx_config_take_launcher(cfg), NEXAR_OK);
        assert_int_equal(nx_config_copy(cfg, &copy), NEXAR_OK);
        expect(copy, NX_SET_RANK, l->rank, nx_config_origin(cfg, NX_SET_RANK));
        expect(copy, NX_SET_WORLD_SIZE, l->size, nx_config_origin(cfg, NX_SET_WORLD_SIZE));
        assert_string_equal(nx_config_origin_name(copy, NX_SET_RANK), l->rank_from);
        assert_string_equal(nx_config_origin_name(copy, NX_SET_WORLD_SIZE), l->size_from);
        nexar_config_free(copy);
        nexar_config_free(cfg);
    }
}

static void test_what_a_program_sets_goes_before_the_launcher(void **state)
{
    static const char *const lines[] = {"PMI_RANK=3", "PMI_SIZE=4"};
    nexar_config *cfg;

    (void)state;
    set_environment(2, lines);
    cfg = fresh();
    assert_int_equal(nexar_config_set(cfg, "join", samples[NX_SET_JOIN].good), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "rank", "auto"), NEXAR_OK);
    assert_int_equal(nx_config_take_launcher(cfg), NEXAR_OK);
    expect(cfg, NX_SET_RANK, "auto", NX_ORIGIN_SET);
    expect(cfg, NX_SET_WORLD_SIZE, "0", NX_ORIGIN_DEFAULT);
    nexar_config_free(cfg);
    cfg = fresh();
    assert_int_equal(nexar_config_set(cfg, "join", samples[NX_SET_JOIN].good), NEXAR_OK);
    assert_int_equal(nx_config_take_launcher(cfg), NEXAR_OK);
    expect(cfg, NX_SET_RANK, "3", NX_ORIGIN_LAUNCHER);
    nexar_config_free(cfg);
}

static void test_a_launchers_variable_that_is_no_number_is_named(void **state)
{
    static const char *const bad[][3] = {{"SLURM_PROCID=", "SLURM_NTASKS=4", "SLURM_PROCID"},
                                         {"SLURM_PROCID=auto", "SLURM_NTASKS=4", "SLURM_PROCID"},
                                         {"SLURM_PROCID=-1", "SLURM_NTASKS=4", "SLURM_PROCID"},
                                         {"SLURM_PROCID=1", "SLURM_NTASKS=0", "SLURM_NTASKS"},
                                         {"PMI_RANK=65536", "PMI_SIZE=2", "PMI_RANK"},
                                         {"PMI_RANK=0", "PMI_SIZE=2 ", "PMI_SIZE"}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *const lines[] = {JOIN, bad[i][0], bad[i][1]};
        nexar_config *cfg;

        set_environment(3, lines);
        cfg = fresh();
        assert_int_equal(nx_config_take_launcher(cfg), NEXAR_EINVAL);
        assert_non_null(strstr(nexar_last_error(), bad[i][2]));
        nexar_config_free(cfg);
    }
    assert_string_equal(nexar_last_error(),
                        "setting world_size (from PMI_SIZE): \"2 \" is not accepted; a launcher "
                        "sets a whole number from 1 to 65536, and NEXAR_WORLD_SIZE goes before it");
}

static void test_an_unknown_variable_is_warned_of_once(void **state)
{
    static const char *const lines[] = {"NEXAR_SEGMNT=64k", "NEXAR_COLOUR=red", "NEXAR_LOG=error"};
    static const char *const others[] = {"NEXAR_RANK=1", "SLURM_PROCID=3", "PMIX_RANK=1",
                                         "NEXAR_LOCAL_RANK=0"};
    char text[1024];

    (void)state;
    /* Another process of the job warns: rank 0, or `nexar run`. */
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *const there[] = {"NEXAR_SEGMNT=64k", others[i]};

        set_environment(2, there);
        capture_create(text, sizeof(text));
        assert_string_equal(text, "");
    }

    set_environment(3, lines);
    capture_create(text, sizeof(text));
    assert_string_equal(text, "");
    set_environment(2, lines);
    capture_create(text, sizeof(text));
    assert_non_null(strstr(text, "nexar: warn: the variable NEXAR_SEGMNT is no setting and is "
                                 "ignored; did you mean NEXAR_SEGMENT?\n"));
    assert_non_null(strstr(text, "nexar: warn: the variable NEXAR_COLOUR is no setting and is "
                                 "ignored; `nexar info` lists them\n"));
    capture_create(text, sizeof(text));
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_an_unknown_variable_is_warned_of_once, clear_environment),
        cmocka_unit_test_setup(test_every_default_can_be_set_again, clear_environment),
        cmocka_unit_test_setup(test_every_setting_takes_a_good_value_and_keeps_it_after_a_bad_one,
                               clear_environment),
        cmocka_unit_test_setup(test_every_setting_is_taken_from_its_variable, clear_environment),
        cmocka_unit_test_setup(test_a_variable_that_is_set_but_empty_is_refused, clear_environment),
        cmocka_unit_test_setup(test_errors_say_what_would_be_accepted, clear_environment),
        cmocka_unit_test_setup(test_null_arguments_are_refused_by_name, clear_environment),
        cmocka_unit_test_setup(test_a_small_buffer_is_left_alone, clear_environment),
        cmocka_unit_test_setup(test_rules_follow_the_algorithms_setting, clear_environment),
        cmocka_unit_test_setup(test_without_memory_nothing_changes, clear_environment),
        cmocka_unit_test_setup(test_applying_sets_log_and_kernels, clear_environment),
        cmocka_unit_test_setup(test_the_least_world_is_not_above_the_largest, clear_environment),
        cmocka_unit_test_setup(test_a_launcher_sets_rank_and_size_of_a_joiner, clear_environment),
        cmocka_unit_test_setup(test_what_a_program_sets_goes_before_the_launcher,
                               clear_environment),
        cmocka_unit_test_setup(test_a_launchers_variable_that_is_no_number_is_named,
                               clear_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
