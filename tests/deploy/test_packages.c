/* SPDX-License-Identifier: Apache-2.0 */
/* test_packages.c - the Debian packages of `make deb`: what is in them and what dpkg is told of
 * them. dpkg installs them below a folder, with their own scripts, and a purge leaves nothing. */
#include "daemon.h"
#include "shell.h"
#include "skip.h"
#include "test.h"

#include <unistd.h>

/* In scripts $D is this folder, with the packages in deb/ and what is in each in PACKAGE/; $M is
 * the name of this architecture in paths. */
static char folder[] = "/tmp/attnd-packages-XXXXXX";

static bool can_make(void)
{
    return system("command -v dpkg-shlibdeps >/dev/null 2>&1") == 0;
}

static void skip_without_dpkg(void)
{
    skip_without("dpkg-dev", "command -v dpkg-shlibdeps");
}

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder));
    setenv("D", folder, 1);
    char *daemon = realpath(daemon_program(), NULL);
    assert_non_null(daemon);
    setenv("DAEMON", daemon, 1);
    free(daemon);
    setenv("LIBRARY", shell_library(), 1);
    setenv("LC_ALL", "C", 1);
    setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
    /* Quicker than dpkg-deb's own, xz. */
    setenv("DPKG_DEB_COMPRESSOR_TYPE", "gzip", 1);
    if (!can_make())
        return 0;
    shell("deploy/make-deb.sh $D/deb $DAEMON $LIBRARY 2>&1");
    shell("cd $D/deb && for package in attnd libattn1 libattn-dev python3-attnd; do\n"
          "  dpkg-deb -R ${package}_*.deb $D/$package && dpkg-deb -c ${package}_*.deb "
          ">$D/$package.list "
          "|| exit 1\n"
          "done");
    char machine[128];
    sscanf(shell("dpkg-architecture -qDEB_HOST_MULTIARCH"), "%127s", machine);
    setenv("M", machine, 1);
    return 0;
}

static int tear_down(void **state)
{
    shell("rm -rf $D");
    return 0;
}

/* ------------------------------------------------------------------------------------ contents --
 */

TEST(files_of_the_daemon)
{
    skip_without_dpkg();
    assert_string_equal(shell("cd $D/attnd && find etc usr ! -type d | sort"),
                        "etc/default/attnd\n"
                        "usr/bin/attnd\n"
                        "usr/lib/systemd/system/attnd.service\n"
                        "usr/lib/systemd/system/attnd.socket\n"
                        "usr/share/attnd/models/stories260K/config.json\n"
                        "usr/share/attnd/models/stories260K/model.safetensors\n"
                        "usr/share/attnd/models/stories260K/tokenizer.json\n"
                        "usr/share/bash-completion/completions/attnd\n"
                        "usr/share/doc/attnd/changelog.Debian.gz\n"
                        "usr/share/doc/attnd/changelog.gz\n"
                        "usr/share/doc/attnd/copyright\n"
                        "usr/share/doc/attnd/examples/access.conf\n"
                        "usr/share/doc/attnd/examples/socket.conf\n"
                        "usr/share/doc/attnd/sbom.spdx.json\n"
                        "usr/share/man/man1/attnd.1.gz\n");
    shell(
        "cd $D/attnd && grep -qx ExecStart=/usr/bin/attnd usr/lib/systemd/system/attnd.service && "
        "grep -qx Type=notify usr/lib/systemd/system/attnd.service && "
        "grep -qxF EnvironmentFile=-/etc/default/attnd usr/lib/systemd/system/attnd.service && "
        "test \"$(usr/bin/attnd --version)\" = \"$($DAEMON --version)\"");
    assert_string_equal(shell("cat $D/attnd/DEBIAN/conffiles"), "/etc/default/attnd\n");
}

/* The example model of the package is served as it lies there, with its tokenizer, and the file of
 * licences names its author. */
TEST(example_model)
{
    skip_without_dpkg();
    shell("env -u ATTND -u ATTND_TEST_SLOW "
          "$D/attnd/usr/bin/attnd --models $D/attnd/usr/share/attnd/models --models-strict "
          "--check-config | grep -q '^stories260K: '");
    shell("$D/attnd/usr/bin/attnd model show $D/attnd/usr/share/attnd/models/stories260K >$D/shown "
          "&& grep -A 1 -xF 'Files: examples/models/stories260K/*' "
          "$D/attnd/usr/share/doc/attnd/copyright | grep -q Karpathy");
}

TEST(files_of_the_library)
{
    skip_without_dpkg();
    shell("cd $D/libattn1 && find . ! -type d | sort >$D/files && sed \"s/MACHINE/$M/\" <<'END' | "
          "diff - $D/files\n"
          "./DEBIAN/control\n"
          "./DEBIAN/md5sums\n"
          "./DEBIAN/shlibs\n"
          "./DEBIAN/triggers\n"
          "./usr/lib/MACHINE/libattn.so.1\n"
          "./usr/share/doc/libattn1/changelog.Debian.gz\n"
          "./usr/share/doc/libattn1/copyright\n"
          "END");
    shell("cd $D/libattn-dev && { ls $OLDPWD/lib/*.h | sed 's|.*/|usr/include/attn/|'; echo "
          "\"usr/lib/$M/libattn.so\nusr/lib/$M/pkgconfig/attn.pc\n"
          "usr/share/doc/libattn-dev/changelog.Debian.gz\nusr/share/doc/libattn-dev/copyright\n"
          "usr/share/man/man3/attn.3.gz\"; } | sort >$D/expected && "
          "find usr ! -type d | sort | diff $D/expected -");
    /* The link leads to the file of the other package, and the name of that has the soname's
     * number. */
    shell("test \"$(readlink $D/libattn-dev/usr/lib/$M/libattn.so)\" = libattn.so.1 && "
          "readelf -d $D/libattn1/usr/lib/$M/libattn.so.1 | grep -qF '[libattn.so.1]'");
    shell("grep -qx libdir=/usr/lib/$M $D/libattn-dev/usr/lib/$M/pkgconfig/attn.pc");
}

TEST(files_of_python)
{
    skip_without_dpkg();
    shell("version=$($DAEMON --version | sed 's/attnd //')\n"
          "cd $D/python3-attnd && { (cd $OLDPWD/lib/python && ls attnd/*.py | sed "
          "'s|^|usr/lib/python3/dist-packages/|'); echo "
          "\"usr/lib/python3/dist-packages/attnd-$version.dist-info/METADATA\n"
          "usr/share/doc/python3-attnd/changelog.Debian.gz\nusr/share/doc/python3-attnd/"
          "copyright\"; } "
          "| sort >$D/expected && find usr ! -type d | sort | diff $D/expected -");
    skip_without("python3-numpy", "/usr/bin/python3 -c 'import numpy'");
    shell("cd $D && ATTN_LIBRARY=$LIBRARY PYTHONDONTWRITEBYTECODE=1 "
          "PYTHONPATH=$D/python3-attnd/usr/lib/python3/dist-packages /usr/bin/python3 -c '"
          "import attnd, importlib.metadata, numpy\n"
          "assert importlib.metadata.version(\"attnd\") == attnd.__version__\n"
          "assert attnd.local.softmax(numpy.zeros(2)).tolist() == [0.5, 0.5]'");
}

/* Who makes a package for others is its maintainer. */
TEST(maintainer)
{
    skip_without_dpkg();
    shell("export DEBFULLNAME='A Maker' DEBEMAIL=maker@example.org RELEASE=yes\n"
          "deploy/make-deb.sh $D/named $DAEMON $LIBRARY 2>&1 && "
          "test \"$(dpkg-deb -f $D/named/libattn1_*.deb Maintainer)\" = 'A Maker "
          "<maker@example.org>'");
}

/* Every file is root's, nobody else may write it, and no path names the folder where it was made.
 */
TEST(owners_and_modes)
{
    skip_without_dpkg();
    assert_string_equal(shell("cat $D/*.list | awk '$2 != \"root/root\" || "
                              "($1 !~ /^l/ && substr($1, 6, 1) substr($1, 9, 1) != \"--\")'"),
                        "");
    assert_string_equal(shell("cat $D/*.list | awk '$1 ~ /^-.*x/ {print $6}'"),
                        "./usr/bin/attnd\n");
    assert_string_equal(shell("grep -rlF -e /tmp/ -e $D $D/attnd/etc $D/attnd/usr/lib "
                              "$D/attnd/DEBIAN $D/libattn-dev || true"),
                        "");
}

TEST(sums_are_those_of_the_files)
{
    skip_without_dpkg();
    shell("for package in attnd libattn1 libattn-dev python3-attnd; do\n"
          "  cd $D/$package && md5sum --quiet -c DEBIAN/md5sums && "
          "test $(find usr -type f | wc -l) = $(wc -l <DEBIAN/md5sums) || exit 1\n"
          "done");
}

TEST(manual_page_has_every_flag)
{
    skip_without_dpkg();
    shell("zcat $D/attnd/usr/share/man/man1/attnd.1.gz | sed 's/\\\\//g' >$D/page");
    assert_string_equal(shell("$DAEMON --help | grep -oE '^  --[a-z-]+' | while read -r flag; do "
                              "grep -qF -e \"fB${flag}fR\" $D/page || echo $flag; done"),
                        "");
    assert_string_equal(shell("for section in NAME SYNOPSIS DESCRIPTION COMMANDS OPTIONS VALUES "
                              "ENVIRONMENT SIGNALS 'EXIT STATUS' EXAMPLES FILES 'SEE ALSO'; do\n"
                              "  grep -qx \".SH $section\" $D/page || echo $section; done"),
                        "");
    shell("test $(grep -c '^fB--' $D/page) -gt 40 && grep -q '^attnd - an attention service' "
          "$D/page");
    skip_without("man-db", "command -v man");
    assert_string_equal(
        shell(
            "MANWIDTH=120 man --warnings -l $D/attnd/usr/share/man/man1/attnd.1.gz 2>&1 >$D/text"),
        "");
}

/* ----------------------------------------------------------------------------- what dpkg is told
 * -- */

TEST(control_fields)
{
    skip_without_dpkg();
    shell(
        "release=$($DAEMON --version | sed 's/attnd //; y/-/~/')\n"
        "version=$release-1~$(. /etc/os-release && echo \"$ID${VERSION_ID:+.$VERSION_ID}\")\n"
        "for package in attnd libattn1 libattn-dev python3-attnd; do\n"
        "  architecture=$(dpkg --print-architecture)\n"
        "  test $package != python3-attnd || architecture=all\n"
        "  control=$D/$package/DEBIAN/control\n"
        "  grep -qxF \"Package: $package\" $control && grep -qxF \"Version: $version\" $control && "
        "grep -qx \"Architecture: $architecture\" $control && "
        "grep -qE '^Installed-Size: [1-9]' $control && grep -q '^Maintainer: .*@' $control || "
        "exit 1\n"
        "done\n"
        "grep -qxF \"Depends: libattn1 (= $version)\" $D/libattn-dev/DEBIAN/control && "
        "grep -qxF \"libattn 1 libattn1 (>= $release)\" $D/libattn1/DEBIAN/shlibs && "
        "test $(grep -lx 'Multi-Arch: same' $D/libattn*/DEBIAN/control | wc -l) = 2 && "
        "grep -qxF \"Depends: libattn1 (>= $release), python3 (>= 3.9), python3-numpy\" "
        "$D/python3-attnd/DEBIAN/control");
    assert_string_equal(shell("sed -n 's/^Depends: libc6 ([^)]*)$/libc6/p' "
                              "$D/libattn1/DEBIAN/control"),
                        "libc6\n");
}

/* Each library that the daemon names itself comes with one of the packages that it depends on. */
TEST(dependencies_have_the_libraries)
{
    skip_without_dpkg();
    shell("sed -n 's/^Depends: //p' $D/attnd/DEBIAN/control | tr ',|' '\\n\\n' | sed 's/^ //; s/ "
          ".*//' "
          "| sort -u >$D/depends && test $(wc -l <$D/depends) -gt 6 && "
          "! grep -vxE '[a-z0-9.+-]+' $D/depends");
    assert_string_equal(
        shell("readelf -d $DAEMON | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\]/\\1/p' >$D/needed\n"
              "for package in $(cat $D/depends); do dpkg -L $package 2>/dev/null; done "
              "| sed 's|.*/||' | sort -u >$D/theirs\n"
              "grep -vxF -f $D/theirs $D/needed | grep -v '^libopenblas' || true"),
        "");
    shell("grep -q '^libopenblas' $D/depends || ! grep -q '^libopenblas' $D/needed");
}

TEST(equal_twice)
{
    skip_without_dpkg();
    /* The library's two: the daemon's package comes from the same lines, and takes long to
     * compress. */
    shell("TZ=Asia/Tokyo deploy/make-deb.sh $D/again $DAEMON $LIBRARY >/dev/null 2>&1 && "
          "diff -r $D/deb $D/again");
}

/* -------------------------------------------------------------------------------- to and fro -- */

/* below: dpkg below the folder $R. Its owners are root, whom fakeroot plays for others. */
#define BELOW                                                                                      \
    "below() { $(test $(id -u) = 0 || echo fakeroot) dpkg --root=$R --force-script-chrootless "    \
    "--force-not-root --force-depends --force-unsafe-io --force-bad-path --log=/dev/null \"$@\" "  \
    "2>&1; }\n"

static void skip_without_root(void)
{
    skip_without("fakeroot", "test $(id -u) = 0 || command -v fakeroot");
    skip_without("init-system-helpers", "command -v deb-systemd-helper");
}

/* What the page says to paste is what make does, and names the daemon's package. */
TEST(commands_of_the_page)
{
    skip_without_dpkg();
    shell("sed -n '/^## Debian packages/,/^## Keys/p' deploy/README.md >$D/page && grep -qx 'make "
          "deb' "
          "$D/page && env -u MAKEFLAGS make -n deb | grep -qF 'deploy/make-deb.sh build/deb '");
    shell("glob=$(sed -n 's|^sudo apt install ./build/||p' $D/page) && cd $D && ls $glob && "
          "test \"$(dpkg-deb -f $glob Package)\" = attnd");
    assert_string_equal(
        shell("for package in $(sed -n 's/^- `\\([a-z0-9-]*\\)`: .*/\\1/p' $D/page); do "
              "echo $package; done"),
        "attnd\nlibattn1\nlibattn-dev\npython3-attnd\n");
}

TEST(scripts_can_be_read)
{
    skip_without_dpkg();
    shell("for script in attnd/DEBIAN/postinst attnd/DEBIAN/prerm attnd/DEBIAN/postrm "
          "python3-attnd/DEBIAN/postinst python3-attnd/DEBIAN/prerm; do\n"
          "  test -x $D/$script && sh -n $D/$script && grep -qx 'set -e' $D/$script || exit 1\n"
          "done");
}

TEST(purge_leaves_nothing)
{
    skip_without_dpkg();
    skip_without_root();
    shell("mkdir -p $D/root/var/lib/dpkg/info $D/root/var/lib/dpkg/updates "
          "$D/root/var/lib/dpkg/triggers "
          "$D/root/var/lib/private $D/root/var/lib/systemd $D/root/etc/systemd/system && touch "
          "$D/root/var/lib/dpkg/status "
          "$D/root/var/lib/dpkg/available "
          "&& find $D/root -path '*/dpkg' -prune -o -print | sort >$D/before");
    shell("R=$D/root\n" BELOW "below -i $D/deb/*.deb");
    assert_string_equal(shell("R=$D/root\n" BELOW "below --audit"), "");
    shell("cd $D/root && test -x usr/bin/attnd && test -f etc/default/attnd && "
          "test -L etc/systemd/system/multi-user.target.wants/attnd.service && "
          "test -e usr/lib/$M/libattn.so && test ! -e etc/systemd/system/sockets.target.wants");
    /* As systemd makes the state directory of a service with a user of its own. */
    shell("cd $D/root/var/lib && mkdir -p private/attnd/models && ln -s private/attnd attnd && "
          "echo '{}' >attnd/models/mine.json && echo ATTND_WORKERS=1 >>$D/root/etc/default/attnd");
    shell("mkdir $D/root/usr/lib/python3/dist-packages/attnd/__pycache__ && "
          "touch $D/root/usr/lib/python3/dist-packages/attnd/__pycache__/__init__.cpython-311.pyc");
    shell("R=$D/root\n" BELOW "below --remove attnd python3-attnd libattn-dev libattn1 && "
          "test -e $R/var/lib/attnd/models/mine.json && grep -q WORKERS $R/etc/default/attnd");
    shell("R=$D/root\n" BELOW "below --purge attnd python3-attnd libattn-dev libattn1");
    shell("find $D/root -path '*/dpkg' -prune -o -print | sort | diff $D/before -");
}

ALL_TESTS(set_up, tear_down);
