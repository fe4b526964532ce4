/* SPDX-License-Identifier: Apache-2.0 */
/* test_vex.c - what deploy/attnd.openvex.json says of the dependencies' known vulnerabilities: its
 * form by the specification of OpenVEX, what is fixed by Debian's changelogs, and what the
 * daemon does not call by the symbols that it imports. */
#include "daemon.h"
#include "shell.h"
#include "skip.h"
#include "test.h"

#include <cjson/cJSON.h>

static const char FILE_NAME[] = "deploy/attnd.openvex.json";
static cJSON *document;

static int read_document(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "cat %s", FILE_NAME);
    document = cJSON_Parse(shell(command));
    assert_non_null(document);
    return 0;
}

static int free_document(void **state)
{
    cJSON_Delete(document);
    return 0;
}

ALL_TESTS(read_document, free_document);

/* "" where there is no such text. */
static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(member) ? member->valuestring : "";
}

static const char *name_of(const cJSON *statement)
{
    return text_of(cJSON_GetObjectItemCaseSensitive(statement, "vulnerability"), "name");
}

static const cJSON *statements(void)
{
    return cJSON_GetObjectItemCaseSensitive(document, "statements");
}

/* The package's URL: pkg:deb/debian/NAME@VERSION?distro=debian-12. */
static const char *package_of(const cJSON *product)
{
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(product, "subcomponents");
    assert_string_equal(text_of(product, "@id"), "pkg:generic/attnd");
    assert_int_equal(cJSON_GetArraySize(parts), 1);
    return text_of(cJSON_GetArrayItem(parts, 0), "@id");
}

/* ------------------------------------------------------------------------ form -- */

static void expect_one_of(const char *value, const char *const *values, const char *name)
{
    while (*values && strcmp(*values, value) != 0)
        values++;
    if (!*values)
        fail_msg("%s: '%s'", name, value);
}

/* What a status asks for beside it. */
static void expect_status(const cJSON *statement)
{
    static const char *const STATUSES[] = { "not_affected", "affected", "fixed",
                                            "under_investigation", NULL };
    static const char *const REASONS[] = { "component_not_present",
                                           "vulnerable_code_not_present",
                                           "vulnerable_code_not_in_execute_path",
                                           "vulnerable_code_cannot_be_controlled_by_adversary",
                                           "inline_mitigations_already_exist",
                                           NULL };
    const char *status = text_of(statement, "status"), *name = name_of(statement);
    expect_one_of(status, STATUSES, name);
    if (strcmp(status, "not_affected") == 0) {
        expect_one_of(text_of(statement, "justification"), REASONS, name);
        assert_true(text_of(statement, "impact_statement")[0]);
    } else if (strcmp(status, "affected") == 0) {
        assert_true(text_of(statement, "action_statement")[0]);
    } else {
        assert_true(text_of(statement, "status_notes")[0]);
    }
}

TEST(every_statement_has_its_fields)
{
    const cJSON *statement, *product;
    assert_string_equal(text_of(document, "@context"), "https://openvex.dev/ns/v0.2.0");
    assert_true(text_of(document, "@id")[0] && text_of(document, "author")[0]);
    assert_int_equal(strlen(text_of(document, "timestamp")), strlen("2026-01-01T00:00:00Z"));
    assert_true(cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(document, "version")));
    assert_true(cJSON_GetArraySize(statements()) > 20);
    cJSON_ArrayForEach(statement, statements()) {
        const cJSON *products = cJSON_GetObjectItemCaseSensitive(statement, "products");
        int year, number;
        if (sscanf(name_of(statement), "CVE-%d-%d", &year, &number) != 2)
            fail_msg("a vulnerability is called '%s'", name_of(statement));
        expect_status(statement);
        assert_true(cJSON_GetArraySize(products) > 0);
        cJSON_ArrayForEach(product, products)
            assert_memory_equal(package_of(product), "pkg:deb/debian/", 15);
    }
}

/* ------------------------------------------------------------------------ fixed -- */

/* Whether the package is here in the version of its URL, with its changelog. */
static bool is_installed(const char *url, char *package, size_t size)
{
    char command[512];
    const char *at = strchr(url, '@');
    snprintf(package, size, "%.*s", (int)(at - url) - 15, url + 15);
    snprintf(command, sizeof command,
             "v=$(dpkg-query -W -f '${Version}' %s 2>/dev/null | sed 's/+/%%2B/g; s/:/%%3A/g'); "
             "[ \"$v\" = '%.*s' ] && [ -e /usr/share/doc/%s/changelog.Debian.gz ] && echo yes || :",
             package, (int)strcspn(at + 1, "?"), at + 1, package);
    return strcmp(shell(command), "yes\n") == 0;
}

TEST(changelogs_name_what_is_fixed)
{
    const cJSON *statement, *product;
    skip_without("dpkg", "command -v dpkg-query");
    cJSON_ArrayForEach(statement, statements()) {
        if (strcmp(text_of(statement, "status"), "fixed") != 0)
            continue;
        cJSON_ArrayForEach(product, cJSON_GetObjectItemCaseSensitive(statement, "products")) {
            char package[64], command[256];
            if (!is_installed(package_of(product), package, sizeof package))
                continue;
            snprintf(command, sizeof command,
                     "zcat /usr/share/doc/%s/changelog.Debian.gz | grep -c '%s\\b' || :", package,
                     name_of(statement));
            if (atoi(shell(command)) == 0)
                fail_msg("%s: the changelog of %s does not name it", name_of(statement), package);
        }
    }
}

/* ------------------------------------------------------------------- not called -- */

/* "attnd imports none of A, B* and C." in a text: none of these is a symbol that the daemon takes
 * from a library. Returns how many names there are. */
static int expect_not_imported(const char *text, const char *symbols, const char *name)
{
    static const char WORDS[] = "attnd imports none of ";
    const char *at = strstr(text, WORDS);
    int count = 0;
    if (!at)
        return 0;
    at += strlen(WORDS);
    for (size_t length; (length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789_"))
                        > 0;) {
        char symbol[80];
        const bool is_prefix = at[length] == '*';
        snprintf(symbol, sizeof symbol, "\n%.*s%s", (int)length, at, is_prefix ? "" : "\n");
        if (strstr(symbols, symbol))
            fail_msg("%s: attnd imports %.*s", name, (int)length, at);
        count++;
        at += length + is_prefix;
        if (strncmp(at, ", ", 2) != 0)
            break;
        at += 2;
    }
    return count;
}

TEST(the_daemon_does_not_call_what_it_says)
{
    char command[512];
    int count = 0;
    const cJSON *statement;
    snprintf(command, sizeof command,
             "echo; nm -D --undefined-only '%s' | awk '{ sub(/@.*/, \"\", $2); print $2 }'",
             daemon_program());
    char *symbols = strdup(shell(command));
    assert_non_null(strstr(symbols, "\ncrc32_combine\n"));
    cJSON_ArrayForEach(statement, statements()) {
        const char *impact = text_of(statement, "impact_statement");
        const int here = expect_not_imported(impact, symbols, name_of(statement));
        if (strstr(text_of(statement, "justification"), "execute_path"))
            assert_true(here > 0);
        count +=
            here
            + expect_not_imported(text_of(statement, "status_notes"), symbols, name_of(statement));
    }
    assert_true(count >= 10);
    free(symbols);
}

/* What the statements of DTLS and of crc32_combine() say of the sources. */
TEST(the_sources_are_as_it_says)
{
    assert_string_equal(shell("grep -rl GNUTLS_DATAGRAM server || :"), "");
    assert_string_equal(shell("grep -rhoE 'crc32_combine[a-z0-9_]*\\([^)]*\\)' server"),
                        "crc32_combine(check, block->check, (z_off_t)\n");
}
