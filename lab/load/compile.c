/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * compile.c: a compiler at work. Each worker writes a program of its own into its directory, and
 * compiles and links it again and again: processes that come and go, page faults, small files. An
 * operation is one run of the compiler.
 */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES 4
#define FUNCTIONS 60 /* of a file */

/* One file: functions with loops, tables and calls, enough for a tenth of a second at -O2. */
static void write_source(unsigned file)
{
	char name[32];
	FILE *out;

	snprintf(name, sizeof(name), "part%u.c", file);
	out = fopen(name, "we");
	if (!out)
		trouble("cannot write %s/%s: %s", load_dir, name, strerror(errno));
	fprintf(out, "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n");
	for (unsigned i = 0; i < FUNCTIONS; i++)
		fprintf(out,
			"static long work%u(const long *in, long *out, int n)\n{\n\tlong sum = %u;\n"
			"\tfor (int i = 0; i < n; i++) {\n\t\tswitch (in[i] & 7) {\n"
			"\t\tcase 0: sum += in[i] * %u; break;\n\t\tcase 1: sum ^= in[i] << 3; break;\n"
			"\t\tcase 2: out[i] = sum %% (in[i] | 1); break;\n\t\tdefault: sum -= out[i];\n\t\t}\n\t}\n"
			"\treturn sum;\n}\n",
			i, i, i * 7 + 1);
	fprintf(out, "long part%u(const long *in, long *out, int n)\n{\n\tlong sum = 0;\n", file);
	for (unsigned i = 0; i < FUNCTIONS; i++)
		fprintf(out, "\tsum += work%u(in, out, n);\n", i);
	fprintf(out, "\treturn sum;\n}\n");
	if (!file)
		fprintf(out, "int main(void)\n{\n\tlong a[9] = { 0 }, b[9] = { 0 };\n"
			     "\treturn (int)part0(a, b, 9);\n}\n");
	if (fclose(out))
		trouble("cannot write %s/%s: %s", load_dir, name, strerror(errno));
}

/* Whether the compiler ran and found nothing wrong. Gone with this process: it is told to end. */
static void run(char *const words[])
{
	pid_t pid = fork_tied(SIGTERM);
	int status = 0;

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDOUT_FILENO);
		execvp(words[0], words);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		trouble("no process for the compiler: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		trouble("no compiler '%s'; apt-get install gcc libc6-dev, or CC=...", words[0]);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		trouble("the compiler '%s' failed; is libc6-dev installed?", words[0]);
}

void compile(unsigned number, struct counters *counters)
{
	char *cc = getenv("CC") ? getenv("CC") : "cc", name[16], source[16], object[16];

	snprintf(name, sizeof(name), "%u", number);
	if (!load_dir || chdir(load_dir) || mkdir(name, 0700) || chdir(name))
		trouble("no directory for the compiler: %s", strerror(errno));
	for (unsigned file = 0; file < FILES; file++)
		write_source(file);
	for (;;) {
		for (unsigned file = 0; file < FILES; file++) {
			char *words[] = { cc, "-O2", "-g", "-c", source, "-o", object, NULL };

			snprintf(source, sizeof(source), "part%u.c", file);
			snprintf(object, sizeof(object), "part%u.o", file);
			run(words);
			__atomic_store_n(&counters->done[0], counters->done[0] + 1, __ATOMIC_RELAXED);
		}
		run((char *[]){ cc, "-o", "program", "part0.o", "part1.o", "part2.o", "part3.o", NULL });
	}
}
