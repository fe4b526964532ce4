/* SPDX-License-Identifier: Apache-2.0 */
/* group_main.c - main() of the programs that are made of groups of tests. */
#include "test.h"

/* Without this AddressSanitizer ends the program where malloc() would return NULL. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

int main(int argc, char **argv)
{
    return test_main(argc, argv);
}
