// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo recover`: losses that no packet told of are told once, each of the memory that counted them.

use kymo_tests::{Lab, Ring, times, trace};
use rustix::process::Signal;

/// `burst N` writes N records as fast as it can, `exec` begins again as another image of the same process.
const IMAGES: &str = r#"
#include "common.h"
KYMO_EVENT(images, rec, (u32, image), (u64, n), (str, text))
int main(int argc, char **argv)
{
	uint32_t image = (uint32_t)atoi(argv[1]);
	char line[64], next[16];
	uint64_t n = 0;

	(void)argc;
	live_shortly();
	printf("ready %u\n", image);
	fflush(stdout);
	while (read(0, line, 1) == 1) {
		size_t used = 1;

		while (line[used - 1] != '\n' && used < sizeof(line) - 1 && read(0, line + used, 1) == 1)
			used++;
		line[used] = 0;
		if (!strncmp(line, "burst", 5)) {
			for (uint64_t end = n + strtoull(line + 6, NULL, 10); n < end; n++)
				kymo_trace(images, rec, image, n, "some text to fill the ring with");
			printf("done %" PRIu64 "\n", n);
			fflush(stdout);
		} else {
			snprintf(next, sizeof(next), "%u", image + 1);
			execl("/proc/self/exe", argv[0], next, NULL);
			die("exec");
		}
	}
	return 0;
}
"#;

/// Two images of one process lose records on the same lanes. The collector is killed while losses of the second one are
/// untold.
#[test]
fn losses_of_an_image_before_exec_are_its_own() {
    for ring in Ring::BOTH {
        for round in 0..times(2, 20) {
            let mut lab = Lab::alone("recover_exec");
            lab.ring(ring);
            let program = lab.cc_text("images", IMAGES);
            let rings = lab.path("rings");
            let args =
                ["--ring-size", "64K", "--memory", "4G", "--ring-dir", rings.to_str().unwrap(), "-u", "images:*"];
            let mut recording = lab.record("trace").args(&args).attach();
            let mut proc = lab.spawn(&program, &["1"]);
            proc.until("ready 1");
            proc.say("burst 300000");
            proc.until("done");
            proc.say("exec");
            proc.until("ready 2");
            // The second image loses, too, and less: some before the collector stops, most behind.
            proc.say("burst 20000");
            proc.until("done");
            recording.proc().stop();
            proc.say("burst 50000");
            proc.until("done");
            let dir = lab.path("trace");
            drop(recording.end(Signal::KILL));
            assert_eq!(proc.wait().code, 0);
            lab.kymo(&["recover", rings.to_str().unwrap(), dir.to_str().unwrap()]).expect(0);
            let read = trace::read(&lab, &dir, &[]).whole();
            assert!(read.lost() > 50_000, "{ring:?} {round}: only {} were lost: the test says nothing", read.lost());
            assert_eq!(read.records.len() as u64 + read.lost(), 370_000, "{ring:?} {round}");
        }
    }
}
