/* SPDX-License-Identifier: Apache-2.0 */
/* tls_files.c - see tls_files.h. */
#include "tls_files.h"
#include "test.h"

#include "skip.h"

bool tls_files_possible(void)
{
    return system("command -v openssl >/dev/null 2>&1") == 0;
}

void tls_files_need(void)
{
    skip_without("openssl", "command -v openssl");
}

void tls_files_openssl(const char *directory, const char *format, ...)
{
    char *words = NULL, *command = NULL;
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&words, format, arguments) > 0);
    va_end(arguments);
    assert_true(asprintf(&command, "cd '%s' && openssl %s >openssl.log 2>&1", directory, words)
                > 0);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
    free(command);
    free(words);
}

void tls_files_make_server(const char *directory, const char *name, const char *key)
{
    tls_files_openssl(directory,
                      "req -x509 -newkey %s -nodes -days 30 -subj /CN=localhost "
                      "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout %s-key.pem "
                      "-out %s.pem",
                      key, name, name);
}

void tls_files_make_authority(const char *directory, const char *name)
{
    tls_files_openssl(directory,
                      "req -x509 -newkey " TLS_FILES_EC " -nodes -days 30 -subj '/CN=%s' "
                      "-keyout %s-key.pem -out %s.pem",
                      name, name, name);
}

void tls_files_make_client(const char *directory, const char *authority, const char *name,
                           const char *subject, const char *usage, int days)
{
    char *path = NULL;
    tls_files_openssl(directory,
                      "req -new -newkey " TLS_FILES_EC " -nodes -subj '%s' -keyout %s-key.pem "
                      "-out %s.csr",
                      subject, name, name);
    assert_true(asprintf(&path, "%s/%s.ext", directory, name) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "extendedKeyUsage=%s\nkeyUsage=digitalSignature\n", usage);
    fclose(file);
    free(path);
    tls_files_openssl(directory,
                      "x509 -req -in %s.csr -CA %s.pem -CAkey %s-key.pem -CAcreateserial -days %d "
                      "-extfile %s.ext -out %s.pem",
                      name, authority, authority, days, name, name);
}
