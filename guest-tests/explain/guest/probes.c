/* What is traced beside the graph: arguments and results of some functions, the verbs library's functions,
 * and the kernel's events around them.
 *
 * Kernels differ: a function that one lacks or has inlined is left out, and the story is told without. */

#include "explain.h"

#define LIBRARY "libibverbs.so.1"
/* A function with what is fetched when it begins and when it returns. Arguments are those of the
 * x86-64 calling convention. */
struct probe {
	const char *function, *begin, *end;
};

#define RESULT "ret=$retval:s64"
#define POINTER "ret=$retval:x64"
#define MR "mr=+0($retval):x64 lkey=+36($retval):x32 rkey=+40($retval):x32"

#define MEMORY "address=$arg2:x64 length=$arg3:u64 access=$arg4:x32"

/* 64 words are 16 entries of a scatter list: page and flags, offset and length, DMA address, its length. */
#define ENTRIES(n, at) " list" n "=+" at "(+0($arg2)):x64[64]"

static const struct probe kernel_probes[] = {
	{"ib_uverbs_ioctl", "object=+u2($arg3):u16 method=+u4($arg3):u16", RESULT},
	{"ib_uverbs_write", "", RESULT},
	{"ib_uverbs_cmd_verbs", NULL, RESULT},
	{"ib_uverbs_reg_mr", NULL, RESULT},
	{"ib_uverbs_dereg_mr", NULL, RESULT},
	{"ib_umem_get", MEMORY, POINTER},
	{"__ib_umem_get_va", MEMORY, POINTER}, /* its name in later kernels */
	{"pin_user_pages_fast", "address=$arg1:x64 pages=$arg2:s32 flags=$arg3:x32", "ret=$retval:s32"},
	{"__gup_longterm_locked", NULL, RESULT},
	{"dma_map_sgtable",
	 "vmemmap=@vmemmap_base:x64 entries=+12($arg2):u32" ENTRIES("0", "0") ENTRIES("1", "512")
		 ENTRIES("2", "1024") ENTRIES("3", "1536"),
	 "ret=$retval:s32"},
	{"ib_umem_find_best_pgsz", "allowed=$arg2:x64 iova=$arg3:x64", "ret=$retval:u64"},
	{"mlx5_ib_reg_user_mr", NULL, POINTER},
	{"create_real_mr", NULL, POINTER},
	{"reg_create", NULL, POINTER},
	{"alloc_cacheable_mr", NULL, POINTER},
	{"mlx5_mr_cache_alloc", NULL, POINTER},
	{"ib_frmr_pool_pop", NULL, "ret=$retval:s32"},
	{"mlx5_ib_create_mkey", NULL, "ret=$retval:s32"},
	{"mlx5_core_create_mkey", NULL, "ret=$retval:s32"},
	{"mlx5_core_destroy_mkey", "mkey=$arg2:x32", "ret=$retval:s32"},
	{"mlx5r_umr_update_mr_pas", NULL, "ret=$retval:s32"},
	{"mlx5r_umr_revoke_mr", NULL, "ret=$retval:s32"},
	{"mlx5r_umr_post_send_wait", "mkey=$arg2:x32", "ret=$retval:s32"},
	{"mlx5_ib_dereg_mr", NULL, "ret=$retval:s32"},
	{"mlx5_ib_create_qp", NULL, "ret=$retval:s32"},
	{"mlx5_ib_modify_qp", NULL, "ret=$retval:s32"},
	{"mlx5_ib_create_cq", NULL, "ret=$retval:s32"},
	{"mlx5_ib_alloc_pd", NULL, "ret=$retval:s32"},
	{"mlx5_ib_alloc_ucontext", NULL, "ret=$retval:s32"},
	{"cmd_exec", "opcode=+0($arg2):x32 modifier=+4($arg2):x32 in=$arg3:s32 out=$arg5:s32",
	 "ret=$retval:s32"},
	{"mlx5_cmd_do", NULL, "ret=$retval:s32"},
	{"mlx5_cmd_exec", NULL, "ret=$retval:s32"},
};

#define PD_OF_FIRST "pd=+8(%di):u32"
#define QP_OF_FIRST "qp=+52(%di):u32"
#define SAID "ret=$retval:s32"

static const struct probe library_probes[] = {
	{"ibv_open_device", "", POINTER},
	{"ibv_close_device", "", SAID},
	{"ibv_query_port", "port=%si:u8", SAID},
	{"ibv_alloc_pd", "", POINTER " pd=+8($retval):u32"},
	{"ibv_dealloc_pd", PD_OF_FIRST, SAID},
	{"ibv_reg_mr", PD_OF_FIRST " address=%si:x64 length=%dx:u64 access=%cx:x32", MR},
	{"ibv_reg_mr_iova", PD_OF_FIRST " address=%si:x64 length=%dx:u64 iova=%cx:x64 access=%r8:x32", MR},
	{"ibv_reg_mr_iova2", PD_OF_FIRST " address=%si:x64 length=%dx:u64 iova=%cx:x64 access=%r8:x32", MR},
	{"ibv_reg_dmabuf_mr", PD_OF_FIRST " offset=%si:x64 length=%dx:u64 iova=%cx:x64 fd=%r8:s32", MR},
	{"ibv_rereg_mr",
	 "lkey=+36(%di):x32 flags=%si:x32 address=%cx:x64 length=%r8:u64 access=%r9:x32", SAID},
	{"ibv_dereg_mr",
	 "address=+16(%di):x64 length=+24(%di):u64 lkey=+36(%di):x32 rkey=+40(%di):x32", SAID},
	{"ibv_create_comp_channel", "", POINTER},
	{"ibv_create_cq", "entries=%si:s32", POINTER},
	{"ibv_destroy_cq", "", SAID},
	{"ibv_get_cq_event", "", SAID},
	{"ibv_create_qp", PD_OF_FIRST, POINTER " qp=+52($retval):u32"},
	{"ibv_modify_qp", QP_OF_FIRST " state=+0(%si):u32 mask=%dx:x32", SAID},
	{"ibv_destroy_qp", QP_OF_FIRST, SAID},
	{"ibv_create_srq", PD_OF_FIRST, POINTER},
	{"ibv_destroy_srq", "", SAID},
	{"ibv_create_ah", PD_OF_FIRST, POINTER},
	{"ibv_destroy_ah", "", SAID},
};

#define SEGMENT "(+16(%si))"
static const struct probe post_send = {
	"ibv_post_send",
	QP_OF_FIRST " work=+0(%si):x64 segments=+24(%si):u32 operation=+28(%si):u32 flags=+32(%si):x32"
		    " remote=+40(%si):x64 rkey=+48(%si):x32 address=+0" SEGMENT ":x64"
		    " length=+8" SEGMENT ":u32 lkey=+12" SEGMENT ":x32",
	SAID,
};
static const struct probe post_receive = {
	"ibv_post_recv", QP_OF_FIRST " work=+0(%si):x64 segments=+24(%si):u32", SAID,
};
/* Only its return: programs call it over and over until there is something. */
static const struct probe poll_cq = {"ibv_poll_cq", NULL, SAID};

static const char *const events[] = {
	"raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "irq/irq_handler_entry",
	"irq/irq_handler_exit",	  "sched/sched_switch",	   "sched/sched_process_fork",
	"sched/sched_process_exit",
};

static void kernel_probe(const struct probe *probe)
{
	char line[2048];
	if (probe->begin) {
		snprintf(line, sizeof line, "p:kernel/%s %s %s\n", probe->function, probe->function,
			 probe->begin);
		append("kprobe_events", line);
	}
	if (probe->end) {
		snprintf(line, sizeof line, "r:kernel/%s__ret %s %s\n", probe->function,
			 probe->function, probe->end);
		append("kprobe_events", line);
	}
}

static void library_probe(const struct probe *probe, const struct place *place)
{
	char line[2048];
	if (probe->begin) {
		snprintf(line, sizeof line, "p:library/%s %s:0x%lx %s\n", probe->function, place->file,
			 place->offset, probe->begin);
		append("uprobe_events", line);
	}
	snprintf(line, sizeof line, "r:library/%s__ret %s:0x%lx %s\n", probe->function, place->file,
		 place->offset, probe->end);
	append("uprobe_events", line);
}

static void provider_probe(const struct probe *probe, const void *function)
{
	struct place place;
	if (find_pointer(function, &place))
		library_probe(probe, &place);
}

void set_up_probes(struct ibv_context *context)
{
	for (size_t i = 0; i < COUNT(kernel_probes); i++)
		kernel_probe(&kernel_probes[i]);
	for (size_t i = 0; i < COUNT(library_probes); i++) {
		struct place place;
		if (find_exported(LIBRARY, library_probes[i].function, &place))
			library_probe(&library_probes[i], &place);
	}
	if (context) {
		/* These are no exported functions: programs reach them through the context. */
		provider_probe(&post_send, context->ops.post_send);
		provider_probe(&post_receive, context->ops.post_recv);
		provider_probe(&poll_cq, context->ops.poll_cq);
	}
	put("events/kernel/enable", "1");
	put("events/library/enable", "1");
	put("events/library/ibv_poll_cq__ret/filter", "ret != 0");
	for (size_t i = 0; i < COUNT(events); i++) {
		char line[256];
		snprintf(line, sizeof line, "events/%s/enable", events[i]);
		put(line, "1");
	}
}

static void write_format(FILE *to, const char *event)
{
	char path[256];
	snprintf(path, sizeof path, TRACEFS "events/%s/format", event);
	copy_section(to, "format", path);
}

/* How each kind of record is laid out. */
void write_formats(FILE *to)
{
	static const char *const always[] = {"ftrace/funcgraph_entry", "ftrace/funcgraph_exit"};
	for (size_t i = 0; i < COUNT(always); i++)
		write_format(to, always[i]);
	for (size_t i = 0; i < COUNT(events); i++)
		write_format(to, events[i]);
	/* Those that were made, as the kernel lists them: p:GROUP/EVENT PLACE …. */
	FILE *list = fopen(TRACEFS "dynamic_events", "re");
	char line[4096], name[128];
	while (list && fgets(line, sizeof line, list))
		if (sscanf(line, "%*[^:]:%127s", name) == 1)
			write_format(to, name);
	if (list)
		fclose(list);
}
