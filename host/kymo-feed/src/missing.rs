// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of traces is missing, and how that is said.

use kymo_ctf::read::Loss;

/// Records that were lost, as packets tell. Saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Records that were counted.
    pub records: u64,
    /// Whole packets: what was in them is in `records`, or is not known.
    pub packets: u64,
    /// Losses: each is told by one packet, of one stream.
    pub places: u64,
}

impl Missing {
    /// A loss of so many records and packets.
    pub fn add(&mut self, records: u64, packets: u64) {
        self.add_all(&Missing { records, packets, places: 1 });
    }

    /// A loss of the reader.
    pub fn add_loss(&mut self, loss: &Loss<'_>) {
        self.add(loss.records, loss.packets);
    }

    /// All of another part.
    pub fn add_all(&mut self, other: &Missing) {
        self.records = self.records.saturating_add(other.records);
        self.packets = self.packets.saturating_add(other.packets);
        self.places = self.places.saturating_add(other.places);
    }

    /// Whether nothing is missing.
    pub fn is_none(&self) -> bool {
        self.places == 0
    }

    /// `5 records were lost, in 1 place`. Where packets are missing, a number of records is not the whole truth.
    pub fn text(&self) -> String {
        let places = counted(self.places, "place");
        let were = if self.records == 1 { "record was" } else { "records were" };
        let packets = match self.packets {
            0 => return format!("{} {were} lost, in {places}", self.records),
            1 => "1 packet is missing".to_owned(),
            many => format!("{many} packets are missing"),
        };
        match self.records {
            0 => format!("{packets}, in {places}; how many records were in them is not known"),
            records => format!("{records} {were} lost, and {packets}, in {places}; more may have been in them"),
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::Missing;

    #[test]
    fn what_is_not_known_is_said() {
        let check = |records, packets, places, expect: &str| {
            assert_eq!(Missing { records, packets, places }.text(), expect);
        };
        check(1, 0, 1, "1 record was lost, in 1 place");
        check(5, 0, 2, "5 records were lost, in 2 places");
        check(0, 1, 1, "1 packet is missing, in 1 place; how many records were in them is not known");
        check(7, 2, 3, "7 records were lost, and 2 packets are missing, in 3 places; more may have been in them");
        let mut sum = Missing::default();
        assert!(sum.is_none());
        sum.add(u64::MAX, 1);
        sum.add(9, 0);
        assert_eq!(sum, Missing { records: u64::MAX, packets: 1, places: 2 });
    }
}
