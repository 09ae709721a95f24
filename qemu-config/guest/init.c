/* The guest's first program: from the initramfs to the job.
 *
 * The initramfs holds this program, the modules that the root file system needs (JOB "insmod" names
 * them in order) and what the launcher wants done. The root file system is a read-only image shared by
 * all kernels, with the kernel's modules from a second one and a tmpfs laid over it. There is no udev:
 * devtmpfs makes the nodes, and rdma-core's rules would rename the RDMA device. */

#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

void fail(const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (!port_failed(text)) {
		printf("mlx5emu-guest: %s\n", text);
		fflush(stdout);
	}
	power_off();
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
}

static void make_mount(const char *type, const char *where, const char *options)
{
	mkdir(where, 0755);
	mount(type, where, type, 0, options);
}

/* Mounts what a job can't do without; `needs` is what to say when the kernel has no such thing. */
static void must_mount(const char *what, const char *where, const char *type, unsigned long flags,
		       const char *options)
{
	mkdir(where, 0755);
	if (mount(what, where, type, flags, options) == 0)
		return;
	if (errno == ENODEV)
		fail("the kernel lacks %s (built in, or as a module in --modules)", type);
	fail("cannot mount %s on %s: %s", what, where, strerror(errno));
}

static void read_settings(struct settings *settings)
{
	char *text = read_file(JOB "settings", NULL);
	if (!text)
		fail("the initramfs holds no job");
	char *rest = text, *line;
	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = 0;
		unsigned number = strtoul(value, NULL, 10);
		if (!strcmp(line, "trial"))
			settings->trial = number;
		else if (!strcmp(line, "card"))
			settings->card = number;
		else if (!strcmp(line, "tty"))
			settings->tty = number;
		else if (!strcmp(line, "modules"))
			settings->modules = number;
		else if (!strcmp(line, "shares"))
			settings->shares = number;
		else if (!strcmp(line, "wait"))
			settings->wait = number;
		else if (!strcmp(line, "rows"))
			settings->rows = number;
		else if (!strcmp(line, "columns"))
			settings->columns = number;
	}
	free(text);
}

static void insert_modules(void)
{
	size_t length;
	char *text = read_file(JOB "insmod", &length);
	char **list = text ? split_list(text, length) : NULL;
	for (; list && *list; list++) {
		int fd = open(*list, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST))
			fail("cannot load %s: %s", *list, strerror(errno));
		close(fd);
	}
}

/* Finds the disk that the launcher gave this serial number. */
static void find_disk(const char *serial, char *device, size_t room)
{
	for (int tries = 0; tries < 3000; tries++, nap()) {
		glob_t found;
		if (glob("/sys/block/*/serial", 0, NULL, &found) != 0)
			continue;
		for (size_t i = 0; i < found.gl_pathc; i++) {
			char *text = read_file(found.gl_pathv[i], NULL);
			if (text && !strncmp(text, serial, strlen(serial))) {
				char *name = found.gl_pathv[i] + strlen("/sys/block/");
				*strchr(name, '/') = 0;
				snprintf(device, room, "/dev/%s", name);
				free(text);
				globfree(&found);
				return;
			}
			free(text);
		}
		globfree(&found);
	}
	fail("no disk \"%s\" appeared in 30 s: the kernel lacks virtio_blk or virtio_pci (built in, or as "
	     "modules in --modules)",
	     serial);
}

static void mount_root(const struct settings *settings)
{
	char device[64];
	mkdir("/layers", 0755);
	must_mount("tmpfs", "/layers", "tmpfs", 0, "mode=0755");
	mkdir("/layers/upper", 0755);
	mkdir("/layers/work", 0755);
	find_disk("root", device, sizeof device);
	must_mount(device, "/layers/root", "squashfs", MS_RDONLY, NULL);
	const char *lower = "lowerdir=/layers/root,upperdir=/layers/upper,workdir=/layers/work";
	if (settings->modules) {
		find_disk("modules", device, sizeof device);
		must_mount(device, "/layers/modules", "squashfs", MS_RDONLY, NULL);
		lower = "lowerdir=/layers/modules:/layers/root,upperdir=/layers/upper,workdir=/layers/work";
	}
	must_mount("overlay", "/root", "overlay", 0, lower);
	make_mount("proc", "/root/proc", NULL);
	make_mount("sysfs", "/root/sys", NULL);
	make_mount("devtmpfs", "/root/dev", "mode=0755");
}

/* Moves what the launcher brought along into the root file system, then goes there. */
static void enter_root(void)
{
	mkdir("/root/usr/lib/mlx5emu", 0755);
	DIR *programs = opendir("/programs");
	struct dirent *entry;
	while (programs && (entry = readdir(programs))) {
		if (entry->d_name[0] == '.')
			continue;
		char from[300], to[300];
		snprintf(from, sizeof from, "/programs/%s", entry->d_name);
		snprintf(to, sizeof to, "/root/usr/lib/mlx5emu/%s", entry->d_name);
		if (!copy_file(from, to, 0755))
			fail("cannot copy %s: %s", entry->d_name, strerror(errno));
	}
	if (programs)
		closedir(programs);
	remove_tree("/programs");
	remove_tree("/modules");
	mkdir("/root/job", 0700);
	if (!copy_file(JOB "argv", "/root" JOB "argv", 0600) ||
	    !copy_file(JOB "env", "/root" JOB "env", 0600))
		fail("cannot copy the job: %s", strerror(errno));
	if (chdir("/root") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 ||
	    chdir("/") != 0)
		fail("cannot enter the root file system: %s", strerror(errno));
}

static void mount_the_rest(const struct settings *settings)
{
	make_mount("devpts", "/dev/pts", "mode=0620,ptmxmode=0666,gid=5");
	make_mount("tmpfs", "/dev/shm", "mode=1777");
	make_mount("tmpfs", "/run", "mode=0755");
	make_mount("debugfs", "/sys/kernel/debug", NULL);
	make_mount("tracefs", "/sys/kernel/tracing", NULL);
	make_mount("configfs", "/sys/kernel/config", NULL);
	make_mount("hugetlbfs", "/dev/hugepages", NULL);
	if (symlink("/proc/self/fd", "/dev/fd") || symlink("/proc/self/fd/0", "/dev/stdin") ||
	    symlink("/proc/self/fd/1", "/dev/stdout") || symlink("/proc/self/fd/2", "/dev/stderr"))
		fail("cannot make /dev/fd: %s", strerror(errno));
	for (unsigned i = 1; i <= settings->shares; i++) {
		char tag[32], where[64];
		snprintf(tag, sizeof tag, "share%u", i);
		snprintf(where, sizeof where, i == 1 ? "/mnt/share" : "/mnt/share%u", i);
		must_mount(tag, where, "9p", 0, "trans=virtio,version=9p2000.L,msize=262144,cache=none");
	}
}

static void loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		ioctl(fd, SIOCSIFFLAGS, &request);
		close(fd);
	}
	if (sethostname("guest", 5) != 0)
		fail("cannot set the host name: %s", strerror(errno));
}

static void modprobe(const char *const *names)
{
	pid_t child = fork();
	if (child == 0) {
		execv("/usr/sbin/modprobe", (char *const *)names);
		_exit(127);
	}
	int status;
	if (child > 0)
		waitpid(child, &status, 0);
}

static bool present(const char *pattern)
{
	glob_t found;
	bool some = glob(pattern, 0, NULL, &found) == 0;
	globfree(&found);
	return some;
}

static void wait_for_card(const struct settings *settings)
{
	/* What rdma-core's udev rules would load for the device. IPoIB is left to the job. */
	if (settings->modules)
		modprobe((const char *[]){"modprobe", "-a", "mlx5_ib", "ib_umad", "rdma_ucm", NULL});
	for (unsigned tries = 0; tries < settings->wait * 100; tries++, nap())
		if (present("/sys/class/infiniband/*") && present("/dev/infiniband/uverbs*"))
			return;
	if (!present("/sys/bus/pci/drivers/mlx5_core"))
		fail("the kernel lacks mlx5_core (built in, or as a module in --modules)");
	if (!present("/sys/bus/auxiliary/drivers/mlx5_ib.*"))
		fail("the kernel lacks mlx5_ib (built in, or as a module in --modules)");
	if (!present("/sys/bus/pci/drivers/mlx5_core/0000:*"))
		fail("mlx5_core did not bind to the card");
	fail("no RDMA device appeared within %u s", settings->wait);
}

int main(void)
{
	struct settings settings = {0};

	make_mount("devtmpfs", "/dev", "mode=0755");
	make_mount("proc", "/proc", NULL);
	make_mount("sysfs", "/sys", NULL);
	read_settings(&settings);
	if (settings.trial) {
		puts("mlx5emu-guest: alive");
		fflush(stdout);
		power_off();
	}
	insert_modules();
	mount_root(&settings);
	enter_root();
	mount_the_rest(&settings);
	loopback_up();
	port_open();
	if (settings.card)
		wait_for_card(&settings);
	run_job(&settings);
}
