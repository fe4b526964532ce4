/* SPDX-License-Identifier: Apache-2.0 */
/* test_readme.c - the commands that README.md and each page of examples/ show can be pasted, in
 * order, and answer what the pages show. pasted.h says how. */
#include "daemon.h"
#include "manifest.h"
#include "pasted.h"
#include "skip.h"
#include "test.h"

#include <glob.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAGES_MAX = 60 };

/* What the commands of a page need that a test cannot count on. */
static const struct {
    const char *file, *package, *present;
} needs[] = {
    { "examples/pooling.md", "php-cli", "command -v php" },
};

static struct pasted_page page;

static int start(void **state)
{
    pasted_start(state);
    pasted_read(&page, "README.md");
    return 0;
}

static int stop(void **state)
{
    pasted_free(&page);
    return pasted_stop(state);
}

/* The request that `make run` prints is the first one that README.md shows, and is answered at
 * once, because it is printed when the daemon is ready. SIGTERM to the daemon ends make with its
 * status. */
static void test_printed_request(void **state)
{
    int i = 0;
    skip_without("curl", "command -v curl");
    while (i < page.block_count && !pasted_is_command(&page, i))
        i++;
    assert_true(i < page.block_count);
    char *printed = pasted_shell(
        "rm -f build/printed\n"
        "make --no-print-directory serve LISTEN=127.0.0.1:8443 >build/printed 2>build/log &\n"
        "make=$!\n"
        "until grep -qs '^curl ' build/printed; do sleep 0.1; kill -0 $make; done\n"
        "page=$(grep '^http://' build/printed) request=$(grep '^curl ' build/printed)\n"
        "curl -sSf -o /dev/null \"$page\" && bash -c \"$request --fail\" >build/answer\n"
        "kill $(cat /proc/$make/task/$make/children) && wait $make\n"
        "cat build/printed");
    char *first = strdup(page.blocks[i].text);
    char *request = strstr(printed, "curl "), *shown = pasted_behind_address(first);
    assert_non_null(request);
    assert_non_null(shown);
    /* The addresses differ. */
    request = pasted_squeezed(strstr(request, "/v1/"));
    assert_string_equal(pasted_squeezed(shown), request);
    free(first);
    free(printed);
}

/* Where another server has the port, make says so before it builds anything, and how to take
 * another one. It prints no request, which would go to that server. */
static void test_port_taken(void **state)
{
    for (int i = 0; i < 2; i++) {
        char command[200];
        snprintf(command, sizeof command,
                 "if make %s LISTEN=127.0.0.1:8080 >build/taken 2>&1; then exit 9; fi\n"
                 "cat build/taken; ls build",
                 i == 0 ? "serve" : "run");
        char *said = pasted_shell(command);
        if (!strstr(said, " is taken") || !strstr(said, "LISTEN=127.0.0.1:") || strstr(said, "curl")
            || strstr(said, "\ncc\n"))
            fail_msg("%s\n%s", command, said);
        free(said);
    }
}

/* :PORT is that port of ::1 too, where another server may be alone. */
static void test_port_taken_of_other_loopback(void **state)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    socklen_t size = sizeof address;
    const int one = 1, other = socket(AF_INET6, SOCK_STREAM, 0);
    if (other < 0 || setsockopt(other, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) != 0
        || bind(other, (const struct sockaddr *)&address, size) != 0) {
        if (other >= 0)
            close(other);
        print_message("    there is no ::1 here\n");
        return;
    }
    assert_int_equal(listen(other, 8), 0);
    assert_int_equal(getsockname(other, (struct sockaddr *)&address, &size), 0);
    const int port = ntohs(address.sin6_port);
    static const char *const hosts[] = { "", "localhost" };
    for (int i = 0; i < 2; i++) {
        char command[100], words[100];
        snprintf(command, sizeof command, "if make serve LISTEN=%s:%d 2>&1; then exit 9; fi",
                 hosts[i], port);
        snprintf(words, sizeof words, "[::1]:%d is taken", port);
        char *said = pasted_shell(command);
        if (!strstr(said, words) || strstr(said, "not started"))
            fail_msg("%s\n%s", command, said);
        free(said);
    }
    close(other);
}

/* The port that make advises to take is another one than the one that is taken. */
static void test_other_port(void **state)
{
    const int one = 1, socket_of_18080 = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(18080),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_true(socket_of_18080 >= 0);
    setsockopt(socket_of_18080, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    /* Where these fail, somebody else serves there, which is as good. */
    if (bind(socket_of_18080, (const struct sockaddr *)&address, sizeof address) == 0)
        listen(socket_of_18080, 1);
    char *said = pasted_shell("if make serve LISTEN=127.0.0.1:18080; then exit 9; fi");
    close(socket_of_18080);
    if (!strstr(said, "127.0.0.1:18080 is taken") || !strstr(said, "make serve LISTEN=127.0.0.1:")
        || strstr(said, "LISTEN=127.0.0.1:18080"))
        fail_msg("%s", said);
    free(said);
}

/* With keys make says where the printed request takes its key from, and the first key of
 * server/API_ACCESS.md may ask it. */
static void test_key_of_request(void **state)
{
    skip_without("curl", "command -v curl");
    char *said = pasted_shell(
        "grep -m 1 '^build/attnd key new' server/API_ACCESS.md >build/new-key\n"
        "rm -f build/keys build/web.key && . build/new-key\n"
        "rm -f build/printed\n"
        "make serve LISTEN=127.0.0.1:8443 KEYS=build/keys >build/printed 2>build/log &\n"
        "make=$!\n"
        "until grep -qs '^curl ' build/printed; do sleep 0.1; kill -0 $make; done\n"
        "grep -A 1 '^export KEY=' build/printed\n"
        "export KEY=$(cat build/web.key)\n"
        "request=$(grep '^curl ' build/printed)\n"
        "bash -c \"$request --fail\"\n"
        "kill $(cat /proc/$make/task/$make/children) && wait $make\n"
        "rm build/keys build/web.key");
    assert_non_null(strstr(said, "attnd key new"));
    assert_non_null(strstr(said, "\ncurl "));
    assert_non_null(strstr(said, "\"weights\""));
    free(said);
}

/* `make run MODELS=DIR` serves that folder as it is. The printed request lists what is in it. */
static void test_own_models(void **state)
{
    skip_without("curl", "command -v curl");
    char *said = pasted_shell(
        "mkdir -p build/own && cp -r examples/models/stories260K build/own/mine\n"
        "rm -f build/printed\n"
        "make serve LISTEN=127.0.0.1:8443 MODELS=build/own >build/printed 2>build/log &\n"
        "make=$!\n"
        "until grep -qs '^curl ' build/printed; do sleep 0.1; kill -0 $make; done\n"
        "request=$(grep '^curl ' build/printed)\n"
        "bash -c \"$request --fail\" && cat build/printed\n"
        "page=$(grep '^http://' build/printed)\n"
        "curl -sS -o /dev/null -w 'put %{http_code}' -X PUT -d '{}' ${page}v1/models/other\n"
        "kill $(cat /proc/$make/task/$make/children) && wait $make\n"
        "ls build/own && rm -r build/own");
    if (!strstr(said, "\"mine\"") || strstr(said, "stories260K") || strstr(said, "put 2")
        || strstr(said, "other"))
        fail_msg("%s", said);
    free(said);
}

/* What makes a service of what is installed is said, unless it is a package's. */
static void test_install_names_the_service(void **state)
{
    static const char service[] = "systemctl enable --now attnd";
    char *here = pasted_shell("make -n install"),
         *package = pasted_shell("make -n install DESTDIR=x");
    assert_non_null(strstr(here, service));
    assert_null(strstr(package, service));
    free(here), free(package);
}

/* make says what is wrong with LISTEN, KEYS or MODELS before it builds anything. */
static void test_listen_refused(void **state)
{
    static const struct {
        const char *given, *said;
    } cases[] = {
        { "LISTEN=18088", "'18088' came; expected " },
        { "LISTEN=18088", "LISTEN=:18088" },
        { "LISTEN=127.0.0.1:", "'127.0.0.1:' came; expected " },
        { "LISTEN=example.org:9303", "'example.org:9303' came; expected " },
        { "LISTEN=:99999", "':99999' came; expected " },
        { "LISTEN=unix:", "'unix:' came; expected " },
        { "LISTEN=0.0.0.0:9303", "KEYS=FILE" },
        { "LISTEN=[::]:9303", "KEYS=FILE" },
        { "LISTEN=:9303 KEYS=nowhere", "'nowhere'" },
        { "LISTEN=:9303 MODELS=nowhere", "'nowhere'" },
        { "LISTEN=:9303 MODELS=examples/models/stories260K/model.safetensors",
          "the folder that it is in: make" },
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        char command[200];
        snprintf(command, sizeof command,
                 "if make %s BUILD=build/none %s >build/refused 2>&1; then exit 9; fi\n"
                 "cat build/refused; ls build",
                 i % 2 == 0 ? "serve" : "run", cases[i / 2].given);
        char *said = pasted_shell(command);
        if (!strstr(said, cases[i / 2].said) || strstr(said, " is taken")
            || strstr(said, "\nnone\n"))
            fail_msg("%s\n%s", command, said);
        free(said);
    }
    free(pasted_shell("for listen in :9303 localhost:9303 [::1]:9303 [::ffff:127.0.0.1]:9303 "
                      "unix:/run/attnd.sock; do deploy/check-run.sh run $listen || exit; done"));
}

/* A daemon that does not start has no address to be asked at. */
static void test_nothing_printed_without_daemon(void **state)
{
    char *said = pasted_shell(
        "echo wrong >build/no-keys\n"
        "if make serve LISTEN=127.0.0.1:8443 KEYS=build/no-keys 2>&1; then exit 9; fi");
    assert_non_null(strstr(said, "no-keys"));
    assert_null(strstr(said, "curl"));
    free(said);
}

/* What stands behind `make run` in its block waits for the daemon's end: a block that is pasted
 * whole has nothing behind it. */
static void test_run_is_alone(void **state)
{
    const int run = pasted_run_block(&page);
    assert_true(run >= 0);
    const char *newline = strchr(page.blocks[run].text, '\n');
    assert_true(!newline || !newline[1]);
}

/* The printed request goes to the address where the daemon listens, whatever --listen says, and so
 * does the printed address of the explorer. Clients may put models there only if no other machine
 * can connect. */
static void test_printed_address(void **state)
{
    static const struct {
        const char *listen, *address;
        bool takes_models;
    } cases[] = {
        { "127.0.0.1:9303", "http://127.0.0.1:9303/", true },
        { ":9303", "http://127.0.0.1:9303/", true },
        { "localhost:9303", "http://127.0.0.1:9303/", true },
        { "localhost", "http://127.0.0.1:8080/", true },
        { "[::1]:9303", "http://[::1]:9303/", true },
        { "192.0.2.1:9303", "http://192.0.2.1:9303/", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char command[100], explorer[100], request[100];
        snprintf(command, sizeof command, "make -n serve LISTEN=%s", cases[i].listen);
        snprintf(explorer, sizeof explorer, "'%s'", cases[i].address);
        snprintf(request, sizeof request, "%sv1/", cases[i].address);
        char *lines = pasted_shell(command);
        const bool takes_models = strstr(lines, "--model-control explicit") != NULL;
        if (!strstr(lines, explorer) || !strstr(lines, request)
            || takes_models != cases[i].takes_models)
            fail_msg("%s:\n%s", command, lines);
        free(lines);
    }
}

/* The memory that README.md says is what the daemon takes. It was seen with pages of 4 KiB. */
static void test_memory_said(void **state)
{
    static const char words[] = "it takes about ";
    struct daemon small;
    if (sysconf(_SC_PAGESIZE) != 4096
        || system("grep -qs '\\[always\\]' /sys/kernel/mm/transparent_hugepage/enabled") == 0) {
        print_message("    memory comes in larger pages here\n");
        return;
    }
    char *text = manifest_file_text("README.md"), *said = strstr(text, words);
    assert_non_null(said);
    const double bytes = 1e6 * strtod(said + strlen(words), NULL);
    free(text);
    daemon_start_with(&small, "--models", "examples/models", "--workers", "2", NULL);
    const double taken = (double)daemon_memory_bytes(&small);
    daemon_stop(&small);
    if (!(taken > 0.75 * bytes && taken < 1.25 * bytes))
        fail_msg("README.md says %g bytes, the daemon takes %g", bytes, taken);
}

static void test_commands(void **state)
{
    skip_without("curl", "command -v curl");
    assert_true(pasted_all(&page) > 0);
}

/* A page of examples/, whose path is the state. */
static void test_page(void **state)
{
    const char *file = *state;
    struct pasted_page example;
    skip_without("curl", "command -v curl");
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (strcmp(needs[i].file, file) == 0)
            skip_without(needs[i].package, needs[i].present);
    pasted_read(&example, file);
    pasted_all(&example);
    pasted_free(&example);
}

static void test_nothing_changes_outside_build(void **state)
{
    char *files = pasted_files();
    assert_string_equal(files, pasted_files_before());
    free(files);
}

/* The pages of examples/ and of the folders in it. */
static void find_pages(glob_t *pages)
{
    static const char *const patterns[] = { "examples/*.md", "examples/*/*.md",
                                            "examples/*/*/*.md" };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        const int status = glob(patterns[i], i > 0 ? GLOB_APPEND : 0, NULL, pages);
        if ((status != 0 && status != GLOB_NOMATCH) || pages->gl_pathc > PAGES_MAX) {
            fprintf(stderr, "%s: status %d, %zu pages\n", patterns[i], status, pages->gl_pathc);
            exit(1);
        }
    }
}

/* Each page is a test, so that one whose language is missing is skipped alone. */
int main(void)
{
    struct CMUnitTest tests[PAGES_MAX + 14] = {
        cmocka_unit_test(test_printed_request),
        cmocka_unit_test(test_port_taken),
        cmocka_unit_test(test_port_taken_of_other_loopback),
        cmocka_unit_test(test_other_port),
        cmocka_unit_test(test_listen_refused),
        cmocka_unit_test(test_key_of_request),
        cmocka_unit_test(test_own_models),
        cmocka_unit_test(test_install_names_the_service),
        cmocka_unit_test(test_nothing_printed_without_daemon),
        cmocka_unit_test(test_run_is_alone),
        cmocka_unit_test(test_printed_address),
        cmocka_unit_test(test_memory_said),
        cmocka_unit_test(test_commands),
    };
    size_t count = 0;
    glob_t pages = { 0 };
    while (tests[count].name)
        count++;
    find_pages(&pages);
    for (size_t i = 0; i < pages.gl_pathc; i++)
        tests[count++] = (struct CMUnitTest){ .name = pages.gl_pathv[i],
                                              .test_func = test_page,
                                              .initial_state = pages.gl_pathv[i] };
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_nothing_changes_outside_build);
    const int failed = _cmocka_run_group_tests("pages", tests, count, start, stop);
    globfree(&pages);
    return failed;
}
