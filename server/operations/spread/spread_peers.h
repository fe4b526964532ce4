/* SPDX-License-Identifier: Apache-2.0 */
/* spread_peers.h - the other daemons that sessions may be spread over: the file of --peers.
 *
 * JSON: {"peers": [{"name": "b", "url": "https://b:8080", "key": "...", "ca": "/etc/ca.pem"}]}. The
 * name is for answers and faults, the key is the secret of a key of that daemon, and ca has the
 * authorities of its certificate, in PEM. The file is read once, at start. */
#ifndef ATTND_SPREAD_PEERS_H
#define ATTND_SPREAD_PEERS_H

#include "base/arena.h"
#include "base/fault.h"
#include "remote/remote.h"

enum { SPREAD_PEERS_MAX = 16, SPREAD_NAME_MAX = 31, SPREAD_SECRET_MAX = 512 };

struct spread_peer {
    const char *name, *key, *ca; /* key NULL: requests have none; ca NULL: those of the system */
    struct remote_address address;
};

struct spread_peers {
    struct spread_peer *peers; /* [count] */
    int64_t count;
    struct arena arena; /* owns all */
};

/* Reads the text of such a file. False, with the fault; peers is then empty. */
bool spread_peers_read(struct spread_peers *peers, const char *text, size_t size,
                       struct fault *fault);
void spread_peers_free(struct spread_peers *peers);

#endif
