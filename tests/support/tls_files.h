/* SPDX-License-Identifier: Apache-2.0 */
/* tls_files.h - certificates and keys for tests of TLS, made by the openssl program. */
#ifndef TLS_FILES_H
#define TLS_FILES_H

#include <stdbool.h>

/* Whether openssl is installed. */
bool tls_files_possible(void);

/* Skips the running test if openssl is not installed. */
void tls_files_need(void);

/* Runs openssl with these words in a directory. Fails the test unless it exits with 0. */
void tls_files_openssl(const char *directory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes NAME.pem and NAME-key.pem: a certificate for localhost and 127.0.0.1 that has signed
 * itself. key is what -newkey takes: "rsa:2048", or "ec -pkeyopt ec_paramgen_curve:P-256". */
void tls_files_make_server(const char *directory, const char *name, const char *key);

/* Makes NAME.pem and NAME-key.pem: an authority. */
void tls_files_make_authority(const char *directory, const char *name);

/* Makes NAME.pem and NAME-key.pem: a certificate that the authority has signed. subject is
 * "/CN=team-a"; usage is "clientAuth" or "serverAuth"; it is valid from now for days, which may be
 * negative. */
void tls_files_make_client(const char *directory, const char *authority, const char *name,
                           const char *subject, const char *usage, int days);

#define TLS_FILES_EC "ec -pkeyopt ec_paramgen_curve:P-256"

#endif
