// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of records: `latency(...)`, `wakeup(...)`, and the arguments of the first alone, as `--span` has them.

use super::{Deep, OR, Parser, TEXT_BYTES_MAX};
use crate::ast::{Expr, ExprKind, FieldRef, Filter, FilterText, Key, Latency, Pattern};
use crate::error::{Error, Span};
use crate::token::{Placed, Token, tokens};

/// Parses the arguments of `latency()` alone. A name of an event may have any characters but commas and blanks.
pub(crate) fn parse_pair(text: &str) -> Result<Filter, Error> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the pair has more than {TEXT_BYTES_MAX} bytes");
        return Err(Error::new("", Span::default(), message, "write 'BEGIN, END' or 'BEGIN, END, by=FIELD'"));
    }
    let mut parser = Parser { text, tokens: pair_tokens(text)?, at: 0, depth: 0, any_context: true };
    let (kind, _) = parser.latency()?;
    parser.end()?;
    let span = Span::new(0, text.len());
    Ok(Filter { selector: None, expr: Expr { kind, span }, text: FilterText(text.to_owned()) })
}

/// Tokens of a pair: both events as they stand between commas, where they are not quoted.
fn pair_tokens(text: &str) -> Result<Vec<Placed>, Error> {
    let is_plain = |name: &str| !name.is_empty() && !name.contains(['"', '\'', '`', '=', '(', ')', ' ', '\t', '\n']);
    let mut parts = text.splitn(3, ',');
    let (Some(begin), Some(end)) = (parts.next(), parts.next()) else { return tokens(text) };
    if !is_plain(begin.trim()) || !is_plain(end.trim()) {
        return tokens(text);
    }
    let event = |part: &str, from: usize| {
        let start = from + (part.len() - part.trim_start().len());
        let name = part.trim();
        Placed { token: Token::Text(name.to_owned()), span: Span::new(start, start + name.len()) }
    };
    let comma = |at: usize| Placed { token: Token::Sign(","), span: Span::new(at, at + 1) };
    let behind = begin.len() + 1 + end.len();
    let mut found = vec![event(begin, 0), comma(begin.len()), event(end, begin.len() + 1)];
    // Blanks in place of the names: what is behind them keeps its place.
    let rest = format!("{}{}", " ".repeat(behind), text.get(behind..).unwrap_or_default());
    found.extend(tokens(&rest).map_err(|error| Error { text: text.to_owned(), ..error })?);
    Ok(found)
}

impl Parser<'_> {
    pub(super) fn latency(&mut self) -> Result<(ExprKind, usize), Error> {
        const HELP: &str = "write `latency(FROM, TO, by=FIELD)`";
        let from = self.event_argument()?;
        self.expect(",", HELP)?;
        let to = self.event_argument()?;
        let (mut by, mut when, mut of_any, mut depth) = (Vec::new(), None, false, 1);
        while when.is_none() && self.accept(",") {
            if self.is_named("where") {
                self.at += 2;
                let (condition, deeper) = self.opening_condition()?;
                (when, depth) = (Some(Box::new(condition)), deeper);
                continue;
            }
            if of_any {
                let help = "`by=*` stands alone: records of any threads are a pair";
                return Err(self.error(self.peek().span, "there are no keys beside `*`", help));
            }
            if by.is_empty() {
                let Placed { token, span } = self.next();
                if token != Token::Word("by".into()) {
                    let message = format!("expected `by=`, found {}", self.shown(&token));
                    return Err(self.error(span, message, HELP));
                }
                self.expect("=", HELP)?;
                of_any = self.peek().token == Token::Pattern("*".into());
                self.at += usize::from(of_any);
                if of_any {
                    continue;
                }
            }
            by.push(self.key()?);
        }
        Ok((ExprKind::Latency(Latency { from, to, by, of_any, when }), depth))
    }

    pub(super) fn wakeup(&mut self) -> Result<(ExprKind, usize), Error> {
        if self.is_sign(")") {
            return Ok((ExprKind::Wakeup(None), 1));
        }
        let (condition, depth) = self.opening_condition()?;
        Ok((ExprKind::Wakeup(Some(condition.into())), depth))
    }

    /// Whether `NAME=` comes next.
    fn is_named(&self, name: &str) -> bool {
        let follows = self.tokens.get(self.at + 1).map(|placed| &placed.token);
        self.peek().token == Token::Word(name.into()) && follows == Some(&Token::Sign("="))
    }

    /// A condition on records that open a pair, and how deep the pair is with it.
    fn opening_condition(&mut self) -> Result<Deep, Error> {
        let (condition, depth) = self.expr(OR)?;
        let mut inner = None;
        condition.walk(&mut |expr| {
            if matches!(expr.kind, ExprKind::Latency(_) | ExprKind::Wakeup(_)) {
                inner = Some(expr.span);
            }
        });
        if let Some(span) = inner {
            let help = "say it beside the other one: `latency(...) > 5ms && latency(...) > 1ms`";
            return Err(self.error(span, "a record that opens a pair has no latency yet", help));
        }
        self.bound(depth + 1)?;
        Ok((condition, depth + 1))
    }

    /// One name for both records, or `FROM:TO`.
    fn key(&mut self) -> Result<Key, Error> {
        let pattern = match &self.peek().token {
            Token::Pattern(pattern) => pattern.split_once(':'),
            _ => None,
        };
        if let Some((from, to)) = pattern {
            let is_name = |name: &str| !name.is_empty() && !name.contains(['*', '?', ':']);
            let span = self.peek().span;
            if is_name(from) && is_name(to) {
                let field = |name: &str, start: usize| Expr {
                    kind: ExprKind::Field(FieldRef { event: None, name: name.to_owned(), steps: Vec::new() }),
                    span: Span::new(start, start + name.len()),
                };
                let key = Key { from: field(from, span.start), to: field(to, span.end - to.len()) };
                self.at += 1;
                return Ok(key);
            }
        }
        let from = self.half_key()?;
        let to = if self.accept(":") { self.half_key()? } else { from.clone() };
        Ok(Key { from, to })
    }

    fn half_key(&mut self) -> Result<Expr, Error> {
        let span = self.peek().span;
        let (key, _) = self.operand()?;
        match key.kind {
            ExprKind::Field(FieldRef { event: None, .. }) | ExprKind::Context(_) => Ok(key),
            _ => Err(self.error(span, "records are paired by fields and contexts", "write `by=id` or `by=$tid, id`")),
        }
    }

    fn event_argument(&mut self) -> Result<Pattern, Error> {
        let Placed { token, span } = self.next();
        match token {
            Token::Word(_) if self.is_sign("*") => {
                let help = "a name with a glob and without a colon stands between quotes: \"sys_*\"";
                Err(self.error(span.to(self.peek().span), "this is not the name of an event", help))
            }
            Token::Word(glob) | Token::Pattern(glob) | Token::Text(glob) | Token::Quoted(glob) => {
                Ok(Pattern { glob, span })
            }
            other => {
                let message = format!("expected the name of an event, found {}", self.shown(&other));
                Err(self.error(span, message, "write `latency(FROM, TO, by=FIELD)`"))
            }
        }
    }
}
