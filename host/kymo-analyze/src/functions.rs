// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of functions, from their entries and exits: a tree for each thread [spec/exchange.md 4].
//!
//! Entries and exits need not match: threads begin in the middle, `longjmp` and exceptions leave out exits, records
//! get lost. What
//! was taken otherwise than recorded is counted at the function.

use std::collections::HashMap;
use std::hash::Hash;

/// Nodes of all trees at most; calls beyond are counted at their caller.
pub const NODES_MAX: usize = 1 << 20;

/// Calls that a thread may be in at a time; deeper ones are counted at their caller.
pub const DEPTH_MAX: usize = 4096;

/// The root of every tree: no function.
pub const ROOT: usize = 0;

/// The trees. `F`: what a function is known by. `T`: what a thread is.
#[derive(Debug)]
pub struct Functions<F, T> {
    threads: Vec<Tree<F, T>>,
    by_thread: HashMap<T, usize>,
    nodes: usize,
}

/// The calls of one thread.
#[derive(Debug)]
pub struct Tree<F, T> {
    /// Which one.
    pub thread: T,
    /// Time of its first entry or exit, ns.
    pub first: i64,
    /// Time of its last one, ns.
    pub last: i64,
    /// The root, then functions; a parent need not stand in front of its children.
    pub nodes: Vec<Node<F>>,
    children: HashMap<(usize, F), usize>,
    open: Vec<Open>,
    /// Calls that are deeper than [`DEPTH_MAX`], or too many.
    skipped_depth: usize,
    /// Of them, in all.
    pub skipped: u64,
    /// Functions that began before the first record, so far.
    wraps: usize,
}

/// A function, called by the functions above it.
#[derive(Clone, Debug)]
pub struct Node<F> {
    /// `None`: the root.
    pub function: Option<F>,
    /// Position of its caller.
    pub parent: usize,
    /// Calls.
    pub count: u64,
    /// Time between entries and exits, ns.
    pub total_ns: u64,
    /// The same without that of the functions below, ns.
    pub self_ns: u64,
    /// What was not as it should be.
    pub faults: Faults,
}

/// Calls that were not whole, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Without exit: ended with a caller.
    pub cut: u64,
    /// Begun before the thread's first record.
    pub begun_before: u64,
    /// Not ended by the last one.
    pub open: u64,
    /// Records may have been lost in them.
    pub doubtful: u64,
}

impl Faults {
    /// The sum of two.
    pub fn plus(self, other: Faults) -> Faults {
        Faults {
            cut: self.cut + other.cut,
            begun_before: self.begun_before + other.begun_before,
            open: self.open + other.open,
            doubtful: self.doubtful + other.doubtful,
        }
    }

    /// Whether there is any.
    pub fn any(self) -> bool {
        self != Faults::default()
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    node: usize,
    from: i64,
    /// Time of the calls that it made and that are over.
    below_ns: u64,
    is_doubtful: bool,
}

/// A function over all of its places in a tree, or in several.
#[derive(Clone, Debug)]
pub struct Sum<F> {
    /// Which one.
    pub function: F,
    /// Calls.
    pub count: u64,
    /// Time in it, of the outermost call where it calls itself, ns.
    pub total_ns: u64,
    /// Time in it and in no function that it called, ns.
    pub self_ns: u64,
    /// What was not as it should be.
    pub faults: Faults,
}

impl<F: Clone + Eq + Hash, T: Clone + Eq + Hash> Default for Functions<F, T> {
    fn default() -> Self {
        Functions { threads: Vec::new(), by_thread: HashMap::new(), nodes: 0 }
    }
}

impl<F: Clone + Eq + Hash, T: Clone + Eq + Hash> Functions<F, T> {
    /// None were met.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The trees, in the order in which their threads were met.
    pub fn trees(&self) -> &[Tree<F, T>] {
        &self.threads
    }

    /// A function begins. Times are ns, and do not go back along a thread.
    pub fn enter(&mut self, thread: T, time: i64, function: F) {
        let room = NODES_MAX.saturating_sub(self.nodes);
        let tree = self.tree(thread, time);
        let made = tree.enter(time, function, room);
        self.nodes += made;
    }

    /// A function ends; `None`: the innermost one, whichever it is.
    pub fn leave(&mut self, thread: T, time: i64, function: Option<F>) {
        let room = NODES_MAX.saturating_sub(self.nodes);
        let tree = self.tree(thread, time);
        let made = tree.leave(time, function, room);
        self.nodes += made;
    }

    /// Records may have been lost of the threads for which `is_concerned` holds.
    pub fn lost(&mut self, is_concerned: impl Fn(&T) -> bool) {
        let trees = self.threads.iter_mut().filter(|tree| is_concerned(&tree.thread));
        trees.flat_map(|tree| &mut tree.open).for_each(|open| open.is_doubtful = true);
    }

    /// No records follow: what is open ends with its thread's last record.
    pub fn finish(&mut self) {
        for tree in &mut self.threads {
            while let Some(open) = tree.open.last().copied() {
                tree.nodes[open.node].faults.open += 1;
                tree.close(tree.last);
            }
        }
    }

    fn tree(&mut self, thread: T, time: i64) -> &mut Tree<F, T> {
        let threads = &mut self.threads;
        let position = *self.by_thread.entry(thread.clone()).or_insert_with(|| {
            threads.push(Tree::new(thread, time));
            threads.len() - 1
        });
        let tree = &mut threads[position];
        tree.last = tree.last.max(time);
        tree
    }
}

impl<F: Clone + Eq + Hash, T> Tree<F, T> {
    fn new(thread: T, time: i64) -> Self {
        Tree {
            thread,
            first: time,
            last: time,
            nodes: vec![Node::new(None, ROOT)],
            children: HashMap::new(),
            open: Vec::new(),
            skipped_depth: 0,
            skipped: 0,
            wraps: 0,
        }
    }

    /// The nodes that it made.
    fn enter(&mut self, time: i64, function: F, room: usize) -> usize {
        let parent = self.open.last().map_or(ROOT, |open| open.node);
        let known = self.children.get(&(parent, function.clone())).copied();
        if self.skipped_depth > 0 || self.open.len() >= DEPTH_MAX || (known.is_none() && room == 0) {
            self.skipped_depth += 1;
            self.skipped += 1;
            return 0;
        }
        let node = known.unwrap_or_else(|| {
            self.children.insert((parent, function.clone()), self.nodes.len());
            self.nodes.push(Node::new(Some(function), parent));
            self.nodes.len() - 1
        });
        self.open.push(Open { node, from: time, below_ns: 0, is_doubtful: false });
        usize::from(known.is_none())
    }

    /// The nodes that it made.
    fn leave(&mut self, time: i64, function: Option<F>, room: usize) -> usize {
        if self.skipped_depth > 0 {
            self.skipped_depth -= 1;
            return 0;
        }
        let Some(function) = function else {
            self.close(time);
            return 0;
        };
        let is_it = |open: &Open| self.nodes[open.node].function.as_ref() == Some(&function);
        let found = self.open.iter().rposition(is_it);
        let keep = found.map_or(0, |position| position + 1);
        while self.open.len() > keep {
            let node = self.open[self.open.len() - 1].node;
            self.nodes[node].faults.cut += 1;
            self.close(time);
        }
        match found {
            Some(_) => self.close(time),
            // A thread was not in more calls than that when its first record was written.
            None if room > 0 && self.wraps < DEPTH_MAX => {
                self.wraps += 1;
                self.wrap(time, function);
                return 1;
            }
            None => self.skipped += 1,
        }
        0
    }

    /// Ends the innermost call.
    fn close(&mut self, time: i64) {
        let Some(open) = self.open.pop() else { return };
        let total = u64::try_from(time.saturating_sub(open.from)).unwrap_or(0);
        let node = &mut self.nodes[open.node];
        node.count += 1;
        node.total_ns += total;
        node.self_ns += total.saturating_sub(open.below_ns);
        node.faults.doubtful += u64::from(open.is_doubtful);
        if let Some(caller) = self.open.last_mut() {
            caller.below_ns += total;
        }
    }

    /// A function that began before the thread's first record ends: it has called all that the thread did so far.
    fn wrap(&mut self, time: i64, function: F) {
        let new = self.nodes.len();
        let below: Vec<usize> = (1..new).filter(|&node| self.nodes[node].parent == ROOT).collect();
        let total = u64::try_from(time.saturating_sub(self.first)).unwrap_or(0);
        let below_ns: u64 = below.iter().map(|&node| self.nodes[node].total_ns).sum();
        for node in below {
            let Some(called) = self.nodes[node].function.clone() else { continue };
            self.children.remove(&(ROOT, called.clone()));
            self.children.insert((new, called), node);
            self.nodes[node].parent = new;
        }
        let mut node = Node::new(Some(function.clone()), ROOT);
        (node.count, node.total_ns, node.self_ns) = (1, total, total.saturating_sub(below_ns));
        node.faults.begun_before = 1;
        self.nodes.push(node);
        self.children.insert((ROOT, function), new);
    }

    /// Positions of the functions that a node called, those with most time first.
    pub fn called_by(&self, node: usize) -> Vec<usize> {
        let mut called: Vec<usize> =
            (1..self.nodes.len()).filter(|&other| self.nodes[other].parent == node && other != node).collect();
        called.sort_by_key(|&other| std::cmp::Reverse(self.nodes[other].total_ns));
        called
    }

    /// For each node, those that it called: [`Tree::called_by`] of all at once.
    pub fn all_called(&self) -> Vec<Vec<usize>> {
        let mut called = vec![Vec::new(); self.nodes.len()];
        for (position, node) in self.nodes.iter().enumerate().skip(1) {
            called[node.parent].push(position);
        }
        called.iter_mut().for_each(|list| list.sort_by_key(|&other| std::cmp::Reverse(self.nodes[other].total_ns)));
        called
    }

    /// The functions from the outermost to this one.
    pub fn path(&self, mut node: usize) -> Vec<&F> {
        let mut path = Vec::new();
        while let Some(function) = &self.nodes[node].function {
            path.push(function);
            node = self.nodes[node].parent;
        }
        path.reverse();
        path
    }

    /// Whether a function is among the callers of its own node.
    fn is_recursive(&self, node: usize) -> bool {
        let (function, mut above) = (&self.nodes[node].function, self.nodes[node].parent);
        while above != ROOT {
            if self.nodes[above].function == *function {
                return true;
            }
            above = self.nodes[above].parent;
        }
        false
    }
}

/// Functions over all their places in trees.
pub fn sums<'t, F, T: 't>(trees: impl IntoIterator<Item = &'t Tree<F, T>>) -> Vec<Sum<F>>
where
    F: Clone + Eq + Hash + 't,
{
    let mut sums: Vec<Sum<F>> = Vec::new();
    let mut places: HashMap<F, usize> = HashMap::new();
    for tree in trees {
        for (position, node) in tree.nodes.iter().enumerate() {
            let Some(function) = &node.function else { continue };
            let place = *places.entry(function.clone()).or_insert_with(|| {
                let faults = Faults::default();
                sums.push(Sum { function: function.clone(), count: 0, total_ns: 0, self_ns: 0, faults });
                sums.len() - 1
            });
            let sum = &mut sums[place];
            sum.count += node.count;
            sum.self_ns += node.self_ns;
            sum.total_ns += if tree.is_recursive(position) { 0 } else { node.total_ns };
            sum.faults = sum.faults.plus(node.faults);
        }
    }
    sums
}

impl<F> Node<F> {
    fn new(function: Option<F>, parent: usize) -> Self {
        Node { function, parent, count: 0, total_ns: 0, self_ns: 0, faults: Faults::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a(` enters at the next ns, `)a` leaves, `)` leaves whatever is innermost, `!` is a loss. Gives lines of
    /// `path count total self faults`.
    fn tree(steps: &str) -> Vec<String> {
        let mut functions: Functions<char, u32> = Functions::default();
        let chars: Vec<char> = steps.chars().filter(|c| !c.is_whitespace()).collect();
        let (mut at, mut time) = (0, 0);
        while at < chars.len() {
            match (chars[at], chars.get(at + 1)) {
                ('!', _) => {
                    functions.lost(|_| true);
                    at += 1;
                    continue;
                }
                (')', Some(name)) if name.is_alphabetic() && chars.get(at + 2) != Some(&'(') => {
                    functions.leave(1, time, Some(*name));
                    at += 2;
                }
                (')', _) => {
                    functions.leave(1, time, None);
                    at += 1;
                }
                (name, _) => {
                    functions.enter(1, time, name);
                    at += 2;
                }
            }
            time += 1;
        }
        functions.finish();
        let tree = &functions.trees()[0];
        let mut lines = Vec::new();
        for (position, node) in tree.nodes.iter().enumerate().skip(1) {
            let path: String = tree.path(position).into_iter().collect();
            let f = node.faults;
            let faults = format!("{}{}{}{}", f.cut, f.begun_before, f.open, f.doubtful);
            lines.push(format!("{path} {} {} {} {faults}", node.count, node.total_ns, node.self_ns));
        }
        lines.sort();
        lines
    }

    #[test]
    fn calls_become_a_tree() {
        for (steps, expect) in [
            ("a( )a", &["a 1 1 1 0000"][..]),
            ("a( b( )b b( )b )a", &["a 1 5 3 0000", "ab 2 2 2 0000"]),
            // Recursion.
            ("a( a( )a )a", &["a 1 3 2 0000", "aa 1 1 1 0000"]),
            // An exit that is not there: longjmp.
            ("a( b( c( )a", &["a 1 3 1 0000", "ab 1 2 1 1000", "abc 1 1 1 1000"]),
            // Begun before the first record, twice.
            ("b( )b )a )z", &["z 1 3 1 0100", "za 1 2 1 0100", "zab 1 1 1 0000"]),
            // Not ended by the last record.
            ("a( b( )b c(", &["a 1 3 2 0010", "ab 1 1 1 0000", "ac 1 0 0 0010"]),
            // A loss within a.
            ("a( ! b( )b )a", &["a 1 3 2 0001", "ab 1 1 1 0000"]),
            // Exits that do not say of what.
            ("a( b( ) )", &["a 1 3 2 0000", "ab 1 1 1 0000"]),
        ] {
            assert_eq!(tree(steps), expect, "{steps}");
        }
    }

    #[test]
    fn time_in_recursion_counts_once() {
        let mut functions: Functions<&str, u32> = Functions::default();
        for (time, name) in [(0, "a"), (10, "b"), (20, "a")] {
            functions.enter(1, time, name);
        }
        for (time, name) in [(30, "a"), (40, "b"), (50, "a")] {
            functions.leave(1, time, Some(name));
        }
        functions.finish();
        let sums = sums(functions.trees());
        let of = |name| sums.iter().find(|sum| sum.function == name).map(|sum| (sum.count, sum.total_ns, sum.self_ns));
        assert_eq!(of("a"), Some((2, 50, 30)));
        assert_eq!(of("b"), Some((1, 30, 20)));
    }

    #[test]
    fn depth_is_bounded() {
        let mut functions: Functions<u32, u32> = Functions::default();
        let calls = DEPTH_MAX as u32 + 100;
        (0..calls).for_each(|n| functions.enter(1, n.into(), n));
        (0..calls).for_each(|n| functions.leave(1, i64::from(2 * calls), Some(calls - 1 - n)));
        functions.finish();
        let tree = &functions.trees()[0];
        assert_eq!((tree.nodes.len(), tree.skipped), (DEPTH_MAX + 1, 100));
        assert!(!tree.nodes.iter().any(|node| node.faults.any()));
    }
}
