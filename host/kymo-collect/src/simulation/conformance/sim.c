/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sim.c: a program as the simulation of sessions has them, with libkymo. It does what each line on standard input says,
 * and answers with a line when it has. A child reads the same lines, while its parent waits for its end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kymo/tracepoint.h>

#line 1 "sim.c"
KYMO_EVENT(sim, e0, (u64, n))
#line 1 "sim.c"
KYMO_EVENT(sim, e1, (u64, n))

static void *library;

/* The next line. Without a buffer: the rest is for whoever reads after us. */
static int read_line(char *line, size_t room)
{
	size_t used = 0;
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		if (used + 1 < room)
			line[used++] = c;
	line[used] = 0;
	return used > 0;
}

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0 || write(1, "\n", 1) < 0)
		_exit(1);
}

static void record(const char *what)
{
	unsigned index;
	unsigned long long n;

	if (sscanf(what, "%u %llu", &index, &n) != 2)
		_exit(2);
	if (index == 0) {
		kymo_trace(sim, e0, n);
	} else if (index == 1) {
		kymo_trace(sim, e1, n);
	} else {
		void (*of_library)(unsigned long long n);

		*(void **)&of_library = dlsym(library, "record");
		of_library(n);
	}
}

int main(int argc, char **argv)
{
	char line[4096];

	(void)argc;
	alarm(120);
	say("ready");
	while (read_line(line, sizeof(line))) {
		if (!strncmp(line, "record ", 7)) {
			record(line + 7);
		} else if (!strncmp(line, "load ", 5)) {
			library = dlopen(line + 5, RTLD_NOW);
			if (!library)
				_exit(3);
		} else if (!strcmp(line, "unload")) {
			dlclose(library);
		} else if (!strcmp(line, "fork")) {
			if (fork())
				wait(NULL);
		} else if (!strncmp(line, "exec ", 5)) {
			setenv("KYMO_START_WAIT", line + 5, 1);
			execv(argv[0], argv);
			_exit(4);
		} else {
			_exit(0);
		}
		say("done");
	}
	return 0;
}
