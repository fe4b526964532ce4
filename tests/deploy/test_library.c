/* SPDX-License-Identifier: Apache-2.0 */
/* test_library.c - libattn.so for other programs: its symbols, what it needs, and what `make
 * install-library` puts where a compiler, pkg-config and man find it. */
#include "layer_gradient.h"
#include "shell.h"
#include "skip.h"
#include "test.h"

#include <unistd.h>

/* In scripts $LIBRARY is the library and $D this folder, in whose usr/ it is installed. */
static char folder[] = "/tmp/attnd-library-XXXXXX";

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder));
    setenv("LIBRARY", shell_library(), 1);
    setenv("D", folder, 1);
    setenv("LC_ALL", "C", 1);
    setenv("PKG_CONFIG_PATH", "", 1);
    /* The library is there, and so make has nothing to build, whatever flags it was made with. */
    shell("exec 2>&1; make -s -o library install-library LIBRARY=$LIBRARY PREFIX=$D/usr");
    return 0;
}

static int tear_down(void **state)
{
    shell("rm -rf $D");
    return 0;
}

/* ---------------------------------------------------------------------------------- the symbols --
 */

/* All functions and constants that the public headers declare, and nothing else, with one version.
 */
TEST(symbols_are_those_of_the_headers)
{
    shell("{ grep -hoE '\\battn_[a-z0-9_]+\\(' lib/*.h | tr -d '('; "
          "  sed -nE 's/^extern const .* (attn_[a-z_]+)\\[.*/\\1/p' lib/*.h; } | sort -u "
          ">$D/headers\n"
          "sed -nE 's/^    (attn_[a-z0-9_]+);$/\\1/p' lib/libattn.map >$D/map\n"
          "nm -D --defined-only --with-symbol-versions $LIBRARY | awk '$2 != \"A\" {print $3}' "
          "| sort >$D/library");
    shell("test $(wc -l <$D/headers) -gt 80 && diff $D/headers $D/map");
    shell("sed 's/$/@@ATTN_1/' $D/map | diff - $D/library");
}

/* Programs that were compiled with ATTN_1 give plans this much room (LP64). */
TEST(plans_have_the_sizes_of_the_abi)
{
    assert_int_equal(sizeof(struct attn_plan), 1328);
    assert_int_equal(sizeof(struct attn_layer_plan), 2264);
    assert_int_equal(sizeof(struct attn_gradient_plan), 1944);
    assert_int_equal(sizeof(struct attn_layer_gradient_plan), 5616);
}

TEST(libc_and_libm_are_all_it_needs)
{
    assert_string_equal(
        shell("readelf -Wd $LIBRARY | sed -nE 's/.*\\((NEEDED|SONAME)\\).*\\[(.*)\\]/"
              "\\1 \\2/p' | sort | grep -vE 'NEEDED (libc|libm|ld-linux.*)\\.so'"),
        "SONAME libattn.so.1\n");
    /* No threads, no files, no memory of its own, no environment. */
    assert_string_equal(
        shell("nm -D --undefined-only $LIBRARY | awk '{print $2}' | sed 's/@.*//' | { grep -E "
              "'^(pthread_.*|malloc|calloc|realloc|free|aligned_alloc|open|fopen|printf|getenv)$' "
              "|| true; }"),
        "");
}

TEST(relocations_are_read_only)
{
    assert_non_null(strstr(shell("readelf -Wd $LIBRARY"), "BIND_NOW"));
    const char *segments = shell("readelf -Wl $LIBRARY");
    assert_non_null(strstr(segments, "GNU_RELRO"));
    assert_null(strstr(segments, "RWE"));
    assert_null(strstr(shell("readelf -Wd $LIBRARY"), "TEXTREL"));
}

/* ------------------------------------------------------------------------------- what is installed
 * -- */

TEST(each_header_stands_alone)
{
    shell("exec 2>&1; for header in $D/usr/include/attn/*.h; do\n"
          "  echo \"#include <attn/${header##*/}>\" | cc -std=c11 -Wall -Wextra -Wpedantic -Werror "
          "-fsyntax-only -I$D/usr/include -x c - || exit 1\n"
          "done");
    shell("ls lib/*.h | sed 's|lib/||' >$D/here; ls $D/usr/include/attn | diff $D/here -");
}

TEST(a_program_with_threads)
{
    shell("exec 2>&1; export PKG_CONFIG_PATH=$D/usr/lib/pkgconfig\n"
          "cc -O2 -Wall -Wextra -Werror examples/library/attend.c examples/library/pool.c "
          "$(pkg-config --cflags --libs attn) -lpthread -o $D/attend");
    const char *output = shell("exec 2>&1; LD_LIBRARY_PATH=$D/usr/lib $D/attend");
    const char *first = strstr(output, "equal bits on all threads");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "equal bits on all threads"));
    assert_null(strstr(output, "OTHER"));
}

TEST(pkg_config_says_the_version)
{
    shell("version=$(PKG_CONFIG_PATH=$D/usr/lib/pkgconfig pkg-config --modversion attn) && "
          "grep -qxF \"#define ATTND_VERSION \\\"$version\\\"\" server/base/version.h");
}

/* tests/check-abi finds a constant, a place in a struct and a name that a program knows from
 * before, and passes over a constant that is new. */
TEST(abi_is_compared)
{
    skip_without("abigail-tools", "command -v abidiff");
    shell(
        "kept=lib/libattn.abi\n"
        "with() { sed \"$1\" $kept >$D/new.abi && ! cmp -s $kept $D/new.abi && "
        "tests/check-abi $D/new.abi >$D/said; }\n"
        "tests/check-abi $kept && "
        "with \"s|<enumerator name='ATTN_F64' value='1'/>|&<enumerator name='ATTN_NEW' "
        "value='77'/>|\" && "
        "! with \"s/'ATTN_F64' value='1'/'ATTN_F64' value='99'/\" && grep -q ATTN_F64 $D/said && "
        "! with \"/'attn_tensor'/,/64/ s/layout-offset-in-bits='64'/layout-offset-in-bits='96'/\" "
        "&& grep -q 'struct attn_tensor' $D/said && "
        "! with \"s/'attn_merge'/'attn_other'/\" && grep -q attn_merge $D/said");
}

/* A folder of libraries elsewhere, below DESTDIR: all files are there, and none names DESTDIR. */
TEST(destdir_and_libdir)
{
    shell("exec 2>&1; make -s -o library install-library LIBRARY=$LIBRARY DESTDIR=$D/root "
          "PREFIX=/opt/a "
          "LIBDIR=/opt/a/lib64");
    shell("cd $D/root/opt/a && test -e lib64/libattn.so && test -e lib64/libattn.so.1 && "
          "test -e share/man/man3/attn.3 && ! grep -rF $D lib64/pkgconfig share include");
    shell("grep -qx libdir=/opt/a/lib64 $D/root/opt/a/lib64/pkgconfig/attn.pc");
}

/* The loader finds the library where ldconfig looks, and ldconfig is run for that; elsewhere make
 * says what to do. Below DESTDIR it is another machine's matter. This ldconfig looks in $D/known.
 */
TEST(the_loader_is_told)
{
    shell("mkdir $D/bin && cat >$D/bin/ldconfig <<'END' && chmod +x $D/bin/ldconfig\n"
          "#!/bin/sh\n"
          "case $* in *-v*) echo \"$D/known/lib: (from nowhere)\" ;; *) echo ran ;; esac\n"
          "END");
    shell("install() { PATH=$D/bin:$PATH make -s -o library install-library LIBRARY=$LIBRARY "
          "\"$@\"; }\n"
          "install PREFIX=$D/known >$D/known.said && install PREFIX=$D/other >$D/other.said &&"
          "install DESTDIR=$D/below PREFIX=$D/known >$D/below.said");
    assert_string_equal(
        shell("cat $D/known.said"),
        geteuid() == 0 ? "ran\n" : "Programs find libattn.so.1 when root has run: ldconfig\n");
    shell("grep -qF \"LD_LIBRARY_PATH=$D/other/lib,\" $D/other.said && ! grep ran $D/other.said");
    assert_string_equal(shell("cat $D/below.said"), "");
}

TEST(uninstall_leaves_no_file)
{
    shell("exec 2>&1; make -s -o library install-library LIBRARY=$LIBRARY PREFIX=$D/gone && "
          "make -s uninstall LIBRARY=$LIBRARY PREFIX=$D/gone");
    assert_string_equal(shell("find $D/gone ! -type d; find $D/gone -name attn"), "");
}

TEST(the_manual_page)
{
    skip_without("man-db", "command -v man");
    assert_string_equal(
        shell("MANWIDTH=120 man --warnings -l $D/usr/share/man/man3/attn.3 2>&1 >$D/page"), "");
    shell("grep -q 'attn - scaled dot-product attention' $D/page && grep -q '^PROBLEM' $D/page && "
          "grep -qF 'void attn_plan_run(const struct attn_plan *plan, int64_t task, void "
          "*workspace);' "
          "$D/page");
}

ALL_TESTS(set_up, tear_down);
