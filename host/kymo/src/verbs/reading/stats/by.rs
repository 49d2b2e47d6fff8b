// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rows are made by: event, process, thread, CPU, or a field.

use kymo_analyze::Level;
use kymo_filter::Context;

/// One level of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Event,
    Process,
    Thread,
    Cpu,
    /// A field of the payload, by its name; a context, by its name behind `$`.
    Field(String),
}

impl By {
    pub fn level(&self) -> Level {
        match self {
            By::Event => Level::Event,
            By::Process => Level::Process,
            By::Thread => Level::Thread,
            By::Cpu => Level::Cpu,
            By::Field(_) => Level::Other,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            By::Event => "event",
            By::Process => "process",
            By::Thread => "thread",
            By::Cpu => "cpu",
            By::Field(name) => name,
        }
    }
}

/// Of a part of --by.
pub fn parse(text: &str) -> Result<By, String> {
    Ok(match text.trim() {
        "" => return Err("an empty name".into()),
        "event" => By::Event,
        "process" => By::Process,
        "thread" => By::Thread,
        "cpu" => By::Cpu,
        name if name.starts_with('$') => match Context::by_name(&name[1..]) {
            Some(Context::Event) => By::Event,
            Some(Context::Pid) => By::Process,
            Some(Context::Tid) => By::Thread,
            Some(Context::Cpu) => By::Cpu,
            Some(Context::Proc) => By::Field("$proc".to_owned()),
            // Any that records have.
            None => By::Field(name.to_owned()),
            Some(of) => return Err(format!("rows cannot be made by ${}", of.name())),
        },
        name => By::Field(name.strip_prefix("field:").unwrap_or(name).to_owned()),
    })
}
