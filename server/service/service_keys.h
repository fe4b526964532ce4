/* service_keys.h - the keys of --keys in the life of the daemon: opened at its start, read again at
 * SIGHUP. */
#ifndef ATTND_SERVICE_KEYS_H
#define ATTND_SERVICE_KEYS_H

#include "service/service.h"

/* Without --keys, service->keys stays NULL. */
bool service_open_keys(struct service *service, struct fault *fault);

/* Logs where the keys come from. */
void service_log_keys(const struct service *service);

/* Reads them again. Where the file is wrong, a warning is logged and those of before stay. What
 * names without a key had registered ends. */
void service_read_keys_again(struct service *service);

#endif
