/* Runs one program after the other for the campaign on the host, whatever becomes of them.
 *
 * A request is a line:   run MILLISECONDS <tab> PROGRAM <tab> ARGUMENT …
 *                        clean MILLISECONDS
 * In an argument 0x1e stands for a new line and 0x1f for a tab.
 * The reply is a line of JSON: how the program ended, what it printed and what the kernel said
 * meanwhile. A program whose time is over, or during which the kernel tells of a task that hangs, is
 * killed; so is one that hangs where the kernel has told of a hang before. What a program leaves behind
 * in its session goes on until `clean` kills it. A process that can't be killed is told of, and left
 * alone: the host decides what becomes of the guest. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LINE = 4096,	     /* of a request */
	ARGUMENTS = 64,
	OUTPUT = 4096,	     /* of a program, its end */
	LOG = 64 * 1024,     /* of the kernel's messages in one reply */
	KILL_WAIT = 3 * 1000, /* ms from SIGKILL until a process counts as stuck */
	STACK = 4096,	     /* of a process, as text */
	PLACES = 32,	     /* in the kernel that are remembered */
	SURE = 1000,	     /* ms until a process hangs that is where others have hung */
};

static int kernel_log;

static int64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000ll + time.tv_nsec / 1000000;
}

/* ---- JSON ---- */

static void put_text(const char *text, size_t length)
{
	putchar('"');
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = text[i];
		if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte == '\n')
			fputs("\\n", stdout);
		else if (byte < ' ' || byte > '~')
			printf("\\u%04x", byte < ' ' ? byte : '?');
		else
			putchar(byte);
	}
	putchar('"');
}

/* ---- Hangs that the kernel has told of ---- */

static const char *read_proc(pid_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	return text;
}

/* Where processes were of which the kernel has told, after a wait of its own, that they hang. One that is
 * there again hangs too, once the driver has given up what it may wait for. */
static struct {
	char place[PLACES][STACK];
	unsigned count;
} hangs;

/* Where in the kernel a process is: its stack up to the first function of a module. */
static const char *where(pid_t pid, char *stack)
{
	read_proc(pid, "stack", stack, STACK);
	char *module = strstr(stack, "]\n");
	if (module)
		module[1] = 0;
	return stack;
}

static bool is_known(const char *place)
{
	for (unsigned i = 0; i < hangs.count; i++)
		if (!strcmp(hangs.place[i], place))
			return true;
	return false;
}

/* From "INFO: task NAME:PID blocked for …". */
static void learn(const char *message, const char *blocked)
{
	const char *number = blocked;
	while (number > message && number[-1] >= '0' && number[-1] <= '9')
		number--;
	if (hangs.count == PLACES || number == blocked)
		return;
	const char *place = where(atoi(number), hangs.place[hangs.count]);
	if (*place && !is_known(place))
		hangs.count++;
}

/* ---- The kernel's messages ---- */

static void open_log(void)
{
	kernel_log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kernel_log >= 0)
		lseek(kernel_log, 0, SEEK_END);
}

static struct {
	char text[LOG]; /* messages, each with a zero behind it */
	size_t length;
	bool hung; /* one of them tells of a task that hangs */
	bool given_up; /* one tells that the driver waits no more for a command, since `clean` */
} messages;

/* A record is "priority,number,microseconds,flags;message" and lines of properties. */
static void take_log(void)
{
	static char record[8192];
	for (;;) {
		ssize_t n = read(kernel_log, record, sizeof record - 1);
		if (n < 0 && errno == EPIPE) /* some were overwritten */
			continue;
		if (n <= 0)
			return;
		record[n] = 0;
		char *message = strchr(record, ';');
		if (!message)
			continue;
		message++;
		size_t length = strcspn(message, "\n");
		message[length] = 0;
		const char *blocked = strstr(message, " blocked for more than ");
		if (blocked)
			learn(message, blocked);
		messages.hung |= blocked != NULL;
		messages.given_up |= strstr(message, "Will cause a leak of a command resource") != NULL;
		if (messages.length + length + 1 > LOG)
			continue;
		memcpy(messages.text + messages.length, message, length + 1);
		messages.length += length + 1;
	}
}

static void put_log(void)
{
	take_log();
	fputs(",\"log\":[", stdout);
	for (size_t at = 0; at < messages.length; at += strlen(messages.text + at) + 1) {
		if (at)
			putchar(',');
		put_text(messages.text + at, strlen(messages.text + at));
	}
	putchar(']');
	messages.length = 0;
}

/* ---- Processes ---- */

/* "state parent group session" from /proc/PID/stat. */
static bool process(pid_t pid, char *state, pid_t *parent)
{
	char text[512];
	char *rest = strrchr(read_proc(pid, "stat", text, sizeof text), ')');
	return rest && sscanf(rest + 1, " %c %d", state, parent) == 2;
}

static bool is_kernel_thread(pid_t pid, pid_t parent)
{
	return pid == 2 || parent == 2;
}

/* Calls `what` for every process but init, ourselves and the kernel's. */
static void each_process(void (*what)(pid_t pid, char state))
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name), parent;
		char state;
		if (pid <= 1 || pid == getpid() || !process(pid, &state, &parent))
			continue;
		if (!is_kernel_thread(pid, parent) && state != 'Z')
			what(pid, state);
	}
	if (proc)
		closedir(proc);
}

static unsigned alive;
static const char *stuck_separator;

static void count(pid_t pid, char state)
{
	(void)pid, (void)state;
	alive++;
}

static void kill_it(pid_t pid, char state)
{
	(void)state;
	kill(pid, SIGKILL);
}

/* One that sleeps where it can be woken is none. */
static void put_stuck(pid_t pid, char state)
{
	if (state == 'S')
		return;
	char name[64], stack[STACK];
	read_proc(pid, "comm", name, sizeof name);
	name[strcspn(name, "\n")] = 0;
	read_proc(pid, "stack", stack, sizeof stack);
	printf("%s{\"name\":", stuck_separator);
	put_text(name, strlen(name));
	printf(",\"state\":\"%c\",\"stack\":", state);
	put_text(stack, strlen(stack));
	putchar('}');
	stuck_separator = ",";
}

static bool hangs_again;

static void compare(pid_t pid, char state)
{
	char stack[STACK];
	hangs_again |= state == 'D' && is_known(where(pid, stack));
}

/* For how long a process has been where others have hung. */
static int64_t hung_again(int64_t *since)
{
	hangs_again = false;
	if (messages.given_up && hangs.count)
		each_process(compare);
	if (!hangs_again)
		*since = 0;
	else if (!*since)
		*since = now();
	return *since ? now() - *since : 0;
}

/* Kills everything that programs have left; false when something can't be killed. */
static bool kill_all(int64_t wait)
{
	int64_t end = now() + wait;
	for (;;) {
		each_process(kill_it);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		alive = 0;
		each_process(count);
		if (!alive || now() > end)
			return !alive;
		usleep(10 * 1000);
	}
}

static void put_all_stuck(void)
{
	fputs(",\"stuck\":[", stdout);
	stuck_separator = "";
	each_process(put_stuck);
	putchar(']');
}

/* ---- Requests ---- */

struct output {
	char text[OUTPUT];
	size_t length;
};

/* Keeps the end. */
static void take_output(int fd, struct output *output)
{
	static char piece[OUTPUT];
	ssize_t n;
	while ((n = read(fd, piece, sizeof piece)) > 0) {
		size_t keep = output->length;
		if (keep + n > OUTPUT) {
			size_t drop = keep + n - OUTPUT;
			memmove(output->text, output->text + drop, keep - drop);
			keep -= drop;
		}
		memcpy(output->text + keep, piece, n);
		output->length = keep + n;
	}
}

static pid_t start(char **arguments, int output)
{
	pid_t child = fork();
	if (child)
		return child;
	setsid();
	int nothing = open("/dev/null", O_RDWR);
	dup2(nothing, 0);
	dup2(output, 1);
	dup2(output, 2);
	execvp(arguments[0], arguments);
	fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
	_exit(127);
}

static void run(int64_t limit, char **arguments)
{
	static struct output output;
	int ends[2], status = 0;
	if (pipe2(ends, O_CLOEXEC))
		exit(1);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	output.length = 0;
	int64_t began = now();
	pid_t child = start(arguments, ends[1]);
	close(ends[1]);
	int pidfd = syscall(SYS_pidfd_open, child, 0);

	bool ended = false, late = false;
	int64_t same = 0;
	messages.hung = false;
	for (int64_t end = began + limit; !ended;) {
		struct pollfd fds[] = {{.fd = pidfd, .events = POLLIN}, {.fd = ends[0], .events = POLLIN}};
		poll(fds, fds[1].fd >= 0 ? 2 : 1, 100);
		take_output(ends[0], &output);
		take_log();
		ended = waitpid(child, &status, WNOHANG) == child;
		messages.hung |= !late && hung_again(&same) > SURE;
		if (ended || (now() < end && !messages.hung))
			continue;
		if (late)
			break; /* nor does it die */
		late = true;
		/* One that hangs does not die soon either. */
		end = now() + (messages.hung ? KILL_WAIT / 10 : KILL_WAIT);
		messages.hung = false;
		kill(-child, SIGKILL);
	}
	take_output(ends[0], &output);
	close(ends[0]);
	close(pidfd);

	printf("{\"ms\":%lld,\"late\":%s,", (long long)(now() - began), late ? "true" : "false");
	if (!ended)
		fputs("\"status\":null,\"signal\":null", stdout);
	else if (WIFSIGNALED(status))
		printf("\"status\":null,\"signal\":%d", WTERMSIG(status));
	else
		printf("\"status\":%d,\"signal\":null", WEXITSTATUS(status));
	fputs(",\"output\":", stdout);
	put_text(output.text, output.length);
	if (ended)
		fputs(",\"stuck\":[]", stdout);
	else
		put_all_stuck();
	put_log();
	puts("}");
}

static void clean(int64_t limit)
{
	int64_t began = now();
	bool done = kill_all(limit);
	messages.given_up = false;
	printf("{\"ms\":%lld,\"late\":%s,\"status\":%s,\"signal\":null,\"output\":\"\"",
	       (long long)(now() - began), done ? "false" : "true", done ? "0" : "null");
	put_all_stuck();
	put_log();
	puts("}");
}

static char *decode(char *argument)
{
	for (char *at = argument; *at; at++)
		*at = *at == 0x1e ? '\n' : *at == 0x1f ? '\t' : *at;
	return argument;
}

int main(void)
{
	static char line[LINE];
	open_log();
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	while (fgets(line, sizeof line, stdin)) {
		char *arguments[ARGUMENTS + 1] = {0};
		int64_t limit;
		line[strcspn(line, "\n")] = 0;
		char *rest = line, *word = strsep(&rest, "\t");
		for (int i = 0; rest && i < ARGUMENTS; i++)
			arguments[i] = decode(strsep(&rest, "\t"));
		if (sscanf(word, "run %ld", &limit) == 1 && arguments[0])
			run(limit, arguments);
		else if (sscanf(word, "clean %ld", &limit) == 1)
			clean(limit);
		else
			puts("{\"error\":\"no such request\"}");
		fflush(stdout);
	}
}
