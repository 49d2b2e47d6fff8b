// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views that a client may open, and how their states look. Where Trace Compass has a view of the same content, it
//! has that one's number and name: clients know some by it.

use serde_json::{Map, Value, json};

/// What is behind a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The table of records.
    Records,
    /// Records and losses over time.
    Histogram,
    /// States of threads.
    Threads,
    /// What CPUs did.
    Cpus,
    /// Time that threads ran.
    Usage,
    /// Spans of the user's events.
    Spans,
    /// Fields of the user's events.
    Values,
    /// Latencies as points.
    Latencies,
    /// Latencies as a table.
    Statistics,
}

/// What a trace must have for a view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Has {
    /// It is known who ran.
    pub switches: bool,
    /// There are pairs of events.
    pub spans: bool,
    /// There are numeric fields of the user's events.
    pub values: bool,
}

/// A view as clients list it.
struct Output {
    view: View,
    id: &'static str,
    name: &'static str,
    about: &'static str,
    kind: &'static str,
}

const OUTPUTS: [Output; 9] = [
    Output {
        view: View::Records,
        id: "org.eclipse.tracecompass.internal.provisional.tmf.core.model.events.TmfEventTableDataProvider",
        name: "Events Table",
        about: "All records",
        kind: "TABLE",
    },
    Output {
        view: View::Histogram,
        id: "org.eclipse.tracecompass.internal.tmf.core.histogram.HistogramDataProvider",
        name: "Histogram",
        about: "Records and lost records over time",
        kind: "TREE_TIME_XY",
    },
    Output {
        view: View::Threads,
        id: "org.eclipse.tracecompass.internal.analysis.os.linux.core.threadstatus.ThreadStatusDataProvider",
        name: "Thread Status",
        about: "What each thread did, why it waited, and who woke it",
        kind: "TIME_GRAPH",
    },
    Output {
        view: View::Cpus,
        id: "org.eclipse.tracecompass.internal.analysis.os.linux.core.threadstatus.ResourcesStatusDataProvider",
        name: "Resources Status",
        about: "What each CPU did, with interrupts and softirqs",
        kind: "TIME_GRAPH",
    },
    Output {
        view: View::Usage,
        id: "org.eclipse.tracecompass.analysis.os.linux.core.cpuusage.CpuUsageDataProvider",
        name: "CPU Usage",
        about: "Share of the time that threads ran",
        kind: "TREE_TIME_XY",
    },
    Output {
        view: View::Spans,
        id: "kymo:spans",
        name: "Spans",
        about: "From begin to end of the user's events",
        kind: "TIME_GRAPH",
    },
    Output {
        view: View::Values,
        id: "kymo:values",
        name: "Values",
        about: "Numeric fields of the user's events",
        kind: "TREE_TIME_XY",
    },
    Output {
        view: View::Latencies,
        id: "kymo:latencies",
        name: "Latencies vs Time",
        about: "The longest latencies of each kind",
        kind: "TREE_TIME_XY",
    },
    Output {
        view: View::Statistics,
        id: "kymo:latency.statistics",
        name: "Latency Statistics",
        about: "Quantiles of each latency",
        kind: "DATA_TREE",
    },
];

impl Output {
    fn is_in(&self, has: Has) -> bool {
        match self.view {
            View::Records | View::Histogram | View::Latencies | View::Statistics => true,
            View::Threads | View::Cpus | View::Usage => has.switches,
            View::Spans => has.spans,
            View::Values => has.values,
        }
    }

    fn describe(&self) -> Value {
        json!({ "id": self.id, "name": self.name, "description": self.about, "type": self.kind })
    }
}

/// The views of a trace.
pub fn list(has: Has) -> Value {
    OUTPUTS.iter().filter(|output| output.is_in(has)).map(Output::describe).collect()
}

/// A view by its number, and its description.
pub fn find(id: &str, has: Has) -> Option<(View, Value)> {
    let output = OUTPUTS.iter().find(|output| output.id == id && output.is_in(has))?;
    Some((output.view, output.describe()))
}

/// Names of states, their colours, and how high they are: who can run is high, as in the page.
const STYLES: [(&str, &str, f64); 17] = [
    ("Unknown", "#646464", 0.33),
    ("Running", "#26939b", 1.0),
    ("Preempted", "#bf5200", 0.72),
    ("Woken", "#c9a227", 0.72),
    ("Gave way", "#5a6675", 0.72),
    ("Lock", "#7a32c0", 0.28),
    ("Uninterruptible", "#1c86ce", 0.28),
    ("Waiting", "#8a96a6", 0.28),
    ("Sleeping", "#87919d", 0.1),
    ("Stopped", "#8a5a2b", 0.28),
    ("Page fault", "#8f7f00", 0.28),
    ("Idle", "#c8c8c8", 0.4),
    ("Interrupt", "#3b50d8", 0.75),
    ("Softirq", "#7c8cf2", 0.75),
    ("Span", "#3a75af", 1.0),
    ("Spans", "#8e5b99", 0.7),
    ("Wake-up", "#8f6400", 1.0),
];

/// All styles; a view uses some.
pub fn styles() -> Value {
    let one = |(name, colour, height): &(&str, &str, f64)| {
        let values = json!({ "style-name": name, "background-color": colour, "height": height, "opacity": 1 });
        ((*name).to_owned(), json!({ "values": values }))
    };
    json!({ "styles": STYLES.iter().map(one).collect::<Map<String, Value>>() })
}

#[cfg(test)]
mod tests {
    use super::super::graphs::THREAD_STATES;
    use super::*;

    #[test]
    fn numbers_of_views_need_no_encoding_and_are_different() {
        let all = Has { switches: true, spans: true, values: true };
        for output in &OUTPUTS {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
            assert!(output.id.bytes().all(is_plain), "{}", output.id);
            assert_eq!(find(output.id, all).map(|(view, _)| view), Some(output.view));
        }
        assert!(find("kymo:spans", Has::default()).is_none() && find("nothing", all).is_none());
        assert_eq!(list(Has::default()).as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn each_state_has_a_style() {
        let styles = styles();
        for name in THREAD_STATES.into_iter().flatten().chain(["Idle", "Interrupt", "Softirq", "Span", "Spans"]) {
            let colour = styles["styles"][name]["values"]["background-color"].as_str();
            assert!(colour.is_some_and(|colour| colour.len() == 7 && colour.starts_with('#')), "{name}");
        }
    }
}
