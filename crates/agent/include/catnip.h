/* Options of TCP sockets, by which an application describes its data to the CATNIP agent of its host:
 *
 *	catnip_document(fd, 20000);    the next 20000 bytes that are written are one document
 *	catnip_class(fd, 1);           the connection is highly interactive
 *
 * Each function returns 0, or -1 with errno: ENOPROTOOPT without an agent, EPERM beyond the limits of its policy, EINVAL for an invalid
 * value. Errors may be ignored: the connection then works as before. getsockopt(2) returns the values of the options. */
#ifndef CATNIP_H
#define CATNIP_H

#define SOL_CATNIP 0x4350

#define CATNIP_DOCUMENT 1   /* u64 or u32: length of the document that begins with the next byte written */
#define CATNIP_CLASS 2      /* u32: 1 highly interactive, 2 interactive, 3 other, 0 default of the policy */
#define CATNIP_THRESHOLDS 3 /* struct catnip_thresholds: marking by the state of TCP */
#define CATNIP_WEIGHT 4     /* u32: priority of the packets in the queueing discipline (SO_PRIORITY); 0: unchanged */

struct catnip_thresholds {
	unsigned int high, med; /* largest windows whose packets are HIGH, and at least MED, segments */
};

#ifndef __bpf__
#include <stdint.h>
#include <sys/socket.h>

static inline int catnip_document(int fd, uint64_t bytes)
{
	return setsockopt(fd, SOL_CATNIP, CATNIP_DOCUMENT, &bytes, sizeof(bytes));
}

static inline int catnip_class(int fd, uint32_t klass)
{
	return setsockopt(fd, SOL_CATNIP, CATNIP_CLASS, &klass, sizeof(klass));
}

static inline int catnip_thresholds(int fd, uint32_t high, uint32_t med)
{
	struct catnip_thresholds thresholds = { high, med };
	return setsockopt(fd, SOL_CATNIP, CATNIP_THRESHOLDS, &thresholds, sizeof(thresholds));
}

static inline int catnip_weight(int fd, uint32_t weight)
{
	return setsockopt(fd, SOL_CATNIP, CATNIP_WEIGHT, &weight, sizeof(weight));
}
#endif
#endif
