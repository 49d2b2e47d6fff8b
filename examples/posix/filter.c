/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A filter: what is in it is not recorded. Everything but "warning" is ignored from the middle on. */
#include <stdio.h>
#include <trace.h>

int main(void)
{
	struct posix_trace_event_info info;
	trace_event_id_t step, warning;
	trace_event_set_t ignored;
	trace_id_t stream;
	int data, unavailable;
	size_t bytes;

	if (posix_trace_create(0, NULL, &stream))
		return 1;
	posix_trace_eventid_open("step", &step);
	posix_trace_eventid_open("warning", &warning);
	posix_trace_start(stream);
	for (int i = 0; i < 10; i++) {
		if (i == 5) {
			posix_trace_eventset_fill(&ignored, POSIX_TRACE_ALL_EVENTS);
			posix_trace_eventset_del(warning, &ignored);
			posix_trace_set_filter(stream, &ignored, POSIX_TRACE_SET_EVENTSET);
		}
		posix_trace_event(i % 4 == 3 ? warning : step, &i, sizeof(i));
	}
	while (!posix_trace_trygetnext_event(stream, &info, &data, sizeof(data), &bytes, &unavailable) &&
	       !unavailable)
		if (posix_trace_eventid_equal(stream, info.posix_event_id, warning))
			printf("warning %d\n", data);
		else if (posix_trace_eventid_equal(stream, info.posix_event_id, step))
			printf("step %d\n", data);
	return posix_trace_shutdown(stream);
}
