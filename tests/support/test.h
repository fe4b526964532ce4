/* SPDX-License-Identifier: Apache-2.0 */
/* test.h - what every test begins with: cmocka with the headers that it wants, the headers that
 * most tests include, and tests that list themselves.
 *
 *     TEST(rows_are_added)
 *     {
 *         assert_int_equal(added(), 3);
 *     }
 *
 * A file of tests is a group. It has no main(): the tests of a folder are one program, which runs
 * the group that it is told, each group in a separate process. Tests run in the order in which they
 * stand. A file that replaces a function of a library, or that prepares what a group cannot, is a
 * separate program with a main() that ends with `return test_run(NULL);`. */
#ifndef TEST_H
#define TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void test_function(void **state);
typedef int test_fixture(void **state);

struct test_entry {
    const char *name;
    test_function *run;
    bool is_with; /* has its own setup and teardown; otherwise those of EACH_TEST() */
    test_fixture *setup, *teardown;
    const char *file;
    int line;
    struct test_entry *next;
};

/* The head of a test, test_NAME(). Its state is cmocka's. */
#define TEST(name) TEST_LISTED(test_##name, false, NULL, NULL)

/* The same with its own setup and teardown; either may be NULL. */
#define TEST_WITH(name, setup, teardown) TEST_LISTED(test_##name, true, setup, teardown)

/* A line at the end of a file: a test that several files have in common. */
#define TEST_ALSO(function)                                                                        \
    TEST_ENTRY(function, false, NULL, NULL)                                                        \
    _Static_assert(true, "the end of a line")

/* A line at the end of a file: what is before and after each TEST() of it; either may be NULL. */
#define EACH_TEST(setup, teardown) TEST_FIXTURES(each, test_set_each, setup, teardown)

/* A line at the end of a file: what is before the first test of it and after the last one. */
#define ALL_TESTS(setup, teardown) TEST_FIXTURES(all, test_set_all, setup, teardown)

/* JSON as it is sent, in place of a string with escapes; JSON({"model":"demo"}) is that string. */
#define JSON(...) #__VA_ARGS__

/* Runs the tests of the only group of this program under a title, NULL: the group's name. Returns
 * how many failed. */
int test_run(const char *title);

/* For main() of a folder: runs the group that argv[1] names, `unit/test_rope`, or the only one. */
int test_main(int argc, char **argv);

/* ---------------------------------------------------------------- what the macros are made of --
 */

void test_add(struct test_entry *entry);
void test_set_each(const char *file, test_fixture *setup, test_fixture *teardown);
void test_set_all(const char *file, test_fixture *setup, test_fixture *teardown);

#define TEST_ENTRY(function, is_with, setup, teardown)                                             \
    __attribute__((constructor)) static void function##_is_listed(void)                            \
    {                                                                                              \
        static struct test_entry entry = { #function, function, is_with,  setup,                   \
                                           teardown,  __FILE__, __LINE__, NULL };                  \
        test_add(&entry);                                                                          \
    }

#define TEST_LISTED(function, is_with, setup, teardown)                                            \
    static void function(void **state);                                                            \
    TEST_ENTRY(function, is_with, setup, teardown)                                                 \
    static void function(void **state)

#define TEST_FIXTURES(when, set, setup, teardown)                                                  \
    __attribute__((constructor)) static void test_fixtures_of_##when(void)                         \
    {                                                                                              \
        set(__FILE__, setup, teardown);                                                            \
    }                                                                                              \
    _Static_assert(true, "the end of a line")

#endif
