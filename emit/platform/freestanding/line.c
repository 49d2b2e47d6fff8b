/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * line.c: a stream's log as frames on a line to the host [target.md 3]: built one at a time, handed
 * to the program's write hook in pieces as long as it takes some. Unit: trace to log. Under
 * kymop_lock. Nothing is sent again: what is lost on the way, the host counts.
 */
#include "line.h"

#if KYMO_POSIX_LOG
#include "../../posix/chunk.h"

struct kymop_log {
	struct kymop_stream *stream; /* null: no stream has a log */
	int flush_error;
	uint32_t sequence; /* of the next frame since this start of the target */
	uint32_t records;  /* in frames so far */
	uint32_t lost;	   /* as the host was told last */
	uint32_t names;	   /* that were sent */
	uint32_t events;   /* frames of events since the head */
	uint32_t used, sent; /* bytes of frame; equal: it is gone */
	bool is_head_due, has_pending;
	struct kymop_read pending; /* was read, and begins the next frame */
	uint32_t data[KYMOP_RECORD_BYTES_MAX / 4];
	struct kymop_frame frame;
	uint32_t payload[KYMOP_PAYLOAD_BYTES / 4 + 1]; /* and the CRC */
};
static struct kymop_log line;
static volatile uint8_t is_asked;

__attribute__((weak)) uint32_t kymo_target_boot(void)
{
	return 0;
}

static void frame_begin(uint32_t type)
{
	line.frame.magic = KYMOP_FRAME_MAGIC | type << 24;
	line.used = 0;
}

/* The next bytes of the payload, as a place for whole words of zeros. */
static void *frame_add(uint32_t bytes)
{
	void *at = (uint8_t *)line.payload + line.used;

	bytes = (bytes + 3) & ~3u;
	line.used += bytes;
	return memset(at, 0, bytes);
}

static void frame_end(void)
{
	uint32_t crc;

	line.frame.bytes = (uint16_t)line.used;
	line.frame.inverse = (uint16_t)~line.used;
	line.frame.boot = kymo_target_boot();
	line.frame.sequence = line.sequence++;
	line.used += sizeof(line.frame);
	crc = kymop_crc(0, &line.frame, line.used);
	memcpy((uint8_t *)&line.frame + line.used, &crc, sizeof(crc));
	line.used += sizeof(crc);
	line.sent = 0;
}

/* Who this is, how fast its clock runs, and how much there was. The names follow anew. */
static void head_make(uint32_t flags)
{
	const char *name = line.stream->attr.kymo__name;
	uint64_t stamp = kymo_target_clock();
	struct kymop_line_head *head;
	uint32_t length = (uint32_t)strlen(name);

	frame_begin(KYMOP_FRAME_HEAD);
	head = frame_add(sizeof(*head));
	head->version = KYMOP_LINE_VERSION;
	head->hz = kymo_target_hz;
	head->stamp_low = (uint32_t)stamp;
	head->stamp_high = (uint32_t)(stamp >> 32);
	head->lost = line.lost;
	head->records = line.records;
	head->names = (uint16_t)(line.stream->names->count - 1);
	head->flags = (uint16_t)flags;
	memcpy(frame_add(length), name, length);
	frame_end();
	line.is_head_due = false;
	line.names = 1;
	line.events = 0;
}

static void names_make(void)
{
	const struct kymop_names *names = line.stream->names;

	frame_begin(KYMOP_FRAME_NAMES);
	while (line.names < names->count) {
		const char *name = names->name[line.names];
		struct kymop_line_name *head;
		uint32_t length = (uint32_t)strlen(name);

		if (line.used + sizeof(*head) + length + 3 > KYMOP_PAYLOAD_BYTES)
			break;
		head = frame_add(sizeof(*head));
		head->id = (uint16_t)(KYMOP_USER_FIRST + line.names);
		head->bytes = (uint16_t)length;
		memcpy(frame_add(length), name, length);
		line.names++;
	}
	frame_end();
}

static bool read_one(void)
{
	if (!line.has_pending)
		line.has_pending = kymop_reader_next(line.stream, &line.pending, line.data,
						     sizeof(line.data)) == KYMOP_GOT;
	return line.has_pending;
}

/* Records up to the next loss, as many as there are and as fit. False: there are none. */
static bool events_make(void)
{
	struct kymop_line_events *events;
	uint32_t step;

	if (!read_one())
		return false;
	frame_begin(KYMOP_FRAME_EVENTS);
	events = frame_add(sizeof(*events));
	events->stamp_low = (uint32_t)line.pending.stamp;
	events->stamp_high = (uint32_t)(line.pending.stamp >> 32);
	events->lost = line.lost = line.pending.lost;
	events->first = line.records;
	while (read_one() && line.pending.lost == line.lost) {
		step = (uint32_t)kymop_record_step(line.pending.record.data_bytes);
		if (line.used + step > KYMOP_PAYLOAD_BYTES)
			break;
		memcpy(frame_add(KYMOP_RECORD_BYTES), &line.pending.record, KYMOP_RECORD_BYTES);
		memcpy(frame_add(step - KYMOP_RECORD_BYTES), line.data, line.pending.record.data_bytes);
		line.has_pending = false;
		line.records++;
	}
	frame_end();
	line.is_head_due = ++line.events == KYMOP_HEAD_AGAIN;
	return true;
}

/* The next frame, in the order in which a host needs them. False: there is nothing to say. */
static bool frame_make(void)
{
	uint32_t lost;

	if (is_asked) {
		is_asked = 0;
		line.is_head_due = true;
	}
	if (!line.is_head_due) {
		if (line.names < line.stream->names->count) {
			names_make();
			return true;
		}
		if (events_make())
			return true;
		/* What is lost behind the last record is told, too. */
		lost = kymop_load(&kymop_shared(line.stream->slot)->lost);
		if (line.lost == lost)
			return false;
		line.lost = lost;
	}
	head_make(0);
	return true;
}

/* Whether the whole frame has gone. */
static bool frame_send(void)
{
	uint32_t left;

	while ((left = line.used - line.sent) != 0) {
		uint32_t taken = (uint32_t)kymo_target_write((uint8_t *)&line.frame + line.sent, left);

		if (!taken)
			return false;
		line.sent += taken;
	}
	return true;
}

/* A burst: true: there is more, or the line is full. *moved: bytes that went. */
static bool burst(uint32_t *moved)
{
	uint32_t left = line.used - line.sent;
	bool has_more = true;

	*moved = 0;
	do {
		bool is_gone = frame_send();

		*moved += left - (line.used - line.sent);
		if (!is_gone)
			return true;
		has_more = frame_make();
		left = line.used - line.sent;
	} while (has_more && *moved < KYMOP_BURST_BYTES);
	return has_more;
}

/* Everything, with pauses; EIO: the line takes nothing any more. */
static int send_all(void)
{
	uint32_t moved, patience = 0;

	while (burst(&moved)) {
		patience = moved ? 0 : patience + 1;
		if (patience == KYMOP_PATIENCE) {
			line.flush_error = EIO;
			return EIO;
		}
		kymo_target_pause();
	}
	return 0;
}

static int flush(struct kymop_stream *stream)
{
	int error;

	if (KYMO_POSIX_EVENT_FLUSH)
		kymop_system_event(stream, KYMOP_FLUSH_START, NULL, 0);
	error = send_all();
	if (KYMO_POSIX_EVENT_FLUSH)
		kymop_system_event(stream, KYMOP_FLUSH_STOP, NULL, 0);
	return error ? error : send_all();
}

/* kymop_log_end: the stream is stopped: the rest, and a last head. The line is free whatever happens. */
int kymop_log_end(struct kymop_stream *stream)
{
	int error = send_all();

	(void)stream;
	if (!error) {
		head_make(KYMOP_LINE_FINAL);
		line.names = line.stream->names->count;
		error = send_all();
	}
	line.stream = NULL;
	return error;
}

int kymop_log_clear(struct kymop_stream *stream)
{
	(void)stream;
	line.has_pending = false;
	return 0;
}

void kymop_log_status(struct kymop_stream *stream, struct posix_trace_status_info *status)
{
	(void)stream;
	status->posix_stream_flush_error = line.flush_error;
	line.flush_error = 0;
}

static void line_begin(struct kymop_stream *stream)
{
	line.stream = stream;
	line.flush_error = 0;
	line.records = line.lost = 0;
	line.has_pending = false;
	line.is_head_due = true;
	line.used = line.sent = 0;
	stream->log = &line;
}

/* The line takes what comes at its end; there is one, so one stream has it at a time. */
int posix_trace_create_withlog(pid_t pid, const trace_attr_t *restrict attr, int log,
			       trace_id_t *restrict trid)
{
	struct kymop_stream *stream;
	int error = EAGAIN;

	if (!trid || (attr && attr->kymo__log_policy != KYMOP_APPEND))
		return EINVAL;
	if (log < 0)
		return EBADF;
	kymop_lock();
	if (!line.stream)
		error = kymop_create(pid, attr, true, &stream);
	if (!error) {
		line_begin(stream);
		*trid = stream->trid;
	}
	kymop_unlock();
	return error;
}

int posix_trace_flush(trace_id_t trid)
{
	struct kymop_stream *stream;
	int error = EINVAL;

	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream && stream->log)
		error = flush(stream);
	kymop_unlock();
	return error;
}

int kymo_target_idle(void)
{
	uint32_t moved;
	int is_left;

	kymop_lock();
	is_left = line.stream && burst(&moved);
	kymop_unlock();
	return is_left;
}

void kymo_target_asked(uint8_t byte)
{
	if (byte == 'h')
		is_asked = 1;
}
#endif
