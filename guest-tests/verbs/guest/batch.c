/* A batch: some work requests at once that share no byte of what is written, carried out by the device
 * and on the models. */

#include "verbsproof.h"

enum kind { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CAS, FAA, KINDS };

static const char *const NAMES[] = {"SEND", "SEND_IMM", "WRITE", "WRITE_IMM", "READ", "CAS", "FAA"};
static const enum ibv_wr_opcode OPCODES[] = {
	IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	       IBV_WR_RDMA_WRITE,	  IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
static const enum ibv_wc_opcode COMPLETIONS[] = {
	IBV_WC_SEND,	  IBV_WC_SEND,	    IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE,
	IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD};

struct request {
	enum kind kind;
	size_t length;
	struct range pieces[MOST_PIECES]; /* of the requester's memory */
	int piece_count;
	struct range into[MOST_PIECES + 1]; /* of the receive, in the peer's memory */
	int into_count;
	struct range remote;
	uint32_t immediate;
	uint64_t compare, operand;
	bool signalled, in_line;
};

static bool receives(enum kind kind)
{
	return kind == SEND || kind == SEND_IMM || kind == WRITE_IMM;
}

static bool atomic(enum kind kind)
{
	return kind == CAS || kind == FAA;
}

static bool is_write(enum kind kind)
{
	return kind == WRITE || kind == WRITE_IMM;
}

/* A length: often where something ends, seldom long. */
static size_t some_length(const struct ends *ends, size_t most)
{
	size_t near = (1 + random_below(8)) * (one_in(2) ? ends->mtu : 4096) + random_below(7) - 3, length;
	switch (random_below(8)) {
	case 0:
		length = 0;
		break;
	case 1:
		length = 1 + random_below(16);
		break;
	case 2:
	case 3:
		length = near;
		break;
	case 4:
		length = most;
		break;
	case 5:
		length = random_below(most + 1);
		break;
	default:
		length = random_below((size_t)1 << (1 + random_below(16)));
	}
	return length > most ? random_below(most + 1) : length;
}

/* Splits a length into ranges; false when there is no room. */
static bool scatter(struct arena *arena, size_t length, struct range *ranges, int *count, bool fill,
		    int most_pieces)
{
	int most = 1 + random_below(most_pieces);
	size_t left = length;
	*count = 0;
	while (left && *count < most) {
		size_t piece = *count + 1 == most ? left : one_in(3) ? left : 1 + random_below(left);
		if (!arena_take(arena, piece, 1, &ranges[*count]))
			return false;
		if (fill)
			arena_fill(arena, ranges[*count]);
		(*count)++;
		left -= piece;
	}
	/* In any order. */
	for (int i = *count; i > 1; i--) {
		int other = random_below(i);
		struct range moved = ranges[other];
		ranges[other] = ranges[i - 1];
		ranges[i - 1] = moved;
	}
	return true;
}

/* The receive: as long as the message or longer, behind the space for a datagram's header. */
static bool take_receive(const struct ends *ends, struct arena *arena, struct request *request)
{
	size_t length = request->kind == WRITE_IMM ? 0 : request->length + (one_in(2) ? random_below(300) : 0);
	struct range *first = request->into;
	if (ends->transport != UD)
		return scatter(arena, length, first, &request->into_count, false, MOST_PIECES);
	if (!arena_take(arena, GRH, 1, first) ||
	    !scatter(arena, length, first + 1, &request->into_count, false, MOST_PIECES))
		return false;
	request->into_count++;
	return true;
}

static enum kind some_kind(const struct ends *ends)
{
	switch (ends->transport) {
	case UD:
		return random_below(2);
	case UC:
		return random_below(READ);
	default:
		return random_below(ends->atomics ? KINDS : CAS);
	}
}

static bool plan(const struct ends *ends, struct end *end, struct end *peer, size_t most,
		 struct request *request)
{
	struct arena *own = &end->arena, *other = &peer->arena;
	*request = (struct request){.kind = some_kind(ends), .immediate = random_bits(), .signalled = one_in(2)};
	enum kind kind = request->kind;
	request->length = atomic(kind) ? 8 : some_length(ends, most);
	bool gives = kind != READ && !atomic(kind); /* what it sends is its own */
	if (gives && request->length <= ends->inline_most)
		request->in_line = one_in(2);
	/* rdma-core's mlx5 provider gives an atomic's answer one range of 8 bytes. */
	if (!scatter(own, request->length, request->pieces, &request->piece_count, gives, atomic(kind) ? 1 : MOST_PIECES))
		return false;
	if (receives(kind) && !take_receive(ends, other, request))
		return false;
	if (kind != SEND && kind != SEND_IMM &&
	    !arena_take(other, request->length, atomic(kind) ? 8 : 1, &request->remote))
		return false;
	if (kind == READ)
		arena_fill(other, request->remote);
	request->operand = random_bits();
	request->compare = random_bits();
	if (kind == CAS && one_in(2))
		memcpy(&request->compare, other->model + request->remote.at, 8);
	return true;
}

static int list_of(const struct arena *arena, const struct range *ranges, int count, struct ibv_sge *list)
{
	for (int i = 0; i < count; i++)
		list[i] = (struct ibv_sge){.addr = (uintptr_t)arena->bytes + ranges[i].at,
					   .length = ranges[i].length,
					   .lkey = arena->own->lkey};
	return count;
}

static void post_receive(struct end *peer, const struct request *request, uint64_t id)
{
	struct ibv_sge list[MOST_PIECES + 1];
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = list};
	wr.num_sge = list_of(&peer->arena, request->into, request->into_count, list);
	int error = peer->srq ? ibv_post_srq_recv(peer->srq, &wr, &bad) : ibv_post_recv(peer->in, &wr, &bad);
	if (error)
		fail("posting a receive: %s", strerror(error));
}

struct posted {
	struct ibv_send_wr wr;
	struct ibv_sge list[MOST_PIECES];
};

static void prepare(const struct ends *ends, struct end *end, struct end *peer, const struct request *request,
		    struct posted *posted, uint64_t id)
{
	struct ibv_send_wr *wr = &posted->wr;
	*wr = (struct ibv_send_wr){
		.wr_id = id,
		.opcode = OPCODES[request->kind],
		.sg_list = posted->list,
		.send_flags = (request->signalled ? IBV_SEND_SIGNALED : 0) |
			      (request->in_line ? IBV_SEND_INLINE : 0) | (one_in(8) ? IBV_SEND_FENCE : 0),
		.imm_data = htonl(request->immediate),
	};
	wr->num_sge = list_of(&end->arena, request->pieces, request->piece_count, posted->list);
	for (int i = 0; i < wr->num_sge && request->in_line; i++)
		posted->list[i].lkey = 0xdead; /* the library reads it, without a key */
	uint64_t remote = peer->arena.base + request->remote.at;
	uint32_t rkey = peer->arena.shown->rkey;
	if (atomic(request->kind)) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = request->kind == CAS ? request->compare : request->operand;
		wr->wr.atomic.swap = request->operand;
	} else if (ends->transport == UD) {
		wr->wr.ud.ah = end->ah;
		wr->wr.ud.remote_qpn = peer->in->qp_num;
		wr->wr.ud.remote_qkey = KEY;
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = rkey;
	}
	if (ends->transport == XRC && ibv_get_srq_num(peer->srq, &wr->qp_type.xrc.remote_srqn))
		fail("ibv_get_srq_num");
}

/* Copies between lists of ranges of two models. */
static void copy(struct arena *to, const struct range *targets, int target_count, const struct arena *from,
		 const struct range *sources, size_t length)
{
	size_t in = 0, out = 0; /* progress in the present ranges */
	for (int t = 0; t < target_count && length; t++)
		for (out = 0; out < targets[t].length && length;) {
			while (in == sources->length) {
				sources++;
				in = 0;
			}
			size_t some = targets[t].length - out, rest = sources->length - in;
			some = some < rest ? some : rest;
			some = some < length ? some : length;
			memcpy(to->model + targets[t].at + out, from->model + sources->at + in, some);
			in += some;
			out += some;
			length -= some;
		}
}

static void on_models(const struct ends *ends, struct arena *own, struct arena *other,
		      const struct request *request)
{
	uint64_t old, new;
	switch (request->kind) {
	case SEND:
	case SEND_IMM: {
		int header = ends->transport == UD;
		/* Without a global route these bytes are nobody's: they may be anything. */
		if (header)
			memcpy(other->model + request->into->at, other->bytes + request->into->at, GRH);
		copy(other, request->into + header, request->into_count - header, own, request->pieces,
		     request->length);
		return;
	}
	case WRITE:
	case WRITE_IMM:
		copy(other, &request->remote, 1, own, request->pieces, request->length);
		return;
	case READ:
		copy(own, request->pieces, request->piece_count, other, &request->remote, request->length);
		return;
	default:
		memcpy(&old, other->model + request->remote.at, 8);
		new = request->kind == FAA ? old + request->operand : old == request->compare ? request->operand : old;
		copy(own, request->pieces, request->piece_count, other, &request->remote, 8);
		memcpy(other->model + request->remote.at, &new, 8);
	}
}

static void check_send(const struct request *request, struct ibv_wc wc, uint64_t id)
{
	if (wc.status)
		fail("%s: %s, vendor error %#x", NAMES[request->kind], ibv_wc_status_str(wc.status), wc.vendor_err);
	if (wc.wr_id != id || wc.opcode != COMPLETIONS[request->kind])
		fail("%s: the completion is of %zu, opcode %d", NAMES[request->kind], (size_t)wc.wr_id, wc.opcode);
	if (request->kind == READ && wc.byte_len != request->length)
		fail("READ: the completion has %u bytes", wc.byte_len);
}

static void check_receive(const struct ends *ends, struct end *end, struct end *peer,
			  const struct request *request, struct ibv_wc wc, uint64_t id)
{
	const char *name = NAMES[request->kind];
	size_t length = request->length + (ends->transport == UD ? GRH : 0);
	if (wc.status)
		fail("receive of %s: %s, vendor error %#x", name, ibv_wc_status_str(wc.status), wc.vendor_err);
	if (wc.wr_id != id)
		fail("receive of %s: the completion is of %zu", name, (size_t)wc.wr_id);
	if (wc.opcode != (is_write(request->kind) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		fail("receive of %s: opcode %d", name, wc.opcode);
	if (wc.byte_len != length)
		fail("receive of %s: %u bytes, not %zu", name, wc.byte_len, length);
	bool immediate = request->kind != SEND;
	if (!!(wc.wc_flags & IBV_WC_WITH_IMM) != immediate ||
	    (immediate && wc.imm_data != htonl(request->immediate)))
		fail("receive of %s: flags %#x, immediate %#x", name, wc.wc_flags, ntohl(wc.imm_data));
	if (ends->transport != XRC && wc.qp_num != peer->in->qp_num)
		fail("receive of %s: of QP %#x", name, wc.qp_num);
	if (ends->transport == UD && wc.src_qp != end->out->qp_num)
		fail("receive of %s: from QP %#x", name, wc.src_qp);
}

static void tell(const struct request *requests, int count, int from)
{
	static const char *const FLAGS[] = {"", " inline"};
	describe_nothing();
	for (int i = 0; i < count; i++)
		describe("  %d: end %d, %s%s of %zu bytes in %d pieces from %zu, remote %zu, received in %d from %zu", i,
			 from, NAMES[requests[i].kind], FLAGS[requests[i].in_line], requests[i].length,
			 requests[i].piece_count, requests[i].pieces->at, requests[i].remote.at,
			 requests[i].into_count, requests[i].into->at);
}

/* Posts all in one chain or one by one. */
static void post(struct end *end, struct posted *posted, int count)
{
	bool chain = one_in(2);
	struct ibv_send_wr *bad;
	for (int i = 0; i + 1 < count && chain; i++)
		posted[i].wr.next = &posted[i + 1].wr;
	for (int i = 0; i < (chain ? 1 : count); i++) {
		int error = ibv_post_send(end->out, &posted[i].wr, &bad);
		if (error)
			fail("ibv_post_send: %s", strerror(error));
	}
}

void batch_run(struct ends *ends, struct totals *totals)
{
	static const size_t SIZES[] = {8 << 10, 40 << 10, 160 << 10, 2400 << 10};
	struct request requests[MOST_REQUESTS];
	struct posted posted[MOST_REQUESTS];
	int from = random_below(2), count = 0, wanted = 1 + random_below(MOST_REQUESTS);
	struct end *end = &ends->end[from], *peer = &ends->end[1 - from];
	size_t window = SIZES[one_in(5) ? 3 : random_below(3)];
	size_t most = window * 2 / 5 < ends->longest ? window * 2 / 5 : ends->longest;
	bool sleeps = one_in(4);

	if (window == SIZES[3])
		most = ends->longest;
	if (one_in(4) || !end->arena.own || end->arena.window.length != window) {
		arena_open(&end->arena, end->pd, window);
		arena_open(&peer->arena, peer->pd, window);
	}
	end->arena.next = end->arena.window.at;
	peer->arena.next = peer->arena.window.at;
	while (count < wanted && plan(ends, end, peer, most, &requests[count]))
		count++;
	if (count == 0)
		return;
	requests[count - 1].signalled = true;
	/* That an unreliable write has arrived is only known from what arrives behind it. */
	if (ends->transport == UC && requests[count - 1].kind == WRITE)
		requests[count - 1].kind = WRITE_IMM;
	tell(requests, count, from);
	if (sleeps && ibv_req_notify_cq(peer->receives, 0))
		fail("ibv_req_notify_cq");
	int received = 0;
	for (int i = 0; i < count; i++) {
		if (receives(requests[i].kind))
			post_receive(peer, &requests[i], 100 + received++);
		prepare(ends, end, peer, &requests[i], &posted[i], i);
	}
	post(end, posted, count);
	if (sleeps && received)
		wait_event(peer, "a receive");
	for (int i = 0; i < count; i++)
		if (requests[i].signalled)
			check_send(&requests[i], wait_completion(end->sends, NAMES[requests[i].kind]), i);
	for (int i = 0, id = 100; i < count; i++)
		if (receives(requests[i].kind))
			check_receive(ends, end, peer, &requests[i], wait_completion(peer->receives, "a receive"), id++);
	for (int i = 0; i < count; i++)
		on_models(ends, &end->arena, &peer->arena, &requests[i]);
	if (ends->lie)
		peer->arena.bytes[peer->arena.window.at + random_below(window)] ^= 1 << random_below(8);
	arena_compare(&peer->arena, "the responder's memory");
	arena_compare(&end->arena, "the requester's memory");
	totals->batches++;
	totals->requests += count;
	for (int i = 0; i < count; i++)
		totals->bytes += requests[i].length;
}
