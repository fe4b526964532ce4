/* open_files.c - see open_files.h. */
#include "host/open_files.h"

#include "watch/log.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

/* How the files of the process are shared out. */
enum {
    OWN = 48,             /* kept for the daemon itself */
    OWN_A_THREAD = 4,     /* kept for each connection thread */
    FILES_PART = 16,      /* one in 16 is kept for the files that requests read and write */
    CONNECTIONS_PART = 4, /* at least one in 4 may be a connection */
};

void open_files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_line(LOG_WARNING, "file limit", LOG_STRING("reason", strerror(errno)));
}

int open_files_connections(int wanted, int thread_count, int more)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    const rlim_t own =
        OWN + (rlim_t)(OWN_A_THREAD * thread_count + more) + limit.rlim_cur / FILES_PART;
    const rlim_t least = limit.rlim_cur / CONNECTIONS_PART + 1;
    const rlim_t most = limit.rlim_cur > own + least ? limit.rlim_cur - own : least;
    if ((rlim_t)wanted <= most)
        return wanted;
    log_line(LOG_WARNING, "fewer connections than --connections-max",
             LOG_NUMBER("connections_max", most), LOG_NUMBER("wanted", wanted),
             LOG_NUMBER("open_files_max", limit.rlim_cur));
    return (int)most;
}
