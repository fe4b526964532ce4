/* SPDX-License-Identifier: Apache-2.0 */
/* test_unix_sockets.c - the file of a listening Unix socket: who makes, replaces and removes it.
 *
 * test_unix_clients.c has what clients of such a socket get. */
#include "base/unix_address.h"
#include "daemon.h"
#include "test.h"
#include "unix_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 256 };

static char *folder;
static char path[TEXT_BYTES], listen_text[TEXT_BYTES + 8];
static struct daemon server, other;

static int begin(void **state)
{
    folder = daemon_directory_create();
    snprintf(path, sizeof path, "%s/attnd.sock", folder);
    snprintf(listen_text, sizeof listen_text, "unix:%s", path);
    return 0;
}

static int end(void **state)
{
    daemon_kill(&server);
    daemon_kill(&other);
    daemon_directory_remove(folder);
    return 0;
}

/* Starts the daemon on the socket, and on a port by which the test sees that it is ready. */
static void start_at(struct daemon *daemon, const char *listen, const char *flag)
{
    daemon_start_with(daemon, "--listen", listen, flag, NULL);
}

static void start(struct daemon *daemon)
{
    start_at(daemon, listen_text, NULL);
}

static void assert_answers(const char *name)
{
    char *answer =
        unix_client_ask(name, "POST", "/v1/attention", "{\"model\":\"demo\",\"query\":[[1,0,0]]}");
    if (unix_client_status(answer) != 200 || !strstr(answer, "\"context\""))
        fail_msg("%s answers %s", name, answer);
    free(answer);
}

static struct stat status_of(const char *file)
{
    struct stat status;
    if (lstat(file, &status) != 0)
        fail_msg("%s: %s", file, strerror(errno));
    return status;
}

static bool is_there(const char *file)
{
    struct stat status;
    return lstat(file, &status) == 0;
}

/* The daemon does not start, with a line that has the words; nor does --check-config take it. */
static void expect_refused(const char *listen, const char *flag, const char *words)
{
    for (int checks = 0; checks < 2; checks++) {
        const char *const arguments[] = { "--listen", listen, checks ? "--check-config" : flag,
                                          checks ? flag : NULL, NULL };
        struct daemon_result result = daemon_command(arguments, NULL);
        if (result.exit_code != 1 || !strstr(result.errors, words))
            fail_msg("%s ended with %d, without \"%s\": %s", listen, result.exit_code, words,
                     result.errors);
        daemon_result_free(&result);
    }
}

/* A socket that is bound to the path, listening or not. */
static int bound_socket(int type, bool listens)
{
    struct sockaddr_un address;
    const socklen_t size = unix_address(&address, path);
    const int made = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(bind(made, (const struct sockaddr *)&address, size), 0);
    if (listens)
        assert_int_equal(listen(made, 8), 0);
    return made;
}

/* ------------------------------------------------------------------------ tests -- */

TEST(mode)
{
    static const struct {
        const char *flag;
        mode_t mode;
    } CASES[] = {
        { NULL, 0660 },
        { "--unix-mode=0600", 0600 },
        { "--unix-mode=666", 0666 },
        { "--unix-mode=0", 0 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        start_at(&server, listen_text, CASES[i].flag);
        const struct stat status = status_of(path);
        assert_true(S_ISSOCK(status.st_mode));
        assert_int_equal(status.st_mode & 07777, CASES[i].mode);
        daemon_stop(&server);
        assert_false(is_there(path));
    }
    static const char *const BAD[] = { "0888", "rw", "1777", "-1", "0x1ff", "660 " };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "--unix-mode=%s", BAD[i]);
        expect_refused(listen_text, flag, "expected octal digits as in 0660, up to 0777");
    }
}

TEST(owner)
{
    char flag[64];
    snprintf(flag, sizeof flag, "--unix-owner=%d:%d", (int)getuid(), (int)getgid());
    start_at(&server, listen_text, flag);
    assert_int_equal(status_of(path).st_uid, getuid());
    daemon_stop(&server);
    expect_refused(listen_text, "--unix-owner=nobody-of-that-name", "there is no user");
    expect_refused(listen_text, "--unix-owner=:nobody-of-that-name", "there is no group");
    expect_refused(listen_text, "--unix-owner=:", "--unix-owner");
    expect_refused(listen_text, "--unix-owner=", "--unix-owner");
    assert_false(is_there(path));
    if (getuid() != 0) {
        print_message("    not root: no file can be given away\n");
        return;
    }
    static const struct {
        const char *flag;
        uid_t user;
        gid_t group;
    } CASES[] = { { "--unix-owner=4321:8765", 4321, 8765 },
                  { "--unix-owner=4321", 4321, 0 },
                  { "--unix-owner=:8765", 0, 8765 },
                  { "--unix-owner=root:root", 0, 0 } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        start_at(&server, listen_text, CASES[i].flag);
        const struct stat status = status_of(path);
        assert_int_equal(status.st_uid, CASES[i].user);
        assert_int_equal(status.st_gid, CASES[i].group);
        assert_int_equal(status.st_mode & 07777, 0660);
        daemon_stop(&server);
    }
}

/* A socket that a killed daemon left, and one that was never listened on, are replaced. */
TEST(stale_is_replaced)
{
    start(&server);
    daemon_kill(&server);
    assert_true(is_there(path));
    start(&server);
    assert_answers(path);
    daemon_stop(&server);
    assert_false(is_there(path));
    close(bound_socket(SOCK_STREAM, false));
    assert_true(is_there(path));
    start(&server);
    assert_answers(path);
    daemon_stop(&server);
}

static void expect_listens(const char *listen)
{
    struct daemon_result result =
        daemon_command((const char *const[]){ "--listen", listen, NULL }, NULL);
    if (result.exit_code != 1 || !strstr(result.errors, "something already listens there"))
        fail_msg("%s ended with %d: %s", listen, result.exit_code, result.errors);
    daemon_result_free(&result);
}

/* A second daemon leaves the first alone; --check-config is content beside a daemon that runs. */
TEST(live_is_left)
{
    start(&server);
    const ino_t inode = status_of(path).st_ino;
    expect_listens(listen_text);
    struct daemon_result checked = daemon_command(
        (const char *const[]){ "--listen", listen_text, "--check-config", NULL }, NULL);
    assert_int_equal(checked.exit_code, 0);
    daemon_result_free(&checked);
    assert_int_equal(status_of(path).st_ino, inode);
    assert_answers(path);
    daemon_stop(&server);

    const int foreign = bound_socket(SOCK_STREAM, true);
    expect_listens(listen_text);
    assert_true(is_there(path));
    close(foreign);
}

/* What is no socket of this kind stays as it is. */
TEST(foreign_files_stay)
{
    static const char WORDS[] = "what somebody wrote";
    daemon_directory_write(folder, "attnd.sock", WORDS, sizeof WORDS - 1);
    expect_refused(listen_text, NULL, "not a socket");
    assert_int_equal(status_of(path).st_size, sizeof WORDS - 1);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(symlink("/dev/null", path), 0);
    expect_refused(listen_text, NULL, "not a socket");
    assert_true(S_ISLNK(status_of(path).st_mode));
    assert_int_equal(unlink(path), 0);

    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(listen_text, NULL, "not a socket");
    assert_int_equal(rmdir(path), 0);

    const int datagrams = bound_socket(SOCK_DGRAM, false);
    expect_refused(listen_text, NULL, "of another kind");
    assert_true(is_there(path));
    close(datagrams);
}

/* A daemon removes the file at its end only if the file is still the one that it made. */
TEST(only_its_own_is_removed)
{
    char moved[TEXT_BYTES + 8];
    snprintf(moved, sizeof moved, "%s.moved", path);
    start(&server);
    assert_int_equal(rename(path, moved), 0);
    start(&other);
    assert_answers(path);
    assert_answers(moved);
    const ino_t inode = status_of(path).st_ino;
    daemon_stop(&server);
    assert_int_equal(status_of(path).st_ino, inode);
    assert_answers(path);
    daemon_stop(&other);
    assert_false(is_there(path));
    assert_int_equal(unlink(moved), 0);
}

/* The number of the logs in the folder that have the words. */
static int logs_with(const char *words)
{
    char command[2 * TEXT_BYTES];
    int count = -1;
    snprintf(command, sizeof command, "grep -l '%s' '%s'/log* | wc -l", words, folder);
    FILE *said = popen(command, "r");
    assert_non_null(said);
    assert_int_equal(fscanf(said, "%d", &count), 1);
    pclose(said);
    return count;
}

/* Of several daemons that start at once over a stale socket, exactly one listens in the end. */
TEST(one_of_many_starts)
{
    enum { DAEMONS = 6 };
    char command[4 * TEXT_BYTES];
    close(bound_socket(SOCK_STREAM, false));
    snprintf(command, sizeof command,
             "for i in 1 2 3 4 5 6; do env -i '%s' --listen '%s' >'%s/log'$i 2>&1 & done",
             daemon_program(), listen_text, folder);
    assert_int_equal(system(command), 0);
    const double until = daemon_now() + 20 * daemon_slowness();
    while (logs_with("ready ms") + logs_with("already listens") < DAEMONS && daemon_now() < until)
        daemon_pause(0.05);
    assert_int_equal(logs_with("ready ms"), 1);
    assert_int_equal(logs_with("already listens"), DAEMONS - 1);
    assert_answers(path);
    /* The one that listens: asked for the process at the other end. */
    struct ucred peer;
    socklen_t size = sizeof peer;
    const int client = unix_client_connect(path);
    assert_int_equal(getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
    close(client);
    assert_int_equal(kill(peer.pid, SIGTERM), 0);
    for (int i = 0; i < 500 && is_there(path); i++)
        daemon_pause(0.01 * daemon_slowness());
    assert_false(is_there(path));
}

TEST(names)
{
    char name[TEXT_BYTES], listen[TEXT_BYTES + 8];
    memset(name, 'x', sizeof name);
    name[0] = '/';
    name[108] = '\0';
    snprintf(listen, sizeof listen, "unix:%s", name);
    expect_refused(listen, NULL, "at most 107 bytes");
    name[0] = '@';
    snprintf(listen, sizeof listen, "unix:%s", name);
    expect_refused(listen, NULL, "at most 107 bytes");
    static const char *const BAD[] = { "unix:", "unix:@", "unix:/", "unix:attnd.sock", "unix" };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        expect_refused(BAD[i], NULL, "expected a");
    expect_refused("unix:/nowhere-at-all/attnd.sock", NULL, "No such file or directory");
    char both[2 * TEXT_BYTES + 32];
    snprintf(both, sizeof both, "--listen=%s", listen_text);
    expect_refused(listen_text, both, "the same socket");

    /* 107 bytes, with what tells this run from others in front. */
    snprintf(name, sizeof name, "@attnd-test-%d-", (int)getpid());
    memset(name + strlen(name), 'y', 107 - strlen(name));
    name[107] = '\0';
    snprintf(listen, sizeof listen, "unix:%s", name);
    start_at(&server, listen, NULL);
    assert_answers(name);
    expect_listens(listen);
    assert_answers(name);
    daemon_stop(&server);
    assert_int_equal(unix_client_connect(name), -1);
}

/* Without a TCP address nothing but the file is listened on, and without keys that is allowed. */
TEST(health)
{
    char variable[TEXT_BYTES + 24];
    snprintf(variable, sizeof variable, "ATTND_LISTEN=%s", listen_text);
    start(&server);
    for (int by_variable = 0; by_variable < 2; by_variable++) {
        const char *const arguments[] = { "health", by_variable ? NULL : listen_text, NULL };
        const char *const environment[] = { by_variable ? variable : NULL, NULL };
        struct daemon_result result = daemon_command(arguments, environment);
        if (result.exit_code != 0)
            fail_msg("health of %s: %s", listen_text, result.errors);
        daemon_result_free(&result);
    }
    daemon_stop(&server);
    struct daemon_result result =
        daemon_command((const char *const[]){ "health", listen_text, NULL }, NULL);
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, path));
    daemon_result_free(&result);
}

EACH_TEST(begin, end);
