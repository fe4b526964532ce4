/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls_identity.c - see http_tls_identity.h.
 *
 * A client may go on with an earlier session by a ticket, and no certificate is sent then. The key
 * of the tickets belongs to the identity: after the certificate has changed, every client sees the
 * new one. Where clients are asked for certificates there are no tickets, so each handshake checks
 * the client's certificate anew. */
#include "http/http_tls_identity.h"

#include "telemetry/log.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 1 << 20, NAME_BYTES_MAX = 256, SERIAL_BYTES_MAX = 20 };

struct http_tls_identity {
    _Atomic int holder_count;
    gnutls_certificate_credentials_t credentials;
    gnutls_datum_t ticket_key;
    bool asks_clients;

    /* For the log. */
    char file[NAME_BYTES_MAX], name[NAME_BYTES_MAX];
    char serial[2 * SERIAL_BYTES_MAX + 1];
    time_t expires;
};

/* ------------------------------------------------------------------- files -- */

/* One file that a flag names. */
struct source {
    const char *flag, *path;
    bool is_secret;
    gnutls_datum_t text; /* malloc'd, ended by NUL */
};

static bool refuse(const struct source *source, const char *reason, struct fault *fault)
{
    return fault_set(fault, FAULT_OPTION, "%s %s: %s", source->flag, source->path, reason);
}

/* As access_keys.c does with the file of keys. A Secret of Kubernetes that is mounted with its
 * default mode, 0644, may be read by others in a container where there are none. */
static bool check_mode(const struct source *source, unsigned mode, struct fault *fault)
{
    if (mode & S_IWOTH)
        return fault_set(fault, FAULT_OPTION,
                         "%s %s: others may write it (mode %04o); expected none to, chmod o-w",
                         source->flag, source->path, mode);
    if (mode & S_IROTH)
        log_line(LOG_WARNING, "key of TLS readable by others", LOG_STRING("file", source->path),
                 LOG_STRING("advice", "chmod o-r"));
    return true;
}

static bool read_open(struct source *source, int file, struct fault *fault)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return refuse(source, strerror(errno), fault);
    if (!S_ISREG(status.st_mode) || status.st_size > FILE_BYTES_MAX)
        return refuse(source, "is not a regular file of at most 1 MiB", fault);
    if (source->is_secret && !check_mode(source, status.st_mode & 07777, fault))
        return false;
    source->text.data = malloc((size_t)status.st_size + 1);
    if (!source->text.data)
        return fault_no_memory(fault);
    size_t used = 0;
    ssize_t some;
    while ((some = read(file, source->text.data + used, (size_t)status.st_size - used)) > 0)
        used += (size_t)some;
    if (some < 0)
        return refuse(source, strerror(errno), fault);
    source->text.data[used] = '\0';
    source->text.size = (unsigned)used;
    return true;
}

static bool read_source(struct source *source, struct fault *fault)
{
    const int file = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return refuse(source, strerror(errno), fault);
    const bool is_read = read_open(source, file, fault);
    close(file);
    return is_read;
}

static void free_source(struct source *source)
{
    if (source->text.data)
        gnutls_memset(source->text.data, 0, source->text.size);
    free(source->text.data);
}

/* ------------------------------------------------------------ certificates -- */

static bool can_sign(int algorithm)
{
    switch (algorithm) {
    case GNUTLS_PK_RSA:
    case GNUTLS_PK_RSA_PSS:
    case GNUTLS_PK_ECDSA:
    case GNUTLS_PK_EDDSA_ED25519:
    case GNUTLS_PK_EDDSA_ED448:
        return true;
    default:
        return false;
    }
}

static void describe(struct http_tls_identity *identity, gnutls_x509_crt_t certificate)
{
    unsigned char serial[SERIAL_BYTES_MAX];
    size_t serial_size = sizeof serial, name_size = sizeof identity->name;
    if (gnutls_x509_crt_get_serial(certificate, serial, &serial_size) == 0)
        for (size_t i = 0; i < serial_size; i++)
            snprintf(identity->serial + 2 * i, 3, "%02X", serial[i]);
    if (gnutls_x509_crt_get_dn(certificate, identity->name, &name_size) != 0)
        identity->name[0] = '\0';
    identity->expires = gnutls_x509_crt_get_expiration_time(certificate);
}

static bool check_certificate(struct http_tls_identity *identity, const struct source *source,
                              struct fault *fault)
{
    gnutls_x509_crt_t *chain = NULL;
    unsigned count = 0;
    const int status = gnutls_x509_crt_list_import2(&chain, &count, &source->text,
                                                    GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_SORT);
    if (status < 0)
        return fault_set(fault, FAULT_OPTION, "%s %s: holds no chain of certificates in PEM: %s",
                         source->flag, source->path, gnutls_strerror(status));
    const bool is_good =
        can_sign(gnutls_x509_crt_get_pk_algorithm(chain[0], NULL))
        || refuse(source, "the key of the certificate is not RSA, ECDSA or Ed25519", fault);
    describe(identity, chain[0]);
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
    gnutls_free(chain);
    return is_good;
}

static bool check_key(const struct source *source, struct fault *fault)
{
    gnutls_x509_privkey_t key;
    if (strstr((const char *)source->text.data, "ENCRYPTED"))
        return refuse(source,
                      "the key is encrypted, and attnd asks for no passphrase; "
                      "'openssl pkey -in FILE -out PLAIN' makes a plain one",
                      fault);
    if (gnutls_x509_privkey_init(&key) != 0)
        return fault_no_memory(fault);
    const int status =
        gnutls_x509_privkey_import2(key, &source->text, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_x509_privkey_deinit(key);
    return status == 0
           || fault_set(fault, FAULT_OPTION, "%s %s: holds no private key in PEM: %s", source->flag,
                        source->path, gnutls_strerror(status));
}

static bool take_pair(struct http_tls_identity *identity, const struct source *certificate,
                      const struct source *key, struct fault *fault)
{
    if (!check_certificate(identity, certificate, fault) || !check_key(key, fault))
        return false;
    const int status = gnutls_certificate_set_x509_key_mem2(
        identity->credentials, &certificate->text, &key->text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (status == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        return fault_set(fault, FAULT_OPTION, "%s %s: is not the key of the certificate in %s",
                         key->flag, key->path, certificate->path);
    return status >= 0
           || fault_set(fault, FAULT_OPTION, "%s %s: %s", certificate->flag, certificate->path,
                        gnutls_strerror(status));
}

/* Certificates of clients are held to the security of RSA with 2048 bits, and to SHA-2. */
static bool take_client_ca(struct http_tls_identity *identity, const struct source *source,
                           gnutls_certificate_verify_function *check_client, struct fault *fault)
{
    const int count = gnutls_certificate_set_x509_trust_mem(identity->credentials, &source->text,
                                                            GNUTLS_X509_FMT_PEM);
    if (count <= 0)
        return fault_set(fault, FAULT_OPTION, "%s %s: holds no certificate in PEM: %s",
                         source->flag, source->path,
                         count < 0 ? gnutls_strerror(count) : "the file has none");
    gnutls_certificate_set_verify_flags(identity->credentials,
                                        GNUTLS_PROFILE_TO_VFLAGS(GNUTLS_PROFILE_MEDIUM));
    gnutls_certificate_set_verify_function(identity->credentials, check_client);
    identity->asks_clients = true;
    return true;
}

/* ----------------------------------------------------------------- the whole -- */

static struct http_tls_identity *identity_create(void)
{
    struct http_tls_identity *identity = calloc(1, sizeof *identity);
    if (!identity)
        return NULL;
    atomic_init(&identity->holder_count, 1);
    if (gnutls_certificate_allocate_credentials(&identity->credentials) == 0
        && gnutls_session_ticket_key_generate(&identity->ticket_key) == 0)
        return identity;
    http_tls_identity_release(identity);
    return NULL;
}

bool http_tls_identity_read(struct http_tls_identity **identity, const struct http_tls_files *files,
                            gnutls_certificate_verify_function *check_client, struct fault *fault)
{
    struct source certificate = { .flag = "--tls-cert", .path = files->certificate };
    struct source key = { .flag = "--tls-key", .path = files->key, .is_secret = true };
    struct source client_ca = { .flag = "--tls-client-ca", .path = files->client_ca };
    struct http_tls_identity *made = identity_create();
    if (!made)
        return fault_no_memory(fault);
    snprintf(made->file, sizeof made->file, "%s", files->certificate);
    const bool is_good = read_source(&certificate, fault) && read_source(&key, fault)
                         && take_pair(made, &certificate, &key, fault)
                         && (!client_ca.path
                             || (read_source(&client_ca, fault)
                                 && take_client_ca(made, &client_ca, check_client, fault)));
    free_source(&certificate);
    free_source(&key);
    free_source(&client_ca);
    if (is_good)
        *identity = made;
    else
        http_tls_identity_release(made);
    return is_good;
}

struct http_tls_identity *http_tls_identity_hold(struct http_tls_identity *identity)
{
    atomic_fetch_add(&identity->holder_count, 1);
    return identity;
}

void http_tls_identity_release(struct http_tls_identity *identity)
{
    if (!identity || atomic_fetch_sub(&identity->holder_count, 1) > 1)
        return;
    if (identity->credentials)
        gnutls_certificate_free_credentials(identity->credentials);
    if (identity->ticket_key.data)
        gnutls_memset(identity->ticket_key.data, 0, identity->ticket_key.size);
    gnutls_free(identity->ticket_key.data);
    free(identity);
}

void http_tls_identity_use(const struct http_tls_identity *identity, gnutls_session_t session)
{
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, identity->credentials);
    if (identity->asks_clients)
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
    else
        gnutls_session_ticket_enable_server(session, &identity->ticket_key);
}

void http_tls_identity_log(const struct http_tls_identity *identity)
{
    char expires[32] = "";
    struct tm day;
    if (gmtime_r(&identity->expires, &day))
        strftime(expires, sizeof expires, "%Y-%m-%dT%H:%M:%SZ", &day);
    const bool is_over = identity->expires < time(NULL);
    log_line(is_over ? LOG_WARNING : LOG_INFO, is_over ? "certificate has expired" : "certificate",
             LOG_STRING("file", identity->file), LOG_STRING("serial", identity->serial),
             LOG_STRING("subject", identity->name), LOG_STRING("expires", expires));
}
