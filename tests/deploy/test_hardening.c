/* SPDX-License-Identifier: Apache-2.0 */
/* test_hardening.c - the daemon's program is built so that a fault in it is harder to exploit.
 *
 * readelf, which is part of the binutils of every gcc, shows what the linker left in the file. The
 * program can be loaded at any address. All functions are bound at the start, and the pointers to
 * them are read-only after that. No stack can be executed. The compiler's checks (canaries) and
 * glibc's checks (lengths) are in it. A build with sanitizers has their checks in place of
 * these. */
#include "daemon.h"
#include "test.h"

enum { LISTING_BYTES = 1 << 20 };

static char listing[LISTING_BYTES];

/* What readelf writes with these options about the program. */
static const char *read_elf(const char *options)
{
    char command[4096];
    const int length =
        snprintf(command, sizeof command, "LC_ALL=C readelf -W %s '%s'", options, daemon_program());
    assert_true(length > 0 && length < (int)sizeof command);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    const size_t used = fread(listing, 1, LISTING_BYTES - 1, stream);
    listing[used] = '\0';
    assert_int_equal(pclose(stream), 0);
    return listing;
}

/* The rest of the line from the first place of a name, which must be there. */
static const char *line_of(const char *options, const char *name)
{
    static char line[512];
    const char *found = strstr(read_elf(options), name);
    if (!found)
        fail_msg("readelf %s has no %s:\n%s", options, name, listing);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(found, "\n"), found);
    return line;
}

static void skip_with_sanitizers(void)
{
    const char *symbols = read_elf("--dyn-syms");
    if (strstr(symbols, "__asan_") || strstr(symbols, "__tsan_") || strstr(symbols, "__ubsan_"))
        skip();
}

TEST(position_independent)
{
    skip_with_sanitizers();
    assert_non_null(strstr(line_of("--file-header", "Type:"), "DYN"));
    assert_non_null(strstr(line_of("--dynamic", "(FLAGS_1)"), "PIE"));
}

TEST(relocations_are_read_only)
{
    skip_with_sanitizers();
    line_of("--program-headers", "GNU_RELRO");
    assert_non_null(strstr(line_of("--dynamic", "(FLAGS)"), "BIND_NOW"));
    assert_non_null(strstr(line_of("--dynamic", "(FLAGS_1)"), "NOW"));
}

/* Neither the stack's header nor any segment is both writable and executable. */
TEST(nothing_is_writable_and_executable)
{
    const char *stack = line_of("--program-headers", "GNU_STACK");
    assert_non_null(strstr(stack, " RW "));
    assert_null(strstr(read_elf("--program-headers"), "RWE"));
}

TEST(canaries)
{
    skip_with_sanitizers();
    line_of("--dyn-syms", "__stack_chk_fail");
}

/* glibc functions that check a length at run time. The compiler calls them where it does not know
 * the length itself. */
TEST(lengths_are_checked)
{
    skip_with_sanitizers();
    static const char *const checked[] = { " __memcpy_chk", " __snprintf_chk", " __vsnprintf_chk" };
    for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++)
        line_of("--dyn-syms", checked[i]);
}

/* What is made outside of the sources' folder has no name of that place in it. The one source that
 * is made there is the explorer's bytes. */
TEST(no_names_of_folders)
{
    char command[1024], place[] = "/tmp/attnd-build-XXXXXX";
    assert_non_null(mkdtemp(place));
    snprintf(command, sizeof command,
             "object='%s/cc/server/explorer/page_bytes.o'\n"
             "env -u MAKEFLAGS -u MAKELEVEL make -s CC=cc BUILD='%s' \"$object\" >/dev/null &&\n"
             "test -s \"$object\" && ! grep -q '%s' \"$object\"",
             place, place, place);
    const int status = system(command);
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
}
