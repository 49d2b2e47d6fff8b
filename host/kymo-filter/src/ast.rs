// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions as they were written. Equality ignores places, so that what was printed and parsed again is equal.

use crate::error::{Error, Span};

/// A whole filter: `[SELECTOR:] EXPRESSION`.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Events that the filter is about; all without one.
    pub selector: Option<Pattern>,
    /// The condition.
    pub expr: Expr,
    /// What was parsed; empty in a filter that was put together.
    pub(crate) text: FilterText,
}

impl Filter {
    /// Puts a filter together.
    pub fn new(selector: Option<Pattern>, expr: Expr) -> Self {
        Self { selector, expr, text: FilterText::default() }
    }

    /// The events that it names: nothing else is said of where they come from.
    pub fn named(&self) -> Vec<Named<'_>> {
        let mut found: Vec<Named<'_>> = self.selector.iter().map(Named::Event).collect();
        self.expr.walk(&mut |expr| match &expr.kind {
            ExprKind::Field(field) | ExprKind::Has(field) | ExprKind::Len(field) => {
                found.extend(field.event.iter().map(Named::Event));
                if let (None, [PathStep::Member(member), ..]) = (&field.event, &field.steps[..]) {
                    found.push(Named::Member(&field.name, member));
                }
            }
            ExprKind::Latency(latency) => found.extend([&latency.from, &latency.to].map(Named::Event)),
            ExprKind::Wakeup(_) => found.push(Named::Wakeups),
            _ => {}
        });
        found
    }

    /// Whether records before the one to be decided matter.
    pub fn has_pairs(&self) -> bool {
        let mut found = false;
        self.expr.walk(&mut |expr| found |= matches!(expr.kind, ExprKind::Latency(_) | ExprKind::Wakeup(_)));
        found
    }

    /// Whether it asks for a context; a pair without keys is of one thread.
    pub fn uses(&self, context: Context) -> bool {
        let is_of_thread = matches!(context, Context::Tid | Context::Pid);
        let mut found = false;
        self.expr.walk(&mut |expr| {
            found |= match &expr.kind {
                ExprKind::Context(used) => *used == context,
                ExprKind::Latency(latency) => is_of_thread && latency.is_of_thread(),
                _ => false,
            }
        });
        found
    }

    /// Whether it asks for the machine's state at a record.
    pub fn uses_state(&self) -> bool {
        Context::ALL.iter().any(|&(_, context)| context.is_of_state() && self.uses(context))
    }

    /// Errors: it asks for the machine's state, which nobody knows while records are written.
    pub fn check_without_state(&self) -> Result<(), Error> {
        let mut found = None;
        self.expr.walk(&mut |expr| match expr.kind {
            ExprKind::Context(context) if context.is_of_state() => found = found.or(Some((context, expr.span))),
            _ => {}
        });
        let Some((context, span)) = found else { return Ok(()) };
        let message = format!("`${}` is of the machine's state, which is known when a trace is read", context.name());
        Err(Error::new(&self.text.0, span, message, "record without this part, and give it to `kymo read --filter`"))
    }
}

/// How a filter names events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Named<'a> {
    /// By a name or glob.
    Event(&'a Pattern),
    /// The scheduler's, by `wakeup()`.
    Wakeups,
    /// `NAME.MEMBER`: a field with something inside. It may have been meant as an event and its field.
    Member(&'a str, &'a str),
}

/// The text that places are in. All sources are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterText(pub String);

impl PartialEq for FilterText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Names of events: `*` is any text, `?` any character.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The glob.
    pub glob: String,
    /// Its place.
    pub span: Span,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.glob == other.glob
    }
}

/// An expression and its place.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its place.
    pub span: Span,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl From<ExprKind> for Expr {
    fn from(kind: ExprKind) -> Self {
        Self { kind, span: Span::default() }
    }
}

impl Expr {
    /// Calls `see` for this expression and all within it.
    pub(crate) fn walk<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        see(self);
        match &self.kind {
            ExprKind::Not(of) | ExprKind::Neg(of) => of.walk(see),
            ExprKind::Binary(_, left, right) | ExprKind::Compare(_, left, right) => {
                left.walk(see);
                right.walk(see);
            }
            ExprKind::In(value, list) => {
                value.walk(see);
                list.iter().for_each(|item| item.walk(see));
            }
            ExprKind::And(parts) | ExprKind::Or(parts) => parts.iter().for_each(|part| part.walk(see)),
            ExprKind::Latency(latency) => {
                latency.by.iter().flat_map(|key| [&key.from, &key.to]).for_each(|key| key.walk(see));
                latency.when.iter().for_each(|when| when.walk(see));
            }
            ExprKind::Wakeup(when) => when.iter().for_each(|when| when.walk(see)),
            _ => {}
        }
    }
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer; its unit has been applied.
    Int(u64),
    /// A finite number that is not negative.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// Text.
    Text(String),
    /// A field of the payload, or a label of an enumeration.
    Field(FieldRef),
    /// `$cpu`
    Context(Context),
    /// `has(FIELD)`
    Has(FieldRef),
    /// `len(FIELD)`
    Len(FieldRef),
    /// `latency(FROM, TO, by=KEY, ..., where=CONDITION)`
    Latency(Latency),
    /// `wakeup(CONDITION)`
    Wakeup(Option<Box<Expr>>),
    /// `!x`
    Not(Box<Expr>),
    /// `-x`
    Neg(Box<Expr>),
    /// Arithmetic.
    Binary(Arith, Box<Expr>, Box<Expr>),
    /// A comparison.
    Compare(Compare, Box<Expr>, Box<Expr>),
    /// `x in (1, 2)`
    In(Box<Expr>, Vec<Expr>),
    /// Two or more, all true.
    And(Vec<Expr>),
    /// Two or more, at least one true.
    Or(Vec<Expr>),
}

/// A field by its name, and the way into it.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRef {
    /// `motor:step` of `motor:step.axis`: other events do not have this field.
    pub event: Option<Pattern>,
    /// The field of the payload.
    pub name: String,
    /// Further inside.
    pub steps: Vec<PathStep>,
}

impl FieldRef {
    /// Whether it is a context that a session records where it was asked for, `$prio`: spec/context.md.
    pub fn is_context(&self) -> bool {
        self.name.strip_prefix('$').is_some_and(is_recorded_context)
    }
}

/// The name under which events have a context of their records as a field: `$prio`. No other field has such a name.
pub fn context_field(member: &str) -> String {
    format!("${member}")
}

/// Whether a member of records' contexts is one that filters know: spec/context.md.
pub fn is_recorded_context(member: &str) -> bool {
    RECORDED.contains(&member) || member.strip_prefix(COUNTER).is_some_and(|name| !name.is_empty())
}

/// All contexts, for messages.
pub(crate) const CONTEXTS: &str = "$time, $cpu, $pid, $tid, $proc, $event; where they were recorded $prio, $cgroup, $perf_NAME, $callstack; of the machine's \
     state $running, $task, $task_prio, $syscall, $doing";

/// Contexts that a session records where it was asked for, and the first part of the names of counters.
pub(crate) const RECORDED: [&str; 3] = ["prio", "cgroup", "callstack"];
const COUNTER: &str = "perf_";

/// One step into a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    /// `.name`
    Member(String),
    /// `[3]`
    Element(u32),
}

/// What is known of a record besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Nanoseconds since the origin of the clock.
    Time,
    /// Number of the CPU.
    Cpu,
    /// Process.
    Pid,
    /// Thread.
    Tid,
    /// Name of the program.
    Proc,
    /// Name of the event.
    Event,
    /// Thread that runs on the record's CPU; 0: its idle thread.
    Running,
    /// Name of that thread.
    Task,
    /// Its priority, as the kernel counts: 0 to 98 are real-time, the least is the most urgent.
    TaskPrio,
    /// Name of the system call that it is in; empty: none.
    Syscall,
    /// What the CPU is in the middle of: `thread`, `idle`, or the interrupt: `irq 24`, `softirq timer`.
    Doing,
}

impl Context {
    /// All, with the names that they have behind the dollar sign.
    pub const ALL: [(&'static str, Self); 11] = [
        ("time", Self::Time),
        ("cpu", Self::Cpu),
        ("pid", Self::Pid),
        ("tid", Self::Tid),
        ("proc", Self::Proc),
        ("event", Self::Event),
        ("running", Self::Running),
        ("task", Self::Task),
        ("task_prio", Self::TaskPrio),
        ("syscall", Self::Syscall),
        ("doing", Self::Doing),
    ];

    /// Other names that traces and tools have for some of them.
    const ALIASES: [(&'static str, Self); 7] = [
        ("cpu_id", Self::Cpu),
        ("vpid", Self::Pid),
        ("process", Self::Pid),
        ("vtid", Self::Tid),
        ("thread", Self::Tid),
        ("procname", Self::Proc),
        ("comm", Self::Proc),
    ];

    /// By its name behind the dollar sign, or another one of it.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut names = Self::ALL.iter().chain(&Self::ALIASES);
        names.find(|(known, _)| *known == name).map(|(_, context)| *context)
    }

    /// The name behind the dollar sign.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, context)| *context == self).map_or("", |(name, _)| name)
    }

    /// Whether it is of the machine's state at the record, which only a reader of traces knows [spec/filter.md 4.1].
    pub fn is_of_state(self) -> bool {
        matches!(self, Self::Running | Self::Task | Self::TaskPrio | Self::Syscall | Self::Doing)
    }

    /// Whether it is text; the others but [`Context::Event`] are integers.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Proc | Self::Task | Self::Syscall | Self::Doing)
    }
}

/// The time between the records of a pair of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The event that opens.
    pub from: Pattern,
    /// The event that closes.
    pub to: Pattern,
    /// Fields and contexts that must agree; none: the thread.
    pub by: Vec<Key>,
    /// `by=*`: records of any threads are a pair. Only without keys.
    pub of_any: bool,
    /// Holds for the records that open.
    pub when: Option<Box<Expr>>,
}

impl Latency {
    /// Whether both records must be of one thread, and nothing else is asked for.
    pub fn is_of_thread(&self) -> bool {
        self.by.is_empty() && !self.of_any
    }
}

/// What two records must agree in: a field or context of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Of the record that opens.
    pub from: Expr,
    /// Of the one that closes; the same where one name stands for both.
    pub to: Expr,
}

impl Key {
    /// One name for both records.
    pub fn same(of: Expr) -> Key {
        Key { from: of.clone(), to: of }
    }
}

/// Operators between numbers, from the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the operations; signs and order: spec/filter.md 2")]
pub enum Arith {
    Or,
    Xor,
    And,
    Left,
    Right,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

impl Arith {
    pub(crate) const ALL: [(&'static str, Self, u8); 10] = [
        ("|", Self::Or, 4),
        ("^", Self::Xor, 5),
        ("&", Self::And, 6),
        ("<<", Self::Left, 7),
        (">>", Self::Right, 7),
        ("+", Self::Add, 8),
        ("-", Self::Sub, 8),
        ("*", Self::Mul, 9),
        ("/", Self::Div, 9),
        ("%", Self::Rem, 9),
    ];

    /// Sign and strength of the binding.
    pub(crate) fn entry(self) -> (&'static str, u8) {
        Self::ALL.iter().find(|entry| entry.1 == self).map_or(("", 0), |entry| (entry.0, entry.2))
    }

    /// Whether it takes integers only.
    pub(crate) fn is_bitwise(self) -> bool {
        matches!(self, Self::Or | Self::Xor | Self::And | Self::Left | Self::Right)
    }
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the operations; signs: spec/filter.md 2")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The glob on the right matches the text on the left.
    Match,
    /// It does not.
    NoMatch,
}

impl Compare {
    pub(crate) const ALL: [(&'static str, Self); 8] = [
        ("==", Self::Eq),
        ("!=", Self::Ne),
        ("<", Self::Lt),
        ("<=", Self::Le),
        (">", Self::Gt),
        (">=", Self::Ge),
        ("~", Self::Match),
        ("!~", Self::NoMatch),
    ];

    /// As it is written.
    pub fn sign(self) -> &'static str {
        Self::ALL.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }

    /// The same with left and right exchanged.
    pub(crate) fn exchanged(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            other => other,
        }
    }
}
