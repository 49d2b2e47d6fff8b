/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events of the kernel beside those of the program: how long each step was away from the CPU, and what
 * it called. Needs tracefs, and the right to use it.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <trace.h>

int main(void)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	struct posix_trace_event_info info;
	trace_event_id_t step;
	trace_attr_t attr;
	trace_id_t stream;
	union {
		int step;
		struct posix_trace_context_switch change;
		struct posix_trace_system_call_entry entry;
	} data;
	int unavailable, error;
	size_t bytes;

	posix_trace_attr_init(&attr);
	posix_trace_attr_setstreamsize(&attr, 1 << 20);
	posix_trace_attr_setkernelevents(&attr, POSIX_TRACE_KERNEL_SWITCH | POSIX_TRACE_KERNEL_CALL);
	error = posix_trace_create(0, &attr, &stream);
	if (error) {
		fprintf(stderr, "no events of the kernel: %s\n", strerror(error));
		return 1;
	}
	posix_trace_eventid_open("step", &step);
	posix_trace_start(stream);
	for (int i = 0; i < 3; i++) {
		posix_trace_event(step, &i, sizeof(i));
		nanosleep(&pause, NULL);
	}
	posix_trace_stop(stream); /* what is printed below is not recorded */
	while (!posix_trace_trygetnext_event(stream, &info, &data, sizeof(data), &bytes, &unavailable) &&
	       !unavailable) {
		printf("%ld.%09ld thread %ld: ", (long)info.posix_timestamp.tv_sec,
		       info.posix_timestamp.tv_nsec, (long)info.posix_thread_id);
		if (info.posix_event_id == step)
			printf("step %d\n", data.step);
		else if (info.posix_event_id == POSIX_TRACE_CONTEXT_SWITCH)
			printf("switch from %d (%s) to %d on CPU %d\n", data.change.posix_from,
			       data.change.posix_from_state, data.change.posix_to, data.change.posix_cpu);
		else if (info.posix_event_id == POSIX_TRACE_SYSTEM_CALL_ENTRY)
			printf("system call %d\n", data.entry.posix_number);
		else
			printf("event %u\n", info.posix_event_id);
	}
	return posix_trace_shutdown(stream);
}
