/* SPDX-License-Identifier: Apache-2.0 */
/* test.c - the tests of a program, by group, and the run of one group. */
#include "test.h"

struct group {
    const char *file; /* tests/unit/test_rope.c */
    struct test_entry *first;
    size_t count;
    test_fixture *setup_each, *teardown_each, *setup_all, *teardown_all;
    struct group *next;
};

static struct group *groups;

static struct group *group_of(const char *file)
{
    struct group **at = &groups;
    while (*at && strcmp((*at)->file, file) < 0)
        at = &(*at)->next;
    if (*at && strcmp((*at)->file, file) == 0)
        return *at;
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        abort();
    *group = (struct group){ .file = file, .next = *at };
    return *at = group;
}

void test_add(struct test_entry *entry)
{
    struct group *group = group_of(entry->file);
    struct test_entry **at = &group->first;
    while (*at && (*at)->line <= entry->line)
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
    group->count++;
}

void test_set_each(const char *file, test_fixture *setup, test_fixture *teardown)
{
    struct group *group = group_of(file);
    group->setup_each = setup;
    group->teardown_each = teardown;
}

void test_set_all(const char *file, test_fixture *setup, test_fixture *teardown)
{
    struct group *group = group_of(file);
    group->setup_all = setup;
    group->teardown_all = teardown;
}

/* Of tests/unit/test_rope.c, unit/test_rope. */
static const char *name_of(const struct group *group, char *name, size_t size)
{
    const char *folder = strncmp(group->file, "tests/", 6) == 0 ? group->file + 6 : group->file;
    snprintf(name, size, "%.*s", (int)(strlen(folder) - strlen(".c")), folder);
    return name;
}

static int run(const struct group *group, const char *title)
{
    struct CMUnitTest *tests = calloc(group->count + 1, sizeof *tests);
    if (!tests)
        abort();
    size_t count = 0;
    for (const struct test_entry *entry = group->first; entry; entry = entry->next)
        tests[count++] = (struct CMUnitTest){
            .name = entry->name,
            .test_func = entry->run,
            .setup_func = entry->is_with ? entry->setup : group->setup_each,
            .teardown_func = entry->is_with ? entry->teardown : group->teardown_each,
        };
    char name[200];
    if (!title)
        title = name_of(group, name, sizeof name);
    const int failed =
        _cmocka_run_group_tests(title, tests, count, group->setup_all, group->teardown_all);
    free(tests);
    return failed;
}

int test_run(const char *title)
{
    if (!groups || groups->next) {
        fprintf(stderr, "a separate program has the tests of one file\n");
        return 1;
    }
    return run(groups, title);
}

int test_main(int argc, char **argv)
{
    if (argc == 1 && groups && !groups->next)
        return run(groups, NULL);
    char name[200];
    for (const struct group *group = groups; group && argc == 2; group = group->next)
        if (strcmp(name_of(group, name, sizeof name), argv[1]) == 0)
            return run(group, NULL);
    fprintf(stderr, "%s runs one of these groups of tests:\n", argv[0]);
    for (const struct group *group = groups; group; group = group->next)
        fprintf(stderr, "%s\n", name_of(group, name, sizeof name));
    return 2;
}
