// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens to expressions, by strength of binding [spec/filter.md 2].

pub(crate) mod pair;

use crate::ast::{
    Arith, CONTEXTS, Compare, Context, Expr, ExprKind, FieldRef, Filter, FilterText, PathStep, Pattern, RECORDED,
    context_field, is_recorded_context,
};
use crate::error::{Error, Span, either, near, some_of};
use crate::token::{Placed, Token, tokens};

/// Brackets and operators within each other that are accepted.
pub const DEPTH_MAX: usize = 64;
/// Bytes of an expression that are accepted.
pub const TEXT_BYTES_MAX: usize = 1 << 16;

const FUNCTIONS: [&str; 4] = ["has", "len", "latency", "wakeup"];
/// Strength of the bindings that are not arithmetic.
const OR: u8 = 1;
const AND: u8 = 2;
const COMPARE: u8 = 3;

/// Parses a filter over records of kymo's own sessions.
pub fn parse(text: &str) -> Result<Filter, Error> {
    parse_with(text, false)
}

/// Parses a filter over records of a trace, which any tracer may have written: `$NAME` may be any context that they
/// have. [`Filter::check`] refuses those that they have not.
pub fn parse_of_trace(text: &str) -> Result<Filter, Error> {
    parse_with(text, true)
}

fn parse_with(text: &str, any_context: bool) -> Result<Filter, Error> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the expression has more than {TEXT_BYTES_MAX} bytes");
        return Err(Error::new("", Span::default(), message, "use several filters; all of them must hold"));
    }
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0, any_context };
    let selector = parser.selector();
    let (expr, _) = parser.expr(OR)?;
    parser.end()?;
    Ok(Filter { selector, expr, text: FilterText(text.to_owned()) })
}

/// There is no context of that name. `others`: contexts that records have besides kymo's own.
pub(crate) fn no_context(text: &str, span: Span, name: &str, others: &[&str]) -> Error {
    let known = Context::ALL.iter().map(|(known, _)| *known).chain(RECORDED).chain(others.iter().copied());
    let mut list = format!("contexts are {CONTEXTS}");
    if !others.is_empty() {
        list += &format!("; these records also have {}", some_of(others.iter().copied()));
    }
    let help = match near(name, known).first() {
        Some(near) => format!("did you mean `${near}`? {list}"),
        None => list,
    };
    Error::new(text, span, format!("there is no context `${name}`"), help)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    at: usize,
    depth: usize,
    /// Records may have contexts that kymo does not record.
    any_context: bool,
}

/// An expression and how deep it is.
type Deep = (Expr, usize);

/// What stands between two operands.
enum Operator {
    And,
    Or,
    Compare(Compare),
    In,
    Arith(Arith, u8),
}

impl Parser<'_> {
    /// The next token. There always is one: the last is `End`.
    fn peek(&self) -> &Placed {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Placed {
        let placed = self.peek().clone();
        self.at += 1;
        placed
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek().token, Token::Sign(found) if found == sign)
    }

    fn accept(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    /// The end of what was read last.
    fn behind(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |placed| placed.span.end)
    }

    fn error(&self, span: Span, message: impl Into<String>, help: impl Into<String>) -> Error {
        Error::new(self.text, span, message, help)
    }

    fn expect(&mut self, sign: &str, help: &str) -> Result<(), Error> {
        if self.accept(sign) {
            return Ok(());
        }
        let found = self.shown(&self.peek().token);
        Err(self.error(self.peek().span, format!("expected `{sign}`, found {found}"), help))
    }

    fn shown(&self, token: &Token) -> String {
        match token {
            Token::End => "the end".into(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Word(name) | Token::Pattern(name) => format!("`{name}`"),
            Token::Quoted(_) => "a name".into(),
            Token::Dollar(name) => format!("`${name}`"),
            Token::Int(_) | Token::Float(_) => "a number".into(),
            Token::Text(_) => "text".into(),
        }
    }

    /// `motor:*:` in front.
    fn selector(&mut self) -> Option<Pattern> {
        let colon = self.tokens.get(1)?;
        let first = &self.tokens[0];
        let glob = match &first.token {
            Token::Word(glob) | Token::Pattern(glob) | Token::Text(glob) | Token::Quoted(glob) => glob.clone(),
            _ => return None,
        };
        if colon.token != Token::Sign(":") {
            return None;
        }
        let span = first.span;
        self.at = 2;
        Some(Pattern { glob, span })
    }

    fn end(&mut self) -> Result<(), Error> {
        let Placed { token, span } = self.peek().clone();
        let (message, help) = match &token {
            Token::End => return Ok(()),
            Token::Sign("=") => ("`=` does not compare".into(), "`==` compares".into()),
            Token::Sign(")") => ("there is no `(` that this closes".into(), "remove it".into()),
            Token::Sign(":") => {
                ("the events stand in front of the whole filter".into(), "write `EVENTS: CONDITION`".into())
            }
            Token::Word(word) => self.word_as_operator(word),
            other => (format!("expected an operator, found {}", self.shown(other)), OPERATORS.into()),
        };
        Err(self.error(span, message, help))
    }

    fn word_as_operator(&self, word: &str) -> (String, String) {
        let message = format!("expected an operator, found `{word}`");
        let help = match word.to_ascii_lowercase().as_str() {
            "and" => "write `&&`".into(),
            "or" => "write `||`".into(),
            "not" => "write `!(... in (...))`".into(),
            "is" | "eq" => "write `==`".into(),
            "like" | "glob" | "matches" => "write `~` and a glob: `name ~ \"ab*\"`".into(),
            _ => format!("{OPERATORS}; text stands between quotes: \"{word}\""),
        };
        (message, help)
    }

    /// Operands and operators of at least this strength.
    fn expr(&mut self, strength: u8) -> Result<Deep, Error> {
        self.enter()?;
        let (mut left, mut depth) = self.unary()?;
        while let Some((operator, found)) = self.operator()? {
            if found < strength {
                break;
            }
            let span = self.next().span;
            let (kind, deeper) = match operator {
                Operator::And => self.list(left, depth, AND, "&&", ExprKind::And)?,
                Operator::Or => self.list(left, depth, OR, "||", ExprKind::Or)?,
                Operator::In => self.among(left, depth)?,
                Operator::Compare(op) => self.compare(left, depth, op, span)?,
                Operator::Arith(op, found) => {
                    let (right, right_depth) = self.expr(found + 1)?;
                    (ExprKind::Binary(op, left.into(), right.into()), depth.max(right_depth))
                }
            };
            depth = deeper + 1;
            let start = self.start_of(&kind);
            left = Expr { kind, span: Span::new(start, self.behind()) };
            self.bound(depth)?;
        }
        self.depth -= 1;
        Ok((left, depth))
    }

    /// Where an expression with operators begins.
    fn start_of(&self, kind: &ExprKind) -> usize {
        match kind {
            ExprKind::And(parts) | ExprKind::Or(parts) => parts.first().map_or(0, |part| part.span.start),
            ExprKind::Compare(_, left, _) | ExprKind::Binary(_, left, _) | ExprKind::In(left, _) => left.span.start,
            _ => 0,
        }
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        self.bound(self.depth)
    }

    fn bound(&self, depth: usize) -> Result<(), Error> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        let message = format!("the expression is nested more than {DEPTH_MAX} deep");
        Err(self.error(self.peek().span, message, "use several filters; all of them must hold"))
    }

    /// The operator that comes next, and its strength.
    fn operator(&self) -> Result<Option<(Operator, u8)>, Error> {
        let placed = self.peek();
        let sign = match &placed.token {
            Token::Sign(sign) => *sign,
            Token::Word(word) if word == "in" => return Ok(Some((Operator::In, COMPARE))),
            _ => return Ok(None),
        };
        if let Some(&(_, op, strength)) = Arith::ALL.iter().find(|entry| entry.0 == sign) {
            return Ok(Some((Operator::Arith(op, strength), strength)));
        }
        if let Some(&(_, op)) = Compare::ALL.iter().find(|entry| entry.0 == sign) {
            return Ok(Some((Operator::Compare(op), COMPARE)));
        }
        Ok(match sign {
            "&&" => Some((Operator::And, AND)),
            "||" => Some((Operator::Or, OR)),
            "!" if self.tokens.get(self.at + 1).is_some_and(|next| next.token == Token::Word("in".into())) => {
                let help = "write `!(x in (1, 2))`";
                return Err(self.error(placed.span, "there is no `!in`", help));
            }
            "=" => {
                let help = match self.tokens.get(self.at + 1).map(|next| &next.token) {
                    Some(Token::Sign("~")) => "a glob is matched with `~`",
                    _ => "`==` compares",
                };
                return Err(self.error(placed.span, "`=` does not compare", help));
            }
            _ => None,
        })
    }

    /// `a && b && c` is one list.
    fn list(
        &mut self,
        first: Expr,
        depth: usize,
        strength: u8,
        sign: &str,
        kind: fn(Vec<Expr>) -> ExprKind,
    ) -> Result<(ExprKind, usize), Error> {
        let (mut parts, mut depth) = (vec![first], depth);
        loop {
            let (part, part_depth) = self.expr(strength + 1)?;
            parts.push(part);
            depth = depth.max(part_depth);
            if !self.accept(sign) {
                return Ok((kind(parts), depth));
            }
        }
    }

    fn compare(&mut self, left: Expr, depth: usize, op: Compare, at: Span) -> Result<(ExprKind, usize), Error> {
        if self.is_sign("=") {
            let help = format!("write `{}`", op.sign());
            return Err(self.error(at.to(self.peek().span), format!("there is no `{}=`", op.sign()), help));
        }
        let (right, right_depth) = self.expr(COMPARE + 1)?;
        self.not_chained(&left, Some(right.span))?;
        Ok((ExprKind::Compare(op, left.into(), right.into()), depth.max(right_depth)))
    }

    /// `a < b < c`: refused behind `b`, which stands at `middle`; behind a list there is none.
    fn not_chained(&self, left: &Expr, middle: Option<Span>) -> Result<(), Error> {
        let Some((Operator::Compare(_) | Operator::In, _)) = self.operator()? else { return Ok(()) };
        let sign = self.shown(&self.peek().token);
        let help = match middle {
            None => "join conditions with `&&`".into(),
            Some(middle) => {
                let first = self.text.get(left.span.start..middle.end).unwrap_or_default();
                let middle = self.text.get(middle.start..middle.end).unwrap_or_default();
                format!("write `{first} && {middle} {} ...`", sign.trim_matches('`'))
            }
        };
        Err(self.error(self.peek().span, "comparisons cannot be chained", help))
    }

    fn among(&mut self, left: Expr, mut depth: usize) -> Result<(ExprKind, usize), Error> {
        const HELP: &str = "a list is written `(1, 2, 3)`";
        self.expect("(", HELP)?;
        let mut list = Vec::new();
        loop {
            let (item, item_depth) = self.expr(COMPARE + 1)?;
            list.push(item);
            depth = depth.max(item_depth);
            if !self.accept(",") {
                break;
            }
        }
        self.expect(")", HELP)?;
        self.not_chained(&left, None)?;
        Ok((ExprKind::In(left.into(), list), depth))
    }

    fn unary(&mut self) -> Result<Deep, Error> {
        let sign = match self.peek().token {
            Token::Sign(sign @ ("!" | "-")) => sign,
            _ => return self.operand(),
        };
        self.enter()?;
        let span = self.next().span;
        let (of, depth) = self.unary()?;
        self.depth -= 1;
        self.bound(depth + 1)?;
        let span = span.to(of.span);
        let kind = if sign == "!" { ExprKind::Not(of.into()) } else { ExprKind::Neg(of.into()) };
        Ok((Expr { kind, span }, depth + 1))
    }

    fn operand(&mut self) -> Result<Deep, Error> {
        let Placed { token, span } = self.next();
        let kind = match token {
            Token::Int(value) => ExprKind::Int(value),
            Token::Float(value) => ExprKind::Float(value),
            Token::Dollar(name) if self.is_field_context(&name) => {
                ExprKind::Field(self.path(None, context_field(&name))?)
            }
            Token::Dollar(name) => ExprKind::Context(self.context(&name, span)?),
            Token::Text(text) if self.is_sign(".") => self.qualified(text, span)?,
            Token::Text(text) => ExprKind::Text(text),
            Token::Pattern(glob) if self.is_sign(".") => self.qualified(glob, span)?,
            Token::Pattern(glob) => return Err(self.pattern_as_operand(&glob, span)),
            Token::Word(word) if word == "true" || word == "false" => ExprKind::Bool(word == "true"),
            Token::Word(word) if self.is_sign("(") => {
                let (kind, depth) = self.function(&word, span)?;
                return Ok((Expr { kind, span: Span::new(span.start, self.behind()) }, depth));
            }
            Token::Word(word) if word != "in" => ExprKind::Field(self.path(None, word)?),
            Token::Quoted(word) => ExprKind::Field(self.path(None, word)?),
            Token::Sign("(") => {
                let (inner, depth) = self.expr(OR)?;
                self.close(span)?;
                let span = span.to(Span::new(self.behind(), self.behind()));
                return Ok((Expr { span, ..inner }, depth));
            }
            other => return Err(self.no_operand(&other, span)),
        };
        Ok((Expr { kind, span: Span::new(span.start, self.behind()) }, 1))
    }

    /// The bracket that closes a group.
    fn close(&mut self, open: Span) -> Result<(), Error> {
        if self.accept(")") {
            return Ok(());
        }
        match &self.peek().token {
            Token::End => Err(self.error(open, "this `(` is not closed", "add the missing `)`")),
            _ => self.end(),
        }
    }

    fn no_operand(&self, token: &Token, span: Span) -> Error {
        let found = self.shown(token);
        let help = match token {
            Token::End if self.at <= 1 => "write a condition, such as `axis == 2`",
            Token::Sign("&" | "|") => "`&&` and `||` join conditions",
            Token::Sign("=") => "`==` compares",
            Token::Sign("~") => "`~` stands between a text and its glob; `!` negates",
            Token::Sign("+") => "a number has no sign but `-`",
            Token::Word(_) => "a field of this name is written `in` with back quotes around it",
            _ => "write a field, a number, a \"text\" or `(`",
        };
        self.error(span, format!("expected a value, found {found}"), help)
    }

    /// `motor:*:axis`, where a selector without its blank was meant; otherwise a pattern in the wrong place.
    fn pattern_as_operand(&self, glob: &str, span: Span) -> Error {
        let help = match glob.rsplit_once(':') {
            _ if self.is_sign(":") => "the names of events stand in front of the whole filter".into(),
            Some((events, field)) if !events.is_empty() && events.contains(':') && !field.contains(['*', '?']) => {
                format!("a blank ends the names of events: `{events}: {field}`")
            }
            _ => format!("a field of such events is written `{glob}.FIELD`; text stands between quotes"),
        };
        self.error(span, format!("`{glob}` is the name of events, not a value"), help)
    }

    /// Whether a context is a field of records.
    fn is_field_context(&self, name: &str) -> bool {
        is_recorded_context(name) || self.any_context && Context::by_name(name).is_none()
    }

    fn context(&self, name: &str, span: Span) -> Result<Context, Error> {
        Context::by_name(name).ok_or_else(|| no_context(self.text, span, name, &[]))
    }

    /// Behind `motor:step`, in front of the point.
    fn qualified(&mut self, glob: String, span: Span) -> Result<ExprKind, Error> {
        self.expect(".", "write `EVENT.FIELD`")?;
        let name = self.name("the name of a field stands behind the point")?;
        Ok(ExprKind::Field(self.path(Some(Pattern { glob, span }), name)?))
    }

    fn name(&mut self, help: &str) -> Result<String, Error> {
        let Placed { token, span } = self.next();
        match token {
            Token::Word(name) | Token::Quoted(name) => Ok(name),
            other => Err(self.error(span, format!("expected a name, found {}", self.shown(&other)), help)),
        }
    }

    /// Steps behind the name of a field.
    fn path(&mut self, event: Option<Pattern>, name: String) -> Result<FieldRef, Error> {
        let mut steps = Vec::new();
        loop {
            if steps.len() >= DEPTH_MAX {
                self.bound(DEPTH_MAX + 1)?;
            }
            if self.accept(".") {
                steps.push(PathStep::Member(self.name("the name of a member stands behind the point")?));
            } else if self.accept("[") {
                let Placed { token, span } = self.next();
                let index = match token {
                    Token::Int(index) => u32::try_from(index).ok(),
                    _ => None,
                };
                let help = "elements are counted from 0: `a[3]`";
                let index = index.ok_or_else(|| self.error(span, "expected the number of an element", help))?;
                self.expect("]", help)?;
                steps.push(PathStep::Element(index));
            } else {
                return Ok(FieldRef { event, name, steps });
            }
        }
    }

    fn function(&mut self, name: &str, span: Span) -> Result<(ExprKind, usize), Error> {
        if !FUNCTIONS.contains(&name) {
            let near = near(name, FUNCTIONS);
            let help = match near.is_empty() {
                true => "functions are has(FIELD), len(FIELD), latency(FROM, TO, by=FIELD) and wakeup()".into(),
                false => format!("did you mean {}?", either(&near)),
            };
            return Err(self.error(span, format!("there is no function `{name}`"), help));
        }
        self.expect("(", "")?;
        let (kind, depth) = match name {
            "latency" => self.latency()?,
            "wakeup" => self.wakeup()?,
            "has" => (ExprKind::Has(self.field_argument("has")?), 1),
            _ => (ExprKind::Len(self.field_argument("len")?), 1),
        };
        self.expect(")", "add the missing `)`")?;
        Ok((kind, depth))
    }

    fn field_argument(&mut self, function: &str) -> Result<FieldRef, Error> {
        let span = self.peek().span;
        match self.operand()? {
            (Expr { kind: ExprKind::Field(field), .. }, _) => Ok(field),
            _ => {
                let help = format!("write `{function}(FIELD)`");
                Err(self.error(span, "expected the name of a field", help))
            }
        }
    }
}

const OPERATORS: &str = "operators are == != < <= > >= ~ !~ in && || ! + - * / % & | ^ << >>";
