/* Two ends in one process and the connection between them. */

#include "verbsproof.h"

enum { PORT = 1 };

struct ibv_context *open_device(const char *name)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;
	for (int i = 0; list && i < count && !context; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (!context)
		fail("no RDMA device %s", name ? name : "");
	return context;
}

#define MUST(pointer, call) \
	do { \
		(pointer) = (call); \
		if (!(pointer)) \
			fail("%s: %s", #call, strerror(errno)); \
	} while (0)

static struct ibv_qp *make_qp(struct ends *ends, struct end *end, bool out)
{
	struct ibv_qp *qp;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = end->sends,
		.recv_cq = end->receives,
		.srq = ends->transport == RC_SRQ ? end->srq : NULL,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = ends->transport == RC_SRQ ? 0 : DEPTH,
			.max_send_sge = MOST_PIECES,
			.max_recv_sge = ends->transport == RC_SRQ ? 0 : MOST_PIECES + 1,
			.max_inline_data = 200},
		.qp_type = ends->transport == UC ? IBV_QPT_UC : ends->transport == UD ? IBV_QPT_UD : IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = end->pd,
	};
	if (ends->transport == XRC && out) {
		attr.qp_type = IBV_QPT_XRC_SEND;
		attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
	} else if (ends->transport == XRC) {
		attr = (struct ibv_qp_init_attr_ex){
			.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = ends->xrcd};
	}
	MUST(qp, ibv_create_qp_ex(ends->context, &attr));
	if (out)
		ends->inline_most = attr.cap.max_inline_data;
	return qp;
}

static void make_srq(struct ends *ends, struct end *end)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = DEPTH, .max_sge = MOST_PIECES + 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = end->pd,
	};
	if (ends->transport == XRC) {
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		attr.srq_type = IBV_SRQT_XRC;
		attr.xrcd = ends->xrcd;
		attr.cq = end->receives;
	}
	MUST(end->srq, ibv_create_srq_ex(ends->context, &attr));
}

static void make_end(struct ends *ends, struct end *end)
{
	MUST(end->pd, ibv_alloc_pd(ends->context));
	MUST(end->channel, ibv_create_comp_channel(ends->context));
	MUST(end->sends, ibv_create_cq(ends->context, DEPTH, NULL, NULL, 0));
	MUST(end->receives, ibv_create_cq(ends->context, DEPTH, NULL, end->channel, 0));
	if (ends->transport == RC_SRQ || ends->transport == XRC)
		make_srq(ends, end);
	end->out = make_qp(ends, end, true);
	end->in = ends->transport == XRC ? make_qp(ends, end, false) : end->out;
	arena_make(&end->arena);
}

static void change(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask, const char *to)
{
	int error = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
	if (error)
		fail("ibv_modify_qp to %s: %s", to, strerror(error));
}

static struct ibv_ah_attr address(const struct ends *ends)
{
	struct ibv_ah_attr attr = {.dlid = ends->port.lid, .port_num = PORT};
	if (ends->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.is_global = 1;
		attr.grh = (struct ibv_global_route){
			.dgid = ends->gid, .sgid_index = ends->gid_index, .hop_limit = 1};
	}
	return attr;
}

static void to_init(const struct ends *ends, struct ibv_qp *qp)
{
	bool datagrams = ends->transport == UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = KEY, .qp_access_flags = ends->access};
	change(qp, attr,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS), "INIT");
}

static void connect_qp(const struct ends *ends, struct ibv_qp *qp, uint32_t psn, struct ibv_qp *peer,
		       uint32_t peer_psn)
{
	bool reliable = ends->transport != UC && ends->transport != UD;
	bool answers = reliable && qp->qp_type != IBV_QPT_XRC_SEND;
	bool asks = reliable && qp->qp_type != IBV_QPT_XRC_RECV;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = ends->mtu >= 4096 ? IBV_MTU_4096 : (enum ibv_mtu)(__builtin_ctzl(ends->mtu) - 7),
		.dest_qp_num = peer->qp_num,
		.rq_psn = peer_psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 1,
		.ah_attr = address(ends),
	};
	to_init(ends, qp);
	if (ends->transport == UD) {
		change(qp, attr, 0, "RTR");
		attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = psn};
		change(qp, attr, IBV_QP_SQ_PSN, "RTS");
		return;
	}
	change(qp, attr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0),
	       "RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = ends->timeout,
		.retry_cnt = ends->retry,
		.rnr_retry = ends->rnr_retry,
		.max_rd_atomic = 8,
	};
	change(qp, attr,
	       IBV_QP_SQ_PSN | (reliable ? IBV_QP_TIMEOUT : 0) |
		       (asks ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0),
	       "RTS");
}

/* Connects both ways, whatever was before. */
void ends_connect(struct ends *ends)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
		struct end *end = &ends->end[i];
		end->psn = random_bits() & 0xffffff;
		change(end->out, reset, 0, "RESET");
		if (end->in != end->out)
			change(end->in, reset, 0, "RESET");
	}
	for (int i = 0; i < 2; i++) {
		struct end *end = &ends->end[i], *peer = &ends->end[1 - i];
		connect_qp(ends, end->out, end->psn, peer->in, peer->psn);
		if (end->in != end->out)
			connect_qp(ends, end->in, end->psn, peer->out, peer->psn);
	}
}

static void find_gid(struct ends *ends)
{
	static const union ibv_gid none;
	for (int i = 0; i < ends->port.gid_tbl_len; i++)
		if (!ibv_query_gid(ends->context, PORT, i, &ends->gid) &&
		    memcmp(&ends->gid, &none, sizeof none)) {
			ends->gid_index = i;
			return;
		}
}

/* Makes two ends; false when the device has no such transport. */
bool ends_make(struct ends *ends, struct ibv_context *context, enum transport transport)
{
	struct ibv_device_attr device;
	*ends = (struct ends){
		.transport = transport,
		.context = context,
		.access = IBV_ACCESS_REMOTE_WRITE,
		.rnr_retry = 7,
		.retry = 7,
		.timeout = 14,
	};
	if (ibv_query_device(context, &device) || ibv_query_port(context, PORT, &ends->port))
		fail("the device cannot be queried: %s", strerror(errno));
	if (transport == XRC) {
		struct ibv_xrcd_init_attr attr = {
			.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
		ends->xrcd = ibv_open_xrcd(context, &attr);
		if (!ends->xrcd)
			return false;
	}
	if (transport != UC && transport != UD)
		ends->access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	ends->atomics = device.atomic_cap != IBV_ATOMIC_NONE;
	/* Any that the port has, from 256; datagrams have the port's. */
	size_t active = 128u << ends->port.active_mtu;
	ends->mtu = transport == UD ? active : active >> random_below(ends->port.active_mtu);
	ends->longest = transport == UD ? active : LONGEST;
	find_gid(ends);
	for (int i = 0; i < 2; i++)
		make_end(ends, &ends->end[i]);
	ends_connect(ends);
	for (int i = 0; i < 2 && transport == UD; i++) {
		struct ibv_ah_attr attr = address(ends);
		MUST(ends->end[i].ah, ibv_create_ah(ends->end[i].pd, &attr));
	}
	return true;
}

static void must(int error, const char *call)
{
	if (error)
		fail("%s: %s", call, strerror(error));
}

void ends_close(struct ends *ends)
{
	for (int i = 0; i < 2; i++) {
		struct end *end = &ends->end[i];
		must(ibv_destroy_qp(end->out), "ibv_destroy_qp");
		if (end->in != end->out)
			must(ibv_destroy_qp(end->in), "ibv_destroy_qp");
		if (end->srq)
			must(ibv_destroy_srq(end->srq), "ibv_destroy_srq");
		if (end->ah)
			must(ibv_destroy_ah(end->ah), "ibv_destroy_ah");
		must(ibv_destroy_cq(end->sends), "ibv_destroy_cq");
		must(ibv_destroy_cq(end->receives), "ibv_destroy_cq");
		must(ibv_destroy_comp_channel(end->channel), "ibv_destroy_comp_channel");
		arena_close(&end->arena);
		must(ibv_dealloc_pd(end->pd), "ibv_dealloc_pd");
		munmap(end->arena.bytes, ARENA);
		munmap(end->arena.model, ARENA);
	}
	if (ends->xrcd)
		must(ibv_close_xrcd(ends->xrcd), "ibv_close_xrcd");
}

struct ibv_wc wait_completion(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	time_t begin = time(NULL);
	for (;;) {
		int count = ibv_poll_cq(cq, 1, &wc);
		if (count > 0)
			return wc;
		if (count < 0)
			fail("ibv_poll_cq: %d", count);
		if (time(NULL) - begin > PATIENCE)
			fail("waited %d s for %s", PATIENCE, what);
	}
}

/* Sleeps until the receives' channel has an event; the queue was armed before. */
void wait_event(struct end *end, const char *what)
{
	struct ibv_cq *cq;
	void *context;
	struct pollfd ready = {.fd = end->channel->fd, .events = POLLIN};
	if (poll(&ready, 1, PATIENCE * 1000) != 1)
		fail("waited %d s for the event of %s", PATIENCE, what);
	if (ibv_get_cq_event(end->channel, &cq, &context) || cq != end->receives)
		fail("ibv_get_cq_event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
}
