// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an index says at once: what it is of, what each stream has, and where the rest is.

use kymo_analyze::STATE_VERSION;
use kymo_analyze::compact::{Put, Take};

use crate::counts::account::StreamCounts;
use crate::fields::head::FieldsHead;
use crate::file::Piece;
use crate::file::identity::TraceIdentity;
use crate::latencies::head::LatencyHead;
use crate::pictures::head::PictureHead;
use crate::pyramid::PyramidHead;
use crate::spans::head::SpansHead;
use crate::states::{Checkpoint, put_checkpoints, take_checkpoints};
use crate::statistics::head::StatisticsHead;
use crate::wakes::head::WakeHead;

/// The head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexHead {
    /// The traces that it is of: one, or the parts of one that was cut.
    pub traces: Vec<TraceIdentity>,
    /// Where it is of one trace.
    pub streams: Option<StreamsHead>,
    pub states: Option<StatesHead>,
}

/// Packets and counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamsHead {
    /// By stream file.
    pub counts: Vec<StreamCounts>,
    /// Summaries over time, the finest first.
    pub levels: Vec<Piece>,
    /// Records and losses in shorter columns than the finest level's.
    pub fine: Option<Piece>,
    /// Values of fields over time.
    pub fields: Option<FieldsHead>,
}

/// Checkpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatesHead {
    /// [`crate::file::identity::clocks`]: their times are ns of these.
    pub clocks: u64,
    pub checkpoints: Vec<Checkpoint>,
    pub cpus: Piece,
    /// As many parts as checkpoints.
    pub pyramid: PyramidHead,
    pub pictures: PictureHead,
    pub latencies: LatencyHead,
    pub wakes: WakeHead,
    pub statistics: StatisticsHead,
    /// Of a program's own events.
    pub spans: Option<SpansHead>,
}

impl IndexHead {
    pub fn encode(&self) -> Vec<u8> {
        let mut put = Put::default();
        put.number(STATE_VERSION.into());
        put.number(self.traces.len() as u64);
        self.traces.iter().for_each(|trace| trace.put(&mut put));
        put.option(self.streams.as_ref(), |put, streams| {
            put.number(streams.counts.len() as u64);
            streams.counts.iter().for_each(|counts| counts.put(put));
            put.number(streams.levels.len() as u64);
            streams.levels.iter().for_each(|level| level.put(put));
            put.option(streams.fine.as_ref(), |put, fine| fine.put(put));
            put.option(streams.fields.as_ref(), |put, fields| fields.put(put));
        });
        put.option(self.states.as_ref(), |put, states| {
            put.number(states.clocks);
            put_checkpoints(put, &states.checkpoints);
            states.cpus.put(put);
            states.pyramid.put(put);
            states.pictures.put(put);
            states.latencies.put(put);
            states.wakes.put(put);
            states.statistics.put(put);
            put.option(states.spans.as_ref(), |put, spans| spans.put(put));
        });
        put.0
    }

    pub fn decode(bytes: &[u8]) -> Option<IndexHead> {
        let mut take = Take(bytes);
        let is_same = take.small() == Some(STATE_VERSION);
        let count = take.count()?;
        let traces = (0..count).map(|_| TraceIdentity::take(&mut take)).collect::<Option<_>>()?;
        let streams = take.option(|take| {
            let count = take.count()?;
            let counts = (0..count).map(|_| StreamCounts::take(take)).collect::<Option<_>>()?;
            let count = take.count()?;
            let levels = (0..count).map(|_| Piece::take(take)).collect::<Option<_>>()?;
            let (fine, fields) = (take.option(Piece::take)?, take.option(FieldsHead::take)?);
            Some(StreamsHead { counts, levels, fine, fields })
        })?;
        let states = take.option(|take| {
            let clocks = take.number()?;
            let checkpoints = take_checkpoints(take)?;
            let (cpus, pyramid) = (Piece::take(take)?, PyramidHead::take(take)?);
            let (pictures, latencies) = (PictureHead::take(take)?, LatencyHead::take(take)?);
            let (wakes, statistics) = (WakeHead::take(take)?, StatisticsHead::take(take)?);
            let spans = take.option(SpansHead::take)?;
            Some(StatesHead { clocks, checkpoints, cpus, pyramid, pictures, latencies, wakes, statistics, spans })
        })?;
        // Counts hold whatever a state does by a record.
        take.is_empty().then_some(IndexHead { traces, streams, states: states.filter(|_| is_same) })
    }
}
