/* Registers memory in many ways and tells the judge on the host what it did: see dialog.c.
 *
 *	mrproof [DEVICE]
 *
 * It ends by removing the driver, so that the judge can see that nothing is left behind. */

static const struct {
	const char *name;
	void (*run)(const struct card *);
} CASES[] = {
	{"unaligned head and tail", case_unaligned},
	{"one byte", case_one_byte},
	{"one page", case_one_page},
	{"across pages", case_across_pages},
	{"1 MiB", case_mebibyte},
	{"256 MiB", case_256_mebibytes},
	{"2 MiB huge pages", case_huge_pages},
	{"transparent huge pages", case_transparent_huge_pages},
	{"read-only memory", case_read_only},
	{"shared memory", case_shared_memory},
	{"memory file", case_memory_file},
	{"fork", case_fork},
	{"the same buffer many times", case_same_buffer},
	{"10 000 small ones", case_ten_thousand},
	{"8 threads at once", case_threads},
	{"reregistration", case_reregistration},
	{"deregistration and reuse", case_reuse},
	{"access flags", case_access_flags},
	{"zero-based and other addresses", case_zero_based},
	{"protection domains", case_protection_domains},
	{"unmapped memory", case_unmapped_memory},
	{"locked memory beyond the limit", case_locked_memory},
};

static void say_hello(const char *device)
{
	struct utsname system;
	uname(&system);
	say("hello", ",\"protocol\":1,\"kernel\":\"%s\",\"device\":\"%s\"", system.release, device);
}

/* The driver makes its own queues with the first registration, and keeps them. */
static void warm_up(const char *name)
{
	struct card card = open_card(name);
	uint8_t *memory = small_pages(PAGE);
	struct region region;
	enroll(&region, card.pd, memory, PAGE, LOCAL_WRITE);
	if (!region.mr) {
		say_failed("the first ibv_reg_mr", region.error);
		exit(1);
	}
	drop(&region);
	munmap(memory, PAGE);
	close_card(&card);
	say("warm", "%s", "");
}

/* Runs a program; its messages go to standard error. */
static bool run_program(const char *const *words)
{
	pid_t pid = fork();
	if (pid == 0) {
		dup2(2, 1);
		execvp(words[0], (char *const *)words);
		_exit(127);
	}
	int status = -1;
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void remove_driver(const char *device)
{
	char link[300], target[300] = {0};
	if (!access("/sys/module/mlx5_core/initstate", F_OK)) {
		const char *words[] = {"modprobe", "-r", "mlx5_ib", "mlx5_core", NULL};
		if (!run_program(words))
			say_failed("modprobe -r mlx5_ib mlx5_core", EBUSY);
		say("unloaded", ",\"how\":\"modprobe -r mlx5_ib mlx5_core\"");
		return;
	}
	/* Built into the kernel: only the device can be taken from it. */
	snprintf(link, sizeof link, "/sys/class/infiniband/%s/device", device);
	const char *address = readlink(link, target, sizeof target - 1) > 0 ? strrchr(target, '/') : NULL;
	if (!address || !write_text("/sys/bus/pci/drivers/mlx5_core/unbind", address + 1))
		say_failed("unbind the device", errno);
	say("unloaded", ",\"how\":\"unbind\"");
}

int main(int argc, char **argv)
{
	/* Before anything else, says the manual. */
	if (ibv_fork_init())
		give_up("ibv_fork_init");
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	char name[64];
	snprintf(name, sizeof name, "%s", ibv_get_device_name(context->device));
	ibv_close_device(context);

	open_pagemap();
	say_hello(name);
	warm_up(name);
	struct card card = open_card(name);
	for (size_t i = 0; i < COUNT(CASES); i++) {
		say("case", ",\"name\":\"%s\"", CASES[i].name);
		CASES[i].run(&card);
	}
	close_card(&card);
	say("rest", "%s", "");
	remove_driver(name);
	say("end", "%s", "");
	return 0;
}
