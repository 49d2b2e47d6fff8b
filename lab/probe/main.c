/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * main.c: kymo-probe TEST KEY=VALUE...: what measures in the latency laboratory. Called by
 * kymo, not by people; the keys are the members of struct options. Says what it saw as JSON
 * lines [spec/lab.md 2].
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct options options = {
	.policy = SCHED_FIFO,
	.priority = 80,
	.warmup = 5,
	.interval_ns = 1000000,
	.threshold_ns = 10000,
	.window_ns = SECOND_NS,
	.width_ns = SECOND_NS / 2,
	.hold_ns = 200000,
	.levels = 4,
	.lock = true,
	.dma_latency_us = -1,
	.method = "clock_nanosleep",
	.inherit = true,
	.rate = 1000,
};

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
	signalled = number;
	probe_stop = true;
}

_Noreturn static void bad(const char *what, const char *why)
{
	fprintf(stderr, "kymo-probe: %s: %s\n", what, why);
	exit(2);
}

static uint64_t number_of(const char *key, const char *value)
{
	char *end;
	uint64_t number;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (errno || *end || end == value)
		bad(key, "is no number");
	return number;
}

static void set_cpus(const char *value)
{
	char *end = NULL;

	for (const char *at = value; *at; at = *end ? end + 1 : end) {
		long cpu = strtol(at, &end, 10);

		if (end == at || (*end && *end != ',') || cpu < 0 || cpu >= CPU_SETSIZE)
			bad("cpus", "is a list of CPU numbers: 0,2,3");
		if (options.cpu_count == THREADS_MAX)
			bad("cpus", "has too many members");
		options.cpus[options.cpu_count++] = (int)cpu;
	}
}

static void set_policy(const char *value)
{
	static const struct {
		const char *name;
		int policy;
	} all[] = {
		{ "other", SCHED_OTHER }, { "fifo", SCHED_FIFO }, { "rr", SCHED_RR }, { "deadline", 6 },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(all[i].name, value)) {
			options.policy = all[i].policy;
			return;
		}
	bad("policy", "is other, fifo, rr or deadline");
}

static void set(char *word)
{
	static const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {
		{ "count", &options.count },
		{ "duration_ns", &options.duration_ns },
		{ "warmup", &options.warmup },
		{ "interval_ns", &options.interval_ns },
		{ "distance_ns", &options.distance_ns },
		{ "tp_interval_ns", &options.tp_interval_ns },
		{ "threshold_ns", &options.threshold_ns },
		{ "window_ns", &options.window_ns },
		{ "width_ns", &options.width_ns },
		{ "hold_ns", &options.hold_ns },
		{ "watch_ns", &options.watch_ns },
		{ "watch_above_ns", &options.watch_above_ns },
		{ "fault_bytes", &options.fault_bytes },
		{ "fault_every", &options.fault_every },
		{ "rate", &options.rate },
		{ "payload", &options.payload },
	};
	char *value = strchr(word, '=');

	if (!value)
		bad(word, "is not KEY=VALUE");
	*value++ = 0;
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(numbers[i].key, word)) {
			*numbers[i].to = number_of(word, value);
			return;
		}
	if (!strcmp(word, "cpus"))
		set_cpus(value);
	else if (!strcmp(word, "policy"))
		set_policy(value);
	else if (!strcmp(word, "method"))
		options.method = value;
	else if (!strcmp(word, "priority"))
		options.priority = (int)number_of(word, value);
	else if (!strcmp(word, "levels"))
		options.levels = (unsigned)number_of(word, value);
	else if (!strcmp(word, "lock"))
		options.lock = number_of(word, value);
	else if (!strcmp(word, "inherit"))
		options.inherit = number_of(word, value);
	else if (!strcmp(word, "wait"))
		options.wait = number_of(word, value);
	else if (!strcmp(word, "dma_latency_us"))
		options.dma_latency_us = (int)number_of(word, value);
	else if (!strcmp(word, "cycles_per_ns"))
		options.cycles_per_ns = strtod(value, NULL);
	else
		bad(word, "is not known");
}

static void check(void)
{
	if (!options.count && !options.duration_ns)
		bad(options.test, "needs count or duration_ns");
	if (!options.interval_ns)
		bad("interval_ns", "is 0");
	if (options.window_ns < options.width_ns || !options.width_ns)
		bad("width_ns", "is more than the window, or 0");
	if (options.levels < 2 || options.levels > 64)
		bad("levels", "is 2 to 64");
	if (!options.rate || options.payload > PAYLOAD_MAX)
		bad("rate or payload", "is 0, or more than can be");
}

/* While the file is open the processors' idle states are no deeper. */
static void hold_latency(void)
{
	int32_t us = options.dma_latency_us;
	int fd;

	if (us < 0)
		return;
	fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, &us, sizeof(us)) != sizeof(us))
		say_trouble("dma-latency", "/dev/cpu_dma_latency cannot be held at %d us: %s", us,
			    strerror(errno));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const struct options *options);
	} tests[] = {
		{ "npt", test_npt },	     { "wakeup", test_wakeup }, { "hwlat", test_hwlat },
		{ "preempt", test_preempt }, { "pi", test_pi },	{ "maxrate", test_maxrate },
	};
	struct sigaction action = { .sa_handler = on_signal };
	uint64_t begun;

	if (argc < 2)
		bad("usage", "kymo-probe TEST KEY=VALUE...");
	options.test = argv[1];
	for (int i = 2; i < argc; i++)
		set(argv[i]);
	check();
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	hold_latency();
	clock_prepare(&options);
	for (unsigned i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		if (strcmp(tests[i].name, options.test))
			continue;
		begun = monotonic_ns();
		tests[i].run(&options);
		printf("{\"say\":\"done\",\"duration_ns\":%" PRIu64 ",\"ended\":\"%s\"}\n", monotonic_ns() - begun,
		       signalled ? "signal" : options.count ? "count" : "time");
		return 0;
	}
	bad(options.test, "is no test: npt, wakeup, hwlat, preempt, pi, maxrate");
}
