/* Registers memory in a few ways, changes and frees it, and says what failed.
 *
 *   regmr           everything, then frees it; exit status 1 when a call failed
 *   regmr --hold    makes a queue pair and keys, says "held" and keeps them until it is killed */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int failures;

static void failed(const char *call, int error)
{
	printf("%s: %s\n", call, strerror(error));
	failures++;
}

enum { RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

static const struct {
	size_t offset, length;
} RANGES[] = {
	{0, 4096},	    /* one page */
	{100, 65536},	    /* not aligned */
	{0, 4 << 20},	    /* too many pages for one small list */
};
enum { RANGE_COUNT = sizeof RANGES / sizeof *RANGES };

static struct ibv_context *open_device(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	if (!list || !count) {
		failed("ibv_get_device_list", list ? ENODEV : errno);
		return NULL;
	}
	struct ibv_context *context = ibv_open_device(list[0]);
	if (!context)
		failed("ibv_open_device", errno);
	ibv_free_device_list(list);
	return context;
}

static void free_key(struct ibv_mr *mr)
{
	int error = mr ? ibv_dereg_mr(mr) : 0;
	if (error)
		failed("ibv_dereg_mr", error);
}

static struct ibv_mr *register_range(struct ibv_pd *pd, int i)
{
	char *memory = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(memory, i, 8 << 20);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory + RANGES[i].offset, RANGES[i].length, RIGHTS);
	if (!mr)
		failed("ibv_reg_mr", errno);
	return mr;
}

static void hold(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	if (!cq)
		return failed("ibv_create_cq", errno);
	struct ibv_qp_init_attr attributes = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	if (!ibv_create_qp(pd, &attributes))
		return failed("ibv_create_qp", errno);
	for (int i = 0; i < RANGE_COUNT; i++)
		register_range(pd, i);
	puts("held");
	fflush(stdout);
}

static void change(struct ibv_mr *mr)
{
	int flags = IBV_REREG_MR_CHANGE_ACCESS, rights = RIGHTS & ~IBV_ACCESS_REMOTE_WRITE;
	int error = mr ? ibv_rereg_mr(mr, flags, NULL, NULL, 0, rights) : 0;
	if (error)
		failed("ibv_rereg_mr", error == -1 ? errno : error);
}

int main(int count, char **arguments)
{
	struct ibv_context *context = open_device();
	if (!context)
		return 1;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	if (!pd) {
		failed("ibv_alloc_pd", errno);
		return 1;
	}
	if (count > 1 && !strcmp(arguments[1], "--hold")) {
		hold(context, pd);
		for (; !failures;)
			pause();
		return 1;
	}
	struct ibv_mr *keys[RANGE_COUNT];
	for (int i = 0; i < RANGE_COUNT; i++)
		keys[i] = register_range(pd, i);
	change(keys[0]);
	for (int i = 0; i < RANGE_COUNT; i++)
		free_key(keys[i]);
	int error = ibv_dealloc_pd(pd);
	if (error)
		failed("ibv_dealloc_pd", error);
	if (ibv_close_device(context))
		failed("ibv_close_device", errno);
	return failures != 0;
}
