/* SPDX-License-Identifier: Apache-2.0 */
/* version.h - the version of this source, which --version, the log and the metrics show. */
#ifndef ATTND_VERSION_H
#define ATTND_VERSION_H

#define ATTND_VERSION "0.2.0"

#endif
