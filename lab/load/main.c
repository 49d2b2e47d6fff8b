/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * main.c: kymo-load NAME KEY=VALUE... [-- COMMAND...]: one load, and the guard over it. Called by
 * kymo, not by people. The guard is the ancestor of all that the load starts, and their reaper:
 * when it is told to end, or kymo dies, nothing of the load is left, neither process nor file.
 */
#include "load.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000ull
#define REMOVALS 10
#define GRACE_NS (10 * SECOND_NS) /* for a command to end by itself, and to say what it did */

const char *load_dir;

static struct {
	const char *name;
	unsigned workers;
	pid_t parent;
	cpu_set_t cpus;
	char **command; /* NULL: one of ours */
} options = { .workers = 1 };

static const struct load loads[] = {
	{ "hackbench", "messages", hackbench },
	{ "net", "messages", net },
	{ "compile", "compilations", compile },
};

static sigset_t before; /* signals that were blocked when we were started */
static pid_t guard; /* our number, once we are to leave nothing behind */
static bool has_dir; /* load_dir is there, and ours */

static void leave_nothing(void);

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

_Noreturn static void bad(const char *what, const char *why)
{
	fprintf(stderr, "kymo-load: %s: %s\n", what, why);
	exit(2);
}

void trouble(const char *format, ...)
{
	char text[512], line[640];
	va_list list;
	int length;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	for (char *at = text; *at; at++)
		if (*at == '"' || *at == '\\' || iscntrl((unsigned char)*at))
			*at = '\'';
	length = snprintf(line, sizeof(line), "{\"say\":\"trouble\",\"text\":\"%s\"}\n", text);
	/* One write: workers say it at the same time. */
	(void)!write(STDOUT_FILENO, line, (size_t)length);
	if (getpid() == guard)
		leave_nothing();
	_exit(1);
}

pid_t fork_tied(int signal)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, signal);
	/* It may have died before that. */
	if (getppid() != parent)
		_exit(1);
	sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return 0;
}

static long number_of(const char *key, const char *value, long low, long high)
{
	char *end;
	long number = strtol(value, &end, 10);

	if (end == value || *end || number < low || number > high)
		bad(key, "is no such number");
	return number;
}

static void set_cpus(const char *value)
{
	char *end = NULL;

	for (const char *at = value; *at; at = *end ? end + 1 : end) {
		long cpu = strtol(at, &end, 10);

		if (end == at || (*end && *end != ',') || cpu < 0 || cpu >= CPU_SETSIZE)
			bad("cpus", "is a list of CPU numbers: 0,2,3");
		CPU_SET((size_t)cpu, &options.cpus);
	}
}

static void set(char *word)
{
	char *value = strchr(word, '=');

	if (!value)
		bad(word, "is not KEY=VALUE");
	*value++ = 0;
	if (!strcmp(word, "cpus"))
		set_cpus(value);
	else if (!strcmp(word, "workers"))
		options.workers = (unsigned)number_of(word, value, 1, WORKERS_MAX);
	else if (!strcmp(word, "parent"))
		options.parent = (pid_t)number_of(word, value, 1, INT32_MAX);
	else if (!strcmp(word, "dir"))
		load_dir = value;
	else
		bad(word, "is not known");
}

/*
 * Of its own group, ordinary, on its CPUs; ends with its parent. The directory is made by who
 * removes it, and only when our parent's death is sure to reach us: made by kymo it would be
 * left where kymo is killed before.
 */
static void settle(void)
{
	const struct sched_param ordinary = { 0 };

	/* What we say has no reader when kymo is gone; that must not be our end, too. */
	sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (options.parent && getppid() != options.parent)
		exit(1);
	setpgid(0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	guard = getpid();
	if (load_dir && mkdir(load_dir, 0700))
		trouble("no directory %s for the load's files: %s", load_dir, strerror(errno));
	has_dir = load_dir != NULL;
	/* Held by us and our workers: who finds it free finds what a killed load left. */
	if (has_dir)
		flock(open(load_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), LOCK_SH);
	sched_setscheduler(0, SCHED_OTHER, &ordinary);
	if (CPU_COUNT(&options.cpus) && sched_setaffinity(0, sizeof(options.cpus), &options.cpus))
		trouble("the load cannot run on its CPUs: %s", strerror(errno));
}

_Noreturn static void be_worker(const struct load *load, unsigned number, struct counters *counters)
{
	load->work(number, counters);
	_exit(1);
}

static pid_t start_command(void)
{
	/* stress-ng takes its children and files with it when it is told to end. */
	pid_t pid = fork_tied(SIGTERM);

	if (pid == 0) {
		int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(options.command[0], options.command);
		dup2(out, STDOUT_FILENO);
		trouble("cannot run '%s': %s", options.command[0], strerror(errno));
	}
	return pid;
}

/* The first of the processes. */
static pid_t start(const struct load *load, struct counters *counters)
{
	pid_t first = 0;

	for (unsigned i = 0; i < (load ? options.workers : 1); i++) {
		pid_t pid = load ? fork_tied(SIGKILL) : start_command();

		if (pid < 0)
			trouble("no process for the load: %s", strerror(errno));
		if (pid == 0)
			be_worker(load, i, &counters[i]);
		if (!first)
			first = pid;
	}
	return first;
}

/* Our children, as /proc has them, are sent a signal. How many there are. */
static unsigned signal_children(int signal)
{
	DIR *proc = opendir("/proc");
	unsigned count = 0;

	for (struct dirent *entry; proc && (entry = readdir(proc));) {
		char path[280], line[512], *behind;
		FILE *stat;
		int parent;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		stat = fopen(path, "re");
		if (!stat)
			continue;
		/* The name may hold anything, so the last bracket is its end. */
		behind = fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;
		fclose(stat);
		if (!behind || sscanf(behind + 1, " %*c %d", &parent) != 1 || parent != getpid())
			continue;
		kill((pid_t)strtol(entry->d_name, NULL, 10), signal);
		count++;
	}
	if (proc)
		closedir(proc);
	return count;
}

/* Reaps who has ended. Whether anybody is left. */
static bool reap(int *status)
{
	for (;;) {
		pid_t pid = waitpid(-1, status, WNOHANG);

		if (pid == 0)
			return true;
		if (pid < 0 && errno != EINTR)
			return false;
	}
}

/* Nothing that the load started lives when this returns: orphans come to us, and are next. */
static void end_all(void)
{
	const struct timespec pause = { 0, 2000000 };
	uint64_t until = now_ns() + (options.command ? GRACE_NS : 0);
	int status;

	signal_children(SIGTERM);
	while (now_ns() < until && reap(&status))
		nanosleep(&pause, NULL);
	while (reap(&status)) {
		signal_children(SIGKILL);
		nanosleep(&pause, NULL);
	}
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
	(void)stat, (void)kind, (void)ftw;
	remove(path);
	return 0;
}

static void leave_nothing(void)
{
	end_all();
	/* Nobody is left to write into it, so once is enough; again where descriptors ran out. */
	for (unsigned i = 0; has_dir && i < REMOVALS && !access(load_dir, F_OK); i++)
		nftw(load_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int64_t operations(const struct load *load, const struct counters *counters)
{
	int64_t sum = 0;
	char path[4096];

	if (!load) {
		snprintf(path, sizeof(path), "%s/done.yaml", load_dir ? load_dir : ".");
		return stress_ng_operations(path);
	}
	for (unsigned i = 0; i < options.workers; i++)
		for (unsigned at = 0; at < COUNTERS; at++)
			sum += (int64_t)__atomic_load_n(&counters[i].done[at], __ATOMIC_RELAXED);
	return sum;
}

/*
 * Until somebody ends us (true), or the load ends by itself. Of a command others may come to us
 * and end; of ours nobody does, unless something is wrong.
 */
static bool wait_for_end(const sigset_t *signals, pid_t first)
{
	for (;;) {
		siginfo_t info;
		pid_t pid;
		int status;

		if (sigwaitinfo(signals, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD)
			return true;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (!options.command || pid == first)
				return false;
	}
}

static const struct load *choose(int argc, char **argv)
{
	int at = 2;

	if (argc < 2)
		bad("usage", "kymo-load NAME KEY=VALUE... [-- COMMAND...]");
	options.name = argv[1];
	for (; at < argc && strcmp(argv[at], "--"); at++)
		set(argv[at]);
	if (at + 1 < argc) {
		options.command = argv + at + 1;
		return NULL;
	}
	for (unsigned i = 0; i < sizeof(loads) / sizeof(*loads); i++)
		if (!strcmp(loads[i].name, options.name))
			return &loads[i];
	bad(options.name, "is no load of ours: hackbench, net, compile");
}

int main(int argc, char **argv)
{
	const struct load *load = choose(argc, argv);
	struct counters *counters;
	uint64_t begun;
	int64_t done;
	sigset_t signals;
	pid_t first;
	bool told;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &before);
	settle();
	counters = mmap(NULL, WORKERS_MAX * sizeof(*counters), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counters == MAP_FAILED)
		trouble("no memory for counters: %s", strerror(errno));
	begun = now_ns();
	first = start(load, counters);
	printf("{\"say\":\"ready\",\"pid\":%d}\n", (int)getpid());
	fflush(stdout);
	told = wait_for_end(&signals, first);
	end_all();
	done = operations(load, counters);
	leave_nothing();
	/* Where kymo is gone nobody reads this. */
	printf("{\"say\":\"load\",\"operations\":%" PRId64 ",\"unit\":\"%s\",\"duration_ns\":%" PRIu64
	       "}\n",
	       done, load ? load->unit : "bogo operations", now_ns() - begun);
	fflush(stdout);
	return told ? 0 : 1;
}
