/* explain-trace FILE COMMAND…: runs COMMAND with the kernel's tracer on and writes what it saw.
 *
 * FILE is a row of sections; each begins with a line "section NAME LENGTH". The records are as the
 * kernel's ring buffer has them, one section a processor. The exit status is COMMAND's. */

#include "explain.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of each processor. When it is full, what comes later is lost, and counted. */
#define BUFFER_KIB "24576"

static struct ibv_context *open_card(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	if (list)
		ibv_free_device_list(list);
	return context;
}

static void set_up(struct ibv_context *context)
{
	put("tracing_on", "0");
	if (!put("current_tracer", "nop"))
		fprintf(stderr, "mlx5emu: this kernel has no tracer (CONFIG_FUNCTION_GRAPH_TRACER)\n");
	put("trace_clock", "mono");
	put("buffer_size_kb", BUFFER_KIB);
	put("options/overwrite", "0");
	put("trace", "");
	choose_functions();
	set_up_probes(context);
	put("current_tracer", "function_graph");
}

/* Starts COMMAND stopped at a pipe, so that nothing before it is traced. */
static pid_t start(char **argv, int *go)
{
	int gate[2];
	if (pipe(gate) != 0)
		return -1;
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 1)
			_exit(126);
		close(gate[0]);
		execvp(argv[0], argv);
		int error = errno;
		fprintf(stderr, "mlx5emu: cannot run %s in the guest: %s\n", argv[0], strerror(error));
		_exit(error == ENOENT ? 127 : 126);
	}
	close(gate[0]);
	*go = gate[1];
	return child;
}

static void write_buffers(FILE *to)
{
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		char path[256];
		snprintf(path, sizeof path, TRACEFS "per_cpu/cpu%d/stats", cpu);
		copy_section(to, "stats", path);
		snprintf(path, sizeof path, TRACEFS "per_cpu/cpu%d/trace_pipe_raw", cpu);
		copy_section(to, "records", path);
	}
}

static void write_run(FILE *to, pid_t child, int status, char **argv)
{
	char *bytes = NULL;
	size_t length = 0;
	struct utsname name;
	FILE *out = open_memstream(&bytes, &length);
	if (!out || uname(&name) != 0)
		return;
	fprintf(out, "pid %d\nstatus %d\nkernel %s\ncommand", child, status, name.release);
	for (; *argv; argv++)
		fprintf(out, " %s", *argv);
	fprintf(out, "\n");
	fclose(out);
	copy_bytes(to, "run", bytes, length);
	free(bytes);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: explain-trace FILE COMMAND…\n");
		return 125;
	}
	FILE *to = fopen(argv[1], "we");
	if (!to) {
		fprintf(stderr, "mlx5emu: cannot write %s: %s\n", argv[1], strerror(errno));
		return 125;
	}
	char *times = NULL;
	size_t length = 0;
	FILE *clock = open_memstream(&times, &length);
	struct ibv_context *context = open_card();
	set_up(context);

	int go, status = 0;
	pid_t child = start(argv + 2, &go);
	if (child < 0 || !clock) {
		fprintf(stderr, "mlx5emu: cannot start %s: %s\n", argv[2], strerror(errno));
		return 125;
	}
	exchange_times(context, clock);
	put("tracing_on", "1");
	if (write(go, "", 1) != 1)
		kill(child, SIGKILL);
	close(go);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	put("tracing_on", "0");
	exchange_times(context, clock);
	fclose(clock);

	write_run(to, child, status, argv + 2);
	copy_bytes(to, "clock", times, length);
	write_symbols(to);
	write_formats(to);
	write_buffers(to); /* before another tracer is chosen: that empties them */
	put("current_tracer", "nop");
	if (fclose(to) != 0) {
		fprintf(stderr, "mlx5emu: cannot write %s: %s\n", argv[1], strerror(errno));
		return 125;
	}
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	return WEXITSTATUS(status);
}
