/* open_files.c - see open_files.h. */
#include "host/open_files.h"

#include "watch/log.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

/* Files that are not connections: some always, some of each connection thread, and one in so many
 * of all for models, which keep one a file. At the least a quarter of all are connections. */
enum { OWN = 48, OWN_A_THREAD = 4, MODELS_PART = 16, CONNECTIONS_PART = 4 };

void open_files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_line(LOG_WARNING, "file limit", LOG_STRING("reason", strerror(errno)));
}

int open_files_connections(int wanted, int thread_count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    const rlim_t own = OWN + (rlim_t)(OWN_A_THREAD * thread_count) + limit.rlim_cur / MODELS_PART;
    const rlim_t least = limit.rlim_cur / CONNECTIONS_PART + 1;
    const rlim_t most = limit.rlim_cur > own + least ? limit.rlim_cur - own : least;
    if ((rlim_t)wanted <= most)
        return wanted;
    log_line(LOG_WARNING, "fewer connections than --connections-max",
             LOG_NUMBER("connections_max", most), LOG_NUMBER("wanted", wanted),
             LOG_NUMBER("open_files_max", limit.rlim_cur));
    return (int)most;
}
