/* What a card must refuse, and what must be left alone then.
 *
 * Each case gets two new ends. It says which completions must come on either side; after it every byte of
 * both memories is compared with what it was, and both ends are connected again and must move data. */

#include "verbsproof.h"

/* A work request of end 0 that would be good. */
struct trial {
	struct ends ends;
	struct end *from, *to;
	struct range source, target;
	struct ibv_sge list;
	struct ibv_send_wr wr;
};

static void post_receive(struct trial *trial, size_t length, uint32_t key)
{
	struct ibv_sge list = {
		.addr = (uintptr_t)trial->to->arena.bytes + trial->target.at, .length = length, .lkey = key};
	struct ibv_recv_wr *bad, wr = {.wr_id = 100, .sg_list = &list, .num_sge = 1};
	if (ibv_post_recv(trial->to->in, &wr, &bad))
		fail("ibv_post_recv: %s", strerror(errno));
}

static void post(struct trial *trial)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(trial->from->out, &trial->wr, &bad);
	if (error)
		fail("ibv_post_send: %s", strerror(error));
}

static void expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status, const char *whose)
{
	struct ibv_wc wc = wait_completion(cq, whose);
	if (wc.wr_id != id || wc.status != status)
		fail("%s: completion of %zu with %s, not of %zu with %s", whose, (size_t)wc.wr_id,
		     ibv_wc_status_str(wc.status), (size_t)id, ibv_wc_status_str(status));
}

static void expect_nothing(struct ibv_cq *cq, const char *whose)
{
	struct ibv_wc wc;
	if (ibv_poll_cq(cq, 1, &wc))
		fail("%s: a completion with %s", whose, ibv_wc_status_str(wc.status));
}

/* The requester is told, and what it asked for later is thrown away. */
static void expect_refused(struct trial *trial, enum ibv_wc_status status)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	expect(trial->from->sends, 1, status, "the requester");
	trial->wr.wr_id = 2;
	post(trial);
	expect(trial->from->sends, 2, IBV_WC_WR_FLUSH_ERR, "the requester");
	if (ibv_query_qp(trial->from->out, &attr, IBV_QP_STATE, &init) || attr.qp_state != IBV_QPS_ERR)
		fail("the requester's queue pair is in state %d", attr.qp_state);
}

static void begin(struct trial *trial, struct ibv_context *context, enum transport transport,
		  enum ibv_wr_opcode opcode)
{
	if (!ends_make(&trial->ends, context, transport))
		fail("the device lacks the transport");
	trial->from = &trial->ends.end[0];
	trial->to = &trial->ends.end[1];
	for (int i = 0; i < 2; i++)
		arena_open(&trial->ends.end[i].arena, trial->ends.end[i].pd, 64 << 10);
	const size_t length = 10000;
	if (!arena_take(&trial->from->arena, length, 1, &trial->source) ||
	    !arena_take(&trial->to->arena, length, 8, &trial->target))
		fail("no room");
	if (transport == UD)
		trial->source.length = 200;
	trial->list = (struct ibv_sge){.addr = (uintptr_t)trial->from->arena.bytes + trial->source.at,
				       .length = trial->source.length,
				       .lkey = trial->from->arena.own->lkey};
	trial->wr = (struct ibv_send_wr){.wr_id = 1,
					 .opcode = opcode,
					 .sg_list = &trial->list,
					 .num_sge = 1,
					 .send_flags = IBV_SEND_SIGNALED};
	if (transport == UD) {
		trial->wr.wr.ud.ah = trial->from->ah;
		trial->wr.wr.ud.remote_qpn = trial->to->in->qp_num;
		trial->wr.wr.ud.remote_qkey = KEY;
	} else {
		trial->wr.wr.rdma.remote_addr = trial->to->arena.base + trial->target.at;
		trial->wr.wr.rdma.rkey = trial->to->arena.shown->rkey;
	}
}

/* Connects again what was refused, and moves data. */
static void end(struct trial *trial)
{
	struct totals totals = {0};
	struct ibv_wc wc;
	for (int i = 0; i < 2; i++) {
		arena_compare(&trial->ends.end[i].arena, i ? "the responder's memory" : "the requester's memory");
		trial->ends.end[i].arena.window.length = 0; /* the next batch registers anew */
	}
	trial->ends.access = IBV_ACCESS_REMOTE_WRITE;
	if (trial->ends.transport == RC)
		trial->ends.access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	ends_connect(&trial->ends);
	for (int i = 0; i < 2; i++)
		while (ibv_poll_cq(trial->ends.end[i].sends, 1, &wc) > 0 ||
		       ibv_poll_cq(trial->ends.end[i].receives, 1, &wc) > 0)
			;
	for (int i = 0; i < 5; i++)
		batch_run(&trial->ends, &totals);
	ends_close(&trial->ends);
}

/* Writes, reads and atomics of end 0 that end 1 refuses. */
static void key_that_nobody_has(struct trial *trial)
{
	trial->wr.wr.rdma.rkey ^= 0x5500;
	post(trial);
	expect_refused(trial, IBV_WC_REM_ACCESS_ERR);
}

static void other_variant_of_the_key(struct trial *trial)
{
	trial->wr.wr.rdma.rkey ^= 1;
	post(trial);
	expect_refused(trial, IBV_WC_REM_ACCESS_ERR);
}

static void one_byte_behind_the_end(struct trial *trial)
{
	const struct arena *arena = &trial->to->arena;
	size_t last = arena->window.at + arena->window.length;
	trial->wr.wr.rdma.remote_addr = arena->base + last - trial->source.length + 1;
	post(trial);
	expect_refused(trial, IBV_WC_REM_ACCESS_ERR);
}

static void one_byte_before_the_start(struct trial *trial)
{
	const struct arena *arena = &trial->to->arena;
	trial->wr.wr.rdma.remote_addr = arena->base + arena->window.at - 1;
	post(trial);
	expect_refused(trial, IBV_WC_REM_ACCESS_ERR);
}

static void key_of_another_domain(struct trial *trial)
{
	trial->wr.wr.rdma.rkey = trial->from->arena.shown->rkey;
	trial->wr.wr.rdma.remote_addr = trial->from->arena.base + trial->from->arena.window.at;
	post(trial);
	expect_refused(trial, IBV_WC_REM_ACCESS_ERR);
}

static void register_with(struct trial *trial, int access)
{
	struct arena *arena = &trial->to->arena;
	uint8_t *start = arena->bytes + arena->window.at;
	arena_close(arena);
	arena->shown = ibv_reg_mr(trial->to->pd, start, arena->window.length, access);
	if (!arena->shown)
		fail("ibv_reg_mr: %s", strerror(errno));
	arena->base = (uintptr_t)arena->bytes;
	trial->wr.wr.rdma.rkey = arena->shown->rkey;
	trial->wr.wr.rdma.remote_addr = arena->base + trial->target.at;
}

static void key_without_the_right(struct trial *trial)
{
	register_with(trial, IBV_ACCESS_LOCAL_WRITE);
	post(trial);
	expect_refused(trial, IBV_WC_REM_ACCESS_ERR);
}

static void key_that_is_gone(struct trial *trial)
{
	arena_close(&trial->to->arena);
	post(trial);
	expect_refused(trial, IBV_WC_REM_ACCESS_ERR);
	register_with(trial, IBV_ACCESS_LOCAL_WRITE);
}

static void queue_pair_without_the_right(struct trial *trial)
{
	trial->ends.access = 0;
	ends_connect(&trial->ends);
	post(trial);
	expect_refused(trial, IBV_WC_REM_INV_REQ_ERR);
}

static void own_key_that_nobody_has(struct trial *trial)
{
	trial->list.lkey ^= 0x5500;
	post(trial);
	expect_refused(trial, IBV_WC_LOC_PROT_ERR);
}

static void own_key_too_short(struct trial *trial)
{
	const struct arena *arena = &trial->from->arena;
	uint8_t *end = arena->bytes + arena->window.at + arena->window.length;
	trial->list.addr = (uintptr_t)end - trial->source.length + 1;
	post(trial);
	expect_refused(trial, IBV_WC_LOC_PROT_ERR);
}

static void receive_too_short(struct trial *trial)
{
	post_receive(trial, trial->source.length - 1, trial->to->arena.own->lkey);
	post(trial);
	expect_refused(trial, IBV_WC_REM_INV_REQ_ERR);
	expect(trial->to->receives, 100, IBV_WC_LOC_LEN_ERR, "the responder");
	/* It may have been filled up to its end. */
	memcpy(trial->to->arena.model + trial->target.at, trial->to->arena.bytes + trial->target.at,
	       trial->source.length - 1);
}

static void receive_with_a_bad_key(struct trial *trial)
{
	post_receive(trial, trial->source.length, trial->to->arena.own->lkey ^ 0x5500);
	post(trial);
	expect_refused(trial, IBV_WC_REM_OP_ERR);
	expect(trial->to->receives, 100, IBV_WC_LOC_PROT_ERR, "the responder");
}

static void no_receive(struct trial *trial)
{
	trial->ends.rnr_retry = 1;
	ends_connect(&trial->ends);
	post(trial);
	expect_refused(trial, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void nobody_answers(struct trial *trial)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	trial->ends.retry = 1;
	trial->ends.timeout = 8;
	ends_connect(&trial->ends);
	if (ibv_modify_qp(trial->to->in, &reset, IBV_QP_STATE))
		fail("ibv_modify_qp: %s", strerror(errno));
	post(trial);
	expect_refused(trial, IBV_WC_RETRY_EXC_ERR);
}

/* Nobody is told of what an unreliable request did not do. */
static void is_dropped(struct trial *trial)
{
	post(trial);
	expect(trial->from->sends, 1, IBV_WC_SUCCESS, "the requester");
	/* Whatever it does has been done when a second request has an answer. */
	trial->wr.wr_id = 2;
	post(trial);
	expect(trial->from->sends, 2, IBV_WC_SUCCESS, "the requester");
	expect_nothing(trial->to->receives, "the responder");
}

static void unreliable_with_a_bad_key(struct trial *trial)
{
	trial->wr.wr.rdma.rkey ^= 0x5500;
	is_dropped(trial);
}

static void datagram_with_a_wrong_key(struct trial *trial)
{
	post_receive(trial, 4096, trial->to->arena.own->lkey);
	trial->wr.wr.ud.remote_qkey = KEY + 1;
	is_dropped(trial);
}

static void datagram_to_nobody(struct trial *trial)
{
	post_receive(trial, 4096, trial->to->arena.own->lkey);
	trial->wr.wr.ud.remote_qpn ^= 0x800000;
	is_dropped(trial);
}

static void unaligned_atomic(struct trial *trial)
{
	trial->list.length = 8;
	trial->wr.wr.atomic.remote_addr = trial->to->arena.base + trial->target.at + 4;
	trial->wr.wr.atomic.rkey = trial->to->arena.shown->rkey;
	post(trial);
	expect_refused(trial, IBV_WC_REM_INV_REQ_ERR);
}

static const struct {
	const char *name;
	void (*run)(struct trial *trial);
	enum transport transport;
	enum ibv_wr_opcode opcode;
} CASES[] = {
	{"a write with a key that nobody has", key_that_nobody_has, RC, IBV_WR_RDMA_WRITE},
	{"a read with a key that nobody has", key_that_nobody_has, RC, IBV_WR_RDMA_READ},
	{"a write with another variant of the key", other_variant_of_the_key, RC, IBV_WR_RDMA_WRITE},
	{"a write one byte behind the end", one_byte_behind_the_end, RC, IBV_WR_RDMA_WRITE},
	{"a read one byte behind the end", one_byte_behind_the_end, RC, IBV_WR_RDMA_READ},
	{"a write one byte before the start", one_byte_before_the_start, RC, IBV_WR_RDMA_WRITE},
	{"a write with the key of another domain", key_of_another_domain, RC, IBV_WR_RDMA_WRITE},
	{"a write without the key's right", key_without_the_right, RC, IBV_WR_RDMA_WRITE},
	{"a read without the key's right", key_without_the_right, RC, IBV_WR_RDMA_READ},
	{"a write with a deregistered key", key_that_is_gone, RC, IBV_WR_RDMA_WRITE},
	{"a read without the queue pair's right", queue_pair_without_the_right, RC, IBV_WR_RDMA_READ},
	{"a send with an own key that nobody has", own_key_that_nobody_has, RC, IBV_WR_SEND},
	{"a write from behind the own key's end", own_key_too_short, RC, IBV_WR_RDMA_WRITE},
	{"a send to a receive that is too short", receive_too_short, RC, IBV_WR_SEND},
	{"a send to a receive with a bad key", receive_with_a_bad_key, RC, IBV_WR_SEND},
	{"a send without a receive", no_receive, RC, IBV_WR_SEND},
	{"a write to a queue pair that is gone", nobody_answers, RC, IBV_WR_RDMA_WRITE},
	{"an atomic at an unaligned address", unaligned_atomic, RC, IBV_WR_ATOMIC_FETCH_AND_ADD},
	{"an unreliable write with a bad key", unreliable_with_a_bad_key, UC, IBV_WR_RDMA_WRITE},
	{"a datagram with a wrong key", datagram_with_a_wrong_key, UD, IBV_WR_SEND},
	{"a datagram to nobody", datagram_to_nobody, UD, IBV_WR_SEND},
};

void refusals_run(struct ibv_context *context)
{
	size_t done = 0;
	for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
		struct trial trial = {0};
		describe_nothing();
		describe("  %s", CASES[i].name);
		begin(&trial, context, CASES[i].transport, CASES[i].opcode);
		if (CASES[i].run == unaligned_atomic && !trial.ends.atomics) {
			ends_close(&trial.ends);
			continue;
		}
		CASES[i].run(&trial);
		end(&trial);
		done++;
	}
	printf("refusals: %zu cases refused; every byte compared\n", done);
}
