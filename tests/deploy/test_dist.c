/* SPDX-License-Identifier: Apache-2.0 */
/* test_dist.c - the release of `make dist`: the commit's files, the bill of materials, the sums,
 * and the same bytes again. */
#include "daemon.h"
#include "shell.h"
#include "skip.h"
#include "test.h"

#include <unistd.h>

/* In scripts $D is this folder, with the release in one/ and its name in $NAME. */
static char folder[] = "/tmp/attnd-dist-XXXXXX";

/* The sources may be a release themselves, without a commit, or have a version that is not
 * committed yet. dpkg names the packages of the bill. */
#define CAN_MAKE                                                                                   \
    "git rev-parse HEAD && command -v dpkg-query && git show HEAD:server/base/version.h | "        \
    "grep -F \"\\\"$($DAEMON --version | sed 's/attnd //')\\\"\""

static void skip_without_a_commit(void)
{
    skip_without("git", CAN_MAKE);
}

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder));
    setenv("D", folder, 1);
    setenv("DAEMON", daemon_program(), 1);
    setenv("LC_ALL", "C", 1);
    if (system("{ " CAN_MAKE "; } >/dev/null 2>&1") == 0)
        shell("deploy/make-dist.sh $D/one $DAEMON 2>&1");
    return 0;
}

static int tear_down(void **state)
{
    shell("rm -rf $D");
    return 0;
}

TEST(files_of_the_commit)
{
    skip_without_a_commit();
    shell(
        "name=attnd-$($DAEMON --version | sed 's/attnd //')\n"
        "cd $D/one && test \"$(ls)\" = "
        "\"SHA256SUMS\n$name.openvex.json\n$name.provenance.json\n$name.spdx.json\n$name.tar.gz\" "
        "&& "
        "sha256sum --quiet -c SHA256SUMS && test $(wc -l <SHA256SUMS) = 4 && "
        "tar -tzf $name.tar.gz | grep -v '/$' | sort >$D/in && "
        "git -C $OLDPWD ls-tree -r --name-only HEAD | sed \"s|^|$name/|\" | sort | diff - $D/in && "
        "grep -qx $name/CHANGELOG.md $D/in && grep -qx $name/LICENSE $D/in");
}

/* All is root's, and has the time of the commit. */
TEST(owners_and_times)
{
    skip_without_a_commit();
    assert_string_equal(
        shell("time=$(TZ=UTC git log -1 --date=format-local:'%Y-%m-%d %H:%M' --format=%cd)\n"
              "TZ=UTC tar -tvzf $D/one/*.tar.gz | grep -vF \" $time \" | head -n 3"),
        "");
    assert_string_equal(
        shell("tar -tvzf $D/one/*.tar.gz | awk '$2 != \"root/root\" || $1 ~ /^.....w/' "
              "| head -n 3"),
        "");
}

TEST(equal_twice)
{
    skip_without_a_commit();
    shell("umask 077; TZ=Asia/Tokyo SOURCE_DATE_EPOCH=1 GIT_CONFIG_COUNT=1 "
          "GIT_CONFIG_KEY_0=tar.umask GIT_CONFIG_VALUE_0=0 deploy/make-dist.sh $D/two $DAEMON 2>&1 "
          "&& "
          "diff -r $D/one $D/two");
}

/* deploy/verify-dist.sh ends before it builds where a file is not the one that was released. */
static void expect_refused(const char *change, const char *says)
{
    setenv("CHANGE", change, 1);
    setenv("SAYS", says, 1);
    shell("rm -rf $D/changed && cp -r $D/one $D/changed && cd $D/changed && sh -c \"$CHANGE\" && "
          "cd $OLDPWD && ! deploy/verify-dist.sh $D/changed >$D/said 2>&1 && "
          "tail -n 1 $D/said | grep -F \"$SAYS\"");
}

TEST(changed_files_are_found)
{
    skip_without_a_commit();
    expect_refused("echo >>$(ls *.tar.gz)", "files differ from SHA256SUMS");
    expect_refused("echo >>$(ls *.provenance.json)", "files differ from SHA256SUMS");
    expect_refused("echo >>$(ls *.spdx.json); sha256sum attnd-* >SHA256SUMS",
                   "spdx.json is not the one of");
    expect_refused("rm SHA256SUMS", "has no attnd-VERSION.provenance.json and SHA256SUMS");
    expect_refused("sed -i /provenance/d SHA256SUMS", "SHA256SUMS has no sum of attnd-");
    expect_refused("for f in attnd-*; do cp $f attnd-0.0.${f#attnd-*.*.}; done",
                   "SHA256SUMS has no sum of attnd-0.0.");
}

/* Who gives a public key, by its path from where he is, is not content with a release without its
 * signature. The minisign of this test says what it is asked, and that the signature is not good.
 */
TEST(public_keys)
{
    skip_without_a_commit();
    shell("mkdir $D/minisign && printf '#!/bin/sh\\necho $* >>$D/asked; exit 1' "
          ">$D/minisign/minisign && chmod +x $D/minisign/minisign && touch $D/key.pub && "
          "cp -r $D/one $D/given && touch $D/given/key.pub\n"
          "verify=$PWD/deploy/verify-dist.sh && export PATH=$D/minisign:$PATH && cd $D\n"
          "refused() { ! $verify given $1 >said && tail -n 1 said | grep -F \"$2\"; }\n"
          "refused minisign:key.pub 'there is no SHA256SUMS.minisig' && "
          "touch given/SHA256SUMS.minisig && "
          "refused minisign:key.pub 'the signature is not of this key' && "
          "test \"$(cat asked)\" = \"-V -q -p $(realpath key.pub) -m SHA256SUMS\" && "
          "refused gpg:KEY 'expected minisign:FILE' && "
          "{ $verify nowhere 2>said; test $? = 2; }");
}

/* The statement has the program that was released, and each package that built it once. */
TEST(statement)
{
    skip_without_a_commit();
    shell("program=$(sha256sum <$DAEMON | cut -d ' ' -f 1) && commit=$(git rev-parse HEAD) && "
          "cd $D/one && grep -F '\"name\": \"attnd\"' *.provenance.json | grep -qF $program && "
          "grep -qF '\"gitCommit\": \"'$commit *.provenance.json && "
          "sed -n 's/.*\"name\": \"\\([^\"]*\\)\".*/\\1/p' *.provenance.json >$D/names && "
          "grep -qx gcc $D/names && grep -qx libmicrohttpd-dev $D/names && "
          "test -z \"$(sort $D/names | uniq -d)\"");
    if (system("test -x /usr/bin/python3") == 0)
        shell("/usr/bin/python3 -m json.tool $D/one/*.provenance.json >/dev/null");
}

TEST(signatures)
{
    skip_without("gnupg", "command -v gpg");
    skip_without_a_commit();
    shell("export GNUPGHOME=$D/ring DEBFULLNAME='A Maker' DEBEMAIL=maker@example.org && mkdir -m "
          "700 $GNUPGHOME && "
          "gpg --batch --quiet --passphrase '' --quick-generate-key releases@example.org 2>&1 && "
          "deploy/make-dist.sh $D/signed $DAEMON gpg:releases@example.org 2>&1 && "
          "gpg --verify $D/signed/SHA256SUMS.asc $D/signed/SHA256SUMS 2>&1 && "
          "grep -qF '\"id\": \"mailto:maker@example.org\"' $D/signed/*.provenance.json && "
          "sed -i s/attnd/other/ $D/signed/SHA256SUMS && "
          "! gpg --verify $D/signed/SHA256SUMS.asc $D/signed/SHA256SUMS 2>&1");
    shell("! deploy/make-dist.sh $D/bad $DAEMON pgp 2>$D/said && grep -F 'minisign:FILE or "
          "gpg:KEY' $D/said");
}

/* What is for others names who answers for it, as a whole address. */
TEST(maintainer)
{
    shell(
        "says() { ! env -u DEBFULLNAME -u DEBEMAIL \"$@\" >$D/said 2>&1 && grep -qF 'expected' "
        "$D/said; }\n"
        "says deploy/make-dist.sh $D/unnamed $DAEMON gpg:releases@example.org && "
        "says RELEASE=yes deploy/make-deb.sh $D/unnamed $DAEMON $DAEMON && test ! -e $D/unnamed && "
        "says DEBEMAIL=a@b.c deploy/maintainer.sh make '' && "
        "says DEBFULLNAME=A DEBEMAIL=a deploy/maintainer.sh make '' && "
        "test \"$(DEBFULLNAME='A B' DEBEMAIL=a@b.c deploy/maintainer.sh make yes)\" = 'A B "
        "<a@b.c>'");
}

/* A folder of the caller for what is made is not where a release is built anew. The make of this
 * test "builds" the daemon as the Makefile places it. */
TEST(build_elsewhere)
{
    skip_without_a_commit();
    shell("mkdir -p $D/bin && cat >$D/bin/make <<'END'\n"
          "#!/bin/sh\n"
          "while [ $# -gt 0 ]; do\n"
          "  case $1 in -C) cd $2 && shift ;; BUILD=*) BUILD=${1#BUILD=} ;; esac\n"
          "  shift\n"
          "done\n"
          "mkdir -p $BUILD && cp $DAEMON $BUILD/attnd\n"
          "END\n"
          "chmod +x $D/bin/make\n"
          "export BUILD=$D/elsewhere PATH=$D/bin:$PATH DAEMON=$(realpath $DAEMON)\n"
          "deploy/verify-dist.sh $D/one 2>&1 | tail -n 1 | grep -F 'is built from its sources' && "
          "deploy/check-reproducible.sh && test ! -e $BUILD");
}

ALL_TESTS(set_up, tear_down);
