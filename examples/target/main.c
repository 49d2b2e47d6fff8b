/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * main.c: an interrupt and two tasks record; the second task also sends, when the first has nothing
 * to do. Ends after MILLISECONDS, or goes on for ever where that is 0.
 */
#include <kymo/target.h>
#include <trace.h>

#include "board.h"

#ifndef MILLISECONDS
#define MILLISECONDS 2000
#endif

static trace_event_id_t tick_event, step_event, sample_event;
static trace_id_t stream;

/* Each millisecond; each second one switches tasks wherever they are. */
void on_tick(void)
{
	uint32_t now = board_ticks();

	if (now % 10 == 0)
		posix_trace_event(tick_event, &now, sizeof(now));
	if (now % 2)
		task_switch_soon();
}

static void work(void)
{
	uint32_t sample[3] = { 0 };

	for (;;) {
		sample[0]++;
		sample[1] = sample[0] * sample[0];
		sample[2] = board_ticks();
		posix_trace_event(sample_event, sample, sizeof(sample));
		for (uint32_t until = board_ticks() + 4; board_ticks() < until;)
			task_yield();
	}
}

static void send(void)
{
	uint32_t step = 0;

	while (!MILLISECONDS || board_ticks() < MILLISECONDS) {
		step++;
		if (step % 64 == 1)
			posix_trace_event(step_event, &step, sizeof(step));
		if (!kymo_target_idle())
			board_sleep();
	}
	posix_trace_shutdown(stream);
	board_end();
}

int main(void)
{
	trace_attr_t attr;

	posix_trace_attr_init(&attr);
	posix_trace_attr_setname(&attr, "demo");
	posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_LOOP);
	posix_trace_eventid_open("tick", &tick_event);
	posix_trace_eventid_open("step", &step_event);
	posix_trace_eventid_open("sample", &sample_event);
	board_begin();
	if (posix_trace_create_withlog(0, &attr, 1, &stream) || posix_trace_start(stream))
		return 1;
	tasks_run(send, work);
	return 0;
}
