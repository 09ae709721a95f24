/* explain-registration [register]: one registration of an unaligned buffer of 64 KiB, an RDMA write from
 * its first half to its second, and the deregistration. With "register" there is no write. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH = 65536, UNALIGNED = 0x801, HALF = LENGTH / 2, PATIENCE_S = 30 };

static void must(bool fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "explain-registration: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Two connected queue pairs, both ours: a write travels out of the card's port and back in. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
};

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attributes);
	must(qp, "ibv_create_qp");
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *other, uint16_t lid)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	must(!ibv_modify_qp(qp, &attributes, mask), "ibv_modify_qp to INIT");

	attributes = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = other->qp_num,
		.ah_attr = {.dlid = lid, .port_num = 1},
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
	};
	mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	must(!ibv_modify_qp(qp, &attributes, mask), "ibv_modify_qp to RTR");

	attributes = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC;
	must(!ibv_modify_qp(qp, &attributes, mask), "ibv_modify_qp to RTS");
}

static struct pair make_pair(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_port_attr port;
	must(!ibv_query_port(context, 1, &port), "ibv_query_port");
	struct pair pair = {.cq = ibv_create_cq(context, 8, NULL, NULL, 0)};
	must(pair.cq, "ibv_create_cq");
	pair.from = create(pd, pair.cq);
	pair.to = create(pd, pair.cq);
	connect_to(pair.from, pair.to, port.lid);
	connect_to(pair.to, pair.from, port.lid);
	return pair;
}

static void write_through(const struct pair *pair, const struct ibv_mr *mr)
{
	struct ibv_sge part = {.addr = (uintptr_t)mr->addr, .length = HALF, .lkey = mr->lkey};
	struct ibv_send_wr *refused, request = {
		.wr_id = 1,
		.sg_list = &part,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = part.addr + HALF, .rkey = mr->rkey},
	};
	must(!ibv_post_send(pair->from, &request, &refused), "ibv_post_send");
	struct ibv_wc done = {0};
	time_t last = time(NULL) + PATIENCE_S;
	int got;
	while ((got = ibv_poll_cq(pair->cq, 1, &done)) == 0 && time(NULL) < last)
		;
	if (got != 1 || done.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "explain-registration: the write: %s (vendor 0x%x)\n",
			got ? ibv_wc_status_str(done.status) : "no completion", done.vendor_err);
		exit(1);
	}
	must(memcmp(mr->addr, (char *)mr->addr + HALF, HALF) == 0, "the data that was written");
}

int main(int argc, char **argv)
{
	bool write = argc < 2 || strcmp(argv[1], "register") != 0;
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list && *list, "no RDMA device");
	struct ibv_context *context = ibv_open_device(*list);
	must(context, "ibv_open_device");
	ibv_free_device_list(list);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	must(pd, "ibv_alloc_pd");
	struct pair pair = {0};
	if (write)
		pair = make_pair(context, pd);

	size_t room = LENGTH + 2 * 4096;
	char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED, "mmap");
	char *buffer = memory + UNALIGNED;
	memset(buffer, 'm', HALF);
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, LENGTH, rights);
	must(mr, "ibv_reg_mr");
	if (write)
		write_through(&pair, mr);
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");

	if (write) {
		ibv_destroy_qp(pair.from);
		ibv_destroy_qp(pair.to);
		ibv_destroy_cq(pair.cq);
	}
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	munmap(memory, room);
	return 0;
}
