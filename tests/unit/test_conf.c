/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: every key takes what it allows and nothing else, an error says what is wrong, and a
 * string takes effect as a whole or not at all.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/conf.h"

/* What is in force for a key, from the public list. */
static tnr_setting_info setting_find(const char *key)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++)
        if (strcmp(info.key, key) == 0)
            return info;
    fail_msg("there is no setting %s", key);
    abort();
}

#define assert_setting(key, expected) assert_string_equal(setting_find(key).value, (expected))

#define SIXTY_FOUR "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define TOO_LONG SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR

/* As people write them, and as they do not. Seen to fail with "on" and "True" alone. */
#define SWITCHES                                                                                   \
    {"on", "off", "True", "false", "0", "1", "YES", "no"},                                         \
    {                                                                                              \
        "", "2", "y", "onn", "tru"                                                                 \
    }

/* Values for one key: those it takes, and those it refuses. */
static const struct {
    const char *key;
    const char *good[8];
    const char *bad[12];
} values[] = {
    {"address_space_gb", {"1", "8192", "16384"}, {"0", "16385", "-1", "+1", "1.5", "1e3", "", "x"}},
    {"auto_record", {"seen", "all", "off"}, {"", "on", "All", "seen|all"}},
    {"aliases_from", {"first", "low_water"}, {"", "low", "First", "never"}},
    {"aliases_max", {"0", "8192", "1048576"}, {"1048577", "-1", "all"}},
    {"bin_blocks", {"0", "32", "4096"}, {"4097", "99999999999999999999999999", "0x10"}},
    {"cgroup", {"/sys/fs/cgroup", ""}, {TOO_LONG}},
    {"chunk_mb", {"2", "16", "1024"}, {"1", "1025", "2M", "off"}},
    {"chunk_max_mb", {"2", "8192", "65536"}, {"1", "65537", "inf"}},
    {"chunk_exact_mb", {"2", "4", "1024"}, {"1", "1025", "4M"}},
    {"chunk_whole_mb", {"2", "4096", "1048576"}, {"1", "1048577", "4G"}},
    {"chunk_share", {"1", "2048", "65536"}, {"0", "65537", "1/2"}},
    {"control", {"off"}, {"", "yes", "On", "off|on", "0"}}, /* on and try: tests/control */
    {"control_dir", {"/tmp", ""}, {TOO_LONG}},
    {"apart", SWITCHES},
    {"canary", SWITCHES},
    {"guard", {"on", "wait", "off"}, {"", "1", "true", "Wait", "on|wait"}},
    {"guard_mb", {"2", "4096", "1048576"}, {"1", "1048577", "4G"}},
    {"poison", SWITCHES},
    {"contents_dir", {"/tmp/x", ""}, {TOO_LONG}},
    {"shared_rest_mb", {"64", "1024", "1048576"}, {"63", "1048577", "1G"}},
    {"trap_file", {"/tmp/x", ""}, {TOO_LONG}},
    {"trap_every", {"1", "1000000"}, {"0", "1000001", "1/2"}},
    {"trap_fill_kb", {"1", "64"}, {"0", "65", "-1"}},
    {"trap_from_kb", {"0", "1073741824"}, {"1073741825", "-1", "4k"}},
    {"trap_to_kb", {"1", "1073741824"}, {"0", "1073741825"}},
    {"cross_stream", {"wait", "idle", "off"}, {"", "Wait", "wai", "waits", "wait|idle", "0"}},
    {"garbage_collection_threshold",
     {"0", "1", "0.5", ".25", "0.999"},
     {"1.01", "-0.5", "nan", "inf", "0.5x", "0.5.5", ".", "0x1", "1e-1", "50%", ""}},
    {"lend", SWITCHES},
    {"gpu_direct_rdma", SWITCHES},
    {"graph_end_ms", {"0", "100", "60000"}, {"60001", "-1", "1s"}},
    {"group", {"jobs", "a-B_9", ""}, {"a/b", "a.b", "a*"}},
    {"group_ceiling_mb", {"2", "81920", "1073741824"}, {"1", "-1", "80g"}},
    {"group_floor_mb", {"0", "1024", "1073741824"}, {"1073741825", "-1", "1g"}},
    {"group_limit_mb", {"2", "81920", "1073741824"}, {"1", "-1", "80g"}},
    {"group_wait_ms", {"0", "1000", "600000"}, {"600001", "-1", "1s"}},
    {"headroom_mb", {"1024", "1048576", "0"}, {"1048577", "-1", "1g"}},
    {"handle_type", {"posix_fd", "none", "fabric"}, {"", "fd", "posix", "POSIX_FD"}},
    {"peers", {"asked", "used", "asked"}, {"", "on", "all", "USED"}},
    {"history", {"light", "full", "off"}, {"", "on", "Light", "full|off"}},
    {"host", {"mapped", "allocated", "off"}, {"", "on", "Mapped", "auto|mapped"}},
    {"history_records", {"1", "262144"}, {"0", "1073741825", "1k"}},
    {"lanes_forced", {"0", "64"}, {"65", "-1", "all"}},
    {"lanes_max", {"0", "1", "64"}, {"65", "-1", "all"}},
    {"max_split_size_mb", {"0", "1048576"}, {"1048577", "-2"}},
    {"memory", {"mapped", "allocated", "auto"}, {"", "map", "Auto", "mapped|auto"}},
    {"move_burst_ms", {"0", "1000000"}, {"1000001", "-1", "0.5"}},
    {"move_percent", {"0", "100"}, {"101", "1%"}},
    {"reuse", {"wait", "follow", "poll"}, {"waits", "Wait", ""}},
    {"reuse_mark_percent", {"0", "10", "100"}, {"101", "-1"}},
    {"per_process_memory_fraction",
     {"0", "0.5", "1"},
     {"2", "1.0001", "half", "0.0000000000000000000000000000001"}},
    {"release_threshold_mb", {"0", "1048576"}, {"1048577", "all"}},
    {"roundup_power2_divisions",
     {"off", "4", "[64:8,256:4,>:1]", "64", "0"},
     {"3", "128", "[64:8", "64:8]", "[]", "[63:8]", "[64:3]", "[64;8]", "[>8]", "[64:8,]", ""}},
    {"small_limit_kb", {"4", "1024"}, {"3", "1025"}},
    {"snapshot_at_exit", {"/dev/null", ""}, {TOO_LONG}},
    {"snapshot_dir", {"/tmp", "."}, {TOO_LONG}},
    {"snapshot_on_oom", {"/tmp", ""}, {TOO_LONG}},
    {"snapshot_signal", {"USR2", "WINCH", "off"}, {"KILL", "usr1", "12", ""}},
    {"stale_mappings_max", {"0", "1024", "65536"}, {"65537", "many"}},
};
enum { VALUES = sizeof(values) / sizeof(values[0]) };

/* Removed the test against row->high in setting_store (conf.c): failed at address_space_gb. */
static void every_key_takes_what_it_allows(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    char text[512];
    for (size_t v = 0; v < VALUES; v++) {
        for (size_t i = 0; i < 8 && values[v].good[i] != NULL; i++) {
            snprintf(text, sizeof(text), "chunk_max_mb:65536,group_floor_mb:0,%s:%s", values[v].key,
                     values[v].good[i]);
            if (strcmp(values[v].key, "chunk_max_mb") == 0)
                snprintf(text, sizeof(text), "chunk_mb:2,chunk_max_mb:%s", values[v].good[i]);
            assert_ok(tnr_configure(text));
            assert_int_equal(setting_find(values[v].key).is_set, 1);
        }
        char before[512];
        snprintf(before, sizeof(before), "%s", setting_find(values[v].key).value);
        for (size_t i = 0; i < 12 && values[v].bad[i] != NULL; i++) {
            snprintf(text, sizeof(text), "%s:%s", values[v].key, values[v].bad[i]);
            assert_error(tnr_configure(text), TNR_ERR_CONFIG, values[v].key);
            assert_non_null(strstr(tnr_last_error(), "Allowed: "));
            assert_setting(values[v].key, before);
        }
    }
}

/* A new key in settings.def must be entered in the table above. */
static void no_key_is_left_out(void **state)
{
    (void)state;
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++) {
        assert_true(strlen(info.help) > 20 && strlen(info.allowed) > 0);
        size_t v = 0;
        while (v < VALUES && strcmp(values[v].key, info.key) != 0)
            v++;
        if (v == VALUES)
            fail_msg("the table of values lacks %s", info.key);
    }
    assert_error(tnr_setting_get(&info, 100000), TNR_ERR_INVALID_ARGUMENT, "settings");
    info.struct_bytes = 3;
    assert_error(tnr_setting_get(&info, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_setting_get(NULL, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
}

/* Let choice_find accept a prefix (span >= length): "wai" was taken and the table test failed. */
static void values_read_back(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    assert_setting("bin_blocks", setting_find("bin_blocks").default_value);
    assert_int_equal(setting_find("bin_blocks").is_set, 0);
    assert_ok(tnr_configure("bin_blocks:7,cross_stream:idle,gpu_direct_rdma:True,"
                            "garbage_collection_threshold:0.75,roundup_power2_divisions:8"));
    assert_setting("bin_blocks", "7");
    assert_setting("cross_stream", "idle");
    assert_setting("gpu_direct_rdma", "on");
    assert_setting("garbage_collection_threshold", "0.75");
    assert_setting("roundup_power2_divisions", "8");
    assert_int_equal(tnri_conf_get()->bin_blocks, 7);
    assert_int_equal(tnri_conf_get()->cross_stream, TNRI_CROSS_IDLE);
}

/* Let unknown_key keep the first key as the nearest: this failed. */
static void an_unknown_key_names_the_nearest(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    assert_error(tnr_configure("bin_blocs:3"), TNR_ERR_CONFIG, "The nearest is bin_blocks;");
    assert_error(tnr_configure("bin_blockss:3"), TNR_ERR_CONFIG, "The nearest is bin_blocks;");
    assert_error(tnr_configure("chunk_maxmb:3"), TNR_ERR_CONFIG, "The nearest is chunk_max_mb;");
    assert_error(tnr_configure("max_split_size:3"), TNR_ERR_CONFIG,
                 "The nearest is max_split_size_mb;");
    assert_error(tnr_configure("zzz:3"), TNR_ERR_CONFIG, "there is no setting zzz");
}

static void keys_of_pytorch_without_meaning_say_why(void **state)
{
    (void)state;
    static const char *const foreign[] = {
        "backend:native",
        "expandable_segments:True",
        "large_segment_size_mb:20",
        "max_non_split_rounding_mb:20",
        "release_lock_on_cudamalloc:True",
        "graph_capture_record_stream_reuse:True",
        "pinned_use_cuda_host_register:True",
        "pinned_num_register_threads:8",
        "pinned_use_background_threads:True",
        "pinned_reserve_segment_size_mb:1024",
        "throw_on_cudamalloc_oom:True",
    };
    unit_settings(NULL, NULL);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        assert_error(tnr_configure(foreign[i]), TNR_ERR_CONFIG, "a setting of PyTorch's");
}

/* Published the copy before text_apply had ended (conf.c): the first key had taken effect. */
static void all_or_nothing(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    assert_ok(tnr_configure("bin_blocks:5"));
    assert_error(tnr_configure("bin_blocks:6,chunk_share:4,chunk_share:0"), TNR_ERR_CONFIG,
                 "chunk_share");
    assert_setting("bin_blocks", "5");
    assert_setting("chunk_share", setting_find("chunk_share").default_value);
    assert_error(tnr_configure("bin_blocks:6,nonsense"), TNR_ERR_CONFIG, "key:value");
    assert_setting("bin_blocks", "5");
    /* What no single key can check. */
    assert_error(tnr_configure("chunk_mb:64,chunk_max_mb:32"), TNR_ERR_CONFIG, "smaller than");
    assert_error(tnr_configure("group_floor_mb:9,group_ceiling_mb:8"), TNR_ERR_CONFIG, "is above");
    assert_error(tnr_configure("group_floor_mb:9,group_limit_mb:8"), TNR_ERR_CONFIG, "is above");
    assert_error(tnr_configure(NULL), TNR_ERR_INVALID_ARGUMENT, "null");
}

static void blanks_commas_and_order(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    assert_ok(tnr_configure(""));
    assert_ok(tnr_configure("  \t "));
    assert_ok(tnr_configure(" bin_blocks : 9 ,\n chunk_share : 3 , "));
    assert_setting("bin_blocks", "9");
    assert_setting("chunk_share", "3");
    assert_ok(tnr_configure("bin_blocks:1,bin_blocks:2"));
    assert_setting("bin_blocks", "2"); /* the last one counts */
    assert_error(tnr_configure(","), TNR_ERR_CONFIG, "key:value");
    assert_error(tnr_configure("bin_blocks:1,,chunk_share:3"), TNR_ERR_CONFIG, "key:value");
    assert_error(tnr_configure(":3"), TNR_ERR_CONFIG, "key:value");
    assert_error(tnr_configure("bin_blocks"), TNR_ERR_CONFIG, "key:value");
    assert_error(tnr_configure("bin_blocks=3"), TNR_ERR_CONFIG, "key:value");
    assert_error(tnr_configure("bin_blocks:1:2"), TNR_ERR_CONFIG, "bin_blocks");
}

/* Random bytes and overlong words: an error, never a crash. Valgrind and the sanitizers watch. */
/* Let blanks_remove and value_copy take no notice of quotation marks: this failed. */
static void values_in_quotation_marks(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    assert_ok(tnr_configure("snapshot_dir: '/a b, c:d/[e' , bin_blocks:'7'"));
    assert_setting("snapshot_dir", "/a b, c:d/[e");
    assert_setting("bin_blocks", "7");
    assert_ok(tnr_configure("snapshot_dir:'it''s  ''',bin_blocks:8"));
    assert_setting("snapshot_dir", "it's  '");
    assert_setting("bin_blocks", "8");
    assert_ok(tnr_configure("snapshot_at_exit:''"));
    assert_setting("snapshot_at_exit", "");
    assert_ok(tnr_configure("snapshot_dir:/it's one , bin_blocks:9")); /* none of the value's */
    assert_setting("snapshot_dir", "/it'sone");
    assert_setting("bin_blocks", "9");
    assert_error(tnr_configure("snapshot_dir:'/a b"), TNR_ERR_CONFIG, "quotation mark");
    assert_error(tnr_configure("snapshot_dir:'/a''"), TNR_ERR_CONFIG, "quotation mark");
    assert_error(tnr_configure("snapshot_dir:'/a'b,bin_blocks:4"), TNR_ERR_CONFIG,
                 "snapshot_dir:'/a'b");
    assert_setting("bin_blocks", "9");
}

static void garbage_is_refused(void **state)
{
    (void)state;
    static char text[20000];
    unit_settings(NULL, NULL);
    memset(text, 'k', sizeof(text) - 1);
    assert_error(tnr_configure(text), TNR_ERR_CONFIG, "key:value");
    text[63] = ':';
    assert_error(tnr_configure(text), TNR_ERR_CONFIG, "too long");
    text[63] = 'k';
    text[64] = ':';
    assert_error(tnr_configure(text), TNR_ERR_CONFIG, "too long");
    memset(text, '9', sizeof(text) - 1);
    memcpy(text, "bin_blocks:", 11);
    assert_error(tnr_configure(text), TNR_ERR_CONFIG, "too long");
    memset(text + 11, '[', sizeof(text) - 12);
    assert_error(tnr_configure(text), TNR_ERR_CONFIG, "too long");
    uint64_t random = 7;
    for (int round = 0; round < 2000; round++) {
        size_t length = unit_below(&random, 200);
        for (size_t i = 0; i < length; i++)
            text[i] = (char)(1 + unit_below(&random, 255));
        text[length] = '\0';
        if (strspn(text, " \t\n\v\f\r") != length)
            assert_error(tnr_configure(text), TNR_ERR_CONFIG, NULL);
    }
}

/* Let pair_apply ignore `running` (conf.c): chunk_mb changed under a device in use. */
static void what_is_fixed_at_start_is_busy_later(void **state)
{
    (void)state;
    static const char *const fixed[] = {"address_space_gb:8",
                                        "aliases_from:first",
                                        "cgroup:/x",
                                        "chunk_mb:4",
                                        "gpu_direct_rdma:off",
                                        "handle_type:none",
                                        "group:g",
                                        "group_ceiling_mb:9",
                                        "group_floor_mb:9",
                                        "group_limit_mb:9",
                                        "host:mapped",
                                        "lanes_forced:2",
                                        "memory:mapped",
                                        "small_limit_kb:64",
                                        "per_process_memory_fraction:0.5"};
    unit_start(NULL, NULL);
    assert_ok(tnr_configure("small_limit_kb:512")); /* started, but no device is in use */
    assert_ok(tnr_free(unit_malloc(1, NULL)));
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        assert_error(tnr_configure(fixed[i]), TNR_ERR_BUSY, "before the first allocation");
    assert_error(tnr_configure("bin_blocks:3,chunk_mb:4"), TNR_ERR_BUSY, "chunk_mb");
    assert_string_not_equal(setting_find("bin_blocks").value, "3");
    assert_ok(tnr_configure("bin_blocks:3"));
    assert_setting("small_limit_kb", "512");
    size_t at_start = 0;
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++)
        at_start += info.at_start != 0;
    assert_int_equal(at_start, sizeof(fixed) / sizeof(fixed[0]));
    assert_ok(tnr_shutdown(0));
    assert_ok(tnr_configure("chunk_mb:4")); /* and free again afterwards */
}

/* TENURE_CONF is read at start, and its errors name it. */
static void the_environment(void **state)
{
    (void)state;
    unit_settings("bin_blocks:11", NULL);
    assert_ok(tnr_init());
    assert_setting("bin_blocks", "11");
    unit_settings("bin_blocks:x", NULL);
    assert_error(tnr_init(), TNR_ERR_CONFIG, "TENURE_CONF: bin_blocks cannot be \"x\"");
    void *ptr = &ptr;
    assert_error(tnr_malloc(&ptr, 1, 0, NULL), TNR_ERR_CONFIG, "TENURE_CONF");
    assert_null(ptr);
    setenv("TENURE_CONF", "", 1);
    assert_ok(tnr_init());
    assert_setting("bin_blocks", setting_find("bin_blocks").default_value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_key_takes_what_it_allows, unit_stop),
        cmocka_unit_test_teardown(no_key_is_left_out, unit_stop),
        cmocka_unit_test_teardown(values_read_back, unit_stop),
        cmocka_unit_test_teardown(an_unknown_key_names_the_nearest, unit_stop),
        cmocka_unit_test_teardown(keys_of_pytorch_without_meaning_say_why, unit_stop),
        cmocka_unit_test_teardown(all_or_nothing, unit_stop),
        cmocka_unit_test_teardown(blanks_commas_and_order, unit_stop),
        cmocka_unit_test_teardown(values_in_quotation_marks, unit_stop),
        cmocka_unit_test_teardown(garbage_is_refused, unit_stop),
        cmocka_unit_test_teardown(what_is_fixed_at_start_is_busy_later, unit_stop),
        cmocka_unit_test_teardown(the_environment, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
