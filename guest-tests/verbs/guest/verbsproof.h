/* What the files of verbsproof share.
 *
 * Two ends in one process, each with memory, queues and a protection domain of its own, connected through
 * the port's own address. Beside each end's memory lies a model of what it must hold: every work request
 * is carried out on the models as well, and then all bytes are compared, those between and around the
 * ranges too. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
	LONGEST = 1 << 20,    /* of a message */
	ARENA = 3 << 20,      /* bytes of an end */
	MOST_PIECES = 6,      /* of a work request */
	MOST_REQUESTS = 8,    /* of a batch */
	DEPTH = 64,	      /* entries of each queue */
	GRH = 40,	      /* bytes before a datagram */
	PATIENCE = 60,	      /* seconds that a completion may take */
	KEY = 0x11223344,     /* of datagrams */
};

/* random.c: the same numbers for the same seed. */
void random_seed(uint64_t seed);
uint64_t random_bits(void);
size_t random_below(size_t limit); /* 0 when limit is 0 */
bool one_in(size_t n);
void random_fill(uint8_t *bytes, size_t length);

/* memory.c: what an end holds, and must hold. */
struct range {
	size_t at, length;
};

struct arena {
	uint8_t *bytes; /* the real ones */
	uint8_t *model;
	struct ibv_mr *own, *shown; /* for this end, and for the peer */
	struct range window;	    /* what these reach and the current batch uses */
	size_t next;		    /* where the next range may begin */
	uint64_t base;		    /* what the first byte's address is for the peer */
};

void arena_make(struct arena *arena);
void arena_open(struct arena *arena, struct ibv_pd *pd, size_t length);
bool arena_take(struct arena *arena, size_t length, size_t align, struct range *range);
void arena_fill(struct arena *arena, struct range range);
void arena_compare(const struct arena *arena, const char *whose);
void arena_close(struct arena *arena);

/* ends.c: two ends and what connects them. */
enum transport { RC, RC_SRQ, UC, UD, XRC };

struct end {
	struct ibv_pd *pd;
	struct ibv_cq *sends, *receives;
	struct ibv_comp_channel *channel; /* of `receives` */
	struct ibv_srq *srq;
	struct ibv_qp *out, *in; /* one and the same, but for XRC */
	struct ibv_ah *ah;
	uint32_t psn;
	struct arena arena;
};

struct ends {
	enum transport transport;
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_xrcd *xrcd;
	union ibv_gid gid;
	int gid_index;
	bool atomics;
	size_t mtu, inline_most, longest;
	struct end end[2];
	bool lie; /* spoil a byte, to see that it is found */
	/* What refusals vary. */
	unsigned access;
	uint8_t rnr_retry, retry, timeout;
};

struct ibv_context *open_device(const char *name);
/* False when the device has no such transport. Chooses a size of packets that the port has. */
bool ends_make(struct ends *ends, struct ibv_context *context, enum transport transport);
void ends_connect(struct ends *ends);
void ends_close(struct ends *ends);
struct ibv_wc wait_completion(struct ibv_cq *cq, const char *what);
void wait_event(struct end *end, const char *what);

/* batch.c: random work, done twice. */
struct totals {
	size_t batches, requests, bytes;
};

void batch_run(struct ends *ends, struct totals *totals);

/* refusals.c: what must be refused. */
void refusals_run(struct ibv_context *context);

/* verbsproof.c */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void describe(const char *format, ...) __attribute__((format(printf, 1, 2)));
void describe_nothing(void);
