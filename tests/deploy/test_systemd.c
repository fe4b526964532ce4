/* SPDX-License-Identifier: Apache-2.0 */
/* test_systemd.c - the files in deploy/systemd: systemd knows every directive, and the exposure of
 * the service, by systemd's own count (systemd.exec(5), "Sandboxing"), is what the page says. */
#include "daemon.h"
#include "manifest.h"
#include "skip.h"
#include "test.h"

#include <ctype.h>

#define UNITS "deploy/systemd/"

enum { COMMAND_BYTES = 4096, OUTPUT_BYTES = 1 << 16 };

static char *folder; /* the units, with the path of the daemon that is tested */

/* What the command writes. The caller frees it. */
static char *output_of(const char *form, ...) __attribute__((format(printf, 1, 2)));
static char *output_of(const char *form, ...)
{
    char command[COMMAND_BYTES], *text = malloc(OUTPUT_BYTES);
    va_list list;
    assert_non_null(text);
    va_start(list, form);
    assert_true(vsnprintf(command, sizeof command, form, list) < (int)sizeof command);
    va_end(list);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    text[fread(text, 1, OUTPUT_BYTES - 1, stream)] = '\0';
    pclose(stream);
    return text;
}

/* Lays the units out as they are installed, with one drop-in, or none. */
static void lay_out(const char *drop_in)
{
    folder = daemon_directory_create();
    char *said = output_of("sed \"s|/usr/local/bin/attnd|$(realpath %s)|\" " UNITS
                           "attnd.service >%s/attnd.service && cp " UNITS "attnd.socket %s 2>&1",
                           daemon_program(), folder, folder);
    assert_string_equal(said, "");
    free(said);
    if (drop_in) {
        said = output_of("mkdir %s/attnd.service.d && cp " UNITS "%s %s/attnd.service.d 2>&1",
                         folder, drop_in, folder);
        assert_string_equal(said, "");
        free(said);
    }
}

static void clear(void)
{
    daemon_directory_remove(folder);
    folder = NULL;
}

/* verify also complains about units of the machine itself, which are not ours. */
static void check(const char *drop_in, double exposure)
{
    static const char BEFORE[] = "Overall exposure level for attnd.service: ";
    skip_without("systemd", "systemd-analyze --version");
    lay_out(drop_in);
    char *said = output_of("systemd-analyze verify %s/attnd.service %s/attnd.socket 2>&1 |"
                           " grep -F attnd",
                           folder, folder);
    assert_string_equal(said, "");
    free(said);
    said = output_of("systemd-analyze security --offline=true --no-pager %s/attnd.service 2>&1",
                     folder);
    const char *found = strstr(said, BEFORE);
    if (!found || fabs(strtod(found + strlen(BEFORE), NULL) - exposure) > 0.01)
        fail_msg("%s: not an exposure of %.1f:\n%s", drop_in ? drop_in : "alone", exposure, said);
    free(said);
    clear();
}

TEST(service)
{
    check(NULL, 1.2);
}

TEST(with_socket)
{
    check("socket.conf", 0.5);
}

TEST(with_access)
{
    check("access.conf", 1.2);
}

/* The daemon has a flag for each variable of access.conf. */
TEST(variables_are_flags)
{
    struct daemon_result help = daemon_command((const char *const[]){ "--help", NULL }, NULL);
    char *text = manifest_file_text(UNITS "access.conf");
    int count = 0;
    for (const char *c = text; (c = strstr(c, "=ATTND_")); count++) {
        char flag[64] = "  --";
        size_t length = strlen(flag);
        for (c += strlen("=ATTND_"); *c != '=' && length < sizeof flag - 2; c++)
            flag[length++] = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
        flag[length] = ' ';
        if (!strstr(help.output, flag))
            fail_msg("the daemon has no%s", flag);
    }
    assert_int_equal(count, 4);
    free(text);
    daemon_result_free(&help);
}

/* A daemon without a network of its own is told of no address, whatever other files say. */
TEST(sockets_alone)
{
    char *text = manifest_file_text(UNITS "socket.conf");
    assert_non_null(strstr(text, "\nPrivateNetwork=yes\n"));
    assert_non_null(strstr(text, "\nUnsetEnvironment=ATTND_LISTEN ATTND_ADMIN_LISTEN\n"));
    free(text);
}

/* What the service runs beside the daemon is there in every Debian, the smallest too: dash is,
 * procps with /bin/kill is not. The command of a reload makes the daemon read its models again. */
TEST(reload)
{
    static const char BEFORE[] = "\nExecReload=";
    char *text = manifest_file_text(UNITS "attnd.service"), number[16];
    char *command = strstr(text, BEFORE);
    assert_non_null(command);
    command += strlen(BEFORE);
    command[strcspn(command, "\n")] = '\0';
    assert_memory_equal(command, "/bin/sh -c ", 11);
    assert_null(strchr(command + 11, '/'));
    struct daemon server;
    daemon_start(&server, NULL);
    snprintf(number, sizeof number, "%d", (int)server.pid);
    setenv("MAINPID", number, 1);
    assert_int_equal(system(command), 0);
    free(daemon_log_with(&server, "models read again"));
    daemon_stop(&server);
    unsetenv("MAINPID");
    free(text);
}
