/* text_table_test.c - columns are aligned; JSON is valid; without memory nothing is printed. */
#include "text_table.h"

#include <stdlib.h>
#include <string.h>

#include "oom.h"
#include "unit.h"

static const char *const heads[] = {"name", "value"};

static void fill(nx_table *t)
{
    nx_table_init(t, heads, 2);
    nx_table_add(t, "%s", "a");
    nx_table_add(t, "%d", 1);
    nx_table_add(t, "größer");
    nx_table_add(t, "%s", "");
}

/* What |print| writes; borrowed until the next call. */
static const char *printed(void (*print)(const nx_table *t, FILE *out))
{
    static char text[1024];
    FILE *out = fmemopen(text, sizeof(text), "w");
    nx_table t;
    int closed;

    assert_non_null(out);
    fill(&t);
    assert_false(nx_table_failed(&t));
    print(&t, out);
    closed = fclose(out);
    assert_int_equal(closed, 0);
    nx_table_fini(&t);
    return text;
}

static void print_with_heads(const nx_table *t, FILE *out)
{
    nx_table_print(t, out, 2, true);
}

static void print_without_heads(const nx_table *t, FILE *out)
{
    nx_table_print(t, out, 0, false);
}

static void test_columns_line_up_and_empty_cells_are_dashes(void **state)
{
    (void)state;
    assert_string_equal(printed(print_with_heads), "  name    value\n  a       1\n  größer  -\n");
    assert_string_equal(printed(print_without_heads), "a       1\ngrößer  -\n");
}

static void test_json_has_every_cell_under_its_head(void **state)
{
    (void)state;
    assert_string_equal(printed(nx_table_print_json),
                        "[\n    {\"name\": \"a\", \"value\": \"1\"},\n"
                        "    {\"name\": \"größer\", \"value\": \"\"}\n  ]");
    assert_string_equal(printed(nx_table_print_json_object),
                        "{\n    \"a\": \"1\",\n    \"größer\": \"\"\n  }");
}

static void print_odd_string(const nx_table *t, FILE *out)
{
    (void)t;
    nx_json_string(out, "a\"b\\c\nd\001");
}

static void test_json_strings_are_escaped(void **state)
{
    (void)state;
    assert_string_equal(printed(print_odd_string), "\"a\\\"b\\\\c\\u000ad\\u0001\"");
}

static void test_without_memory_the_table_is_failed(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_table t;

        fill(&t);
        assert_int_equal(nx_table_failed(&t), nx_alloc_failed());
        nx_table_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_line_up_and_empty_cells_are_dashes),
        cmocka_unit_test(test_json_has_every_cell_under_its_head),
        cmocka_unit_test(test_json_strings_are_escaped),
        cmocka_unit_test(test_without_memory_the_table_is_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
