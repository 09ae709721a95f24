/* Runs the job and carries its streams.
 *
 * One virtio-serial port carries everything in frames of a type (1 byte), a length (4 bytes, little
 * endian) and that many bytes. One port keeps the order: when the launcher has the exit status it has
 * all output as well. frame.rs is the other end. */

#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	/* to the launcher */
	HELLO = 1,  /* the kernel's release */
	READY = 2,  /* the job starts */
	OUTPUT = 3, /* of its standard output, or of its terminal */
	ERRORS = 4, /* of its standard error */
	EXITED = 5, /* its exit status, one byte */
	KILLED = 6, /* the signal that ended it, one byte */
	FAILED = 7, /* why there is no job, a text */
	/* from the launcher */
	INPUT = 16, /* for its standard input; an empty one ends that */
	SIZE = 17,  /* of the terminal: rows and columns, two bytes each */
	DONE = 18,  /* everything has arrived: power off */
	CLOSE = 19, /* nobody reads its standard output (1) or error (2), one byte */
	UNPLUG = 20, /* the kernel lets go of the card */
	REPLUG = 21, /* the kernel looks for the card */
};

enum { HEADER = 5, LARGEST = 32768 };

static int port = -1;

static bool write_all(int fd, const void *bytes, size_t length)
{
	for (const char *next = bytes; length;) {
		ssize_t n = write(fd, next, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		next += n;
		length -= n;
	}
	return true;
}

static void send_frame(uint8_t type, const void *bytes, uint32_t length)
{
	static uint8_t frame[HEADER + LARGEST];
	frame[0] = type;
	for (int i = 0; i < 4; i++)
		frame[1 + i] = length >> 8 * i;
	memcpy(frame + HEADER, bytes, length);
	if (!write_all(port, frame, HEADER + length))
		power_off();
}

/* Tells the launcher; false when the port is not open yet. */
bool port_failed(const char *text)
{
	if (port < 0)
		return false;
	send_frame(FAILED, text, strlen(text));
	return true;
}

void port_open(void)
{
	glob_t found;
	for (int tries = 0; port < 0 && tries < 3000; tries++) {
		if (glob("/dev/vport*p1", 0, NULL, &found) == 0)
			port = open(found.gl_pathv[0], O_RDWR | O_CLOEXEC);
		globfree(&found);
		if (port < 0)
			usleep(10 * 1000);
	}
	if (port < 0)
		fail("no port to the launcher: the kernel lacks virtio_console (built in, or as a module in "
		     "--modules)");
	struct utsname name;
	uname(&name);
	send_frame(HELLO, name.release, strlen(name.release));
}

/* The job's ends of its streams, as init keeps them. */
struct streams {
	int in, out, err; /* -1 when closed; `in` and `out` are one for a terminal */
	bool tty;
	uint8_t input[HEADER + LARGEST]; /* what came through the port */
	size_t have;			 /* bytes of it */
	size_t given;			 /* payload bytes of its frame that the job has */
	bool done;			 /* the launcher has everything */
};

static _Noreturn void become_job(char **argv)
{
	size_t length;
	char *text = read_file(JOB "env", &length);
	char **environment = text ? split_list(text, length) : NULL;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (chdir("/root") != 0)
		_exit(127);
	clearenv();
	for (; environment && *environment; environment++)
		putenv(*environment);
	execvp(argv[0], argv);
	int error = errno;
	dprintf(2, "mlx5emu: cannot run %s in the guest: %s\n", argv[0], strerror(error));
	_exit(error == ENOENT ? 127 : 126);
}

static pid_t start_job(const struct settings *settings, struct streams *streams, char **argv)
{
	streams->tty = settings->tty;
	if (settings->tty) {
		struct winsize size = {.ws_row = settings->rows, .ws_col = settings->columns};
		pid_t child = forkpty(&streams->out, NULL, NULL, &size);
		if (child == 0)
			become_job(argv);
		streams->in = streams->out;
		streams->err = -1;
		return child;
	}
	int in[2], out[2], err[2];
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return -1;
	pid_t child = fork();
	if (child == 0) {
		setsid();
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		become_job(argv);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	streams->in = in[1];
	streams->out = out[0];
	streams->err = err[0];
	return child;
}

static void close_input(struct streams *streams)
{
	if (streams->in >= 0 && !streams->tty)
		close(streams->in);
	streams->in = -1;
}

static void close_output(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Passes on one stream; false when there was nothing. */
static bool pass_output(int *fd, uint8_t type)
{
	static char bytes[LARGEST];
	if (*fd < 0)
		return false;
	ssize_t n = read(*fd, bytes, sizeof bytes);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n <= 0) { /* a terminal that nobody has open any more says EIO */
		close_output(fd);
		return false;
	}
	send_frame(type, bytes, n);
	return true;
}

static uint32_t frame_length(const struct streams *streams)
{
	uint32_t length = 0;
	for (int i = 0; i < 4; i++)
		length |= (uint32_t)streams->input[1 + i] << 8 * i;
	return length;
}

static bool frame_complete(const struct streams *streams)
{
	return streams->have >= HEADER && streams->have >= HEADER + frame_length(streams);
}

static void take_frame(struct streams *streams)
{
	size_t whole = HEADER + frame_length(streams);
	memmove(streams->input, streams->input + whole, streams->have - whole);
	streams->have -= whole;
	streams->given = 0;
}

/* Acts on the frames that are complete. Stops at input that the job has not taken yet. */
static void act_on_frames(struct streams *streams)
{
	while (frame_complete(streams)) {
		uint32_t length = frame_length(streams);
		uint8_t *payload = streams->input + HEADER;
		switch (streams->input[0]) {
		case INPUT:
			if (length == 0 && streams->tty && streams->in >= 0)
				write_all(streams->in, "\004", 1); /* end of file, as typed */
			else if (length == 0)
				close_input(streams);
			while (streams->in >= 0 && streams->given < length) {
				ssize_t n = write(streams->in, payload + streams->given, length - streams->given);
				if (n < 0 && errno == EAGAIN)
					return;
				if (n < 0 && errno != EINTR)
					close_input(streams);
				else if (n > 0)
					streams->given += n;
			}
			break;
		case SIZE:
			if (length == 4 && streams->tty && streams->in >= 0) {
				struct winsize size = {.ws_row = payload[0] | payload[1] << 8,
						       .ws_col = payload[2] | payload[3] << 8};
				ioctl(streams->in, TIOCSWINSZ, &size);
			}
			break;
		case CLOSE:
			if (length == 1 && !streams->tty)
				close_output(payload[0] == 1 ? &streams->out : &streams->err);
			break;
		case UNPLUG:
		case REPLUG:
			change_slot(streams->input[0] == REPLUG);
			break;
		case DONE:
			streams->done = true;
			break;
		}
		take_frame(streams);
	}
}

static void read_port(struct streams *streams)
{
	ssize_t n = read(port, streams->input + streams->have, sizeof streams->input - streams->have);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) /* the launcher is gone */
		power_off();
	streams->have += n;
	if (streams->have >= HEADER && frame_length(streams) > LARGEST)
		power_off();
}

/* Every orphan becomes ours. Returns true with the job's own status. */
static bool reap(pid_t job, int *status)
{
	bool ended = false;
	int any;
	for (pid_t child; (child = waitpid(-1, &any, WNOHANG)) > 0;)
		if (child == job) {
			*status = any;
			ended = true;
		}
	return ended;
}

static int carry_streams(struct streams *streams, pid_t job, int children)
{
	for (;;) {
		bool held = frame_complete(streams); /* the job is slow to read */
		struct pollfd fds[] = {
			{.fd = children, .events = POLLIN},
			{.fd = held ? -1 : port, .events = POLLIN},
			{.fd = streams->out, .events = POLLIN},
			{.fd = streams->err, .events = POLLIN},
			{.fd = held ? streams->in : -1, .events = POLLOUT},
		};
		if (poll(fds, sizeof fds / sizeof *fds, -1) < 0)
			continue;
		if (fds[1].revents)
			read_port(streams);
		if (fds[2].revents)
			pass_output(&streams->out, OUTPUT);
		if (fds[3].revents)
			pass_output(&streams->err, ERRORS);
		if (streams->out < 0 && streams->tty)
			streams->in = -1;
		act_on_frames(streams);
		if (fds[0].revents) {
			struct signalfd_siginfo info;
			int status;
			if (read(children, &info, sizeof info) > 0 && reap(job, &status))
				return status;
		}
	}
}

/* What the job wrote before it ended. Others may still hold the streams open: they are not waited for. */
static void drain(int *fd, uint8_t type)
{
	if (*fd >= 0)
		fcntl(*fd, F_SETFL, O_NONBLOCK);
	while (pass_output(fd, type))
		;
}

void run_job(const struct settings *settings)
{
	size_t length;
	char *text = read_file(JOB "argv", &length);
	char **argv = text ? split_list(text, length) : NULL;
	if (!argv || !argv[0])
		fail("the job is empty");

	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	int children = signalfd(-1, &signals, SFD_CLOEXEC);

	static struct streams streams;
	send_frame(READY, "", 0);
	pid_t job = start_job(settings, &streams, argv);
	if (job < 0 || children < 0)
		fail("cannot start the job: %s", strerror(errno));
	fcntl(streams.in, F_SETFL, O_NONBLOCK);

	int status = carry_streams(&streams, job, children);
	drain(&streams.out, OUTPUT);
	drain(&streams.err, ERRORS);
	uint8_t value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	send_frame(WIFSIGNALED(status) ? KILLED : EXITED, &value, 1);
	for (close_input(&streams); !streams.done; act_on_frames(&streams))
		read_port(&streams);
	power_off();
}
