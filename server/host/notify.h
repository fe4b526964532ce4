/* notify.h - tells the service manager how it stands, as systemd's Type=notify expects. */
#ifndef ATTND_NOTIFY_H
#define ATTND_NOTIFY_H

/* One or several lines of sd_notify(3), "READY=1" say, to the socket that NOTIFY_SOCKET names.
 * Without one nothing is done; where it cannot be reached, a warning is logged and that is all. */
void notify(const char *lines);

#endif
