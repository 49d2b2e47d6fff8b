// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far readers have come, for who shows it.

/// Is told how far readers of a trace have come: at each packet, by the thread that reads.
pub trait Watch: Send + Sync {
    /// A pass over the trace begins, of so many bytes where that is known before.
    fn begin(&self, bytes: Option<u64>);
    /// So many bytes more lie behind it.
    fn passed(&self, bytes: u64);
    /// It is over.
    fn end(&self);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use super::super::{Memory, Range, Reader, Scans, Trace};
    use super::*;

    /// What was told.
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Told {
        fn say(&self, text: String) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }

        fn take(&self) -> Vec<String> {
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl Watch for Told {
        fn begin(&self, bytes: Option<u64>) {
            self.say(format!("begin {bytes:?}"));
        }

        fn passed(&self, bytes: u64) {
            self.say(format!("passed {bytes}"));
        }

        fn end(&self) {
            self.say("end".into());
        }
    }

    /// Two streams of three packets of eight bytes with one record each.
    fn traces(watch: &Arc<Told>) -> Vec<Trace> {
        let metadata = "typealias integer { size = 8; } := u8;
            clock { name = c; freq = 1000; };
            stream { packet.context := struct { u8 packet_size; u8 content_size; };
                event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
            event { id = 7; name = \"one\"; fields := struct { u8 n; }; };";
        let packet = |time: u8| [64, 40, 7, time, 1, 0, 0, 0];
        let stream = |first: u8| [packet(first), packet(first + 2), packet(first + 4)].concat();
        let files =
            Memory { metadata: metadata.into(), streams: vec![("a".into(), stream(1)), ("b".into(), stream(2))] };
        let mut trace = Trace::from_files(&files).unwrap().value;
        trace.watch(watch.clone());
        vec![trace]
    }

    #[test]
    fn a_reader_tells_what_it_has_passed() {
        let told = Arc::new(Told::default());
        let traces = traces(&told);
        let mut reader = Reader::new(&traces);
        let mut records = 0;
        while reader.pass().is_some() {
            records += 1;
        }
        assert_eq!(records, 6);
        let lines = told.take();
        assert_eq!((lines.first().unwrap().as_str(), lines.last().unwrap().as_str()), ("begin Some(48)", "end"));
        // The last packet of a stream is not behind the reader when it is begun.
        assert_eq!(lines.iter().filter(|line| *line == "passed 8").count(), 4);
    }

    #[test]
    fn where_a_range_ends_is_not_known_before() {
        let told = Arc::new(Told::default());
        let traces = traces(&told);
        let range = Range { from_ns: None, to_ns: Some(3_000_000) };
        let mut reader = Reader::between(&traces, range, &[]).unwrap();
        while reader.next().is_some() {}
        let lines = told.take();
        assert_eq!((lines.first().unwrap().as_str(), lines.last().unwrap().as_str()), ("begin None", "end"));
    }

    #[test]
    fn counts_and_scans_tell_too() {
        let told = Arc::new(Told::default());
        let traces = traces(&told);
        assert_eq!(traces[0].count(2).records(), 6);
        let lines = told.take();
        assert_eq!((lines.first().unwrap().as_str(), lines.last().unwrap().as_str()), ("begin Some(48)", "end"));
        assert_eq!(lines.iter().filter(|line| *line == "passed 8").count(), 4);
        let scans = Scans::of(&[(&traces[0], 1)]);
        let mut scan = traces[0].scan(1);
        while scan.next().is_some() {}
        drop(scans);
        assert_eq!(told.take(), ["begin Some(24)", "passed 0", "passed 8", "passed 8", "end"]);
    }
}
